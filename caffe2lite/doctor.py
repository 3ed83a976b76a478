"""What is installed here, and what to install for what is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np

from caffe2lite import __version__, devices
from caffe2lite.engine import python_op  # noqa: F401 - registers its operators
from caffe2lite.extras import GRAPHVIZ, PACKAGES, install
from caffe2lite.ops.kit import registry


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str
    remedy: str = ""


_HELLO = (
    "from mpi4py import MPI; c = MPI.COMM_WORLD; assert c.allreduce(1) == c.size == 2; "
    "c.rank or print(' '.join(MPI.Get_library_version().split(chr(10))[0].split()))"
)


def examine() -> list[Finding]:
    """Look at everything."""
    found = [
        Finding("caffe2lite", f"{__version__}, {operators()} operators"),
        Finding("Python", f"{platform.python_version()} on {platform.machine()} {platform.system()}"),
        *(_package(*row) for row in (("numpy", ""), ("protobuf", ""))),
        _alias(),
        _gpus(),
        _package("cupy", f"on a machine with an NVIDIA GPU: {install('cuda12')} (or cuda13x, cu13)"),
        _mpi(),
        _blas(),
    ]
    return found + [_graphviz(), Finding("npz, safetensors", "built in"), *_extras()]


def operators() -> int:
    """Return how many operators are built in, as the catalogue counts them: also those that call Python functions."""
    return sum(registry.find(name).module.startswith("caffe2lite.") for name in registry.names())


def _extras() -> list[Finding]:
    """Return the packages of all extras, but for those that were looked at more closely."""
    needed: dict[str, str] = {}
    for extra, packages in PACKAGES.items():
        for name in packages:
            needed.setdefault(name, extra)
    closer = ("mpi", "cuda12", "cuda13")
    return [
        _package("PyAV" if name == "av" else name, install(extra), name)
        for name, extra in needed.items()
        if extra not in closer
    ]


def _graphviz() -> Finding:
    """The program that caffe2lite draw and net_drawer ask for PNG."""
    program = shutil.which("dot")
    if program is None:
        return Finding("Graphviz", "not installed", GRAPHVIZ)
    told = subprocess.run([program, "-V"], capture_output=True, text=True)
    return Finding("Graphviz", (told.stderr or told.stdout).strip().removeprefix("dot - graphviz version "))


def _package(name: str, remedy: str, distribution: str = "") -> Finding:
    for wheel in (distribution or name, f"{name}-cuda12x", f"{name}-cuda13x"):
        try:
            return Finding(name, importlib.metadata.version(wheel))
        except importlib.metadata.PackageNotFoundError:
            continue
    return Finding(name, "not installed", remedy)


def _alias() -> Finding:
    try:
        package = importlib.import_module("caffe2.python")
    except ImportError as e:
        return Finding("import caffe2", f"fails: {e}", "install caffe2lite by pip: it brings the package caffe2")
    ours = sys.modules.get("caffe2lite.python")
    if package is not ours:
        place = getattr(package, "__file__", "?")
        return Finding(
            "import caffe2", f"another caffe2 comes first: {place}", "uninstall it (it may be part of torch)"
        )
    return Finding("import caffe2", "is caffe2lite")


def _gpus() -> Finding:
    try:
        here = devices.gpus()
    except devices.DeviceError as e:
        return Finding("GPUs", str(e), "CAFFE2LITE_EMULATED_GPUS=4")
    if not here:
        return Finding("GPUs", "none", "emulate them on the CPU: CAFFE2LITE_EMULATED_GPUS=4")
    return Finding("GPUs", ", ".join(str(g.properties()["name"]) for g in here))


def _blas() -> Finding:
    """The library behind NumPy's matrix products, which most of the time is spent in."""
    built = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return Finding("BLAS", f"{built.get('name', 'not known')} {built.get('version', '')}".strip())


def _mpi() -> Finding:
    remedy = install("mpi")
    try:
        version = importlib.metadata.version("mpi4py")
    except importlib.metadata.PackageNotFoundError:
        return Finding("MPI", "mpi4py is not installed", remedy)
    launcher = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    line = [launcher if os.path.exists(launcher) else "mpiexec", "-n", "2", sys.executable, "-c", _HELLO]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as e:
        return Finding("MPI", f"mpi4py {version}, but two ranks do not start: {e}", remedy)
    if done.returncode:
        return Finding("MPI", f"mpi4py {version}, but a two-rank hello fails: {done.stderr.strip()[-200:]}", remedy)
    return Finding("MPI", f"mpi4py {version} on {done.stdout.splitlines()[0]}; a two-rank hello works")
