"""Time of synchronizing parameters between processes, on any `caffe2`: ours or the genuine one.

    python benchmarks/shards.py SIZE [sync|small|many] [--against PYTHON] [--rounds N]

sync: 161 tensors of ResNet-50's sizes (102 MB) by Broadcast and by Allreduce; small: 10,000 of 1 KB, likewise;
many: 1,000 runs of one sync net, with memory and open files before and after.  `--against` is the interpreter of a
genuine Caffe2, which takes turns with this one; the ratio is that of the best times.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np


def resnet_sizes():
    """161 tensors, 25.5 million floats in all, most of them small: as in ResNet-50."""
    convolutions = [64 * 3 * 49]
    channels, width = 64, 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            convolutions += [channels * width, width * width * 9, width * width * 4]
            convolutions += [channels * width * 4] if block == 0 else []
            channels = width * 4
    return [*convolutions, *[256] * (159 - len(convolutions)), 1000, 2048 * 1000]


def shard(rank, size, store, what):
    from caffe2.python import core, workspace

    workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=store))
    args = {"size": size, "rank": rank, "engine": "GLOO"}
    workspace.RunOperatorOnce(core.CreateOperator("CreateCommonWorld", ["store"], ["world"], **args))
    sizes = [256] * 10_000 if what == "small" else [1000] * 50 if what == "many" else resnet_sizes()
    nets = {}
    for kind in ("Broadcast", "Allreduce") if what != "many" else ("Broadcast",):
        nets[kind] = core.Net(kind)
        for i, n in enumerate(sizes):
            workspace.FeedBlob(f"p{i}", np.full(n, rank, "f"))
            nets[kind].__getattr__(kind)(["world", f"p{i}"], [f"p{i}"], engine="GLOO")
        workspace.CreateNet(nets[kind])
    for kind, net in nets.items():
        name = net.Proto().name
        for _ in range(20 if what == "many" else 3):
            workspace.RunNet(name)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
        seconds = []
        for _ in range(1000 if what == "many" else 7):
            start = time.perf_counter()
            workspace.RunNet(name)
            seconds.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
        if rank == 0:
            print(
                f"{kind} of {len(sizes)} tensors, {4 * sum(sizes) / 1e6:.0f} MB, {size} processes: best "
                f"{min(seconds) * 1e3:.1f} ms, median {sorted(seconds)[len(seconds) // 2] * 1e3:.1f} ms; memory "
                f"{before[0] // 1024} to {after[0] // 1024} MiB, files {before[1]} to {after[1]}",
                flush=True,
            )


def together(python, size, what, path):
    """Best milliseconds of each kind, from shards that run together on one interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} if path else None
    with tempfile.TemporaryDirectory() as store:
        line = [python, __file__, "--shard"]
        children = [
            subprocess.Popen([*line, str(rank), str(size), store, what], env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if path else None)
            for rank in range(size)
        ]  # fmt: skip
        told = "".join(child.communicate()[0] for child in children)
    print(told, end="", flush=True)
    if any(child.returncode for child in children):
        sys.exit(f"the shards on {python} failed")
    return {kind: float(ms) for kind, ms in re.findall(r"^(\w+) of .*best ([\d.]+) ms", told, re.MULTILINE)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", type=int)
    parser.add_argument("what", choices=("sync", "small", "many"), nargs="?", default="sync")
    parser.add_argument("--against", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(together(sys.executable, options.size, options.what, False))
        if options.against:
            theirs.append(together(options.against, options.size, options.what, True))
    for kind in ours[0] if theirs else ():
        best = min(t[kind] for t in ours), min(t[kind] for t in theirs)
        print(f"{kind}, {options.size} processes: {best[0]:.1f} ms, genuine {best[1]:.1f} ms: {best[0] / best[1]:.2f}")


if __name__ == "__main__":
    if sys.argv[1] == "--shard":
        shard(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main()
