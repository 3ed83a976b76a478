"""How a kernel waits, and how it ends its net without an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_GLANCE = 0.1  # seconds between looks at whether the net was cancelled
NEVER = threading.Event()


class StopNet(Exception):
    """A queue was closed, a reader is at its end: the net stops, and its run answers False."""


class Cancelled(RuntimeError):
    """The net was cancelled while an operator waited."""


def wait(
    condition: threading.Condition, ready: Callable[[], object], cancelled: threading.Event, seconds: float = 0.0
) -> bool:
    """Wait, with the condition's lock held, until `ready()`; False where `seconds` (0: no limit) are over."""
    deadline = time.monotonic() + seconds if seconds > 0 else None
    while not ready():
        if cancelled.is_set():
            raise Cancelled("the net was cancelled while this operator waited")
        left = _GLANCE if deadline is None else min(deadline - time.monotonic(), _GLANCE)
        if left <= 0:
            return False
        condition.wait(left)
    return True
