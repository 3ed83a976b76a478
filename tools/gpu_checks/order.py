"""Whether what one GPU reads of another is there already: long work on one, and its result read on the other at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial

import numpy as np
from caffe2.python import core, workspace

from caffe2lite import devices
from caffe2lite.distributed import nccl
from gpu_checks import Check, Skip, close, emulated, option, several

ROUNDS = 8  # of matrix products, which keep a GPU busy


def checks() -> Iterator[Check]:
    """Races between two GPUs, in this process and under other settings of CuPy."""
    for kind in ("Sum", "Add", "Concat", "Copy", "NCCLAllreduce"):
        for writer in (0, 1):
            yield Check("order", f"{kind} of what GPU {writer} has just been given to do", partial(race, kind, writer))
    yield Check("order", "a peer's operand overwritten while it is read", overwritten)
    yield Check("order", "without NCCL", partial(race, "NCCLAllreduce", 1, library=False))
    yield Check("order", "without peer access", no_peers)
    yield Check("order", "two threads on one clique", two_threads)
    for title, setting in (
        ("default streams a thread", {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}),
        ("with CUB", {"CUPY_ACCELERATORS": "cub"}),
        ("without CUB", {"CUPY_ACCELERATORS": ""}),
        ("warnings are errors", {"PYTHONWARNINGS": "error"}),
    ):
        yield Check("settings", title, partial(under, setting))


def side() -> int:
    """Of the matrices."""
    return 64 if emulated() else 4096


def long_work(net: core.Net, gpu: int, value: float) -> str:
    """Operators that keep a GPU busy for a while; the blob that they end with, all `value`."""
    scope = f"g{gpu}"
    workspace.FeedBlob(f"{scope}_eye", np.eye(side(), dtype="f"), option(gpu))
    workspace.FeedBlob(f"{scope}_0", np.full((side(), side()), value, "f"), option(gpu))
    for k in range(ROUNDS):
        net.MatMul([f"{scope}_{k}", f"{scope}_eye"], [f"{scope}_{k + 1}"], device_option=option(gpu))
    return f"{scope}_{ROUNDS}"


def race(kind: str, writer: int, library: bool = True) -> None:
    """One GPU computes for long; the other reads the result without the host's having waited."""
    several()
    before = nccl.clique
    if not library:
        nccl.clique = lambda devices: None
    try:
        workspace.ResetWorkspace()
        reader = 1 - writer
        net = core.Net("race")
        late = long_work(net, writer, 3.0)
        workspace.FeedBlob("here", np.full((side(), side()), 1.0, "f"), option(reader))
        inputs = [late] if kind == "Copy" else ["here", late]
        outputs = {"Concat": ["y", "sizes"], "NCCLAllreduce": ["y", "z"]}.get(kind, ["y"])
        place = option(reader)
        args = {"axis": 0} if kind == "Concat" else {}
        net.AddExternalInput("here")
        net.Proto().op.extend([core.CreateOperator(kind, inputs, outputs, device_option=place, **args)])
        workspace.CreateNet(net)
        for _ in range(3):
            workspace.RunNet(net)
            have = workspace.FetchBlob("y")
            want = {"Copy": 3.0}.get(kind, 4.0)
            if kind == "Concat":
                assert (have[: side()] == 1).all() and (have[side() :] == 3).all()
            else:
                assert (have == want).all(), f"{(have != want).sum():,} of {have.size:,} values are wrong"
    finally:
        nccl.clique = before


def overwritten() -> None:
    """The reader is late, and the writer's next operator must wait for it."""
    several()
    workspace.ResetWorkspace()
    net = core.Net("reverse")
    busy = long_work(net, 0, 1.0)
    workspace.FeedBlob("source", np.full((side(), side()), 2.0, "f"), option(1))
    net.Sum([busy, "source"], ["y"], device_option=option(0))
    net.ConstantFill([], ["source"], shape=[side(), side()], value=9.0, device_option=option(1))
    workspace.CreateNet(net)
    for _ in range(3):
        workspace.FeedBlob("source", np.full((side(), side()), 2.0, "f"), option(1))
        workspace.RunNet(net)
        have = workspace.FetchBlob("y")
        assert (have == 3).all(), f"{(have != 3).sum():,} of {have.size:,} values are wrong"


def no_peers() -> str:
    """Copies between GPUs pass where neither sees the other's memory; sums are refused."""
    several()
    kind = type(devices.gpus()[0])
    reads, reaches = kind.reads, kind.reaches
    kind.reads, kind.reaches = kind.owns, lambda self, other: self is other
    try:
        race("Copy", 1)
        try:
            race("Sum", 1)
        except Exception as e:
            if "is on gpu_1" in str(e):
                return "sums are refused, copies pass"
            raise
        raise AssertionError("a sum read a peer that it could not")
    finally:
        kind.reads, kind.reaches = reads, reaches


def two_threads() -> None:
    """Two threads use one clique, many times."""
    count = several()
    gpus = devices.gpus()
    if not gpus[0].nccl:
        raise Skip("there is no NCCL")
    clique = nccl.clique(gpus)
    failures: list[BaseException] = []

    def work(value: float) -> None:
        try:
            arrays = []
            for gpu in gpus:
                with gpu.context():
                    arrays.append(gpu.xp.full(100_000, value, "float32"))
            for _ in range(50):
                clique.allreduce(arrays, arrays)
                for gpu, array in zip(gpus, arrays):
                    with gpu.context():
                        array /= count
            for gpu, array in zip(gpus, arrays):
                close(gpu.to_host(array), value)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(v,)) for v in (1.0, 2.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def under(setting: dict[str, str]) -> str:
    """The races and the edges in a process of its own with other settings."""
    if emulated() and not any("WARNINGS" in name for name in setting):
        raise Skip("a setting of CuPy's")
    line = [sys.executable, sys.argv[0], "--only", "order", "edges", "--results", os.devnull]
    if emulated():
        line += ["--emulated", str(devices.gpu_count())]
    done = subprocess.run(line, env={**os.environ, **setting}, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise AssertionError(done.stdout[-3000:] + done.stderr[-2000:])
    return done.stdout.strip().splitlines()[-1]
