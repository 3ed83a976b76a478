"""Run a legacy script with no edits."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from caffe2lite.extras import install
from caffe2lite.port import legacy, loader


def run_script(path: str, args: Sequence[str] = ()) -> dict[str, Any]:
    """Run a script or notebook as `python path args…` would, with Python 2's and NumPy's old names; its globals at the end.

    SystemExit and exceptions of the script pass through.
    """
    folder = os.path.dirname(os.path.abspath(path))
    main = types.ModuleType("__main__")
    vars(main).update(loader.globals_of("__main__", path))
    codes = loader.cells(path) if path.endswith(".ipynb") else [loader.compiled(path)]
    with legacy.names(), loader.imports_from(folder), _as_main(main, [path, *args], folder):
        for code in codes:
            exec(code, vars(main))
    return vars(main)


def of_script(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return the part of a traceback that begins in the script that run_script runs, as `python script` would show it."""
    found = traceback
    while found is not None:
        if found.tb_frame.f_code is run_script.__code__:
            return found.tb_next or traceback
        found = found.tb_next
    return traceback


@contextlib.contextmanager
def _as_main(main: types.ModuleType, arguments: list[str], folder: str) -> Iterator[None]:
    """The process looks as if the script had been started: arguments, search path, `__main__`."""
    before = sys.argv, sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = arguments, main
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.modules["__main__"] = before
        sys.path.remove(folder)


def launcher() -> str:
    """Return the path of mpiexec: beside this Python, where the wheel of MPICH puts it, else on the PATH; "" where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.path.exists(beside) else shutil.which("mpiexec") or ""


def shards_command(shards: int, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `caffe2lite run arguments…` on every shard; RuntimeError where MPI is not there."""
    mpiexec = launcher()
    if not mpiexec:
        raise RuntimeError(f"several shards need MPI: {install('mpi')}")
    return [mpiexec, "-n", str(shards), sys.executable, "-m", "caffe2lite", "run", *arguments]


def rank() -> int:
    """Return the rank of this process under a launcher, 0 without one."""
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0
