"""Gradients of the control operators Do, If and While: the same operators over gradient subnets.

A Do operator runs its subnet in a workspace that it keeps (on the stack in its last input), so that its gradient finds
there what the subnet computed. `inner_blobs[i]` of a subnet is the outer blob number `outer_blobs_idx[i]` among the
operator's inputs and outputs (without the workspace blob).
"""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._core.arguments import MakeArgument
from caffe2lite.python._core.gradients import IR, GradientRegistry
from caffe2lite.python._core.net import Net
from caffe2lite.python._core.operators import BlobReference, CreateOperator
from caffe2lite.python._core.subnets import (  # noqa: F401 - two of them are this module's
    argument_of,
    disambiguate_grad_if_op_output,
    getNetArgument,
)

_INNER_GRAD = "/_DO_OPERATOR_INNER_GRAD_"
_INNER_GRAD_COPY = "/_DO_OPERATOR_INNER_GRAD_COPY_"


def _operator(op_type, inputs, outputs, **kwargs):
    return CreateOperator(op_type, [BlobReference(b) for b in inputs], [BlobReference(b) for b in outputs], **kwargs)


def dedupe_g_output(op, g_output):
    """Return copies for a gradient that serves several outputs: (Copy operators, the gradients with the copies' names)."""
    copies, gradients, seen = [], [], set()
    for output, gradient in zip(op.output, g_output):
        if gradient is not None and gradient in seen:
            renamed = f"{output}_{gradient}_DEDUP"
            copies.append(_operator("Copy", [gradient], [renamed]))
            gradient = renamed
        elif gradient is not None:
            seen.add(gradient)
        gradients.append(gradient)
    return copies, gradients


def _known(op, g_output):
    """Return {output: gradient}, without outputs that have none."""
    if len(op.output) != len(g_output):
        raise AssertionError(f"{op.type} has {len(op.output)} outputs, got {len(g_output)} gradients")
    return {str(output): str(gradient) for output, gradient in zip(op.output, g_output) if gradient is not None}


def _backward(subnet, gradients):
    """Return (gradient operators, {blob: gradient}) of a subnet; {} for a subnet that makes none of the blobs."""
    made = {output for op in subnet.op for output in op.output}
    here = {blob: gradient for blob, gradient in gradients.items() if blob in made}
    if not here:
        return [], {}
    ops, grad_map = IR(subnet.op).GetBackwardPass(here)
    return ops, {str(blob): str(gradient) for blob, gradient in grad_map.items()}


def _gradient_net(subnet, ops):
    """Return (net of gradient operators, what it reads from outside, what it writes), in order of appearance."""
    net = caffe2_pb2.NetDef(name=subnet.name + "_grad")
    net.op.extend(ops)
    read, written = {}, {}
    for op in ops:
        read.update(dict.fromkeys(blob for blob in op.input if blob not in written))
        written.update(dict.fromkeys(op.output))
    return net, list(read), list(written)


def _like(op, inputs, outputs, arguments):
    """Return the gradient's operator of the same type."""
    grad_op = caffe2_pb2.OperatorDef(type=op.type, name=op.name + "_grad" if op.name else "", is_gradient_op=True)
    grad_op.input.extend(inputs)
    grad_op.output.extend(outputs)
    if op.HasField("device_option"):
        grad_op.device_option.CopyFrom(op.device_option)
    grad_op.arg.extend(arguments)
    return grad_op


def _arguments(**values):
    return [MakeArgument(name, value) for name, value in values.items()]


# --- Do --------------------------------------------------------------------------------------------------------------


def _do_bindings(op):
    """Return (subnet, {outer blob: inner blob}) of a Do operator, after checks."""
    if op.type != "Do":
        raise AssertionError(f"Expected Do op, got {op.type}")
    subnet = getNetArgument(op, "net")
    if subnet is None:
        raise AssertionError(f"No valid net argument found in Do op, which has {[a.name for a in op.arg]}")
    if not op.input or not op.output or op.input[-1] != op.output[-1]:
        raise AssertionError(
            f"The last input and the last output of a Do op are its workspace blob, got {list(op.input)} and {list(op.output)}"
        )
    inner, places = argument_of(op, "inner_blobs"), argument_of(op, "outer_blobs_idx")
    if inner is None or places is None or len(inner.strings) != len(places.ints):
        raise AssertionError("inner_blobs and outer_blobs_idx of a Do op must have the same length")
    outer = [*op.input[:-1], *op.output[:-1]]
    bindings = {}
    for name, place in zip(inner.strings, places.ints):
        if not 0 <= place < len(outer):
            raise AssertionError(f"outer_blobs_idx {place} of a Do op is outside of its {len(outer)} blobs")
        bindings[outer[place]] = name.decode("utf-8")
    return subnet, bindings


@GradientRegistry.RegisterGradient("Do")
def gen_do_gradient(op, g_output):
    """Return (operators, input gradients) of a Do operator."""
    subnet, to_inner = _do_bindings(op)
    to_outer = {inner: outer for outer, inner in to_inner.items()}
    grad_ops, g_output = dedupe_g_output(op, g_output)
    outer_gradients = {}  # blob in the gradient's subnet -> outer gradient
    inner_gradients = {}
    for output, gradient in _known(op, g_output).items():
        if output in to_inner:
            inner = to_inner[output]
            inner_gradients[inner] = inner + _INNER_GRAD
            outer_gradients[inner + _INNER_GRAD] = gradient
    if not inner_gradients:
        raise AssertionError(f"no output of this Do has a gradient: {list(op.output)}")
    inner_ops, inner_map = _backward(subnet, inner_gradients)
    if not inner_ops:
        return [], [None] * (len(op.input) - 1)

    bound, outputs, copies, g_input = {}, [], [], []
    for blob in op.input[:-1]:
        gradient = inner_map.get(to_inner.get(blob))
        if gradient is None:
            g_input.append(None)
            continue
        # A copy, since one inner gradient may be that of several inputs.
        renamed = to_inner[blob] + _INNER_GRAD_COPY
        copies.append(caffe2_pb2.OperatorDef(type="Copy", input=[gradient], output=[renamed]))
        bound[renamed] = blob + "_grad"
        outputs.append(blob + "_grad")
        g_input.append(blob + "_grad")

    inputs, saved, written = [], [], set()
    for inner_op in inner_ops:
        for blob in inner_op.input:
            if blob in written or blob in bound or blob in saved:
                continue
            outer = outer_gradients.get(blob) or to_outer.get(blob)
            if outer is None:  # computed by the subnet: its workspace still has it
                saved.append(blob)
            else:
                bound[blob] = outer
                inputs.append(outer)
        written.update(inner_op.output)

    for name in outputs:
        if name in inputs:  # the subnet has written over its input, of which its gradients may be made
            raise AssertionError(
                f"Reusage of outer blob name {name} in Do op: the subnet works in place; give its result another name"
            )
    net = caffe2_pb2.NetDef(name=subnet.name + "_grad")
    net.op.extend([*inner_ops, *copies])
    workspace_blob = op.input[-1]
    outer = [*inputs, *outputs]
    arguments = _arguments(
        net=net,
        inner_blobs=list(bound),
        outer_blobs_idx=[outer.index(b) for b in bound.values()],
        saved_fwd_blobs=saved,
    )
    grad_ops.append(_like(op, [*inputs, workspace_blob], [*outputs, workspace_blob], arguments))
    return grad_ops, g_input


# --- If --------------------------------------------------------------------------------------------------------------


def _zeros(missing, gradients_before):
    """Return the operators that give the gradients {blob: name} of a branch that has none: zero, or what came from outside."""
    ops = []
    for blob, name in missing.items():
        before = gradients_before.get(blob)
        if before is None:
            ops.append(_operator("ConstantFill", [blob], [name], value=0.0))
        elif before != name:
            ops.append(_operator("Copy", [before], [name]))
    return ops


@GradientRegistry.RegisterGradient("If")
def gen_if_gradient(op, g_output):
    """Return (operators, input gradients) of an If operator."""
    if op.type != "If" or not op.input:
        raise AssertionError(f"Expected an If op with a condition, got {op.type}({', '.join(op.input)})")
    grad_ops, g_output = dedupe_g_output(op, g_output)
    given = _known(op, g_output)
    if not given:
        raise AssertionError(f"no output of this If has a gradient: {list(op.output)}")
    branches = {name: getNetArgument(op, name) for name in ("then_net", "else_net")}
    if branches["then_net"] is None:
        raise AssertionError(f"this If has no argument then_net, only {[a.name for a in op.arg]}")
    parts = {name: _backward(subnet, given) for name, subnet in branches.items() if subnet is not None}
    inputs = op.input[1:]
    merged = {blob: grad_map[blob] for _, grad_map in parts.values() for blob in inputs if blob in grad_map}
    if not any(ops for ops, _ in parts.values()):
        return grad_ops, [None, *(merged.get(blob) for blob in inputs)]

    nets, read, written = {}, {}, {}
    for name in branches:
        ops, grad_map = parts.get(name, ([], {}))
        missing = {blob: gradient for blob, gradient in merged.items() if blob not in grad_map}
        ops = [*ops, *_zeros(missing, given)]
        if branches[name] is None and not ops:
            continue
        subnet = branches[name] if branches[name] is not None else branches["then_net"]
        net, net_read, net_written = _gradient_net(subnet, ops)
        if branches[name] is None:
            net.name += "_auto_else_zero_blobs_"
        else:
            read.update(dict.fromkeys(net_read))
        nets[name] = net
        written.update(dict.fromkeys(net_written))
    grad_ops.append(_like(op, [op.input[0], *read], written, _arguments(**nets)))
    return grad_ops, [None, *(merged.get(blob) for blob in inputs)]


# --- While -----------------------------------------------------------------------------------------------------------


@GradientRegistry.RegisterGradient("While")
def gen_while_gradient(op, g_output):
    """Return (operators, input gradients) of a While operator, whose loop net is one Do operator."""
    if op.type != "While" or not op.input:
        raise AssertionError(f"Expected a While op with a condition, got {op.type}({', '.join(op.input)})")
    grad_ops, g_output = dedupe_g_output(op, g_output)
    given = _known(op, g_output)
    if not given:
        raise AssertionError(f"no output of this While has a gradient: {list(op.output)}")
    loop_net = getNetArgument(op, "loop_net")
    if loop_net is None or len(loop_net.op) != 1 or loop_net.op[0].type != "Do":
        raise AssertionError("a While has a gradient only where its loop_net is one Do (as NetBuilder makes it)")
    body = loop_net.op[0]
    reuse = argument_of(body, "reuse_workspace")
    if reuse is not None and reuse.i:
        raise AssertionError("Gradient While op requires Do loop body op without reuse_workspace")
    workspace_blob = body.output[-1]
    loop_ops, loop_map = _backward(loop_net, given)
    if not loop_ops:
        raise AssertionError(f"nothing in the body of this While has a gradient, of which {sorted(given)} need one")
    loop_grad_net, read, written = _gradient_net(loop_net, loop_ops)

    # Go back through the workspaces that the loop left, round by round; a round's gradients start the one before.
    cond_net, cond_init_net = Net("gradient_loop_cond_net"), Net("gradient_loop_cond_net_init")
    cond_blob = cond_net.NextScopedBlob(cond_net.Name() + "/cond")
    cond_init_net.HasScope([BlobReference(workspace_blob)], [cond_blob])
    cond_net.HasScope([BlobReference(workspace_blob)], [cond_blob])
    for blob, gradient in given.items():
        inner = loop_map.get(blob)
        if inner is not None and inner != gradient:
            cond_net.Copy([BlobReference(inner)], [BlobReference(gradient)])
            cond_init_net.Copy([BlobReference(gradient)], [BlobReference(inner)])
    grad_ops.extend(cond_init_net.Proto().op)
    arguments = _arguments(loop_net=loop_grad_net, cond_net=cond_net.Proto())
    grad_ops.append(_like(op, [str(cond_blob), *read], written, arguments))
    return grad_ops, [loop_map.get(blob) for blob in op.input]
