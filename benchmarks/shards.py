"""Time of synchronizing parameters between processes, on any `caffe2`: ours or the genuine one.

    python benchmarks/shards.py SIZE [sync|small|many] [python of the shards]

sync: 161 tensors of ResNet-50's sizes (102 MB) by Broadcast and by Allreduce; small: 10,000 of 1 KB by Broadcast;
many: 1,000 runs of one sync net, with memory and open files before and after.
"""

import os
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
    for kind in ("Broadcast", "Allreduce") if what == "sync" else ("Broadcast",):
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
            print(f"{kind} of {len(sizes)} tensors, {4 * sum(sizes) / 1e6:.0f} MB, {size} processes: best "
                  f"{min(seconds) * 1e3:.1f} ms, median {sorted(seconds)[len(seconds) // 2] * 1e3:.1f} ms; memory "
                  f"{before[0] // 1024} to {after[0] // 1024} MiB, files {before[1]} to {after[1]}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--shard":
        shard(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        size, what = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "sync"
        python = sys.argv[3] if len(sys.argv) > 3 else sys.executable
        with tempfile.TemporaryDirectory() as store:
            children = [
                subprocess.Popen([python, __file__, "--shard", str(rank), str(size), store, what])
                for rank in range(size)
            ]
            sys.exit(max(child.wait() for child in children))
