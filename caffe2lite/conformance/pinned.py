"""An environment of Caffe2's time: the libraries that its last tests were written for, as far as caffe2lite runs on them."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import caffe2lite
from caffe2lite.conformance import upstream

PYTHON = (3, 10)
PACKAGES = (
    "numpy==1.26.4", "hypothesis==6.100.*", "onnx==1.14.1", "protobuf==4.25.*", "scipy==1.11.*", "pytest==8.*",
    "click", "future", "lmdb", "mock", "networkx", "pillow", "pydot", "setuptools<80",
)  # fmt: skip
_IMPORTED = ("caffe2lite", "caffe2", "caffe")
_TORCH = '''"""Stands for PyTorch in files that import it for other tests than those of Caffe2; it computes nothing."""


class Tensor:
    pass


class jit:
    ScriptModule = object

    @staticmethod
    def script_method(function):
        return function
'''


def environment() -> str:
    """Return the interpreter of the environment, which is made in the cache the first time.

    RuntimeError where there is no Python 3.10, or pip cannot install the packages.
    """
    place = upstream.cache() / "pinned"
    python = place / "bin" / "python"
    done = place / "complete"
    wanted = "\n".join(PACKAGES)
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(place, ignore_errors=True)
        _call([_interpreter(), "-m", "venv", str(place)], "make an environment")
        _call([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], "install what the tests need")
        (_packages(place) / "torch.py").write_text(_TORCH)
        done.write_text(wanted)
    _link(place)
    return str(python)


def _link(place: pathlib.Path) -> None:
    """Let the environment import this caffe2lite, wherever it lies, and nothing that lies beside it."""
    packages, package = _packages(place), pathlib.Path(caffe2lite.__file__).parent
    for name in _IMPORTED:
        beside, source = package.parent / name, package.parent / "compat" / name  # installed, or a checkout
        link = packages / name
        link.unlink(missing_ok=True)
        link.symlink_to(source if source.is_dir() else beside)


def _packages(place: pathlib.Path) -> pathlib.Path:
    (packages,) = place.glob("lib/python*/site-packages")
    return packages


def _interpreter() -> str:
    """Return a Python 3.10: this one, one of the path, or one that pyenv has."""
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    name = "python{}.{}".format(*PYTHON)
    of_pyenv = sorted(pathlib.Path.home().glob(f".pyenv/versions/*/bin/{name}"))
    for candidate in (shutil.which(name), *map(str, reversed(of_pyenv))):
        if candidate and subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    raise RuntimeError(f"--pinned needs {name}, which is not on the PATH; --python tests an environment of your own")


def _call(line: list[str], what: str) -> None:
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot {what}:\n{done.stderr.strip()[-1000:]}")
