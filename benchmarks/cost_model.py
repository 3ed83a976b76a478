"""What a sync costs: latency and bandwidth, fitted here on 2 to 16 shards, and said of 8 to 4,096 on a network.

    python benchmarks/cost_model.py [--latency SECONDS] [--bandwidth BYTES_PER_SECOND]      needs the extra mpi

An operator is r rounds of messages that wait for each other, and v bytes that all shards together move.  Short tensors go
by a tree, of ⌈log2 p⌉ rounds for Broadcast and twice as many for Allreduce; long ones go round in pieces of n/p bytes,
⌈log2 p⌉ + p - 1 and 2·(p - 1) rounds, and a piece over 16 KB takes 2.5 messages for one.  v = n·(p - 1), twice that for
Allreduce.

One machine of c cores:  r·(a + s·max(0, p/c - 1)) + b·v/min(p, c)  seconds: a shard without a core of its own waits for its
turn, s, and the copies share the cores.  a, s and b are fitted to 2, 4 and 8 shards; 3 and 16 are predictions.

A network:  r·a + b·v/p, by whichever of tree (b·n a round) and pieces is cheaper; a and b are the command line's.
"""

import argparse
import itertools
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from shards import resnet_sizes

BYTES = [4 << 10, 64 << 10, 1 << 20, 16 << 20]
FITTED, PREDICTED = (2, 4, 8), (3, 16)
VOLUMES = {"Broadcast": 1, "Allreduce": 2}
SHORT = {"Broadcast": 12 << 10, "Allreduce": 64 << 10}  # bytes


def shard(rank, size, store):
    """Best seconds of each operator and size, from rank 0."""
    from caffe2.python import core, workspace

    workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=store))
    workspace.RunOperatorOnce(core.CreateOperator("CreateCommonWorld", ["store"], ["world"], size=size, rank=rank))
    for kind in VOLUMES:
        for n in BYTES:
            repeat = max(1, min(20, (1 << 20) // n))
            workspace.FeedBlob("x", np.zeros(n // 4, "f"))
            net = core.Net(f"{kind}_{n}")
            for _ in range(repeat):
                net.__getattr__(kind)(["world", "x"], ["x"])
            workspace.CreateNet(net)
            best = math.inf
            for _ in range(25):
                workspace.RunOperatorOnce(core.CreateOperator("Barrier", ["world"], []))
                start = time.perf_counter()
                workspace.RunNet(net)
                workspace.RunOperatorOnce(core.CreateOperator("Barrier", ["world"], []))
                best = min(best, time.perf_counter() - start)
            if rank == 0:
                print(kind, n, best / repeat, flush=True)


def measured(size):
    with tempfile.TemporaryDirectory() as store:
        children = [
            subprocess.Popen([sys.executable, __file__, "--shard", str(rank), str(size), store], text=True,
                             stdout=subprocess.PIPE if rank == 0 else None, env={**os.environ, "OMP_NUM_THREADS": "1"})
            for rank in range(size)
        ]  # fmt: skip
        lines = children[0].communicate()[0].split("\n")
        if any(child.wait() for child in children):
            sys.exit(f"{size} shards failed")
    words = [line.split() for line in lines if line]
    return {(kind, int(n)): float(seconds) for kind, n, seconds in words}


def rounds(kind, n, p):
    """Messages that wait for each other on one machine."""
    tree = math.ceil(math.log2(p))
    if n <= SHORT[kind]:
        return tree if kind == "Broadcast" else 2 * tree
    return (tree + p - 1 if kind == "Broadcast" else 2 * (p - 1)) * (2.5 if n / p > 16 << 10 else 1)


def terms(kind, n, p, cores):
    """What a, s and b are multiplied with."""
    r = rounds(kind, n, p)
    return r, r * max(0, p / cores - 1), VOLUMES[kind] * n * (p - 1) / min(p, cores)


def fit(kind, times, cores):
    """a, s and b, none below zero, with the least squares of relative errors."""
    rows = np.array([np.array(terms(kind, n, p, cores)) / times[p][kind, n] for p in FITTED for n in BYTES])
    best, best_error = np.zeros(3), math.inf
    for used in itertools.product((False, True), repeat=3):
        found = np.zeros(3)
        found[list(used)] = np.linalg.lstsq(rows[:, used], np.ones(len(rows)), rcond=None)[0]
        error = float(((rows @ found - 1) ** 2).sum())
        if (found >= 0).all() and error < best_error:
            best, best_error = found, error
    return best


def on_network(kind, n, p, a, b):
    k, tree = VOLUMES[kind], math.ceil(math.log2(p))
    pieces = (tree + p - 1 if kind == "Broadcast" else 2 * tree) * a + 2 * b * n * (p - 1) / p
    return min(k * tree * a + tree * b * n, pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=20e-6)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="10 Gbit/s unless given")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    times = {p: measured(p) for p in sorted(FITTED + PREDICTED)}
    print(
        "| operator | bytes | " + " | ".join(f"p = {p}{'' if p in FITTED else ' (not fitted)'}" for p in times) + " |"
    )
    print("|---|---|" + "---|" * len(times))
    for kind in VOLUMES:
        a, s, b = fit(kind, times, cores)
        errors = []
        for n in BYTES:
            cells = []
            for p, told in times.items():
                model = float(np.dot((a, s, b), terms(kind, n, p, cores)))
                errors.append(abs(math.log(model / told[kind, n])))
                cells.append(f"{model * 1e3:.3g} / {told[kind, n] * 1e3:.3g}")
            print(f"| {kind} | {n:,} | " + " | ".join(cells) + " |")
        print(
            f"{kind}: a = {a * 1e6:.1f} µs, s = {s * 1e6:.1f} µs, 1/b = {1 / b / 1e9 if b else math.inf:.1f} GB/s, "
            f"{cores} cores; cells are predicted / measured ms, off by a factor of {math.exp(np.median(errors)):.2f} "
            f"in the middle"
        )
    print(f"\nOn a network of {options.latency * 1e6:g} µs and {options.bandwidth / 1e9:g} GB/s, ms:\n")
    print("| shards | " + " | ".join(f"{k}, {w}" for w in ("ResNet-50", "10,000 × 1 KB") for k in VOLUMES) + " |")
    print("|---|" + "---|" * 4)
    for p in (8, 16, 64, 256, 1024, 4096):
        cells = [
            sum(on_network(kind, 4 * n, p, options.latency, 1 / options.bandwidth) for n in sizes) * 1e3
            for sizes in (resnet_sizes(), [256] * 10_000)
            for kind in VOLUMES
        ]
        print(f"| {p:,} | " + " | ".join(f"{c:,.0f}" for c in cells) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--shard"]:
        shard(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()
