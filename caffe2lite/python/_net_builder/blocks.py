"""Blocks with control flow: loops, conditions, what can be left early, set-up."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python._net_builder.builder import NetBuilder
from caffe2lite.python.control_ops_util import add_if_op, add_while_op


class SetupBuilder(NetBuilder):
    """A block that runs before or after tasks; see `get_setup_nets` of task."""

    INIT = "init"
    EXIT = "exit"

    def __init__(self, type, name=None):
        super().__init__(name)
        self.type = type

    def setup(self, net):
        """Return the step to run before, or None."""
        return self._step_if(SetupBuilder.INIT)

    def exit(self, net):
        """Return the step to run after, or None."""
        return self._step_if(SetupBuilder.EXIT)

    def _step_if(self, kind):
        return core.to_execution_step(self) if self.type == kind else None


class RunOnce(NetBuilder):
    """A block that can be left by stop_if: a loop that stops after its first round."""

    def __init__(self, name=None):
        super().__init__(name)

    def __exit__(self, etype, *args):
        if etype is None and self._stop_blob is not None:
            self.stop_if(self.current_net().Const(True))
        super().__exit__(etype, *args)


class StopGuard(RunOnce):
    """A block that tells afterwards whether stop_if left it."""

    def __init__(self, has_stopped_blob=None, name=None):
        super().__init__(name)
        self._stopped = has_stopped_blob
        self._ran = False

    def __enter__(self):
        builder = super().__enter__()
        self._stopped = self.current_net().Const(True, blob_out=self._stopped)
        return builder

    def __exit__(self, etype, *args):
        if etype is None:
            self._ran = True
            self.current_net().Const(False, blob_out=self._stopped)
        super().__exit__(etype, *args)

    def has_stopped(self):
        """Return a bool blob: whether stop_if left the block."""
        if not self._ran:
            raise AssertionError(f"block {self.name!r} has not been entered yet")
        return self._stopped


class Loop(NetBuilder):
    """A block that runs `iters` times, or until stop_if."""

    def __init__(self, iters=None, name=None):
        super().__init__(name, _stop_blob_required=True)
        self._num_iters = self._iter = None
        if iters is not None:
            net = NetBuilder.current().current_net()  # the block around
            self._inc = net.Const(1)
            self._iter = net.Const(0)
            self._num_iters = iters if isinstance(iters, core.BlobReference) else net.Const(iters)

    def iter(self):
        """Return the blob with the number of the round, from 0."""
        if self._num_iters is None:
            raise AssertionError(f"loop {self.name!r} counts no rounds: give it num_iters")
        return self._iter

    def __enter__(self):
        super().__enter__()
        if self._num_iters is not None:
            self.stop_if(self.current_net().GE([self._iter, self._num_iters]))
        return self

    def __exit__(self, type, *args):
        if type is None and self._num_iters is not None:
            self.current_net().Add([self._iter, self._inc], [self._iter])
        super().__exit__(type, *args)


class RunIf(RunOnce):
    """A block that runs under a condition, unless a block before it in the chain did."""

    def __init__(self, cond_blob=None, name=None, _already_ran=None):
        super().__init__(name)
        if cond_blob is None and _already_ran is None:
            raise AssertionError("If needs a condition")
        self._is_else = cond_blob is None
        net = NetBuilder.current().current_net()  # the block around
        if _already_ran is None:
            self._else_blob = net.Not(cond_blob)
            self._already_ran = net.Const(False)
        else:
            self._already_ran = _already_ran
            self._else_blob = _already_ran if self._is_else else net.Or([_already_ran, net.Not(cond_blob)])

    def __enter__(self):
        builder = super().__enter__()
        self.stop_if(self._else_blob)
        self.current_net().Const(True, blob_out=self._already_ran)
        return builder

    def Elif(self, cond, name=None):
        """Return a block that runs when no block before it did and `cond` is true."""
        if self._is_else:
            raise AssertionError("an Else ends the chain: no Elif after it")
        return NetBuilder.current().add(RunIf(cond, name=name or self.name, _already_ran=self._already_ran))

    def Else(self, name=None):
        """Return a block that runs when no block before it did."""
        if self._is_else:
            raise AssertionError("an Else ends the chain: no second Else")
        return NetBuilder.current().add(RunIf(name=name or self.name, _already_ran=self._already_ran))


class RunIfNet(NetBuilder):
    """A block that becomes an If operator."""

    def __init__(self, cond_blob, name=None):
        super().__init__(name=name, _use_control_ops=True)
        if not cond_blob:
            raise AssertionError("IfNet needs the blob of its condition")
        self._cond_blob = cond_blob
        self._then_net = None
        self._else_net = None

    def __exit__(self, type, *args):
        if type is None:
            self._then_net = self._take_merged() or core.Net("empty_then_net")
            if_net = core.Net(self.name + "/if_net")
            add_if_op(if_net, self._cond_blob, self._lexical_scope, self._then_net, self._else_net)
            self._become(if_net)
        super().__exit__(type, *args)


class RunElseNet(NetBuilder):
    """The other branch of the If operator before it."""

    def __init__(self, name=None):
        parent = NetBuilder.current(required=False)
        if not parent or not parent._children or not isinstance(parent._children[-1], RunIfNet):
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


class RunWhileNet(NetBuilder):
    """A block that becomes a While operator."""

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


class RunWhileCondition(NetBuilder):
    """The block that computes the condition of a While operator."""

    def __init__(self, name=None):
        parent = NetBuilder.current()
        super().__init__(name=name, _use_control_ops=True)
        if parent._cond_builder:
            raise AssertionError(f"Multiple definitions of condition in {parent.name!r}")
        if parent._children:
            raise AssertionError(
                f"Condition definition should be specified first: {parent.name!r} has {len(parent._children)} nets before it"
            )
        parent._cond_builder = self
        self._cond_blob = None
        self._cond_net = None

    def __exit__(self, type, *args):
        if type is None:
            net = self._take_merged()
            if not net or not net.Proto().op or len(net.Proto().op[-1].output) != 1:
                raise AssertionError(f"Invalid loop condition {self.name!r}: its last operator has to have one output")
            self._cond_net = net
            self._cond_blob = core.BlobReference(net.Proto().op[-1].output[0])
            self._become(net)
        super().__exit__(type, *args)
