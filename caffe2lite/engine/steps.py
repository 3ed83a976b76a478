"""Plans: execution steps over nets, as PlanDef says."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.engine import runner, threads
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.net import quiet
from caffe2lite.engine.workspace import CompiledNet, Workspace
from caffe2lite.proto import caffe2_pb2

ShouldContinue = Callable[[int], bool]


def run_plan(workspace: Workspace, plan: caffe2_pb2.PlanDef) -> bool:
    """Run the steps of a plan in order.

    False where a net stopped; an exception of an operator is raised once all threads have ended.
    """
    nets = _Nets(plan)
    stop = threading.Event()
    return all(Step(step, workspace, nets, stop).run() for step in plan.execution_step)


class _Nets:
    """The nets of a plan, compiled in the workspace of the step that first needs them.

    Nowhere else: what a net makes in the workspace of an instance must not be there for all instances.
    """

    def __init__(self, plan: caffe2_pb2.PlanDef) -> None:
        self.definitions: dict[str, caffe2_pb2.NetDef] = {}
        for net in plan.network:
            if net.name in self.definitions:
                raise EngineError(f"plan {plan.name!r} holds two nets of the name {net.name!r}")
            self.definitions[net.name] = net
        self._made: weakref.WeakKeyDictionary[Workspace, dict[str, CompiledNet]] = weakref.WeakKeyDictionary()

    def get(self, name: str, workspace: Workspace) -> CompiledNet:
        """The net of that name; if the plan has none, the one that is in the workspace."""
        definition = self.definitions.get(name)
        if definition is None:
            return runner.get_net(workspace, name)
        made = self._made.setdefault(workspace, {})
        if name not in made:
            made[name] = runner.create_net(workspace, definition, overwrite=True)
        return made[name]


class Step:
    """A compiled ExecutionStep."""

    def __init__(
        self, step: caffe2_pb2.ExecutionStep, workspace: Workspace, nets: _Nets, stop: threading.Event
    ) -> None:
        self.name = step.name
        self.definition = step
        self.stop = stop
        self.workspace = workspace.child() if step.create_workspace else workspace
        if step.substep and step.network:
            raise EngineError(f"step {step.name!r} has both substeps and nets; it must have one kind")
        self.goes_on = _goes_on(step)
        self.should_stop = self._watch(step.should_stop_blob) if step.HasField("should_stop_blob") else None
        self.nets = [nets.get(name, self.workspace) for name in step.network]
        self.substeps: list[Step] = []
        self.timed: list[tuple[Step, float]] = []
        instances = max(1, step.num_concurrent_instances)
        self.side_by_side = step.concurrent_substeps or instances > 1
        for substep in step.substep:
            if substep.HasField("run_every_ms"):
                made = Step(substep, self.workspace, nets, stop)
                self.timed.append((made, substep.run_every_ms / 1000))
            else:
                self.substeps += [Step(substep, self.workspace, nets, stop) for _ in range(instances)]
        self.report: tuple[CompiledNet, float] | None = None
        if step.HasField("report_net"):
            if not step.HasField("report_interval"):
                raise EngineError(f"step {step.name!r} names a report_net and no report_interval")
            self.report = (nets.get(step.report_net, self.workspace), step.report_interval)

    def _watch(self, name: str) -> Callable[[], bool]:
        blob = self.workspace.create_blob(name)

        def stop() -> bool:
            value = blob.value
            if value is None:
                raise EngineError(f"step {self.name!r}: should_stop_blob {name!r} is uninitialised")
            if getattr(value, "size", 0) != 1 or value.dtype != np.bool_:
                raise EngineError(f"step {self.name!r}: should_stop_blob {name!r} must hold one bool")
            return bool(value.reshape(-1)[0])

        return stop

    def run(self) -> bool:
        """Run the step to its end; False where a net stopped."""
        reporters = _Reporters(self)
        reporters.start()
        try:
            with quiet():
                return self._iterate()
        finally:
            reporters.end()

    def _iterate(self) -> bool:
        iteration = 0
        while self.goes_on(iteration) and not self.stop.is_set():
            if self.nets:
                for net in self.nets:
                    if self.stop.is_set():
                        return True
                    if not net.run():
                        return False
                    if self._told_to_stop():
                        return True
            elif self.side_by_side and len(self.substeps) > 1:
                if not self._run_side_by_side():
                    return False
                if self._told_to_stop():
                    return True
            elif self.substeps:
                for substep in self.substeps:
                    if not substep.run():
                        return False
                    if self._told_to_stop():
                        return True
            elif self._told_to_stop():
                return True
            iteration += 1
        return True

    def cancel(self) -> None:
        """Ask all that runs in this step to end."""
        self.stop.set()
        for net in self.nets:
            net.cancel()
        for substep in self.substeps:
            substep.cancel()

    def _told_to_stop(self) -> bool:
        return self.should_stop is not None and self.should_stop()

    def _run_side_by_side(self) -> bool:
        """All substeps at once, each on its thread; the first exception is raised when all have ended."""
        done = threading.Condition()
        left = len(self.substeps)
        errors: list[BaseException] = []
        good = [True]

        def work(substep: Step) -> None:
            nonlocal left
            try:
                ok = substep.run()
            except BaseException as e:  # carried to the caller's thread
                ok = False
                errors.append(e)
            with done:
                left -= 1
                if not ok:
                    good[0] = False
                    self.stop.set()
                done.notify_all()

        for substep in self.substeps:
            threads.submit(lambda s=substep: work(s))  # type: ignore[misc]
        try:
            with done:
                while left:
                    done.wait()
        except KeyboardInterrupt:
            self.cancel()
            raise
        if errors:
            raise errors[0]
        return good[0]


class _Reporters:
    """Nets and substeps that run by the clock beside a step, and once more at its end."""

    def __init__(self, step: Step) -> None:
        self.jobs: list[tuple[Callable[[], Any], float]] = [(s.run, every) for s, every in step.timed]
        if step.report is not None:
            net, interval = step.report
            self.jobs.append((net.run, interval))
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self) -> None:
        for job, every in self.jobs:
            thread = threading.Thread(target=self._repeat, args=(job, every), daemon=True)
            thread.start()
            self.threads.append(thread)

    def _repeat(self, job: Callable[[], object], every: float) -> None:
        try:
            while not self.over.wait(every):
                job()
            job()
        except BaseException as e:  # carried to the caller's thread
            self.errors.append(e)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def _goes_on(step: caffe2_pb2.ExecutionStep) -> ShouldContinue:
    """Whether iteration k is to run."""
    if step.HasField("should_stop_blob"):
        if step.HasField("num_iter"):
            raise EngineError(f"step {step.name!r} has both num_iter and should_stop_blob; it must have one")
        return (lambda i: i == 0) if step.only_once else (lambda i: True)
    if step.only_once:
        raise EngineError(f"step {step.name!r}: only_once needs a should_stop_blob")
    times = step.num_iter if step.HasField("num_iter") else 1
    return lambda i: i < times
