"""How many threads an operator takes: the one place that decides it, by the size of the work and the load of the machine.

OpenBLAS gives every product of more than 2^18 multiplications to all cores, and its threads wait for each other in a
loop: on a machine where other processes run, one of 30 µs takes milliseconds then.  So what takes less than a third of
a millisecond on one core is done by the caller's thread, as Caffe2 does with everything; and all is while other
processes, or other threads with work of their own, leave fewer cores than it would take.

CAFFE2LITE_THREADS=N in the environment is the number for all large work, whatever the load: 1 for a machine that many
share, or for results that do not depend on how a product is divided.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator

LEAST = 1 << 24  # multiplications from which on more threads win more than they risk
_LOOK = 0.25  # seconds between looks at how busy the machine is


@functools.cache
def fixed() -> int | None:
    """The number that the environment fixes; ValueError where it says anything else."""
    text = os.environ.get("CAFFE2LITE_THREADS", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"CAFFE2LITE_THREADS must be a number of threads, 1 or more, and it is {text!r}")
    return int(text)


@functools.cache
def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def wanted(work: int, least: int = LEAST) -> int:
    """How many threads are to share so many steps, of which `least` are worth more than one."""
    if work < least:
        return 1
    if not several():
        return 1
    return max(1, (fixed() or cores()) // max(1, len(_lanes)))


def several() -> bool:
    """Whether more than one thread may work now."""
    many = fixed()
    return many > 1 if many is not None else cores() > 1 and not crowded()


_lanes: list[None] = []  # an entry for each thread of a graph that runs an operator now


@contextlib.contextmanager
def lane() -> Iterator[None]:
    """While this thread runs operators of a graph beside others, it has its share of the cores."""
    _lanes.append(None)
    try:
        yield
    finally:
        _lanes.pop()


# ---- load ------------------------------------------------------------------------------------------------------------


class _Load:
    """What was seen when it was looked last: (clock, seconds that all cores have worked, those of this process)."""

    seen: tuple[float, float, float] | None = None
    crowded = False


def crowded() -> bool:
    """Whether other processes have left fewer cores than this one may use, since it was looked last."""
    now = time.monotonic()
    last = _Load.seen
    if last is None or now - last[0] > _LOOK:
        busy, own = _worked(), time.process_time()
        if busy is None or last is None:
            _Load.crowded = hasattr(os, "getloadavg") and os.getloadavg()[0] > cores() + 0.5
        else:
            others = (busy - last[1] - (own - last[2])) / (now - last[0])
            _Load.crowded = (os.cpu_count() or 1) - others < cores() - 0.4
        _Load.seen = now, busy or 0.0, own
    return _Load.crowded


def _worked() -> float | None:
    """Seconds that all cores have worked since the machine was started; None where nothing tells."""
    try:
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(t) for t in f.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")  # without what it was idle or waited for a disk
