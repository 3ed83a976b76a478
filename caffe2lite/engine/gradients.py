"""Gradient operators of an operator, by its maker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.instance import check_schema
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import Forward
from caffe2lite.proto import caffe2_pb2

Gradient = str | tuple[str, str] | None  # dense, or (indices, values)


def gradient_defs(op: caffe2_pb2.OperatorDef, g_output: Sequence[Gradient]) -> tuple[list[Any], list[Any]]:
    """(OperatorDefs, gradient of each input) for an OperatorDef and the gradients of its outputs.

    A gradient is None, a name, or a pair (indices, values).  Device option, engine and arguments of the operator pass
    on to its gradient operators.
    """
    try:
        record = registry.find(op.type)
    except LookupError as e:
        raise OperatorError(str(e)) from None
    if record.gradient is None:
        raise OperatorError(f"operator {op.type} has no gradient here")
    forward = Forward(op, g_output)
    try:
        check_schema(record, op, made=False)
    except ValueError as e:
        takes = f"{op.type}({', '.join(op.input)})"
        raise OperatorError(f"{e}\n  so {takes} does not fit the schema and has no gradient") from None
    try:
        made = list(record.gradient(forward))
    except (ValueError, TypeError, LookupError) as e:
        raise OperatorError(f"{e}\n  while the gradient of {op.type}({', '.join(op.input)}) was made") from None
    for new in made:
        new.is_gradient_op = True
        if forward.copy_device and op.HasField("device_option"):
            new.device_option.CopyFrom(op.device_option)
        if forward.copy_engine and op.HasField("engine"):
            new.engine = op.engine
        if forward.copy_arguments:
            new.arg.MergeFrom(op.arg)
    return made, forward.g_input
