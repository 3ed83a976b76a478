"""The CPU: NumPy arrays."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import cast

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices.base import Array, Device, GpuArray

_ALIGNED, _LINE = 1 << 14, 64  # bytes of arrays that are worth it, and of a cache line
_LARGE = 1 << 28  # elements from which on it is worth asking how much memory there is


def _ensure_memory(size: int) -> None:
    """MemoryError where `size` bytes are more than is free: the system would grant them, and kill the process later."""
    try:
        with open("/proc/meminfo") as f:
            free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return
    if size > free:
        raise MemoryError(f"{size:,} bytes are wanted and {free:,} are free")


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # parameters of mallopt, in glibc's malloc.h


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory: intermediate results of kernels are then made in pages that are there already.

    By itself it gives blocks from 128 KiB on back to the system, and every new one costs a page fault for each 4 KiB
    (a data-parallel LeNet step takes 1.3 times as long).  Settings of the user's, MALLOC_…, stay.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)


_keep_freed_memory()


def aligned(count: int, dtype: DTypeLike) -> np.ndarray:
    """A vector with undefined values; a large one begins at a cache line, so that rows in it share none."""
    dtype = np.dtype(dtype)
    size = count * dtype.itemsize
    if size < _ALIGNED or dtype.hasobject:
        return np.empty(count, dtype)
    memory = np.empty(size + _LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _LINE
    return memory[begin : begin + size].view(dtype)


class Host(Device[np.ndarray]):
    """Host memory and NumPy."""

    type = 0
    id = 0
    name = "cpu"
    xp = np
    in_host_memory = True

    def empty(self, count: int, dtype: DTypeLike) -> np.ndarray:
        if count > _LARGE:
            _ensure_memory(count * np.dtype(dtype).itemsize)
        return aligned(count, dtype)

    def owns(self, array: object) -> bool:
        return isinstance(array, np.ndarray)

    def copy(self, target: np.ndarray, source: Array) -> None:
        np.copyto(target, source if isinstance(source, np.ndarray) else cast(GpuArray, source).get())

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def random(self, seed: int | None) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(seed))


HOST = Host()
