"""Observers: what a net reports about its runs."""

from __future__ import annotations

import time
from typing import Protocol

from caffe2lite.proto import caffe2_pb2


class ObservedNet(Protocol):
    """What an observer sees of a net."""

    definition: caffe2_pb2.NetDef


class Observer:
    """Told when a net and each of its operators starts and stops."""

    def start_net(self, net: ObservedNet) -> None:
        """The net begins to run."""

    def stop_net(self, net: ObservedNet) -> None:
        """The net has ended, or failed."""

    def start_operator(self, net: ObservedNet, position: int) -> None:
        """The operator begins to run."""

    def stop_operator(self, net: ObservedNet, position: int) -> None:
        """The operator has ended."""

    def for_steps(self) -> Observer | None:
        """What observes the nets that an operator of the net runs, step by step."""
        return None

    def average_time(self) -> float:
        """Milliseconds of a run."""
        return 0.0

    def average_time_children(self) -> float:
        """Milliseconds of an operator's run."""
        return 0.0

    def debug_info(self) -> str:
        """What was seen, in words."""
        return ""


class TimeObserver(Observer):
    """Times nets and operators."""

    def __init__(self) -> None:
        self.runs = self.operators = 0
        self.total = self.inside = 0.0
        self._net = self._operator = 0.0

    def start_net(self, net: ObservedNet) -> None:
        self._net = time.perf_counter()

    def stop_net(self, net: ObservedNet) -> None:
        self.total += time.perf_counter() - self._net
        self.runs += 1

    def start_operator(self, net: ObservedNet, position: int) -> None:
        self._operator = time.perf_counter()

    def stop_operator(self, net: ObservedNet, position: int) -> None:
        self.inside += time.perf_counter() - self._operator
        self.operators += 1

    def average_time(self) -> float:
        return 1e3 * self.total / max(1, self.runs)

    def average_time_children(self) -> float:
        return 1e3 * self.inside / max(1, self.operators)


class RunCountObserver(Observer):
    """Counts runs of operators, those of the steps of recurrent nets included."""

    def __init__(self) -> None:
        self.operators = 0

    def start_operator(self, net: ObservedNet, position: int) -> None:
        self.operators += 1

    def for_steps(self) -> Observer:
        return self

    def debug_info(self) -> str:
        return f"This operator runs {self.operators} times."


class ProfileObserver(Observer):
    """Time of each operator of the net."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.lines: dict[int, str] = {}
        self._start = 0.0

    def start_operator(self, net: ObservedNet, position: int) -> None:
        self._start = time.perf_counter()

    def stop_operator(self, net: ObservedNet, position: int) -> None:
        self.seconds[position] = self.seconds.get(position, 0.0) + time.perf_counter() - self._start
        self.lines[position] = net.definition.op[position].type

    def debug_info(self) -> str:
        return "\n".join(f"{i} {self.lines[i]}: {1e3 * s:.3f} ms" for i, s in sorted(self.seconds.items()))


KINDS = {"TimeObserver": TimeObserver, "RunCountObserver": RunCountObserver, "ProfileObserver": ProfileObserver}
