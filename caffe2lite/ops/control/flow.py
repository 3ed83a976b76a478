"""If, While, Do and their scopes: operators that run nets."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.signals import StopNet
from caffe2lite.proto.caffe2_pb2 import NetDef


def _condition(value) -> bool:
    if value.dtype.kind != "b" or value.size != 1:
        raise ValueError(f"the condition must be one bool, got {value.dtype}{list(value.shape)}")
    return bool(value.item())


def _run(net) -> None:
    if not net.run():
        raise StopNet(f"net {net.name!r} stopped: {net.why_stopped}")


def _net(ctx, key: str, definition):
    """Return the compiled net of an argument, made once for this operator."""
    found = getattr(ctx.state, key, None)
    if found is None:
        found = ctx.net(definition)
        setattr(ctx.state, key, found)
    return found


@operator("outputs*", stateful=True, host="condition", anywhere="inputs", uninitialised="inputs", num_inputs=(1, MANY),
          num_outputs=(0, MANY), inplace=[(-1, -1)])  # fmt: skip
def If(ctx, condition, *inputs, then_net: NetDef, else_net: NetDef | None = None):
    """Run `then_net` where the condition is true, else `else_net`, in the operator's own workspace.

    condition [1] bool, inputs [...] of any type, which the nets read by name -> outputs, which they write by name.
    ValueError where the condition is not one bool; the Error of an operator in the nets.
    """
    if _condition(condition):
        _run(_net(ctx, "then_net", then_net))
    elif else_net is not None:
        _run(_net(ctx, "else_net", else_net))


@operator("outputs*", stateful=True, host="condition", anywhere="inputs", uninitialised="inputs", num_inputs=(1, MANY),
          num_outputs=(0, MANY), inplace=[(-1, -1)])  # fmt: skip
def While(ctx, condition, *inputs, loop_net: NetDef, cond_net: NetDef | None = None):
    """Run `loop_net` as long as the condition is true; `cond_net`, if given, makes the condition each time.

    condition [1] bool, inputs [...] of any type, which the nets read by name -> outputs, which they write by name.
    ValueError where the condition is not one bool; the Error of an operator in the nets.
    """
    while True:
        if cond_net is not None:
            _run(_net(ctx, "cond_net", cond_net))
        if not _condition(ctx.inputs[0].value):
            return
        _run(_net(ctx, "loop_net", loop_net))


class Scope:
    """A workspace that a Do operator has run in, which serves it again in the next run."""

    def __init__(self, workspace, bindings) -> None:
        self.workspace, self.bindings = workspace, bindings
        self.saved: dict = {}  # copies of outer tensors, which change before the gradient runs
        self.gradients: dict = {}  # what the gradient Do has bound here

    def fits(self, parent, bindings) -> bool:
        """Whether the names stand for the same blobs as before."""
        return self.workspace.parent is parent and self.bindings == bindings

    def save(self) -> None:
        """Copy the outer tensors for the gradient."""
        for inner, blob in self.bindings.items():
            copy = self.saved.get(inner) or self.saved.setdefault(inner, type(blob)(inner))
            if blob.is_tensor:
                copy.assign(blob.value, blob.device)
            else:
                copy.hold(blob.value)

    def turn_back(self, bindings) -> None:
        """Make the workspace ready for the gradient: what the forward run left there stays."""
        blobs = self.workspace.blobs
        if self.gradients and self.gradients != bindings:
            self.workspace.nets.clear()
            for inner in self.gradients.keys() - self.bindings.keys():
                blobs.pop(inner, None)
        self.gradients = bindings
        blobs.update(self.saved)
        for inner, blob in bindings.items():
            blobs.setdefault(inner, blob)


class WorkspaceStack(Object):
    """Scopes that Do operators have left for their gradients, the last first."""

    title = "a scope (CreateScope makes one)"
    type_name = "caffe2::detail::WorkspaceStack"

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self._made: list[Scope] = []  # at each place of the stack: loops come back to it

    def push(self, parent, bindings) -> Scope:
        """Put on a scope under the workspace `parent` with these names; the one that stood there serves again if it fits."""
        place = len(self.scopes)
        if place < len(self._made) and self._made[place].fits(parent, bindings):
            scope = self._made[place]
        else:
            scope = Scope(parent.child(), bindings)
            scope.workspace.blobs.update(bindings)
            self._made[place : place + 1] = [scope]
        if scope.saved or scope.gradients:  # the gradient has put other blobs there
            scope.workspace.blobs.update(bindings)
        self.scopes.append(scope)
        return scope


@operator("scope", stateful=True, gradient=FORBID_GRADIENT)
def CreateScope(ctx):
    """A new empty stack of workspaces.

    scope; no tensors, of any type. There is no Error to expect.
    """
    present = ctx.outputs[0].value
    if not isinstance(present, WorkspaceStack):
        return WorkspaceStack()
    present.scopes.clear()
    return None


@operator("has_scope", stateful=True, gradient=FORBID_GRADIENT)
def HasScope(ctx, scope, *, out):
    """Whether there are workspaces left on the stack.

    scope -> has_scope [1] bool. TypeError where the input is no scope.
    """
    answer = out((1,), np.bool_)
    answer[...] = bool(needed(WorkspaceStack, scope).scopes)
    return answer


@operator("outputs*", stateful=True, num_inputs=(1, MANY), num_outputs=(1, MANY), inplace=[(-1, -1)])
def Do(
    ctx,
    *inputs,
    net: NetDef,
    inner_blobs: list[str] = (),
    outer_blobs_idx: list[int] = (),
    saved_fwd_blobs: list[str] = (),
    reuse_workspace: bool = False,
    copy_external_blobs: bool = False,
):
    """Run `net` in a workspace of its own, where `inner_blobs` are names for the operator's operands.

    The last input and output is the stack of CreateScope: a forward Do leaves its workspace there, and the gradient
    Do (`is_gradient_op`) takes it from there again.

    Inputs and outputs [...] of any type; inner_blobs[k] is operand outer_blobs_idx[k], counted over the inputs, then
    the outputs. ValueError where the two lists differ in length, an index is no operand, or a gradient Do finds the
    scope empty; TypeError where the last output is no scope.
    """
    stack = needed(WorkspaceStack, ctx.outputs[-1].value)
    if not hasattr(ctx.state, "bindings"):
        ctx.state.bindings = _bindings(ctx, inner_blobs, outer_blobs_idx)
    bindings = ctx.state.bindings
    backward = ctx.op.is_gradient_op
    if backward:
        if not stack.scopes:
            raise ValueError(f"the scope {ctx.op.output[-1]!r} is empty: the forward Do has not run")
        scope = stack.scopes.pop()
        scope.turn_back(bindings)
    elif reuse_workspace and stack.scopes:
        scope = stack.scopes[-1]
        scope.workspace.blobs.update(bindings)
    else:
        scope = stack.push(ctx.workspace, bindings)
    _run(ctx.kept_net(net, scope.workspace))
    if copy_external_blobs and not backward:
        scope.save()


def _bindings(ctx, inner_blobs, outer_blobs_idx):
    """Return {inner name: the operand's blob}."""
    if len(inner_blobs) != len(outer_blobs_idx):
        raise ValueError(f"{len(inner_blobs)} inner_blobs are given and {len(outer_blobs_idx)} outer_blobs_idx")
    outer = [*ctx.inputs[:-1], *ctx.outputs[:-1]]
    bindings = {}
    for inner, index in zip(inner_blobs, outer_blobs_idx):
        if not 0 <= index < len(outer):
            raise ValueError(f"outer_blobs_idx {index} of {inner!r} is not within 0 to {len(outer) - 1}")
        bindings[inner] = outer[index]
    return bindings


@operator(
    "Ys*",
    peer="any",
    num_inputs=(1, MANY),
    num_outputs=(1, MANY),
    inplace=[(i, i) for i in range(32)],
    stateful=True,
    gradient=FORBID_GRADIENT,
)
def AsyncNetBarrier(ctx, *Xs, cross_device: int = 0, out):
    """Ys = Xs: a place in the graph that the operators before it must reach first.

    Inputs [...] of any type, on any device -> as many outputs of their shapes. ValueError where there are not as many.
    """
    if len(Xs) != len(ctx.outputs):
        raise ValueError(f"AsyncNetBarrier has {len(Xs)} inputs and {len(ctx.outputs)} outputs: they must be as many")
    for i, X in enumerate(Xs):
        Y = out[i](X.shape, X.dtype)
        if Y is not X:
            ctx.inputs[i].device.copy(Y, X)


@operator("outputs*", stateful=True, num_inputs=(2, MANY), num_outputs=(0, MANY), inplace=[(-1, -1)])
def ONNXWhile(
    ctx,
    max_trip_count,
    first_iter_condition,
    *carried,
    body: NetDef,
    has_trip_count: int = 0,
    has_cond: int = 0,
    save_scopes: int = 0,
    disable_scopes: int = 0,
):
    """ONNX's Loop: `body` takes (iteration, condition, carried…) and makes (condition, carried…, scanned…).

    Outputs are the carried values of the last iteration, then what was scanned, one after the other along axis 0.

    max_trip_count [1] of any integers, first_iter_condition [1] bool, carried [...] of any type -> outputs [...], and
    [rows of all iterations, ...]. ValueError where the body has too few inputs or outputs, or a condition is not one
    bool.
    """
    workspace = ctx.workspace if disable_scopes else ctx.workspace.child()
    count = len(carried)
    if len(body.external_input) < 2 + count or len(body.external_output) < 1 + count:
        raise ValueError(
            "the body must take (iteration, condition, carried…) and make (condition, carried…, scanned…), with "
            f"{count} carried; found {len(body.external_input)} inputs and {len(body.external_output)} outputs"
        )
    names = list(body.external_input)[: 2 + count]
    scanned_names = list(body.external_output)[1 + count :]
    scanned: list[list] = [[] for _ in scanned_names]
    most = int(max_trip_count.reshape(-1)[0]) if has_trip_count else None
    go_on = _condition(first_iter_condition) if has_cond else True
    for name, value in zip(names[2:], carried):
        workspace.create_local_blob(name).assign(value)
    iteration = 0
    net = None
    while go_on and (most is None or iteration < most):
        workspace.create_local_blob(names[0]).assign(np.asarray(iteration, np.int64))
        workspace.create_local_blob(names[1]).assign(np.asarray(go_on))
        net = net or ctx.net(body, workspace)
        _run(net)
        iteration += 1
        if has_cond:
            go_on = _condition(workspace.need_blob(body.external_output[0]).value)
        made = [np.array(workspace.need_blob(n).value) for n in body.external_output[1 : 1 + count]]
        for name, value in zip(names[2:], made):
            workspace.create_local_blob(name).assign(value)
        for column, name in zip(scanned, scanned_names):
            column.append(np.array(workspace.need_blob(name).value))
    for blob, name in zip(ctx.outputs, names[2:]):
        blob.assign(workspace.need_blob(name).value)
    for blob, column in zip(ctx.outputs[count:], scanned):
        blob.assign(np.concatenate([np.atleast_1d(c) for c in column]) if column else np.empty((0,), np.int32))
