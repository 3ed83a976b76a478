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
import ctypes
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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


# ---- OpenBLAS --------------------------------------------------------------------------------------------------------

ALONE = 1 << 18  # multiplications up to which OpenBLAS itself uses one thread


def steps(a: np.ndarray, b: np.ndarray) -> int:
    """How many multiplications a product of two matrices takes."""
    return int(a.shape[-2] * a.shape[-1] * b.shape[-1])


def product(function: Callable[..., Any], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`function(a, b, out)`, a product of matrices or of stacks of them, with the threads that are wanted."""
    library = _openblas()
    given = library[0]() if library else 1
    taken = given if given == 1 or steps(a, b) <= ALONE else min(given, wanted(steps(a, b)))
    if taken == given:
        function(a, b, out)
        return
    set_threads = library[1]  # type: ignore[index]
    set_threads(taken)
    try:
        function(a, b, out)
    finally:
        set_threads(given)


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How many threads NumPy's OpenBLAS uses, and the function that says so; None where NumPy has another library."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[-1].strip() for line in f if "openblas" in line}
    except OSError:
        return None
    for path in sorted(paths, key=lambda p: "numpy" not in p):  # SciPy brings one of its own
        library = ctypes.CDLL(path)
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            get = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            change = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get and change:
                return get, change
    return None
