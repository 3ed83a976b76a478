"""What a script calls as `ops`."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python._net_builder.blocks import (
    Loop,
    RunElseNet,
    RunIf,
    RunIfNet,
    RunWhileCondition,
    RunWhileNet,
    SetupBuilder,
    StopGuard,
)
from caffe2lite.python._net_builder.builder import NetBuilder
from caffe2lite.python.task import Task, TaskGroup


class ReporterBuilder(NetBuilder):
    """A block that runs every `interval_ms` milliseconds: while the task of `net` runs, or any task of the node."""

    def __init__(self, interval_ms, net=None, name=None):
        super().__init__(name)
        self._net = net
        self.interval_ms = interval_ms

    def __exit__(self, etype, *args):
        super().__exit__(etype, *args)
        if etype is not None:
            return
        step = core.to_execution_step(self)
        step.RunEveryMillis(self.interval_ms)
        if self._net:
            self._net.add_attribute(Task.REPORT_STEP, step)
        else:
            TaskGroup.current().report_step(step, interval_ms=self.interval_ms)


def _opened(kind, *args, name=None):
    """Return a block of this kind as the next child of the current builder."""
    return NetBuilder.current().add(kind(*args, name=name))


class Operations:
    """What a script calls as `ops`: every operator on the current net, and control flow."""

    def net(self, net=None, name=None):
        """Return the current net; or add `net` and return it; or begin a new net called `name`."""
        if net is not None and name is not None:
            raise AssertionError(f"give net ({net}) or name ({name}), not both")
        if net is not None:
            return NetBuilder.current().add(net)
        return NetBuilder.current().current_net(name=name)

    def __getattr__(self, op_type):
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        if NetBuilder.current(required=False) is None:
            raise AttributeError("No active NetBuilder.")
        return getattr(self.net(), op_type)

    def task_group(self):
        """Return a TaskGroup that runs as the next step of the current builder."""
        return NetBuilder.current().add(TaskGroup())

    def stop(self):
        """End the current builder's execution here."""
        return self.stop_if(ops.Const(True))

    def stop_if(self, blob):
        """End the current builder's execution here when `blob` is true."""
        return NetBuilder.current().stop_if(blob)

    def loop(self, iters=None, name=None):
        """`with ops.loop(10) as loop:` runs its block `iters` times (a number or blob), or until stop_if."""
        return _opened(Loop, iters, name=name)

    def stop_guard(self, has_stopped_blob=None, name=None):
        """Return a block that stop_if leaves; afterwards `guard.has_stopped()` is a blob that says whether it did."""
        return _opened(StopGuard, has_stopped_blob, name=name)

    def If(self, cond, name=None):
        """Return a block that runs when the blob `cond` is true; go on with `c.Elif(cond)` and `c.Else()`."""
        return _opened(RunIf, cond, name=name)

    def IfNet(self, cond, name=None):
        """Return a block that becomes an If operator; `with ops.Else():` may follow."""
        return _opened(RunIfNet, cond, name=name)

    def Else(self, name=None):
        """Return the other branch of the IfNet before it."""
        return RunElseNet(name=name)

    def WhileNet(self, name=None):
        """Return a block that becomes a While operator; it begins with a block `with ops.Condition():`."""
        return _opened(RunWhileNet, name=name)

    def Condition(self, name=None):
        """Return the condition of a WhileNet: the output of its last operator."""
        if not isinstance(NetBuilder.current(), RunWhileNet):
            raise AssertionError("ops.Condition() stands in a `with ops.WhileNet():` block")
        return RunWhileCondition(name=name)

    def _setup(self, key, kind, name=None):
        setup = SetupBuilder(kind, name=name)
        self.net().add_attribute(key, setup)
        return setup

    def task_init(self):
        """Return a block that runs once before the task."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.INIT)

    def task_exit(self):
        """Return a block that runs once after the task."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.EXIT)

    def task_instance_init(self):
        """Return a block that runs before each of the task's instances."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.INIT)

    def task_instance_exit(self):
        """Return a block that runs after each of the task's instances."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.EXIT)

    def local_init(self):
        """Return a block that runs once per node, before all of its tasks."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.INIT)

    def local_exit(self, name=None):
        """Return a block that runs once per node, after all of its tasks."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.EXIT, name=name)

    def task_reporter(self, interval_ms=1000, name=None):
        """Return a block that runs every `interval_ms` milliseconds while the task runs."""
        return ReporterBuilder(interval_ms, net=self.net(), name=name)

    def local_reporter(self, interval_ms=1000, name=None):
        """Return a block that runs every `interval_ms` milliseconds while tasks of this node run."""
        return ReporterBuilder(interval_ms, name=name)


ops = Operations()
