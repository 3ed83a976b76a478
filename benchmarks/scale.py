"""How cost grows: operators, blobs, devices and checkpoints from small to large, with the exponent of each step.

    PYTHON scale.py [--write docs/scale.md] [--most 1e9] [WORD ...]

A figure is processor time on one thread, the least of three runs in fresh processes.  The exponent of a row is
log(time / time before) / log(size / size before): 1 is linear.  A WORD picks the tables whose title holds it; --most
leaves out larger sizes.  How shards grow is in benchmarks/shards.py and docs/shards-cost.md.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def chain(n):
    from caffe2.python import core, workspace

    net = core.Net("chain")
    workspace.FeedBlob("q0", np.ones(1, "f"))
    for i in range(n):
        net.Relu(f"q{i}", f"q{i + 1}")
    return workspace, net


def build_net(n):
    """Relu after Relu: made, differentiated."""
    began = time.process_time()
    _, net = chain(n)
    net.AddGradientOperators([f"q{n}"])
    return time.process_time() - began


def first_run(n):
    """CreateNet and the first run."""
    workspace, net = chain(n)
    began = time.process_time()
    workspace.CreateNet(net)
    workspace.RunNet(net)
    return time.process_time() - began


def later_run(n):
    """A run that is warm."""
    workspace, net = chain(n)
    workspace.CreateNet(net)
    for _ in range(3):
        workspace.RunNet(net)
    began = time.process_time()
    workspace.RunNet(net)
    return time.process_time() - began


def feed(n):
    """So many blobs of one number are fed, listed and fetched."""
    from caffe2.python import workspace

    names, one = [f"blob_{i}" for i in range(n)], np.ones(1, "f")
    began = time.process_time()
    for name in names:
        workspace.FeedBlob(name, one)
    for name in workspace.Blobs():
        workspace.FetchBlob(name)
    return time.process_time() - began


def parallel(n):
    from caffe2.python import brew, data_parallel_model, model_helper, optimizer, workspace

    def forward(model, scale):
        last = "data"
        for i in range(8):
            last = brew.relu(model, brew.fc(model, last, f"fc{i}", 8, 8), f"relu{i}")
        return [model.net.Scale(model.net.AveragedLoss(last, "loss"), scale=scale)]

    model = model_helper.ModelHelper(name="parallel")
    data_parallel_model.Parallelize(
        model,
        lambda model: None,
        forward,
        optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 0.1, momentum=0.9),
        devices=list(range(n)),
        cpu_device=True,
    )
    for i in range(n):
        workspace.FeedBlob(f"cpu_{i}/data", np.full((1, 8), 0.5, "f"))
    return model, workspace


def devices_built(n):
    """A model of 8 layers is made parallel over so many CPU devices, and its net created."""
    began = time.process_time()
    model, workspace = parallel(n)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return time.process_time() - began


def devices_step(n):
    """A step of it that is warm."""
    model, workspace = parallel(n)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    for _ in range(3):
        workspace.RunNet(model.net)
    began = time.process_time()
    workspace.RunNet(model.net)
    return time.process_time() - began


def checkpoint(kind):
    def measure(megabytes):
        from caffe2.python import core, workspace

        parts = max(1, megabytes // 64)
        names = [f"part_{i}" for i in range(parts)]
        for name in names:
            workspace.FeedBlob(name, np.ones(megabytes * (1 << 18) // parts, "f"))
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            path = os.path.join(folder, "checkpoint")
            save = core.CreateOperator("Save", names, [], db=path, db_type="minidb", absolute_path=1)
            load = core.CreateOperator("Load", [], names, db=path, db_type="minidb", absolute_path=1)
            began = time.process_time()
            workspace.RunOperatorOnce(save)
            if kind == "Load":
                began = time.process_time()
                workspace.RunOperatorOnce(load)
            return time.process_time() - began

    measure.__doc__ = f"{kind} of so many MB in blobs of 64 MB, in a memory file system."
    return measure


TABLES = {  # title: (what is counted, sizes, measure)
    "Building a net": ("operators", [100, 1000, 10_000, 100_000], build_net),
    "First run of a net": ("operators", [100, 1000, 10_000, 100_000], first_run),
    "Later run of a net": ("operators", [100, 1000, 10_000, 100_000], later_run),
    "Blobs of a workspace": ("blobs", [100, 1000, 10_000, 100_000, 1_000_000], feed),
    "Parallel model": ("devices", [1, 2, 4, 8, 16, 32, 64], devices_built),
    "Parallel step": ("devices", [1, 2, 4, 8, 16, 32, 64], devices_step),
    "Save": ("MB", [16, 64, 256, 1024, 4096], checkpoint("Save")),
    "Load": ("MB", [16, 64, 256, 1024, 4096], checkpoint("Load")),
}


def ask(title, size):
    """The least of three times, each of a process of its own."""
    times = []
    for _ in range(3):
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--measure", title, str(size)],
            env={**os.environ, **threads, "CAFFE2LITE_NUMBA": "0"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        times.append(json.loads(done.stdout.splitlines()[-1]))
    return min(times)


def report(options):
    yield "# How cost grows"
    yield ""
    most = f" --most {options.most:.0f}" if math.isfinite(options.most) else ""
    yield f"Written by `python benchmarks/scale.py{most} --write docs/scale.md`: processor time on one thread, the least of three"
    yield "runs. An exponent of 1 is linear; it is that of the step from the row above. What is a little above 1 with 100,000"
    yield "operators or blobs is Python's collector, which looks at all objects now and then, and memory beyond the caches."
    for title, (unit, sizes, measure) in TABLES.items():
        if options.words and not any(word in title for word in options.words):
            continue
        yield f"\n## {title}\n"
        yield measure.__doc__
        yield f"\n| {unit} | seconds | µs for each | exponent |"
        yield "|---|---|---|---|"
        before = None
        for size in sizes:
            if size > options.most:
                continue
            seconds = ask(title, size)
            exponent = f"{math.log(seconds / before[1]) / math.log(size / before[0]):.2f}" if before else ""
            yield f"| {size:,} | {seconds:.4f} | {seconds / size * 1e6:,.1f} | {exponent} |"
            before = size, seconds
            print(title, size, f"{seconds:.4f}", exponent, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", metavar="FILE", help="the document; without it, it is printed")
    parser.add_argument("--most", type=float, default=math.inf)
    parser.add_argument("--measure", nargs=2, metavar=("TITLE", "SIZE"), help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.measure:
        from caffe2.python import core

        core.GlobalInit(["scale", "--caffe2_log_level=2"])
        title, size = options.measure
        print(json.dumps(TABLES[title][2](int(size))))
        return
    text = "\n".join(report(options)) + "\n"
    if options.write:
        with open(options.write, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
