"""Products of matrices, with as many threads as pay.

OpenBLAS gives every product of more than 2^18 multiplications to all cores, and its threads wait for each other in a
loop: on a machine where other processes run, one of 30 µs takes milliseconds then.  Small ones are computed by the
caller's thread alone, as Caffe2 does with all; and all are while more wants to run than there are cores.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays

_ALONE = 1 << 18  # multiplications up to which OpenBLAS itself uses one thread
_SHARED = 1 << 24  # from which on more threads win more than they risk: a third of a millisecond on one core

_LOOK = 1.0  # seconds between looks at how busy the machine is


def dot(xp: ModuleType, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b, of two matrices."""
    if xp is np and _size(a, b) > _ALONE:
        _product(np.dot, a, b, out)
    else:
        xp.dot(a, b, out)


def matmul(xp: ModuleType, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b, of stacks of matrices."""
    if xp is np and _size(a, b) > _ALONE:
        _product(np.matmul, a, b, out)
    else:
        xp.matmul(a, b, out=out)


def sum_along(xp: ModuleType, X: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """X.sum(axes), in X's type; along the last axes a product with ones, since NumPy is slow on short rows."""
    if xp is np and X.dtype == np.float32 and X.size and axes and axes[-1] == X.ndim - 1:
        front = axes
        while front and front[-1] == X.ndim - len(axes) + len(front) - 1:
            front = front[:-1]
        kept = X.ndim - len(axes) + len(front)
        rows = X.reshape(-1, math.prod(X.shape[kept:]))
        sums = (rows @ np.ones(rows.shape[1], X.dtype)).reshape(X.shape[:kept])
        return sums.sum(axis=front) if front else sums
    return X.sum(axis=axes, dtype=X.dtype)


def abs_sums(xp: ModuleType, rows: np.ndarray) -> np.ndarray:
    """The sum of the absolute values of each row."""
    if rows.dtype == np.float32 and rows.size and pays(xp, rows):
        sums = np.empty(len(rows), np.float32)
        _abs_sums(rows.reshape(-1), sums)
        return sums
    return abs(rows).sum(axis=1)


@loop(reorder=True)
def _abs_sums(rows, sums):  # type: ignore[no-untyped-def]
    width = np.uint64(rows.size // sums.size)
    for k in range(np.uint64(sums.size)):
        total = np.float32(0)
        for j in range(k * width, (k + np.uint64(1)) * width):
            total += abs(rows[j])
        sums[k] = total


def mean_along(xp: ModuleType, X: np.ndarray, axis: int) -> np.ndarray:
    """X.mean(axis); along a last axis a product with ones, since NumPy is slow on short rows."""
    if xp is np and axis == X.ndim - 1 and X.dtype == np.float32 and X.size:
        width = X.shape[-1]
        return (X.reshape(-1, width) @ np.full(width, 1 / width, np.float32)).reshape(X.shape[:-1])
    return X.mean(axis=axis)


def bound_dot(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """A callable that repeats `dot` on these arrays."""
    if _size(a, b) > _ALONE:
        return functools.partial(_product, np.dot, a, b, out)
    return functools.partial(a.dot, b, out)


def _size(a: np.ndarray, b: np.ndarray) -> int:
    return a.shape[-2] * a.shape[-1] * b.shape[-1]


def _product(product: Callable[..., Any], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    library = _openblas()
    threads = library[0]() if library else 1
    if threads == 1 or _size(a, b) >= _SHARED and not _crowded(threads):
        product(a, b, out)
        return
    set_threads = library[1]  # type: ignore[index]
    set_threads(1)
    try:
        product(a, b, out)
    finally:
        set_threads(threads)


_seen: tuple[float, bool] = (-math.inf, False)  # when it was looked last, and what was seen


def _crowded(cores: int) -> bool:
    """Whether more threads want to run, in the last minute on average, than there are cores."""
    global _seen
    now = time.monotonic()
    if now - _seen[0] > _LOOK:
        _seen = now, hasattr(os, "getloadavg") and os.getloadavg()[0] > cores + 0.5
    return _seen[1]


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How many threads NumPy's OpenBLAS uses, and the function that says so; None where NumPy has another library."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[-1].strip() for line in f if "openblas" in line}
    except OSError:
        return None
    for path in sorted(paths, key=lambda p: "numpy" not in p):  # SciPy brings one of its own
        library = ctypes.CDLL(path)
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            get = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            change = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get and change:
                return get, change
    return None
