"""The bound calls of a graph over several CPU devices, each device on a thread: kernels let go of the interpreter.

Within a lane calls keep their order; one that needs what another lane makes waits until that lane has come so far.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from caffe2lite.devices.cores import lane
from caffe2lite.engine import threads
from caffe2lite.engine.net import quiet


class Lanes:
    """What a replay calls, by lane.

    calls      all calls, in program order
    positions  of each call the operator that it belongs to
    lane_of    the lane of each operator
    parents    of each operator those that it must wait for
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        positions: Sequence[int],
        lane_of: Sequence[int],
        parents: Sequence[set[int]],
    ) -> None:
        self._calls: dict[int, list[tuple[int, Callable[[], Any], list[tuple[int, int]]]]] = {}
        self._told = set()  # operators that another lane waits for
        for position, call in zip(positions, calls):
            mine = lane_of[position]
            latest: dict[int, int] = {}
            for p in parents[position]:
                if lane_of[p] != mine:
                    latest[lane_of[p]] = max(p, latest.get(lane_of[p], -1))
            self._told |= set(latest.values())
            self._calls.setdefault(mine, []).append((position, call, list(latest.items())))
        self._news = threading.Condition()

    def run(self) -> tuple[int, Exception, set[int]] | None:
        """Run all lanes.  Where a call raises, (its operator, the exception, the operators that have not run)."""
        self._done = dict.fromkeys(self._calls, -1)  # the last operator of each lane that has run
        self._failure: tuple[int, Exception] | None = None
        left: set[int] = set()
        first, *others = self._calls
        ended = threading.Semaphore(0)

        def aside(number: int) -> None:
            try:
                left.update(self._follow(number))
            finally:
                ended.release()

        for number in others:
            threads.submit(functools.partial(aside, number))
        left |= self._follow(first)
        for _ in others:
            ended.acquire()
        if self._failure is None:
            return None
        return (*self._failure, left)

    def _follow(self, number: int) -> set[int]:
        """Run a lane; the operators of it that have not run, since another failed."""
        calls, done = self._calls[number], self._done
        with quiet(), lane():
            for i, (position, call, needs) in enumerate(calls):
                for other, awaited in needs:
                    if done[other] < awaited:
                        with self._news:
                            self._news.wait_for(functools.partial(self._has_come, other, awaited))
                if self._failure is not None:
                    return {p for p, _, _ in calls[i:]}
                try:
                    call()
                except Exception as e:
                    with self._news:
                        if self._failure is None or position < self._failure[0]:
                            self._failure = position, e
                        self._news.notify_all()
                    return {p for p, _, _ in calls[i:] if p != position}
                last = i + 1 == len(calls) or calls[i + 1][0] != position
                if last and position in self._told:
                    with self._news:
                        done[number] = position
                        self._news.notify_all()
        return set()

    def _has_come(self, number: int, position: int) -> bool:
        """Whether a lane has come so far, or never will."""
        return self._done[number] >= position or self._failure is not None
