"""Send every call that operators make on emulated GPUs to the real CuPy as well, without a GPU (tools/fake_cuda.py).

    python tools/cupy_shadow.py                       all recorded cases and data-parallel training: some minutes
    python tools/cupy_shadow.py --only Sparse Conv    operators whose names begin so

The emulated GPU computes; CuPy gets arrays of the same shapes, types and strides, and what it refuses, or returns in another
type or shape, is told: exit status 1.  The first run makes a virtual environment for CuPy (--venv).  What this cannot show:
arithmetic, order, CUB, Thrust, cuRAND, cuBLAS, NCCL, and shapes that depend on values (nonzero, unique, masks).  Linux on
x86-64 with a C compiler; elsewhere it says so and exits 0.
"""

from __future__ import annotations

import argparse
import collections
import operator
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATH = [str(ROOT), str(ROOT / "compat"), str(ROOT / "tests"), str(ROOT / "tools")]
PACKAGES = ["cupy-cuda12x>=14,<15", "numpy>=2", "protobuf>=5"]
VENV = pathlib.Path.home() / ".cache" / "caffe2lite-cupy"
_BY_VALUES = "nonzero flatnonzero argwhere unique bincount compress repeat setdiff1d intersect1d union1d trim_zeros"
BY_VALUES = frozenset(_BY_VALUES.split())
BINARY = "add sub mul truediv floordiv mod pow and or xor"
OTHER = "matmul lshift rshift eq ne lt le gt ge neg pos invert abs getitem"


class Shadow:
    """Calls that were sent to CuPy, and what it did otherwise."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.calls = 0
        self.patterns: set[Any] = set()
        self.operator = ""
        self.wrong: dict[str, set[str]] = collections.defaultdict(set)  # what, by which operators

    def array(self, value: Any) -> Any:
        """CuPy's array of that shape, type and strides; the same for each in a list, and other values as they are."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.array(v) for v in value)
        if not isinstance(value, emulated.EmulatedArray):
            return value
        size = sum((n - 1) * s for n, s in zip(value.shape, value.strides)) + value.itemsize if value.size else 0
        if min(value.strides, default=0) < 0 or any(s % value.itemsize for s in value.strides):
            return self.cupy.zeros(value.shape, value.dtype)
        memory = self.cupy.zeros(max(size, 1), "uint8")
        return self.cupy.ndarray(value.shape, value.dtype, memory.data, value.strides)

    def send(self, name: str, call: Callable[..., Any], args: Any, kwargs: Any, made: Any) -> None:
        """Repeat a call on CuPy's arrays, once for each pattern of them."""
        self.calls += 1
        pattern = (name, described(args), described(sorted(kwargs.items())))
        if pattern in self.patterns:
            return
        self.patterns.add(pattern)
        try:
            result = call(*self.array(args), **{k: self.array(v) for k, v in kwargs.items()})
        except Exception as e:
            if name in BY_VALUES and isinstance(e, ValueError):  # it did not like the values, which mean nothing
                return
            self.wrong[f"{name}{pattern[1:]} is refused: {type(e).__name__}: {str(e)[:200]}"].add(self.operator)
            return
        if name.rpartition(".")[2] not in BY_VALUES:
            self.compare(name, pattern, made, result)

    def compare(self, name: str, pattern: Any, made: Any, result: Any) -> None:
        """Note where CuPy's result is of another type or shape."""
        if isinstance(made, (list, tuple)):
            for mine, its in zip(made, result):
                self.compare(name, pattern, mine, its)
        elif isinstance(made, emulated.EmulatedArray):
            have, want = described(made)[:2], described(result)[:2]
            if have != want:
                self.wrong[f"{name}{pattern[1:]} gives {want}, and emulated {have}"].add(self.operator)


def described(value: Any) -> Any:
    """What tells one pattern of arguments from another."""
    if isinstance(value, (list, tuple)):
        return tuple(described(v) for v in value)
    if hasattr(value, "dtype") and hasattr(value, "strides"):
        return np.dtype(value.dtype).name, tuple(value.shape), tuple(value.strides)
    return repr(value)


def watch(shadow: Shadow) -> None:
    """Have the emulated arrays' functions, methods and operators send their calls."""
    cupy = shadow.cupy
    places = [cupy, cupy.linalg, cupy.fft, cupy.lib.stride_tricks]
    plain = emulated._Function.__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        name, owner = self.__name__, self._owner
        if owner is not None:
            before = shadow.array(owner)
            made = plain(self, *args, **kwargs)
            shadow.send(
                f"ndarray.{name}", lambda _, *a, **k: getattr(before, name)(*a, **k), (owner, *args), kwargs, made
            )
            return made
        made = plain(self, *args, **kwargs)
        of = next((getattr(p, name) for p in places if hasattr(p, name)), None)
        if of is not None and name not in ("asarray", "array", "ascontiguousarray", "random"):
            shadow.send(name, of, args, kwargs, made)
        return made

    emulated._Function.__call__ = called
    method_of = emulated._Function.__getattr__

    def method(self: Any, name: str) -> Any:
        found = method_of(self, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made = found(*args, **kwargs)
            shadow.send(f"{self.__name__}.{name}", getattr(getattr(cupy, self.__name__), name), args, kwargs, made)
            return made

        return call

    emulated._Function.__getattr__ = method
    for name in [*BINARY.split(), *OTHER.split()]:
        _watch_operator(shadow, f"__{name}__", getattr(operator, f"__{name}__"))
    for name in BINARY.split():
        forward = getattr(operator, f"__{name}__")
        _watch_operator(shadow, f"__r{name}__", lambda a, b, forward=forward: forward(b, a))
        _watch_operator(shadow, f"__i{name}__", getattr(operator, f"__i{name}__"))
    _watch_operator(shadow, "__setitem__", operator.setitem)


def _watch_operator(shadow: Shadow, name: str, real: Callable[..., Any]) -> None:
    plain = getattr(emulated.EmulatedArray, name)

    def call(*args: Any) -> Any:
        made = plain(*args)
        masked = name.endswith("item__") and "bool" in repr(described(args[1]))
        if not masked:  # how much a mask takes is told by its values
            shadow.send(name, real, args, {}, made)
        return made

    setattr(emulated.EmulatedArray, name, call)


def replay(shadow: Shadow, only: tuple[str, ...]) -> int:
    """Run the recorded cases; how many."""
    import golden_cases

    count = 0
    for part in ("operators", "changed"):
        for kind in golden_cases.types(part):
            if not kind.startswith(only) or kind in golden_cases.HOST_ONLY:
                continue
            shadow.operator = kind
            for _, files in golden_cases.cases(part, kind):
                if golden_cases.for_gpu(files):
                    golden_cases.replay(files, gpu=True)
                    count += 1
    return count


def inside(options: argparse.Namespace) -> NoReturn:
    """The work, in the environment that has CuPy."""
    global emulated
    sys.path[:0] = PATH
    import fake_cuda

    cupy = fake_cuda.install()
    from caffe2lite.devices import emulated

    emulated.use(4)
    shadow = Shadow(cupy)
    begin = time.monotonic()
    watch(shadow)
    count = replay(shadow, tuple(options.only))
    if options.only == [""]:
        from gpu_checks import values

        shadow.operator = "data-parallel training"
        for gpus in (1, 2, 4):
            values.train(gpus, cpu=False)
    for what, who in sorted(shadow.wrong.items()):
        print(f"{what}\n    in {', '.join(sorted(who)[:5])}")
    print(
        f"CuPy {cupy.__version__}: {count} recorded cases, {shadow.calls:,} calls, {len(shadow.patterns):,} patterns, "
        f"{len(shadow.wrong)} refused or different, {time.monotonic() - begin:.0f} s"
    )
    sys.stdout.flush()
    os._exit(1 if shadow.wrong else 0)  # CuPy would free its memory by functions of Python's, which is gone by then


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="OPERATOR")
    parser.add_argument("--venv", type=pathlib.Path, default=VENV, help="where CuPy is, or is to be installed")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or not (shutil.which("cc") and shutil.which("nm")):
        print("Nothing was checked: this needs Linux on x86-64, cc and nm.")
        return 0
    python = options.venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", options.venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    line = [str(python), __file__, "--inside", "--only", *options.only]
    return subprocess.run(line, env={**os.environ, "CUPY_ACCELERATORS": ""}).returncode


if __name__ == "__main__":
    sys.exit(main())
