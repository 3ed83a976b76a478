"""Names in messages that come from files.  protobuf hands out what is no UTF-8 as bytes, which no name here may be."""

from __future__ import annotations

import itertools
from typing import Any


def check_names(net: Any) -> None:
    """ValueError where the name of a net, of a type, of a blob or of an argument is not text."""
    kinds = {type(name) for name in (net.name, net.type, *net.external_input, *net.external_output)}
    for op in net.op:
        kinds.update(map(type, _names(op)))
    if kinds != {str}:
        every = itertools.chain((net.name, net.type), net.external_input, net.external_output, *map(_names, net.op))
        name = next(n for n in every if not isinstance(n, str))
        raise ValueError(f"the net has a name that is not UTF-8 text: {name!r}")


def _names(op: Any) -> list[Any]:
    """All names in an operator.  A slice of a repeated field takes half the time of an iteration."""
    names = [op.type, op.name, op.engine, *op.input[:], *op.output[:], *op.control_input[:]]
    if op.arg:
        names += [arg.name for arg in op.arg]
    return names
