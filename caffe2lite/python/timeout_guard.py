"""Ends a process that hangs, after printing where its threads are."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import traceback

logger = logging.getLogger(__name__)


class WatcherThread(threading.Thread):
    """Kills the process unless `completed` is set (under `condition`) within `timeout_secs` seconds."""

    def __init__(self, timeout_secs):
        super().__init__(daemon=True)
        self.timeout_secs = timeout_secs
        self.completed = False
        self.condition = threading.Condition()
        self.caller_thread = threading.current_thread()

    def run(self):
        with self.condition:
            self.condition.wait_for(lambda: self.completed, timeout=self.timeout_secs)
            if self.completed:
                return
        logger.error("Call did not finish in time. Timeout: %ss PID: %s", self.timeout_secs, os.getpid())
        # The watched thread may be stuck in a lock of the logger or of Python's exit: if so, end without them.
        last_resort = threading.Timer(10.0, os.kill, (os.getpid(), signal.SIGKILL))
        last_resort.daemon = True
        last_resort.start()
        for thread_id, frame in sys._current_frames().items():
            logger.error("Thread %s:\n%s", thread_id, "".join(traceback.format_stack(frame)))
        sys.stdout.flush()
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def CompleteInTimeOrDie(timeout_secs):
    """The block has to end within `timeout_secs` seconds, else the process does."""
    watcher = WatcherThread(timeout_secs)
    watcher.start()
    try:
        yield
    finally:
        with watcher.condition:
            watcher.completed = True
            watcher.condition.notify()


def EuthanizeIfNecessary(timeout_secs=120):
    """Call it when the program is about to end: if it has not within `timeout_secs` seconds, it is killed."""
    WatcherThread(timeout_secs).start()
