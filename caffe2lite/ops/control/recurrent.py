"""RecurrentNetwork: a step net that runs once for each time step.

Each step has a workspace of its own, whose linked blobs are parts of tensors over all time steps: reading and writing
them moves no data, and each step's net is compiled once and replayed in later runs.  What a step computes stays in its
workspace for the gradient, except the blobs that the gradient computes again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.signals import StopNet
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.caffe2_pb2 import Argument
from caffe2lite.proto.text import ParseError, parse


class ScratchWorkspaces(Object):
    """What a RecurrentNetwork leaves for its gradient: a workspace for all steps, and one for each."""

    title = "the workspaces of a RecurrentNetwork, its last output,"
    type_name = "caffe2::detail::ScratchWorkspaces"

    def __init__(self, shared: Any) -> None:
        self.shared = shared
        self.steps: list[Any] = []

    def step(self, ctx: Any, t: int) -> Any:
        """The workspace of step t."""
        while len(self.steps) <= t:
            self.steps.append(self.shared.child())
        return self.steps[t]


class Link(NamedTuple):
    """A blob of the step net that is a part of an outer blob: `window` time steps, from `offset` after the present."""

    internal: str
    external: str
    offset: int
    window: int


def _links(internal: Any, external: Any, offset: Any, window: Any) -> list[Link]:
    if not len(internal) == len(external) == len(offset):
        raise ValueError(
            f"links must be as many of each: {len(internal)} internal, {len(external)} external, {len(offset)} offsets"
        )
    return [Link(i, e, o, w) for i, e, o, w in zip(internal, external, offset, window or [1] * len(internal))]


def net_of(argument: Any) -> Any:
    """Return the net of an argument, which older programs hold as text."""
    if argument is None:
        return None
    if argument.HasField("n"):
        return argument.n
    net = caffe2_pb2.NetDef()
    try:
        parse(argument.s, net)
    except ParseError as e:
        raise ValueError(f"argument {argument.name} holds no net: {e}") from None
    return net


def _apply(links: list[tuple[Link, Any]], workspace: Any, t: int) -> None:
    """Point the step's blobs at time t of those that they are linked to."""
    for link, blob in links:
        whole = blob.value
        begin = t + link.offset
        if not 0 <= begin <= whole.shape[0] - link.window:
            raise ValueError(
                f"link {link.internal!r} wants step {begin} of {link.external!r}, which has {whole.shape[0]}"
            )
        each = whole.size // whole.shape[0]
        shape = (link.window, *whole.shape[1:])
        workspace.create_local_blob(link.internal).view(blob, begin * each, shape)


def _compile(ctx: Any, workspace: Any, definition: Any, shared: set[str]) -> Any:
    """Return the step's net; what it writes is local to the step, except the `shared` names."""
    if definition.name not in workspace.nets:
        for op in definition.op:
            for name in op.output:
                if name not in shared:
                    workspace.create_local_blob(name)
    return ctx.kept_net(definition, workspace)


def _run(ctx: Any, net: Any) -> None:
    if ctx.observers:
        net.observers[:] = filter(None, (o.for_steps() for o in ctx.observers))
    elif net.observers:
        net.observers.clear()
    if not net.run():
        raise StopNet(f"the step net stopped: {net.why_stopped}")


def _tell_time(workspace: Any, name: str, t: int) -> None:
    workspace.create_local_blob(name).resize((1,), np.int32)[...] = t


def _definition(ctx: Any, argument: Any) -> Any:
    """Return the step net of an argument, made once for this operator."""
    if not hasattr(ctx.state, "step_net"):
        ctx.state.step_net = _on_step_device(ctx, net_of(argument))
    return ctx.state.step_net


def _on_step_device(ctx: Any, definition: Any) -> Any:
    """Return the step net, with the operator's device where it names none."""
    if not ctx.op.HasField("device_option") or definition.HasField("device_option"):
        return definition
    made = caffe2_pb2.NetDef()
    made.CopyFrom(definition)
    made.device_option.CopyFrom(ctx.op.device_option)
    return made


def _check_places(places: Any, count: int, what: str) -> None:
    if any(not 0 <= i < count for i in places):
        raise ValueError(f"{what}={list(places)} must be from 0 to {count - 1}: there are {count} inputs")


def _gradient(g: Any) -> Any:
    wanted = g.arg("outputs_with_grads") or []
    if not wanted:
        raise ValueError("RecurrentNetwork: none of its outputs has a gradient (argument outputs_with_grads)")
    names = [*(g.GO(i) for i in wanted), *g.op.input, *g.op.output]
    states = g.arg("initial_recurrent_state_ids") or []
    return g.single("RecurrentNetworkGradient", names, [g.GI(i) for i in [0, *(g.arg("param") or []), *states]])


@operator(
    "outputs*",
    stateful=True,
    num_inputs=(1, MANY),
    num_outputs=(2, MANY),
    gradient=_gradient,
    step_nets="step_net backward_step_net",
)
def RecurrentNetwork(
    ctx,
    *inputs,
    step_net: Argument,
    timestep: str = "timestep",
    recurrent_states: list[str] = (),
    initial_recurrent_state_ids: list[int] = (),
    link_internal: list[str] = (),
    link_external: list[str] = (),
    link_offset: list[int] = (),
    link_window: list[int] = (),
    alias_src: list[str] = (),
    alias_dst: list[str] = (),
    alias_offset: list[int] = (),
    backward_step_net: Argument | None = None,
    recompute_blobs_on_backward: list[str] = (),
):
    """Run `step_net` for each step of the first input; the last output keeps the steps' workspaces.

    First input [T, N, ...], others as the step needs them, float32 mostly, but of any type; initial states [D], [N, D]
    or [k, N, D] -> outputs [T, N, D], states over T + 1 steps that begin with the initial ones, or parts of them. Links
    make parts of these and of the inputs blobs of the step net; aliases make parts of the states outputs. ValueError
    where lists of links differ in length, a link reaches beyond its tensor, or `step_net` is no net.
    """
    sequence = ctx.inputs[0].value
    if sequence.ndim < 2:
        raise ValueError(f"the first input must have steps and a batch, [T, N, ...], found {list(sequence.shape)}")
    steps, batch = sequence.shape[:2]
    keep = ctx.outputs[-1].value
    if not isinstance(keep, ScratchWorkspaces):
        keep = ScratchWorkspaces(ctx.workspace.child())
        ctx.outputs[-1].hold(keep)
    shared = keep.shared
    _check_places(initial_recurrent_state_ids, len(inputs), "initial_recurrent_state_ids")
    for name, source in zip(recurrent_states, initial_recurrent_state_ids):
        _begin_state(ctx, ctx.workspace.create_blob(name), ctx.inputs[source].value, steps, batch)
    links = _links(link_internal, link_external, link_offset, link_window)
    definition = _definition(ctx, step_net)
    linked = {link.internal for link in links}
    passing = set(recompute_blobs_on_backward)
    if backward_step_net is None:  # nothing is needed after its step
        passing |= {name for op in definition.op for name in op.output}
    passing -= linked
    for name in passing:
        shared.create_local_blob(name)
    linked_blobs = [(link, shared.need_blob(link.external)) for link in links] if steps else []
    for t in range(steps):
        workspace = keep.step(ctx, t)
        _tell_time(workspace, timestep, t)
        _apply(linked_blobs, workspace, t)
        _run(ctx, _compile(ctx, workspace, definition, passing))
    for source, target, offset in zip(alias_src, alias_dst, alias_offset):
        state = shared.need_blob(source)
        whole = state.value
        begin = offset if offset >= 0 else whole.shape[0] + offset
        each = whole.size // whole.shape[0] if whole.shape[0] else 0
        shape = (whole.shape[0] - begin, *whole.shape[1:])
        ctx.workspace.create_blob(target).view(state, begin * each, shape)


def _begin_state(ctx: Any, blob: Any, initial: Any, steps: int, batch: int) -> None:
    """Make a state over all steps, the first of them (or several) filled: one state may serve the whole batch."""
    fits = 1 <= initial.ndim <= 3 and initial.shape[-2:-1] in ((), (1,), (batch,))
    if not fits or (not initial.shape[0] and (initial.ndim < 3 or not steps)):
        raise ValueError(
            f"an initial state must be [D], [{batch}, D] or [steps, {batch}, D], as the first input's batch is; found "
            f"{list(initial.shape)}"
        )
    size = initial.shape[-1]
    first = initial.shape[0] if initial.ndim == 3 else 1
    states = blob.resize((steps + first, batch, size), initial.dtype, ctx.device)
    if initial.ndim == 1:
        states[:first] = initial.reshape(1, 1, size)
    else:
        states[:first] = initial


@operator("gradients*", stateful=True, num_inputs=(0, MANY), num_outputs=(0, MANY), step_nets="backward_step_net")
def RecurrentNetworkGradient(
    ctx,
    *inputs,
    backward_step_net: Argument,
    timestep: str = "timestep",
    outputs_with_grads: list[int] = (),
    recurrent_states: list[str] = (),
    initial_recurrent_state_ids: list[int] = (),
    alias_src: list[str] = (),
    alias_dst: list[str] = (),
    alias_offset: list[int] = (),
    backward_link_internal: list[str] = (),
    backward_link_external: list[str] = (),
    backward_link_offset: list[int] = (),
    backward_link_window: list[int] = (),
    param: list[int] = (),
    param_grads: list[str] = (),
    recompute_blobs_on_backward: list[str] = (),
):
    """Run the step's gradient net backwards through time.

    Inputs are the gradients of the outputs in `outputs_with_grads`, then all inputs and outputs of the forward
    operator; outputs are the gradients of its first input, its parameters and its initial states.

    Gradients [T, N, D] of any type, float32 mostly -> gradients of their operands' shapes. ValueError where lists of
    links differ in length, or a link reaches beyond its tensor; TypeError where the last input is not what a
    RecurrentNetwork keeps.
    """
    given = len(outputs_with_grads)
    values = ctx.inputs[given:]
    if not values:
        raise ValueError(f"there are {given} gradients of outputs (outputs_with_grads), and no inputs behind them")
    keep = needed(ScratchWorkspaces, ctx.inputs[-1].value)
    shared = keep.shared
    if len(ctx.op.output) != 1 + len(param) + len(initial_recurrent_state_ids):
        raise ValueError(
            f"there must be a gradient of the input, of {len(param)} parameters and of {len(initial_recurrent_state_ids)} "
            f"states; {len(ctx.op.output)} outputs are named"
        )
    _check_places(param, len(values), "param")
    _check_places(initial_recurrent_state_ids, len(values), "initial_recurrent_state_ids")
    if not any(name in ctx.op.input[given:] for name in (*alias_dst, *recurrent_states)):
        raise ValueError(
            "none of alias_dst and recurrent_states is among the inputs, which end with the outputs of the forward pass"
        )
    sequence = values[0].value
    if getattr(sequence, "ndim", 0) < 1:
        raise ValueError(f"{ctx.op.input[given]!r}, the input of the forward pass, must be a sequence [T, ...]")
    operands = list(ctx.op.input[given:])
    param_grads = param_grads or [f"{operands[i]}_grad" for i in param]
    # The forward operator's inputs come first, then its outputs: aliases, and states where they are outputs.
    first_output = min(operands.index(name) for name in (*alias_dst, *recurrent_states) if name in operands)
    external = _external_gradients(
        ctx, shared, outputs_with_grads, operands[first_output:], alias_src, alias_dst, alias_offset
    )
    states = _state_gradients(ctx, shared, recurrent_states, external)
    outer = _outer_gradients(ctx, shared, operands, param, param_grads, values)
    links = _links(backward_link_internal, backward_link_external, backward_link_offset, backward_link_window)
    definition = _definition(ctx, backward_step_net)
    sums = [(name, ctx.outputs[1 + i]) for i, name in enumerate(param_grads)]
    written = {name for op in definition.op for name in op.output}
    behind = [k for k in links if k.external in {n + "_grad" for n in recurrent_states} and k.internal in written]
    steps = sequence.shape[0]
    linked = [(k, outer.get(k.external) or shared.need_blob(k.external)) for k in links] if steps else []
    for t in reversed(range(steps)):
        workspace = keep.step(ctx, t)
        _tell_time(workspace, timestep, t)
        _apply(linked, workspace, t)
        net = _compile(ctx, workspace, definition, set(recompute_blobs_on_backward))
        waiting = _set_aside(behind, states, t)
        _run(ctx, net)
        for part, contribution in waiting:
            part += contribution
        for name, total in sums:
            gradient = total.value
            gradient += workspace.need_blob(name).value
    for i, source in enumerate(initial_recurrent_state_ids):
        _end_state(ctx.outputs[1 + len(param) + i], values[source].value, states[recurrent_states[i]], ctx)


def _external_gradients(
    ctx: Any, shared: Any, wanted: Any, outputs: Any, alias_src: Any, alias_dst: Any, alias_offset: Any
) -> dict[str, list[tuple[int, Any]]]:
    """Return {state: (first step, gradient) from outside}, through the outputs that are parts of the state."""
    table: dict[str, list[tuple[int, Any]]] = {}
    for position, index in enumerate(wanted):
        name = outputs[index]
        gradient = ctx.inputs[position].value
        for source, target, offset in zip(alias_src, alias_dst, alias_offset):
            if target == name:
                begin = offset if offset >= 0 else shared.need_blob(source).value.shape[0] + offset
                table.setdefault(source, []).append((begin, gradient))
    return table


def _state_gradients(ctx: Any, shared: Any, names: Any, external: Any) -> dict[str, Any]:
    """Return {state: its gradient over all steps}, which holds what comes from outside."""
    states = {}
    for name in names:
        whole = shared.need_blob(name).value
        states[name] = ctx.workspace.create_blob(name + "_grad").resize(whole.shape, whole.dtype, ctx.device)
        states[name][...] = 0
        for begin, gradient in external.get(name, ()):
            part = states[name][begin : begin + gradient.shape[0]]
            part += gradient
    return states


def _outer_gradients(ctx: Any, shared: Any, operands: Any, param: Any, param_grads: Any, values: Any) -> dict[str, Any]:
    """Return {name in the links: blob}: zeroed gradients of the first input and of the parameters."""
    outer = {}
    for output, source in zip(ctx.outputs, [0, *param]):
        value = values[source].value
        output.resize(value.shape, value.dtype, ctx.device)[...] = 0
        outer[operands[source] + "_grad"] = output
    return outer


def _set_aside(links: list[Link], states: dict[str, Any], t: int) -> list[tuple[Any, Any]]:
    """Return (part of a state's gradient, what came from outside): the step net will overwrite the former."""
    aside = []
    for link in links:
        whole = states[link.external.removesuffix("_grad")]
        part = whole[t + link.offset : t + link.offset + link.window]
        aside.append((part, part.copy()))
    return aside


def _end_state(output: Any, initial: Any, gradients: Any, ctx: Any) -> None:
    """Write the gradient of an initial state, summed over the batch where one served it all."""
    first = initial.shape[0] if initial.ndim == 3 else 1
    part = gradients[:first]
    result = output.resize(initial.shape, initial.dtype, ctx.device)
    if initial.ndim == 1:
        result[...] = part.sum(axis=(0, 1))
    else:
        result[...] = part.reshape(initial.shape)


@operator("blob_names", stateful=True, num_inputs=(1, 1), gradient=FORBID_GRADIENT)
def RecurrentNetworkBlobFetcher(ctx, workspaces, *, prefix: str = ""):
    """Copy what the steps have computed into blobs PREFIX_NAME, with the step at the end; output: their names.

    workspaces -> blob_names [blobs] string; tensors of any type are copied. TypeError where the input is not what a
    RecurrentNetwork keeps.
    """
    names = []
    for t, workspace in enumerate(needed(ScratchWorkspaces, workspaces).steps):
        for name in workspace.local_names():
            blob = workspace.need_blob(name)
            if not blob.is_tensor:
                continue
            target = f"{prefix}_{name}{t}"
            ctx.workspace.create_blob(target).assign(blob.device.to_host(blob.value))
            names.append(target.encode())
    result = np.empty(len(names), object)
    result[:] = names
    return result


@operator(
    "internal external",
    stateful=True,
    num_inputs=(2, 2),
    mutates={1: 1},
    types={"timestep": "int32"},
    host="timestep",
    shapes="external [T, ...]",
)
def rnn_internal_apply_link(ctx, timestep, external, *, offset: int = 0, window: int = 1):
    """Make the first output a name for `window` steps of the external tensor, from timestep + offset on.

    timestep [1] of any integers, external [T, ...] of any type -> internal [window, ...], external. ValueError where
    these steps are not within T.
    """
    begin = _now(timestep) + offset
    if not external.shape[0] or not window > 0 or not 0 <= begin <= external.shape[0] - window:
        raise ValueError(
            f"steps {begin} to {begin + window - 1} are not within the {external.shape[0]} of the external tensor"
        )
    each = external.size // external.shape[0]
    ctx.outputs[0].view(ctx.inputs[1], begin * each, (window, *external.shape[1:]))


def _now(timestep: Any) -> int:
    if timestep.size < 1:
        raise ValueError("the timestep is an empty tensor")
    return int(timestep.reshape(-1)[0])


@operator(
    "gradient*",
    stateful=True,
    num_inputs=(3, 3),
    num_outputs=(1, MANY),
    mutates={2: 0},
    host="timestep",
    types={"timestep": "int32", "gradient": "=external"},
    shapes="external [T, *D], gradient [S, *D]",
)
def rnn_internal_accumulate_gradient_input(ctx, timestep, external, gradient, *, offset: int = 0):
    """Add the external gradient of step timestep + offset to the gradient of that step.

    timestep [1] of any integers, external [T, ...], gradient [T + k, ...] of its type, any type -> gradient. ValueError
    where the step is not within either.
    """
    at = _now(timestep) + offset
    behind = gradient.shape[0] - external.shape[0]
    if not max(behind, 0) <= at < gradient.shape[0]:
        raise ValueError(
            f"step {at} of the gradient {list(gradient.shape)} is not within it, or has none in {list(external.shape)}"
        )
    part = gradient[at : at + 1]
    part += external[at - behind : at + 1 - behind]
