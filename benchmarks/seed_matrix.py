"""FinalizeAfterCheckpoint, from the text of its source as a user has it, on every kind of start, device and engine.

    python benchmarks/seed_matrix.py TEXT [--ranks 2 3 4 8] [--starts mpirun file redis]

TEXT is a file with the function's source; it is executed in the namespace of `data_parallel_model` and stands for ours.
For each number of ranks and each start the same processes go through 1 to 4 devices × CPU and emulated GPUs × GLOO and
MPI: train, spoil all parameters but those of shard 0's first device, synchronize with blobs=None, spoil, synchronize
with a list that holds momentum too, each called twice; all ranks and devices must then be equal to the last bit, and
after a further step still.  Exit status 1 where one is not.
"""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "shards"))


def function_of(text):
    """The source of FinalizeAfterCheckpoint, up to the next function."""
    begin = text.index("def FinalizeAfterCheckpoint")
    end = re.search(r"\n(?=\S)", text[begin:])
    return text[begin : begin + end.end()] if end else text[begin:]


def case(rank, size, store, text, kind, devices, engine):
    """One case; the digest of all that is synchronized, as this shard has it at the end."""
    import hashlib

    import numpy as np
    from caffe2.proto import caffe2_pb2
    from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

    workspace.ResetWorkspace()
    exec(compile(function_of(pathlib.Path(text).read_text()), text, "exec"), vars(data_parallel_model))
    if store.startswith("redis:"):
        args = {"host": "127.0.0.1", "port": int(store[6:])}
        workspace.RunOperatorOnce(core.CreateOperator("RedisStoreHandlerCreate", [], ["store_handler"], **args))
    elif store != "-":
        workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store_handler"], path=store))

    def forward(model, scale):
        h = brew.relu(model, brew.fc(model, "data", "fc1", 8, 16), "h")
        _, loss = model.net.SoftmaxWithLoss([brew.fc(model, h, "fc2", 16, 5), "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=scale)]

    model = model_helper.ModelHelper(name=f"seed_{kind}_{devices}_{engine}")
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
        devices=list(range(devices)),
        rendezvous={
            "kv_handler": None if store == "-" else "store_handler",
            "num_shards": size,
            "shard_id": rank,
            "engine": engine,
            "mpi_rendezvous": store == "-",
            "exit_nets": None,
        },
        cpu_device=kind == "cpu",
    )
    workspace.RunNetOnce(model.param_init_net)
    places = [core.DeviceOption(caffe2_pb2.CPU if kind == "cpu" else caffe2_pb2.CUDA, d) for d in range(devices)]
    for d, place in enumerate(places):
        rng = np.random.RandomState(10 * rank + d)
        workspace.FeedBlob(f"{kind}_{d}/data", rng.rand(4, 8).astype("f"), place)
        workspace.FeedBlob(f"{kind}_{d}/label", rng.randint(0, 5, 4).astype("i"), place)
    workspace.CreateNet(model.net)
    for _ in range(2):
        workspace.RunNet(model.net)
    parameters = ["fc1_w", "fc1_b", "fc2_w", "fc2_b"]
    first = f"{kind}_0/"
    momentum = [b[len(first) :] for b in workspace.Blobs() if b.startswith(first) and b.endswith("momentum")]
    assert len(momentum) == len(parameters)
    for blobs in (parameters, parameters + momentum):
        for d, place in enumerate(places):
            for i, name in enumerate(blobs):
                shape = workspace.FetchBlob(f"{kind}_{d}/{name}").shape
                value = np.random.RandomState(1000 * rank + 100 * d + i).rand(*shape).astype("f")
                workspace.FeedBlob(f"{kind}_{d}/{name}", value, place)
        if hasattr(model, "_checkpoint_net"):
            workspace.C.delete_net(model._checkpoint_net.Name())
            del model._checkpoint_net
        for _ in range(2):
            chosen = None if blobs is parameters else [first + b for b in blobs]
            data_parallel_model.FinalizeAfterCheckpoint(model, chosen, cpu_mode=kind == "cpu")
        for d in range(devices):
            for i, name in enumerate(blobs):
                have = workspace.FetchBlob(f"{kind}_{d}/{name}")
                np.testing.assert_array_equal(have, np.random.RandomState(i).rand(*have.shape).astype("f"))
    workspace.RunNet(model.net)
    digests = {
        hashlib.sha256(b"".join(workspace.FetchBlob(f"{kind}_{d}/{n}").tobytes() for n in blobs)).hexdigest()
        for d in range(devices)
    }
    assert len(digests) == 1, "the devices differ"
    return digests.pop()


def shard(rank, size, store, text):
    for devices in (1, 2, 3, 4):
        for kind in ("cpu", "gpu"):
            for engine in ("GLOO", "MPI"):
                digest = case(rank, size, store, text, kind, devices, engine)
                print(f"case {devices} {kind} {engine} {digest}", flush=True)


def run(start, size, text):
    """(cases in which all ranks agree, cases, seconds)."""
    import launch

    begin = time.monotonic()
    environment = launch.environment()
    line = [sys.executable, __file__, "--shard"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if start == "mpirun":
            lines = [[launch.MPIEXEC, "-n", str(size), *line, "-1", str(size), "-", text]]
        else:
            store = stack.enter_context(launch.redis_server(folder)) if start == "redis" else folder
            lines = [[*line, str(rank), str(size), store, text] for rank in range(size)]
        children = [
            subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for words in lines
        ]
        outputs = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        print(*outputs, sep="\n")
    told = {}
    for found in re.findall(r"case (\d+ \w+ \w+) ([0-9a-f]{64})", "\n".join(outputs)):
        told.setdefault(found[0], []).append(found[1])
    good = sum(len(d) == size and len(set(d)) == 1 for d in told.values())
    return good, 16, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--starts", nargs="+", default=["mpirun", "file", "redis"])
    options = parser.parse_args()
    wrong = 0
    for start in options.starts:
        for size in options.ranks:
            good, count, seconds = run(start, size, options.text)
            wrong += count - good
            print(f"{start}, {size} ranks: {good} of {count} cases equal to the last bit, {seconds:.0f} s", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--shard"]:
        given = int(sys.argv[2])
        shard(int(os.environ["PMI_RANK"]) if given < 0 else given, int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main()
