"""The engine NUMBA: kernels that go over memory once, in loops that Numba compiles (the extra `fast`).

They are taken by themselves where Numba is installed and the operands are large, since compiling costs seconds the
first time and NumPy is as quick on small ones.  They may differ from the plain kernels by rounding, in nothing else.
CAFFE2LITE_NUMBA=0 in the environment switches them off.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit import registry

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

        function = self._function
        if "prefetch" in function.__code__.co_names:
            names = {**function.__globals__, "prefetch": _prefetch_intrinsic()}
            function = functools.update_wrapper(types.FunctionType(function.__code__, names), function)
        options: dict[str, Any] = {
            "nogil": True,
            "error_model": "numpy",
            "fastmath": {"reassoc", "contract"} if self._reorder else False,
        }
        try:
            self._compiled = numba.njit(function, cache=True, **options)
        except RuntimeError:  # neither this package's folder nor the user's cache can be written
            self._compiled = numba.njit(function, **options)
        return self._compiled


def prefetch(array: np.ndarray, index: int) -> None:
    """Within a loop: an element of a flat array will be needed soon.  Rows in random places come in time that way."""


@functools.cache
def _prefetch_intrinsic() -> Any:
    from llvmlite import ir
    from numba import types as numba_types
    from numba.core import cgutils
    from numba.extending import intrinsic

    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)

    @intrinsic
    def prefetch(context, array, index):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            place = builder.bitcast(builder.gep(data, [args[1]]), byte)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            builder.call(function, [place, word(0), word(3), word(1)])  # for reading, into all caches, data
            return context.get_dummy_value()

        return numba_types.void(array, numba_types.intp), generate

    return prefetch


def loop(function: Callable[..., Any] | None = None, *, reorder: bool = False) -> Any:
    """Decorator: a loop for Numba.  With `reorder` its sums may be added up in another order, which is quicker."""
    if function is None:
        return lambda f: Loop(f, reorder)
    return Loop(function, reorder)


# ---- several cores -----------------------------------------------------------------------------------------------


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def together(parts: Sequence[Callable[[], Any]]) -> None:
    """Run the parts of one loop at once, each on a thread; the first on the caller's."""
    first, *others = parts
    waiting = [_workers().submit(part) for part in others]
    first()
    for part in waiting:
        part.result()


@functools.cache
def _workers() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max(1, cores() - 1), "caffe2lite-loop")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork


def compiled(*operators: registry.Operator) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the compiled kernel of these operators.

    Where it does not fit, it calls the operator itself, which is the plain kernel: `return Adam(xp, ..., out=out)`.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for record in operators:
            record.engine("NUMBA", registry.CPU)(function)
        return function

    return add
