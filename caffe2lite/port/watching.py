"""What operators do while a script runs: times of each, a trace for Chrome, and the blobs that they make."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import numpy as np

from caffe2lite.engine.errors import describe

_MOST_EVENTS = 1_000_000  # of a trace: about 150 MB of JSON


class Row(NamedTuple):
    """All runs of one type of operator; `own` is the time without that of operators that it ran."""

    type: str
    runs: int
    seconds: float
    own: float
    longest: float


class Profile:
    """Times every operator.  Give `watch` to `engine.instance.watchers`."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}
        self._events: list[tuple[Any, float, float, int]] = []
        self._begin = time.perf_counter()
        self._lock = threading.Lock()
        self._running = threading.local()  # seconds of inner operators, for each that runs on this thread

    def watch(self, instance: Any, run: Callable[[], None]) -> Callable[[], None]:
        """Return a function that runs the operator and notes how long it took."""
        op, sums, events, clock = instance.op, self._sums, self._events, time.perf_counter
        mine = sums.setdefault(op.type, [0, 0.0, 0.0, 0.0])

        def timed() -> None:
            stack = self._running.__dict__.setdefault("stack", [])
            stack.append(0.0)
            start = clock()
            try:
                run()
            finally:
                took = clock() - start
                inner = stack.pop()
                if stack:
                    stack[-1] += took
                with self._lock:
                    mine[0] += 1
                    mine[1] += took
                    mine[2] += took - inner
                    mine[3] = max(mine[3], took)
                    if len(events) < _MOST_EVENTS:
                        events.append((op, start, took, threading.get_ident()))

        return timed

    def rows(self) -> list[Row]:
        """Return the types of operators, those first that took longest by themselves."""
        return sorted(
            (Row(kind, int(n), total, own, most) for kind, (n, total, own, most) in self._sums.items() if n),
            key=lambda row: -row.own,
        )

    def write(self, path: str) -> None:
        """Write the runs as a trace that chrome://tracing and Perfetto read."""
        lanes: dict[int, int] = {}
        events = [
            {
                "name": op.type,
                "cat": "operator",
                "ph": "X",
                "ts": round(1e6 * (start - self._begin), 1),
                "dur": round(1e6 * took, 1),
                "pid": os.getpid(),
                "tid": lanes.setdefault(thread, len(lanes)),
                "args": {"inputs": list(op.input), "outputs": list(op.output)},
            }
            for op, start, took, thread in self._events
        ]
        with open(path, "w") as f:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, f)


class Blobs:
    """Prints what each operator has made: shape, type, least, mean and most, and whether there is NaN or Inf."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def watch(self, instance: Any, run: Callable[[], None]) -> Callable[[], None]:
        """Return a function that runs the operator and prints its outputs."""

        def told() -> None:
            run()
            for blob in instance.outputs:
                self._out.write(f"{instance.op.type} -> {blob.name}: {_told(instance, blob.value)}\n")

        return told


def _told(instance: Any, value: Any) -> str:
    text = describe(value)
    if not hasattr(value, "dtype") or value.dtype.kind not in "biuf" or not value.size:
        return text
    numbers = np.asarray(instance.device.to_host(value) if not isinstance(value, np.ndarray) else value, np.float64)
    good = numbers[np.isfinite(numbers)]
    if good.size:
        text += f" {good.min():.4g} … {good.mean():.4g} … {good.max():.4g}"
    bad = [f"{n} {word}" for n, word in ((np.isnan(numbers).sum(), "NaN"), (np.isinf(numbers).sum(), "Inf")) if n]
    return " ".join([text, *bad])
