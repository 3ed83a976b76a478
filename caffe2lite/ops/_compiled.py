"""The engine NUMBA: kernels that go over memory once, in loops that Numba compiles (the extra `fast`).

They are taken by themselves where Numba is installed and the operands are large, since compiling costs seconds the
first time and NumPy is as quick on small ones.  They may differ from the plain kernels by rounding, in nothing else.
CAFFE2LITE_NUMBA=0 in the environment switches them off.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2lite.ops import registry

LEAST = 1 << 14  # elements of the largest operand from which on a compiled loop is worth its call
_DTYPES = frozenset(np.dtype(t) for t in ("float32", "int32", "int64"))


@functools.cache
def available() -> bool:
    """Whether Numba is installed, fits this NumPy, and is not switched off."""
    if os.environ.get("CAFFE2LITE_NUMBA", "1") == "0":
        return False
    try:
        import numba  # noqa: F401
    except ImportError:  # also where it is older than NumPy
        return False
    return True


def worthwhile(operands: Sequence[Any]) -> bool:
    """Whether the compiled kernel of an operator is to be taken for these operands."""
    largest = 0
    for a in operands:
        if a is not None:
            if a.dtype not in _DTYPES:
                return False
            largest = max(largest, a.size)
    return largest >= LEAST and available()


class Loop:
    """A function of arrays and numbers that Numba compiles when it is called first."""

    def __init__(self, function: Callable[..., Any], reorder: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._reorder = reorder
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        run = self._compiled or self._compile()
        return run(*args)

    def _compile(self) -> Callable[..., Any]:
        import numba

        options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"} if self._reorder else False}
        try:
            self._compiled = numba.njit(self._function, cache=True, **options)
        except RuntimeError:  # neither this package's folder nor the user's cache can be written
            self._compiled = numba.njit(self._function, **options)
        return self._compiled


def loop(function: Callable[..., Any] | None = None, *, reorder: bool = False) -> Any:
    """Decorator: a loop for Numba.  With `reorder` its sums may be added up in another order, which is quicker."""
    if function is None:
        return lambda f: Loop(f, reorder)
    return Loop(function, reorder)


def compiled(*operators: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the compiled kernel of these operators."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in operators:
            registry.find(name).engine("NUMBA", registry.CPU)(function)
        return function

    return add


def plain(name: str) -> Callable[..., Any]:
    """The operator's NumPy kernel."""
    return registry.find(name).kernels["", None]
