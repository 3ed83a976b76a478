"""Statistics: named int64 counters that operators add to and StatRegistryExport reads."""

from __future__ import annotations

import time

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.objects import Object

_LEAST = -(1 << 63)  # of an int64


class StatRegistry(Object):
    """A table of counters with the time of their last change."""

    title = "a registry of statistics (StatRegistryCreate makes one)"
    type_name = "std::unique_ptr<caffe2::StatRegistry>"

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._values: dict[str, tuple[int, int]] = {}

    def add(self, name: str, value: int) -> None:
        """Add to a counter, making it if need be.  Sums beyond 64 bits wrap around, as those of an int64 do."""
        with self._lock:
            total = self._values.get(name, (0, 0))[0] + value
            if not _LEAST <= total < -_LEAST:
                total = (total - _LEAST) % (-2 * _LEAST) + _LEAST
            self._values[name] = (total, time.time_ns())

    def publish(self, reset: bool = False) -> dict[str, tuple[int, int]]:
        """{name: (value, time in ns)}; with `reset`, all counters start at 0 again."""
        with self._lock:
            values = dict(self._values)
            if reset:
                self._values = {name: (0, stamp) for name, (_, stamp) in values.items()}
        return values


registry = StatRegistry()
