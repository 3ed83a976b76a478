"""Working memory for kernels of several passes, and the cache-sized blocks in which they go over large arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from caffe2lite.devices.cpu import aligned

BLOCK = 1 << 16  # elements: large enough that calls cost little, small enough for the second cache


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.flat: dict[Any, np.ndarray] = {}


_buffers = _Buffers()


def scratch(xp: Any, shape: tuple[int, ...], dtype: Any, slot: int = 0) -> Any:
    """An array of this thread with undefined values, valid until the next call with the same slot and dtype.

    CuPy's memory pool serves as well, so that on a GPU it is just a new array.
    """
    if xp is not np:
        return xp.empty(shape, dtype)
    count = 1
    for d in shape:
        count *= d
    if count > 64 * BLOCK:  # too large to keep
        return np.empty(shape, dtype)
    flat = _buffers.flat.get((slot, dtype))
    if flat is None or flat.size < count:
        flat = _buffers.flat[slot, dtype] = aligned(max(count, BLOCK), dtype)
    return flat[:count].reshape(shape)


ZEROS = 1 << 17  # elements
_zeros: dict[Any, np.ndarray] = {}


def zeros(dtype: Any, count: int) -> np.ndarray:
    """A read-only vector of up to ZEROS zeros: with it NumPy's maximum is several times faster than with 0."""
    flat = _zeros.get(dtype)
    if flat is None:
        flat = np.zeros(ZEROS, dtype)
        flat.flags.writeable = False
        _zeros[dtype] = flat
    return flat[:count]


def blocks(xp: Any, size: int, block: int = BLOCK) -> Iterator[slice]:
    """Slices that cover `size` elements, small on the CPU; on a GPU one for all."""
    if xp is not np:
        yield slice(0, size)
        return
    for start in range(0, size, block):
        yield slice(start, min(start + block, size))
