"""Nets with control flow, written as Python code: `with NetBuilder(): x = ops.Const(5); with ops.loop(10): …`."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python.context import Managed
from caffe2lite.python.control_ops_util import add_if_op, add_while_op


class NetBuilder(Managed):
    """Collects nets and nested builders as steps that run in order; `ops.X(...)` adds operators to the innermost one.

    With `_use_control_ops` everything becomes one net, with If and While operators; otherwise loops and conditions are
    execution steps that end when their stop blob becomes true.
    """

    def __init__(
        self,
        name=None,
        initial_scope=None,
        _stop_blob_required=False,
        _stop_blob=None,
        _fullname=None,
        _use_control_ops=False,
    ):
        parent = NetBuilder.current(required=False)
        if _fullname and name:
            raise AssertionError(f"give name ({name}) or _fullname ({_fullname}), not both")
        if _use_control_ops and (_stop_blob_required or _stop_blob):
            raise AssertionError("a builder of control operators has no stop blob")
        self.name = _fullname or "/".join(part for part in (parent.name if parent else None, name) if part)
        self._frozen = False
        self._current_net = None
        self._children = []
        if parent:
            parent._update_lexical_scope()
        self._init_lexical_scope = set(parent._lexical_scope) if parent else set()
        self._init_lexical_scope |= {str(blob) for blob in initial_scope or ()}
        self._lexical_scope = set(self._init_lexical_scope)
        self._stop_blob = _stop_blob
        self._stop_blob_required = _stop_blob_required
        self._use_control_ops = _use_control_ops

    def stop_blob(self):
        """The bool blob that ends this builder's steps, made when first asked for."""
        if self._use_control_ops:
            raise AssertionError("a builder of control operators has no stop blob")
        if self._stop_blob is None:
            net = self.current_net()
            self._stop_blob = core.BlobReference(net.NextName("stop_blob"), net=net)
            net.Const(False, blob_out=self._stop_blob)
            if self._current_net is not self._children[0]:
                # Steps check the blob after every net: it has to be there from the first one on.
                self._children.insert(0, core.Net("stop_blob_init"))
                self._children[0].Const(False, blob_out=self._stop_blob)
        return self._stop_blob

    def stop_if(self, blob):
        """End here when `blob` is true."""
        stop_blob = self.stop_blob()
        ops.Or([stop_blob, blob], [stop_blob])
        self._current_net = None

    def _assert_mutable(self):
        if self._frozen:
            raise AssertionError(f"This NetBuilder ({self.name}) has been built already.")

    def _update_lexical_scope(self):
        """Names that a builder inside this one may see now."""
        seen = [self._init_lexical_scope]
        for child in self._children:
            if isinstance(child, core.Net):
                seen.append(child.UsedBlobNames())
            elif isinstance(child, NetBuilder) and child._use_control_ops:
                seen.append(child._lexical_scope)
        self._lexical_scope = set().union(*seen)

    def _reset_children(self):
        self._children = []
        self._current_net = None
        self._lexical_scope = set(self._init_lexical_scope)

    def _take_merged(self):
        """The children as one net (None if there are none), which are forgotten."""
        children = self._children
        self._reset_children()
        return NetBuilder.merge_nets(children, self._lexical_scope)

    def _become(self, net):
        self._current_net = net
        self._children = [net]

    def add(self, child):
        """Append a net, a step or a builder; returns it."""
        self._assert_mutable()
        if self._use_control_ops and not (
            isinstance(child, core.Net) or (isinstance(child, NetBuilder) and child._use_control_ops)
        ):
            raise AssertionError(f"a builder of control operators takes nets and such builders, got {child!r}")
        self._current_net = child if isinstance(child, core.Net) else None
        self._children.append(child)
        self._update_lexical_scope()
        return child

    def current_net(self, name=None):
        """The net that operators are added to; with `name` a new one."""
        self._assert_mutable()
        if self._current_net is None or name is not None:
            self.add(core.Net(name))
        return self._current_net

    def freeze(self):
        """End building."""
        for child in self._children:
            if hasattr(child, "freeze"):
                child.freeze()
        self._current_net = None
        self._frozen = True

    def get(self):
        """The nets, steps and builders, in order; ends building."""
        self.freeze()
        return self._children

    def __exit__(self, etype, *args):
        super().__exit__(etype, *args)
        if self._use_control_ops and self._children:
            self._children = [self._take_merged()]
        self.freeze()
        if etype is None and self._stop_blob_required and self._stop_blob is None:
            raise AssertionError(
                f"This NetBuilder ({self.name}) requires a stop condition to be set with `stop` or `stop_if`"
            )

    @staticmethod
    def merge_nets(nets_or_builders, outer_blob_names):
        """One net of all operators; what it writes to `outer_blob_names` stays an external output."""
        merged = None
        for part in nets_or_builders:
            if isinstance(part, NetBuilder):
                if not part._use_control_ops:
                    raise AssertionError(f"{part} holds execution steps, which cannot become part of a net")
                nets = part.get()
                if not nets:
                    continue
                if len(nets) != 1 or not isinstance(nets[0], core.Net):
                    raise AssertionError(f"{part} must come down to one net, got {nets}")
                part = nets[0]
            elif not isinstance(part, core.Net):
                raise AssertionError(f"only nets and builders can be merged, got {part!r}")
            merged = merged.AppendNet(part) if merged else part
        if merged:
            outputs = merged.Proto().external_output
            kept = [blob for blob in outputs if blob in outer_blob_names]
            del outputs[:]
            outputs.extend(kept)
        return merged

    def __str__(self):
        return self.name or "Un-named NetBuilder"


def _opened(kind, *args, name=None):
    """A block of this kind as the next child of the current builder."""
    return NetBuilder.current().add(kind(*args, name=name))


class Operations:
    """What a script calls as `ops`: every operator on the current net, and control flow."""

    def net(self, net=None, name=None):
        """The current net; or add `net` and return it; or begin a new net called `name`."""
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
        """A TaskGroup that runs as the next step of the current builder."""
        from caffe2lite.python.task import TaskGroup

        return NetBuilder.current().add(TaskGroup())

    def stop(self):
        """End the current builder's execution here."""
        return self.stop_if(ops.Const(True))

    def stop_if(self, blob):
        """End the current builder's execution here when `blob` is true."""
        return NetBuilder.current().stop_if(blob)

    def loop(self, iters=None, name=None):
        """`with ops.loop(10) as loop:` runs its block `iters` times (a number or blob), or until stop_if."""
        return _opened(_Loop, iters, name=name)

    def stop_guard(self, has_stopped_blob=None, name=None):
        """A block that stop_if leaves; afterwards `guard.has_stopped()` is a blob that says whether it did."""
        return _opened(_StopGuard, has_stopped_blob, name=name)

    def If(self, cond, name=None):
        """A block that runs when the blob `cond` is true; go on with `c.Elif(cond)` and `c.Else()`."""
        return _opened(_RunIf, cond, name=name)

    def IfNet(self, cond, name=None):
        """A block that becomes an If operator; `with ops.Else():` may follow."""
        return _opened(_RunIfNet, cond, name=name)

    def Else(self, name=None):
        """The other branch of the IfNet before it."""
        return _RunElseNet(name=name)

    def WhileNet(self, name=None):
        """A block that becomes a While operator; it begins with a block `with ops.Condition():`."""
        return _opened(_RunWhileNet, name=name)

    def Condition(self, name=None):
        """The condition of a WhileNet: the output of its last operator."""
        if not isinstance(NetBuilder.current(), _RunWhileNet):
            raise AssertionError("ops.Condition() stands in a `with ops.WhileNet():` block")
        return _RunWhileCondition(name=name)

    def _setup(self, key, kind, name=None):
        setup = _SetupBuilder(kind, name=name)
        self.net().add_attribute(key, setup)
        return setup

    def task_init(self):
        """A block that runs once before the task."""
        return self._setup(_TASK_SETUP, _SetupBuilder.INIT)

    def task_exit(self):
        """A block that runs once after the task."""
        return self._setup(_TASK_SETUP, _SetupBuilder.EXIT)

    def task_instance_init(self):
        """A block that runs before each of the task's instances."""
        return self._setup(_TASK_INSTANCE_SETUP, _SetupBuilder.INIT)

    def task_instance_exit(self):
        """A block that runs after each of the task's instances."""
        return self._setup(_TASK_INSTANCE_SETUP, _SetupBuilder.EXIT)

    def local_init(self):
        """A block that runs once per node, before all of its tasks."""
        return self._setup(_LOCAL_SETUP, _SetupBuilder.INIT)

    def local_exit(self, name=None):
        """A block that runs once per node, after all of its tasks."""
        return self._setup(_LOCAL_SETUP, _SetupBuilder.EXIT, name=name)

    def task_reporter(self, interval_ms=1000, name=None):
        """A block that runs every `interval_ms` milliseconds while the task runs."""
        return _ReporterBuilder(interval_ms, net=self.net(), name=name)

    def local_reporter(self, interval_ms=1000, name=None):
        """A block that runs every `interval_ms` milliseconds while tasks of this node run."""
        return _ReporterBuilder(interval_ms, name=name)


ops = Operations()

# Attributes of nets under which tasks find these; the same as in Task and TaskGroup.
_TASK_SETUP = "task_setup"
_TASK_INSTANCE_SETUP = "task_instance_setup"
_LOCAL_SETUP = "local_setup"
_REPORT_STEP = "report_step"


class _ReporterBuilder(NetBuilder):
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
            self._net.add_attribute(_REPORT_STEP, step)
        else:
            from caffe2lite.python.task import TaskGroup

            TaskGroup.current().report_step(step, interval_ms=self.interval_ms)


class _SetupBuilder(NetBuilder):
    INIT = "init"
    EXIT = "exit"

    def __init__(self, type, name=None):
        super().__init__(name)
        self.type = type

    def setup(self, net):
        return self._step_if(_SetupBuilder.INIT)

    def exit(self, net):
        return self._step_if(_SetupBuilder.EXIT)

    def _step_if(self, kind):
        return core.to_execution_step(self) if self.type == kind else None


class _RunOnce(NetBuilder):
    """A block that can be left by stop_if: a loop that stops after its first round."""

    def __init__(self, name=None):
        super().__init__(name)

    def __exit__(self, etype, *args):
        if etype is None and self._stop_blob is not None:
            ops.stop()
        super().__exit__(etype, *args)


class _StopGuard(_RunOnce):
    def __init__(self, has_stopped_blob=None, name=None):
        super().__init__(name)
        self._stopped = has_stopped_blob
        self._ran = False

    def __enter__(self):
        builder = super().__enter__()
        self._stopped = ops.Const(True, blob_out=self._stopped)
        return builder

    def __exit__(self, etype, *args):
        if etype is None:
            self._ran = True
            ops.Const(False, blob_out=self._stopped)
        super().__exit__(etype, *args)

    def has_stopped(self):
        """A bool blob: whether stop_if left the block."""
        if not self._ran:
            raise AssertionError(f"block {self.name!r} has not been entered yet")
        return self._stopped


class _Loop(NetBuilder):
    def __init__(self, iters=None, name=None):
        super().__init__(name, _stop_blob_required=True)
        self._num_iters = self._iter = None
        if iters is not None:
            self._inc = ops.Const(1)
            self._iter = ops.Const(0)
            self._num_iters = iters if isinstance(iters, core.BlobReference) else ops.Const(iters)

    def iter(self):
        """The blob with the number of the round, from 0."""
        if self._num_iters is None:
            raise AssertionError(f"loop {self.name!r} counts no rounds: give it num_iters")
        return self._iter

    def __enter__(self):
        super().__enter__()
        if self._num_iters is not None:
            ops.stop_if(ops.GE([self._iter, self._num_iters]))
        return self

    def __exit__(self, type, *args):
        if type is None and self._num_iters is not None:
            self.current_net().Add([self._iter, self._inc], [self._iter])
        super().__exit__(type, *args)


class _RunIf(_RunOnce):
    def __init__(self, cond_blob=None, name=None, _already_ran=None):
        super().__init__(name)
        if cond_blob is None and _already_ran is None:
            raise AssertionError("If needs a condition")
        self._is_else = cond_blob is None
        if _already_ran is None:
            self._else_blob = ops.Not(cond_blob)
            self._already_ran = ops.Const(False)
        else:
            self._already_ran = _already_ran
            self._else_blob = _already_ran if self._is_else else ops.Or([_already_ran, ops.Not(cond_blob)])

    def __enter__(self):
        builder = super().__enter__()
        ops.stop_if(self._else_blob)
        ops.Const(True, blob_out=self._already_ran)
        return builder

    def Elif(self, cond, name=None):
        """A block that runs when no block before it did and `cond` is true."""
        if self._is_else:
            raise AssertionError("an Else ends the chain: no Elif after it")
        return NetBuilder.current().add(_RunIf(cond, name=name or self.name, _already_ran=self._already_ran))

    def Else(self, name=None):
        """A block that runs when no block before it did."""
        if self._is_else:
            raise AssertionError("an Else ends the chain: no second Else")
        return NetBuilder.current().add(_RunIf(name=name or self.name, _already_ran=self._already_ran))


class _RunIfNet(NetBuilder):
    def __init__(self, cond_blob, name=None):
        super().__init__(name=name, _use_control_ops=True)
        if not cond_blob:
            raise AssertionError("IfNet needs the blob of its condition")
        self._cond_blob = cond_blob
        self._then_net = None
        self._else_net = None

    def add(self, child):
        return super().add(child)

    def __exit__(self, type, *args):
        if type is None:
            self._then_net = self._take_merged() or core.Net("empty_then_net")
            if_net = core.Net(self.name + "/if_net")
            add_if_op(if_net, self._cond_blob, self._lexical_scope, self._then_net, self._else_net)
            self._become(if_net)
        super().__exit__(type, *args)


class _RunElseNet(NetBuilder):
    def __init__(self, name=None):
        parent = NetBuilder.current(required=False)
        if not parent or not parent._children or not isinstance(parent._children[-1], _RunIfNet):
            raise AssertionError("ElseNet stands right after an IfNet block")
        super().__init__(name=name, _use_control_ops=True)
        self._if_builder = parent._children[-1]

    def __exit__(self, type, *args):
        if type is None:
            branch = self._if_builder
            branch._else_net = self._take_merged()
            if branch._else_net:
                if_else_net = core.Net(self.name + "/if_else_net")
                add_if_op(if_else_net, branch._cond_blob, self._lexical_scope, branch._then_net, branch._else_net)
                branch._become(if_else_net)
        super().__exit__(type, *args)


class _RunWhileNet(NetBuilder):
    def __init__(self, name=None):
        super().__init__(name=name, _use_control_ops=True)
        self._cond_builder = None

    def __exit__(self, type, *args):
        if type is None:
            condition = self._cond_builder
            if not condition:
                raise AssertionError("a WhileNet block needs a `with ops.Condition():` block in it")
            body = self._take_merged() or core.Net("empty_loop_body_net")
            while_net = core.Net(self.name + "/while_net")
            add_while_op(while_net, condition._cond_blob, self._lexical_scope, body, condition._cond_net)
            self._become(while_net)
        super().__exit__(type, *args)


class _RunWhileCondition(NetBuilder):
    def __init__(self, name=None):
        parent = NetBuilder.current()
        super().__init__(name=name, _use_control_ops=True)
        if parent._cond_builder:
            raise AssertionError("Multiple definitions of condition")
        if parent._children:
            raise AssertionError("Condition definition should be specified first")
        parent._cond_builder = self
        self._cond_blob = None
        self._cond_net = None

    def __exit__(self, type, *args):
        if type is None:
            net = self._take_merged()
            if not net or not net.Proto().op or len(net.Proto().op[-1].output) != 1:
                raise AssertionError("Invalid loop condition: its last operator has to have one output")
            self._cond_net = net
            self._cond_blob = core.BlobReference(net.Proto().op[-1].output[0])
            self._become(net)
        super().__exit__(type, *args)
