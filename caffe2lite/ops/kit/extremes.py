"""Smallest and largest numbers of rows, in compiled loops.

A float32 is compared by its bits, seen as a whole number: those of negative numbers are turned over, so that the order
is that of the numbers, and the processor compares a vector of them at once.  NaN is beyond infinity that way.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays

_U = np.uint64


@loop
def in_order(bits):  # type: ignore[no-untyped-def]
    """Within a loop: the whole number (int32) with a float32's place in the order, for its bits; and back."""
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


def row_bounds(rows: Any) -> tuple[Any, Any]:
    """(smallest, largest) of each row of float32, as columns; NaN where a row has one."""
    low, high = np.empty((2, rows.shape[0], 1), np.float32)
    if rows.size:
        _row_bounds(rows.reshape(-1).view(np.int32), low.reshape(-1).view(np.int32), high.reshape(-1).view(np.int32))
    return low, high


@loop
def _row_bounds(rows, low, high):  # type: ignore[no-untyped-def]
    width, most = _U(rows.size // low.size), np.int32(0x7F800000)
    for k in range(_U(low.size)):
        begin = k * width
        least, largest = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
        for j in range(begin, begin + width):
            x = in_order(rows[j])
            least = min(least, x)
            largest = max(largest, x)
        if largest > most or least < in_order(np.int32(-0x00800000)):  # beyond the infinities
            least = largest = np.int32(0x7FC00000)
        low[k] = in_order(least)
        high[k] = in_order(largest)


def largest_along(xp: ModuleType, X: Any, axis: int) -> Any:
    """X.max(axis), with NaN where there is one; NumPy is slow on the short rows of a last axis."""
    if axis == X.ndim - 1 and X.dtype == np.float32 and pays(xp, X) and X.flags.c_contiguous and X.shape[-1]:
        return row_bounds(X.reshape(-1, X.shape[-1]))[1].reshape(X.shape[:-1])
    return X.max(axis=axis)


def smallest_along(xp: ModuleType, X: Any, axis: int) -> Any:
    """X.min(axis), likewise."""
    if axis == X.ndim - 1 and X.dtype == np.float32 and pays(xp, X) and X.flags.c_contiguous and X.shape[-1]:
        return row_bounds(X.reshape(-1, X.shape[-1]))[0].reshape(X.shape[:-1])
    return X.min(axis=axis)
