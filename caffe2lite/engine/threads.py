"""Threads for graphs and plans: as many as there is work, given back when idle.

Operators may block on each other, so a pool of fixed size could deadlock; this one grows.
"""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable

from caffe2lite.ops.kit import locks

_IDLE_SECONDS = 2.0

_lock = locks.condition()
_work: collections.deque[Callable[[], None]] = collections.deque()
_idle = 0


def submit(task: Callable[[], None]) -> None:
    """Run a callable, which must not raise, on some thread, at once."""
    global _idle
    with _lock:
        _work.append(task)
        if _idle >= len(_work):
            _lock.notify()
            return
    threading.Thread(target=_serve, name="caffe2lite-worker", daemon=True).start()


def _serve() -> None:
    global _idle
    while True:
        with _lock:
            _idle += 1
            try:
                if not _lock.wait_for(lambda: _work, _IDLE_SECONDS):
                    return
                task = _work.popleft()
            finally:
                _idle -= 1
        task()
        del task  # it may hold a whole net


def _start_anew() -> None:
    """In a forked child: no thread is idle here, and what waited is the parent's."""
    global _idle
    _idle = 0
    _work.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
