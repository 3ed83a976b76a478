"""What every device offers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike


class Array(Protocol):
    """What the arrays of all devices have: NumPy's, CuPy's, and those of emulated GPUs."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def flags(self) -> Any: ...
    @property
    def base(self) -> Any: ...
    def reshape(self, shape: int | tuple[int, ...], /) -> Any: ...
    def transpose(self, *axes: int) -> Any: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...


class GpuArray(Array, Protocol):
    """An array in the memory of a GPU, real or emulated."""

    @property
    def device(self) -> Any: ...
    @property
    def data(self) -> Any: ...
    def get(self, *, out: np.ndarray | None = None) -> np.ndarray: ...
    def set(self, array: np.ndarray) -> None: ...


A = TypeVar("A", bound=Array)  # the arrays of a device


class DeviceError(RuntimeError):
    """A device that does not exist, or an array on the wrong one."""


class Stream:
    """A queue of work; this one, of a device that works at once, is always empty."""

    handle = 0  # as NCCL wants it

    def follow(self) -> None:
        """What is put here from now on waits for what is on the device's own stream now."""

    def mark(self) -> Callable[[], bool]:
        """A question: is all work done that is here now?"""
        return lambda: True


class Device(Generic[A]):
    """An array module with a place: allocation, copies, random state, the context to compute in."""

    type: int  # of DeviceOption
    id: int
    name: str  # as in blob names: "cpu", "gpu_0"
    xp: Any  # the array module
    in_host_memory = False  # whether its arrays are NumPy's
    nccl: Any = None  # CuPy's module of that name, None where there is none

    def __repr__(self) -> str:
        return self.name

    def empty(self, count: int, dtype: DTypeLike) -> Any:
        """A new one-dimensional array."""
        raise NotImplementedError

    def owns(self, array: object) -> bool:
        """Whether the array is here."""
        raise NotImplementedError

    def reads(self, array: object) -> bool:
        """Whether an operator that may read peers can read the array from here."""
        return self.owns(array)

    def reaches(self, other: Device) -> bool:
        """Whether operators here may read arrays of the other GPU."""
        return other is self

    def properties(self) -> dict[str, Any]:
        """Name, version and memory of a GPU."""
        raise NotImplementedError

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes of a GPU."""
        raise NotImplementedError

    def copy(self, target: A, source: Array) -> None:
        """Copy `source`, from any device, into `target`, which is here; both have the same shape and dtype."""
        raise NotImplementedError

    def to_host(self, array: A) -> np.ndarray:
        """A NumPy array with the same values (the array itself on the CPU)."""
        raise NotImplementedError

    def pinned(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """A host array that is quickly copied from and to here."""
        return np.empty(shape, dtype)

    def fetch(self, host: np.ndarray, array: A) -> None:
        """Copy an array from here into a host array."""
        np.copyto(host, self.to_host(array))

    def pointer(self, array: A) -> int:
        """The address of a contiguous array, as NCCL wants it."""
        raise NotImplementedError

    def stream(self) -> int:
        """The handle of the stream on which this device's work is put."""
        return 0

    def side_stream(self) -> Stream:
        """A new stream beside that of the device's other work."""
        return Stream()

    def random(self, seed: int | None) -> Any:
        """A random generator (the interface of numpy.random.Generator) whose arrays are here."""
        raise NotImplementedError

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """What to enter before computing here."""
        return contextlib.nullcontext()

    def after(self, other: Device) -> None:
        """What is put here from now on waits for what has been put on the other GPU by now."""

    def synchronize(self) -> None:
        """Wait until all work here is done."""
