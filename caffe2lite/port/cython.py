"""Parts of a project that are written in Cython: built when they are first imported, in the cache, never in the project."""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from caffe2lite.port import gone, python2

# Names of NumPy that Cython's declarations of it no longer have, or that are gone from NumPy itself.
_INSTEAD = {
    "int": "int_", "float": "float64", "bool": "bool_", "object": "object_", "long": "int_",
    "int_t": "intp_t", "uint_t": "uintp_t", "long_t": "intp_t", "ulong_t": "uintp_t", "float_t": "float64_t",
}  # fmt: skip
_GONE = re.compile(rf"\b(np|numpy)\.({'|'.join(_INSTEAD)})\b")


def modern(source: str) -> str:
    """Return Cython source without the names that NumPy no longer has."""
    return _GONE.sub(lambda found: f"{found[1]}.{_INSTEAD[found[2]]}", source)


def stray(source: str) -> list[tuple[int, str, str]]:
    """Return (line, name of NumPy's that is gone, what to write) in Cython source."""
    found = []
    for number, line in enumerate(source.split("\n"), 1):
        for name in _NAME.findall(line.partition("#")[0]):
            if name in _INSTEAD:
                found.append((number, name, f"np.{_INSTEAD[name]}"))
            elif name in gone.NUMPY:
                found.append((number, name, gone.NUMPY[name]))
    return found


_NAME = re.compile(r"\b(?:np|numpy)\.(\w+)\b")


class Loader(importlib.machinery.ExtensionFileLoader):
    """Builds `name.pyx` with Cython and the C compiler, and loads it; ImportError says what is missing."""

    def __init__(self, say: Callable[[str], None], fullname: str, path: str) -> None:
        self.say, self.source = say, path
        super().__init__(fullname, path)

    def create_module(self, spec: Any) -> Any:
        self.path = spec.origin = _built(self.name, self.source, self.say)
        return super().create_module(spec)


def _built(name: str, path: str, say: Callable[[str], None]) -> str:
    content = modern(python2.read(path))
    last = name.rpartition(".")[2]
    key = hashlib.sha256(f"{sys.version} {content}".encode()).hexdigest()[:16]
    folder = os.path.join(_cache(), "cython", key)
    made = os.path.join(folder, last + (sysconfig.get_config_var("EXT_SUFFIX") or ".so"))
    if os.path.exists(made):
        return made
    remedy = "pip install cython setuptools, and a C compiler; or build it as the project says (python setup.py build_ext --inplace)"
    try:
        import Cython  # noqa: F401
        import setuptools  # noqa: F401
    except ImportError as e:
        raise ImportError(f"{name} is written in Cython ({path}) and not built: {remedy}", name=name) from e
    say(f"{name} is written in Cython: it is built once, in {folder}")
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(folder, f"{last}.pyx")
    with open(source, "w") as f:
        f.write(content)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, last, source, folder], cwd=folder, capture_output=True, text=True
    )
    if done.returncode or not os.path.exists(made):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        raise ImportError(
            f"{name} is written in Cython ({path}) and could not be built: {told.strip()}; {remedy}", name=name
        )
    return made


# In a process of its own: setuptools changes the one that it runs in.
_BUILD = """
import sys, numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
name, source, folder = sys.argv[1:]
language = "c++" if "language = c++" in open(source).read().replace("language=", "language = ") else "c"
part = Extension(name, [source], include_dirs=[numpy.get_include()], language=language, extra_compile_args=["-w"])
sys.argv = ["setup.py", "-q", "build_ext", "--build-lib", folder, "--build-temp", folder]
setup(name=name, ext_modules=cythonize([part], quiet=True, language_level=2))
"""


def _cache() -> str:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "caffe2lite")
