"""Nets that run as a graph: `dag`, `async_scheduling` and their kin.

Operators keep program order where one reads or writes what another writes.  Operators that block (queues,
collectives) get threads; a graph without any runs in program order on the caller's thread, where it can be replayed, and
replays of several CPU devices get a thread for each.
"""

from __future__ import annotations

import threading
import time

from caffe2lite.devices import HOST
from caffe2lite.devices.cores import lane, several
from caffe2lite.engine import threads
from caffe2lite.engine.dependencies import dependencies
from caffe2lite.engine.errors import StopNet, explain
from caffe2lite.engine.instance import NetMaker, Stale
from caffe2lite.engine.lanes import Lanes
from caffe2lite.engine.net import Net, quiet
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

_WORTH = 2e-3  # seconds of a run of all devices, one after the other, from which on threads for them pay


class GraphNet(Net):
    """A net whose operators wait only for what they need."""

    in_order = False

    def __init__(
        self, definition: caffe2_pb2.NetDef, workspace: Workspace, make_net: NetMaker, once: bool = False
    ) -> None:
        super().__init__(definition, workspace, make_net, once)
        self.parents = dependencies(definition)
        self.children: list[list[int]] = [[] for _ in self.parents]
        for child, parents in enumerate(self.parents):
            for p in parents:
                self.children[p].append(child)
        self.threaded = any(s.record.blocking for s in self.instances)
        self.lane_of = [op.device_option.device_id for op in definition.op]
        self.lanes: Lanes | None = None

    def run(self) -> bool:
        if self.observers or not self.threaded:
            return super().run()
        self.progress.runs += 1
        return _Run(self).wait()

    def _bind(self) -> None:
        super()._bind()
        self.lanes = None
        bound = self._token is not None and self._token[0]
        if bound and len(set(self.lane_of)) > 1 and all(instance.device is HOST for instance in self.instances):
            self.lanes = Lanes(self._calls, self._instance_of, self.lane_of, self.parents)
            self._took = 0.0

    def _replay(self) -> bool:
        """Several devices at once, where the calls of one after the other take long enough."""
        if self.lanes is None or self._took < _WORTH or not several():
            began = time.perf_counter()
            done = super()._replay()
            self._took = time.perf_counter() - began
            return done
        failure = self.lanes.run()
        if failure is None:
            return True
        position, error, left = failure
        self._token = None
        if not isinstance(error, Stale):
            return self._failed(position, error)
        for later in sorted(left):  # the arrays have changed: the rest runs as it would have without lanes
            try:
                self.instances[later].run()
            except Exception as e:
                return self._failed(later, e)
        return True

    def _failed(self, position: int, error: Exception) -> bool:
        """Run what does not depend on the failed operator, as a graph would have; then say what failed."""
        broken = {position}
        stopped = isinstance(error, StopNet)
        for later in range(position + 1, 0 if stopped else len(self.instances)):
            if self.parents[later] & broken:
                broken.add(later)
                continue
            try:
                self.instances[later].run()
            except Exception:  # only the first failure is told
                broken.add(later)
        return super()._failed(position, error)


class _Run:
    """One threaded run of a graph."""

    def __init__(self, net: GraphNet) -> None:
        self.net = net
        self.missing = [len(p) for p in net.parents]
        self.broken: set[int] = set()
        self.error: tuple[int, Exception] | None = None
        self.left = len(net.instances)
        self.done = threading.Condition()
        net.cancelled.clear()

    def wait(self) -> bool:
        ready = [i for i, n in enumerate(self.missing) if not n]
        for i in ready:
            self._start(i)
        try:
            with self.done:
                while self.left:
                    self.done.wait()
        except KeyboardInterrupt:
            self.net.cancel()
            raise
        net = self.net
        if self.error is None:
            return net.ask_gpus(True)
        position, error = self.error
        net.workspace.last_failed_op = position
        if isinstance(error, StopNet):
            net.why_stopped = f"operator {position}, {net.instances[position].op.type}: {error}"
            return False
        raise explain(error, net.instances[position], net.name) from error.__cause__

    def _start(self, position: int) -> None:
        threads.submit(lambda: self._follow(position))

    def _follow(self, position: int | None) -> None:
        """Run an operator, and one of those that it makes ready, and so on; the others get threads of their own."""
        while position is not None:
            failed = position in self.broken
            if not failed:
                try:
                    with quiet(), lane():
                        self.net.instances[position].run()
                except Exception as e:
                    failed = True
                    with self.done:
                        if self.error is None:
                            self.error = (position, e)
            position = self._finished(position, failed)

    def _finished(self, position: int, failed: bool) -> int | None:
        ready = []
        with self.done:
            self.left -= 1
            for child in self.net.children[position]:
                if failed:
                    self.broken.add(child)
                self.missing[child] -= 1
                if not self.missing[child]:
                    ready.append(child)
            if not self.left:
                self.done.notify_all()
        for other in ready[1:]:
            self._start(other)
        return ready[0] if ready else None
