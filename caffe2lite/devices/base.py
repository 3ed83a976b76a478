"""What every device offers."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np


class DeviceError(RuntimeError):
    """A device that does not exist, or an array on the wrong one."""


class Device:
    """An array module with a place: allocation, copies, random state, the context to compute in."""

    type: int  # of DeviceOption
    id: int
    name: str  # as in blob names: "cpu", "gpu_0"
    xp: Any  # the array module

    def __repr__(self) -> str:
        return self.name

    def empty(self, count: int, dtype: Any) -> Any:
        """A new one-dimensional array."""
        raise NotImplementedError

    def owns(self, array: Any) -> bool:
        """Whether the array is here."""
        raise NotImplementedError

    def reads(self, array: Any) -> bool:
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

    def copy(self, target: Any, source: Any) -> None:
        """Copy `source`, from any device, into `target`, which is here; both have the same shape and dtype."""
        raise NotImplementedError

    def to_host(self, array: Any) -> np.ndarray:
        """A NumPy array with the same values (the array itself on the CPU)."""
        raise NotImplementedError

    def random(self, seed: int | None) -> Any:
        """A random generator (the interface of numpy.random.Generator) whose arrays are here."""
        raise NotImplementedError

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """What to enter before computing here."""
        return contextlib.nullcontext()

    def synchronize(self) -> None:
        """Wait until all work here is done."""
