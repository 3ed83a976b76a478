"""The CPU: NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.devices.base import Device


class Host(Device):
    """Host memory and NumPy."""

    type = 0
    id = 0
    name = "cpu"
    xp = np

    def empty(self, count: int, dtype: Any) -> np.ndarray:
        return np.empty(count, dtype)

    def owns(self, array: Any) -> bool:
        return isinstance(array, np.ndarray)

    def copy(self, target: np.ndarray, source: Any) -> None:
        from caffe2lite import devices

        np.copyto(target, source if isinstance(source, np.ndarray) else devices.of(source).to_host(source))

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def random(self, seed: int | None) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(seed))


HOST = Host()
