"""Locks that a forked child finds open: the threads that held them are not in it."""

from __future__ import annotations

import os
import threading
import weakref

_made: weakref.WeakSet[threading.Lock | threading.Condition] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock that is open in a child after a fork."""
    made = threading.Lock()
    _made.add(made)
    return made


def condition(of: threading.Lock | None = None) -> threading.Condition:
    """A condition whose lock is open in a child after a fork."""
    made = threading.Condition(of or lock())
    _made.add(made)
    return made


def _open_all() -> None:
    for made in list(_made):
        if isinstance(made, threading.Condition):
            made._waiters.clear()  # type: ignore[attr-defined]  # threads that are not here
        else:
            made._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
