"""If, While, Do and their scopes: operators that run nets."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.signals import StopNet
from caffe2lite.proto.caffe2_pb2 import NetDef


def _condition(value) -> bool:
    if value.dtype != np.bool_ or value.size != 1:
        raise ValueError(f"the condition must be one bool, got {value.dtype}{list(value.shape)}")
    return bool(value.reshape(-1)[0])


def _run(net) -> None:
    if not net.run():
        raise StopNet(f"net {net.name!r} stopped: {net.why_stopped}")


def _net(ctx, key: str, definition):
    """Return the compiled net of an argument, made once for this operator."""
    if not hasattr(ctx.state, key):
        setattr(ctx.state, key, ctx.net(definition))
    return getattr(ctx.state, key)


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


class WorkspaceStack(Object):
    """Workspaces that Do operators have left for their gradients, the last first."""

    title = "a scope (CreateScope makes one)"
    type_name = "caffe2::detail::WorkspaceStack"

    def __init__(self) -> None:
        self.workspaces: list = []
        self._made: list = []  # (workspace, bindings) of each place on the stack: loops come back to it

    def push(self, parent, bindings) -> None:
        """Put on a workspace under `parent` with these names; the one that stood there serves again where it fits."""
        place = len(self.workspaces)
        if place < len(self._made):
            workspace, bound = self._made[place]
            same = workspace.parent is parent and bound.keys() == bindings.keys()
            if same and all(bound[name] is blob for name, blob in bindings.items()):
                self.workspaces.append(workspace)
                return
        workspace = parent.child()
        workspace.blobs.update(bindings)
        self._made[place : place + 1] = [(workspace, bindings)]
        self.workspaces.append(workspace)

    def forget(self) -> None:
        """The names in the last workspace stand for other blobs now: it cannot serve again."""
        self._made[len(self.workspaces) - 1] = (self.workspaces[-1], {})


@operator("scope", stateful=True, gradient=FORBID_GRADIENT)
def CreateScope(ctx):
    """A new empty stack of workspaces.

    scope; no tensors, of any type. There is no Error to expect.
    """
    present = ctx.outputs[0].value
    if not isinstance(present, WorkspaceStack):
        return WorkspaceStack()
    present.workspaces.clear()
    return None


@operator("has_scope", stateful=True, gradient=FORBID_GRADIENT)
def HasScope(ctx, scope, *, out):
    """Whether there are workspaces left on the stack.

    scope -> has_scope [1] bool. TypeError where the input is no scope.
    """
    answer = out((1,), np.bool_)
    answer[...] = bool(needed(WorkspaceStack, scope).workspaces)
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
    scope = needed(WorkspaceStack, ctx.outputs[-1].value)
    bindings = _bindings(ctx, inner_blobs, outer_blobs_idx)
    backward = ctx.op.is_gradient_op
    if backward:
        if not scope.workspaces:
            raise ValueError(f"the scope {ctx.op.output[-1]!r} is empty: the forward Do has not run")
        workspace = scope.workspaces.pop()
        for inner, blob in bindings.items():
            workspace.blobs.setdefault(inner, blob)  # what the forward run left there stays
    elif reuse_workspace and scope.workspaces:
        workspace = scope.workspaces[-1]
        workspace.blobs.update(bindings)
    else:
        scope.push(ctx.workspace, bindings)
        workspace = scope.workspaces[-1]
    _run(ctx.kept_net(net, workspace))
    if copy_external_blobs and not backward:
        _keep_values(workspace, bindings)
        scope.forget()


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


def _keep_values(workspace, bindings) -> None:
    """Replace names for outer tensors by copies, since the outer ones change before the gradient runs."""
    for inner, blob in bindings.items():
        del workspace.blobs[inner]
        copy = workspace.create_local_blob(inner)
        if blob.is_tensor:
            copy.assign(blob.value, blob.device)
        else:
            copy.hold(blob.value)


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
