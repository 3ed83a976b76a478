"""Memory: how much one result may take, and how large arrays stay in the cache.

What is kept here for speed gained at least 1.2 times on a realistic size; all else is NumPy's own affair.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from caffe2lite.devices.base import Array

BLOCK = 1 << 16  # elements: large enough that calls cost little, small enough for the second cache


@functools.cache
def largest_result() -> int:
    """Bytes that one tensor may take: CAFFE2LITE_LARGEST_RESULT, else 16 GiB or half of the memory if that is less."""
    text = os.environ.get("CAFFE2LITE_LARGEST_RESULT", "")
    if text:
        if not text.isdecimal():
            raise ValueError(f"CAFFE2LITE_LARGEST_RESULT is a number of bytes, and not {text!r}")
        return int(text)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        memory = 1 << 36
    return min(1 << 34, memory // 2)


def check_result(shape: Sequence[int], dtype: npt.DTypeLike) -> None:
    """ValueError for a tensor that would be larger than any may be, before memory is asked for.

    Sizes may come from values, such as the largest of segment ids: one wrong value is not to take all memory.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not size and math.prod(max(d, 1) for d in shape) > largest_result():  # NumPy refuses what it could not multiply
        raise ValueError(f"the empty shape {list(shape)} has dimensions that no tensor can have")
    if size > largest_result():
        raise ValueError(
            f"a tensor of {np.dtype(dtype)} with the shape {list(shape)} takes {size:,} bytes; results of more than "
            f"{largest_result():,} are refused (set CAFFE2LITE_LARGEST_RESULT to allow more)"
        )


ZEROS = 1 << 17  # elements
_zeros: dict[npt.DTypeLike, np.ndarray] = {}


def zeros(dtype: npt.DTypeLike, count: int) -> np.ndarray:
    """A read-only vector of up to ZEROS zeros: with it NumPy's maximum is four times faster than with the number 0."""
    flat = _zeros.get(dtype)
    if flat is None:
        flat = np.zeros(ZEROS, dtype)
        flat.flags.writeable = False
        _zeros[dtype] = flat
    return flat[:count]


def blocks(xp: ModuleType, size: int, block: int = BLOCK) -> Iterator[slice]:
    """Slices that cover `size` elements, small on the CPU; on a GPU one for all.

    An optimizer that makes several passes takes half the time over blocks than over the whole of ten million elements.
    """
    if xp is not np:
        yield slice(0, size)
        return
    for start in range(0, size, block):
        yield slice(start, min(start + block, size))


_LARGE = 1 << 20  # bytes from which on the system's way to clear memory is the quicker one


def clear(array: Array) -> None:
    """Set all to 0.  The C library does it past the cache, in less than half of NumPy's time for what is large."""
    if isinstance(array, np.ndarray) and array.nbytes >= _LARGE and array.flags.c_contiguous and array.dtype != object:
        ctypes.memset(array.ctypes.data, 0, array.nbytes)
    else:
        array[...] = 0


def in_blocks(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a kernel that works element by element: it gets large operands of one shape block by block.

    What it computes on the way stays in the cache, and is not fetched from the system for each operator again: four
    million elements of `1 / (1 + X * X)` take a third of the time.
    """

    @functools.wraps(kernel)
    def run(xp: Any, *operands: Any, out: Callable[..., Any], **args: Any) -> Any:
        first = operands[0]
        if xp is not np or first.size <= BLOCK or any(o is None or o.shape != first.shape for o in operands):
            return kernel(xp, *operands, out=out, **args)
        part = _Part(out, first.shape)
        flats = [o.reshape(-1) for o in operands]
        for part.where in blocks(xp, first.size):
            kernel(xp, *[o[part.where] for o in flats], out=part, **args)
        return part.whole

    return run


class _Part:
    """Allocator of a part of an output: the whole is there from the first part on."""

    def __init__(self, out: Callable[..., Any], shape: tuple[int, ...]) -> None:
        self.out, self.shape = out, shape
        self.where = slice(0)
        self.whole: Any = None

    def __call__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        if self.whole is None:
            self.whole = self.out(self.shape, dtype)
            self._flat = self.whole.reshape(-1)
        return self._flat[self.where]
