"""Common worlds of several processes, each with a GPU: over NCCL, over MPI, and when a peer dies."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from caffe2.python import core, workspace

from caffe2lite import devices
from caffe2lite.distributed import rendezvous
from gpu_checks import Check, Skip, close, emulated, option

TIMEOUT_MS = 10_000
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
MPIEXEC = shutil.which("mpiexec", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("mpiexec")


def checks() -> Iterator[Check]:
    """Collectives between processes, and what the others do when one is killed."""
    for engine in ("NCCL", "GLOO"):
        for size in (2, 4):
            yield Check("processes", f"{engine}: collectives of {size} processes", partial(together, engine, size))
        yield Check("processes", f"{engine}: a killed peer", partial(killed, engine))


def needs(engine: str, size: int) -> None:
    """Skip where there is not what the engine wants."""
    if engine == "NCCL" and devices.gpu_count() < size:
        raise Skip(f"NCCL wants a GPU for each of {size} processes")
    if engine == "NCCL" and not devices.gpus()[0].nccl:
        raise Skip("there is no NCCL")


def command(scenario: str, engine: str, *place: str) -> list[str]:
    """One process of this tool; `place` is its rank, the number of processes and the path where they meet."""
    line = [sys.executable, sys.argv[0], "--worker", scenario, engine, *place]
    return [*line, "--emulated", str(devices.gpu_count())] if emulated() else line


def together(engine: str, size: int) -> str:
    """Sums, broadcasts and gatherings are right on every rank."""
    needs(engine, size)
    if MPIEXEC is None:
        raise Skip("there is no mpiexec")
    begin = time.monotonic()
    line = [MPIEXEC, "-n", str(size), *command("collectives", engine)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)
    if done.returncode or done.stdout.count("all right") != size:
        raise AssertionError((done.stdout + done.stderr)[-3000:])
    return f"{time.monotonic() - begin:.0f} s"


def killed(engine: str) -> str:
    """The other says which common world has lost a peer, before the world's timeout and a little."""
    needs(engine, 2)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        ranks = [
            subprocess.Popen(
                command("killed", engine, str(rank), "2", folder),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT,
            )
            for rank in range(2)
        ]  # fmt: skip
        try:
            output = ranks[0].communicate(timeout=120)[0]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    if not ranks[0].returncode or "common world" not in output:
        raise AssertionError(output[-3000:])
    return f"told after {time.monotonic() - begin:.0f} s"


def worker(scenario: str, engine: str, *started: str) -> None:
    """One of the processes: under mpiexec, or with its rank, the number of processes, and the path where they meet."""
    if started:
        rank, size = int(started[0]), int(started[1])
    else:
        found = rendezvous()
        rank, size = found["shard_id"], found["num_shards"]
    place = option(rank % devices.gpu_count())

    def run(kind, inputs, outputs, **args):
        made = core.CreateOperator(kind, inputs, outputs, device_option=place, engine=engine, **args)
        workspace.RunOperatorOnce(made)

    if started:
        workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=started[2]))
    store = ["store"] if started else []
    run("CreateCommonWorld", store, ["world"], size=size, rank=rank, timeout_ms=TIMEOUT_MS, mpi_rendezvous=not started)
    for shape in ((), (3,), (1000, 70)):
        workspace.FeedBlob("x", np.full(shape, rank + 1.0, "f"), place)
        run("Allreduce", ["world", "x"], ["x"])
        close(workspace.FetchBlob("x"), size * (size + 1) / 2)
        workspace.FeedBlob("x", np.full(shape, rank + 1.0, "f"), place)
        run("Broadcast", ["world", "x"], ["x"], root=1)
        close(workspace.FetchBlob("x"), 2)
    workspace.FeedBlob("x", np.full(5, rank + 1.0, "f"), place)
    run("Allgather", ["world", "x"], ["y"])
    close(workspace.FetchBlob("y").reshape(size, 5)[:, 0], np.arange(size) + 1)
    if scenario == "killed":
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        run("Allreduce", ["world", "x"], ["x"])
    print("all right", flush=True)
