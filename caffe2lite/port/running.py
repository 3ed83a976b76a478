"""Run a legacy script with no edits."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from caffe2lite.extras import install
from caffe2lite.port import legacy, loader, project, python2


def run_script(path: str, args: Sequence[str] = (), version: int | None = None) -> dict[str, Any]:
    """Run a script or notebook as `python path args…` would, with Python 2's and NumPy's old names; its globals at the end.

    `version` is 2 or 3; None takes what the file shows, else its project.  SystemExit and
    exceptions of the script pass through.
    """
    reader = loader.Reader(version)
    codes, is_python2 = reader.cells(path) if path.endswith(".ipynb") else _one(reader.compiled(path))
    folder = os.path.dirname(os.path.abspath(path))
    return _run(codes, is_python2, path, "", folder, [path, *args], reader)


def run_module(name: str, args: Sequence[str] = (), version: int | None = None) -> dict[str, Any]:
    """Run a module as `python -m name args…` would."""
    reader = loader.Reader(version)
    here = os.getcwd()
    root = project.root_of(os.path.join(here, "x"))
    with legacy.names(), loader.imports_from(root, reader, _say), _path_first(here):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            spec = importlib.util.find_spec(f"{name}.__main__")
        path = spec.origin if spec is not None else None
        if path is None or not path.endswith(".py"):
            raise ModuleNotFoundError(f"no module {name} that could be run, from {here}", name=name)
        package = spec.parent if spec is not None else ""
    codes, is_python2 = _one(reader.compiled(path))
    return _run(codes, is_python2, path, package or "", here, [path, *args], reader)


def _one(found: tuple[Any, bool]) -> tuple[list[Any], bool]:
    return [found[0]], found[1]


def _run(
    codes: list[Any],
    is_python2: bool,
    path: str,
    package: str,
    folder: str,
    arguments: list[str],
    reader: loader.Reader,
) -> dict[str, Any]:
    main = types.ModuleType("__main__")
    vars(main).update(loader.globals_of("__main__", path, is_python2), __package__=package or None)
    root = project.root_of(path)
    if path in reader.guesses:
        _say(f"{path} is taken for Python 2, {reader.guesses[path]}; --python3 runs it as Python 3")
    with legacy.names(), loader.imports_from(root, reader, _say), _as_main(main, arguments, folder), _printing():
        for code in codes:
            exec(code, vars(main))
    return vars(main)


def _say(line: str) -> None:
    """Tell something beside what the script says."""
    if not rank():
        print(f"caffe2lite: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _printing() -> Iterator[None]:
    """Text that holds bytes of no encoding is printed as these bytes, as Python 2 did."""
    before = [(stream, stream.errors) for stream in (sys.stdout,) if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in before:
        stream.reconfigure(errors="surrogateescape")
    try:
        yield
    finally:
        for stream, errors in before:
            with contextlib.suppress(ValueError):  # the script may have closed it
                stream.reconfigure(errors=errors)


# What Python 3 says of code that means Python 2.
_SIGNS = re.compile(
    r"bytes-like object is required|not 'str'|not bytes|'(?:map|filter|zip|dict_keys|dict_values|dict_items|range)' object|"
    r"cannot be interpreted as an integer|integers?,? (?:or|are|is|required)|only integer|slice indices|can't concat|"
    r"can only concatenate|not supported between instances|codec can't (?:de|en)code|__round__"
)


def hint(error: BaseException, path: str, version: int | None) -> str:
    """Return what to try where a script that ran as Python 3 failed as one of Python 2 would; "" for other errors."""
    if version or not isinstance(error, (TypeError, UnicodeError, IndexError)) or not _SIGNS.search(str(error)):
        return ""
    try:
        if path.endswith(".ipynb") or loader.Reader().compiled(path)[1]:
            return ""
    except python2.Unreadable:
        return ""
    return f"{path} was run as Python 3; if it means Python 2: caffe2lite run --python2 {path}"


def of_script(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return the part of a traceback that begins in the script that is run, as `python script` would show it."""
    found = traceback
    while found is not None:
        if found.tb_frame.f_code is _run.__code__:
            return found.tb_next or traceback
        found = found.tb_next
    return traceback


@contextlib.contextmanager
def _as_main(main: types.ModuleType, arguments: list[str], folder: str) -> Iterator[None]:
    """The process looks as if the script had been started: arguments, search path, `__main__`."""
    before = sys.argv, sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = arguments, main
    try:
        with _path_first(folder):
            yield
    finally:
        sys.argv, sys.modules["__main__"] = before


@contextlib.contextmanager
def _path_first(folder: str) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def launcher() -> str:
    """Return the path of mpiexec: beside this Python, where the wheel of MPICH puts it, else on the PATH; "" where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.path.exists(beside) else shutil.which("mpiexec") or ""


def shards_command(shards: int, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `caffe2lite run arguments…` on every shard; RuntimeError where MPI is not there."""
    mpiexec = launcher()
    if not mpiexec:
        raise RuntimeError(f"several shards need MPI: {install('mpi')}")
    told = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    prefix = (
        ["--tag-output"] if "Open MPI" in told or "OpenRTE" in told else ["-prepend-rank"]
    )  # each line says its rank
    return [mpiexec, *prefix, "-n", str(shards), sys.executable, "-m", "caffe2lite", "run", *arguments]


def rank() -> int:
    """Return the rank of this process under a launcher, 0 without one."""
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0
