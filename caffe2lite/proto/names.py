"""Names in messages that come from files.  protobuf hands out what is no UTF-8 as bytes, which no name here may be."""

from __future__ import annotations

import itertools
from typing import Any


def check_names(net: Any) -> None:
    """ValueError where the name of a net, of a type, of a blob or of an argument is not text."""
    for name in itertools.chain((net.name, net.type), net.external_input, net.external_output):
        _check(name)
    for op in net.op:
        for name in itertools.chain((op.type, op.name, op.engine), op.input, op.output, op.control_input):
            _check(name)
        for arg in op.arg:
            _check(arg.name)


def _check(name: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"the net has a name that is not UTF-8 text: {name!r}")
