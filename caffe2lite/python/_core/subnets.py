"""Nets that operators carry in their arguments."""

from __future__ import annotations


def argument_of(op, name):
    """Return the argument `name` of an operator, or None."""
    return next((argument for argument in op.arg if argument.name == name), None)


def getNetArgument(op, net_name):
    """Return the net in the argument `net_name` of an operator, or None."""
    argument = argument_of(op, net_name)
    return argument.n if argument is not None and argument.HasField("n") else None


def disambiguate_grad_if_op_output(grad_op, idx, new_grad_output):
    """Rename output number `idx` of an If operator, in its subnets too."""
    old = grad_op.output[idx]
    for name in ("then_net", "else_net"):
        subnet = getNetArgument(grad_op, name)
        for op in subnet.op if subnet is not None else ():
            op.output[:] = [new_grad_output if blob == old else blob for blob in op.output]
    grad_op.output[idx] = new_grad_output
