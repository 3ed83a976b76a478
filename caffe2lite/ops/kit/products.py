"""Products of matrices, with as many threads as pay (devices/cores.py decides), and sums that are such products."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from caffe2lite.devices.cores import ALONE, product, steps
from caffe2lite.ops.kit.compiled import loop, pays


def dot(xp: ModuleType, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b, of two matrices."""
    if xp is np and steps(a, b) > ALONE:
        product(np.dot, a, b, out)
    else:
        xp.dot(a, b, out)


def matmul(xp: ModuleType, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a b, of stacks of matrices."""
    if xp is np and steps(a, b) > ALONE:
        product(np.matmul, a, b, out)
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
    if steps(a, b) > ALONE:
        return functools.partial(product, np.dot, a, b, out)
    return functools.partial(a.dot, b, out)
