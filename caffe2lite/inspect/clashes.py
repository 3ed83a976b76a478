"""Shapes and types that do not fit, found without running: the operators' own checks, on arrays that take no memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.engine.inference import inferred
from caffe2lite.engine.instance import check_schema
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.ops.kit.infer import NotKnown, Spec
from caffe2lite.proto import caffe2_pb2

_MOST = 1 << 26  # elements; some checks walk over an array
_FLOATS = ("float16", "float32", "float64")


class _Reached(Exception):
    """The operator has found nothing wrong and begins to compute."""


class _Stop:
    """Stands for the array module and for the outputs: whoever asks it for anything is past his checks."""

    def __getattr__(self, name: str) -> Any:
        raise _Reached

    def __call__(self, *args: Any) -> Any:
        raise _Reached


def clash_of(op: caffe2_pb2.OperatorDef, known: dict[str, Spec]) -> str:
    """Return what is wrong with the shapes or types of an operator's inputs, as running it would say; "" for nothing."""
    record = registry.get(op.type)
    inputs = [spec for name in op.input if (spec := known.get(name)) is not None]
    if record is None or not inputs or len(inputs) < len(op.input):
        return ""
    return _wrong_type(record, op, inputs) or _wrong_shape(record, op, inputs) or _no_result(record, op, inputs)


def _wrong_type(record: registry.Operator, op: caffe2_pb2.OperatorDef, inputs: Sequence[Spec]) -> str:
    table = record.types if op.device_option.device_type == registry.CPU else record.cuda_types
    for i, spec in enumerate(inputs):
        accepted = table.get(i, ())
        if not accepted or spec.dtype is None:
            continue
        if accepted[0] == "=":
            other = int(accepted[1])
            accepted = ((inputs[other].dtype if other < len(inputs) else None) or spec.dtype,)
        if spec.dtype not in accepted:
            return f"{op.type} takes {' or '.join(accepted)} for {op.input[i]!r}, which is {spec.dtype}"
    return ""


def _wrong_shape(record: registry.Operator, op: caffe2_pb2.OperatorDef, inputs: Sequence[Spec]) -> str:
    """Run the plain kernel up to the point where it asks for its output or for the array module.

    Only over numbers that are no indices or lengths: what an operator checks in those are values, not shapes.
    """
    numbers = (*_FLOATS, "int32", "int64") if "class_labels" in record.traits else _FLOATS
    if (
        record.stateful
        or "checks_values" in record.traits
        or any(s.dtype not in numbers or math.prod(s.shape) > _MOST for s in inputs)
    ):
        return ""
    try:
        args = arguments.parse(op.type, record.args, op.arg)
        parameters = record.parameters(args)
    except ValueError:
        return ""  # that is another problem
    if args.get("label_prob"):
        return ""  # these have to sum to 1
    arrays = [np.broadcast_to(np.array(s.dtype in _FLOATS, s.dtype), s.shape) for s in inputs]
    stop = _Stop()
    out = {"out": stop if record.max_outputs == 1 else (stop,) * len(op.output)} if record.takes_out else {}
    try:
        with np.errstate(all="ignore"):
            record.kernels["", None](stop, *arrays, **parameters, **out)
    except ValueError as e:
        return f"{op.type} cannot take {_shapes(op, inputs)}: {e}"
    except Exception:
        return ""  # past its checks, or not to be run like this
    return ""


def _no_result(record: registry.Operator, op: caffe2_pb2.OperatorDef, inputs: Sequence[Spec]) -> str:
    """Say where the outputs of an operator follow from the shapes of its inputs, but not from these."""
    if record.infer is None or not op.output:
        return ""
    try:
        check_schema(record, op)
    except ValueError:
        return ""  # that is another problem
    try:
        inferred(record, op, inputs)
    except NotKnown:
        return ""
    except ValueError as e:
        return f"{op.type} cannot take {_shapes(op, inputs)}: {e}"
    return ""


def _shapes(op: caffe2_pb2.OperatorDef, inputs: Sequence[Spec]) -> str:
    return ", ".join(f"{n} {list(s.shape)}" for n, s in zip(op.input, inputs))
