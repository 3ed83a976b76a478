"""Work that is done aside, on a thread, while the program goes on.  What has not begun when it ends is left."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Worker:
    """A thread that does one work after the other, the first of them `pause` seconds after it was given."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], Any]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        """Do it some time."""
        job: Future[Any] = Future()
        self._waiting.put((job, work, args))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="caffe2lite-aside", daemon=True)
            self._thread.start()
            atexit.register(self._end)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._start_anew)
        return job

    def _serve(self) -> None:
        self._over.wait(self.pause)
        while not self._over.is_set():
            job, work, args = self._waiting.get()
            if self._over.is_set():
                return
            before = sys.getswitchinterval()
            sys.setswitchinterval(1e-4)  # the interpreter's lock is handed on to the others so often, not every 5 ms
            try:
                job.set_result(work(*args))
            except BaseException as e:  # whoever asks for the result gets it
                job.set_exception(e)
            finally:
                sys.setswitchinterval(before)

    def _end(self) -> None:
        self._over.set()
        self._waiting.put((Future(), int, ()))
        if self._thread is not None:
            self._thread.join()  # what is compiling must not meet the end of the process

    def _start_anew(self) -> None:
        """In a forked child: the thread is the parent's, and what waited for it, too."""
        self._thread, self._over, self._waiting = None, threading.Event(), queue.SimpleQueue()
