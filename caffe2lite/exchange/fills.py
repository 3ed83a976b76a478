"""Init nets as tensors, and tensors as operators of an init net."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from caffe2lite.exchange.formats import CannotHold
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx.helper import c2_native_run_op
from caffe2lite.python.predictor.mobile_exporter import FILLS, fill_arguments

_CONSTANT = {*FILLS.values(), "ConstantFill"}  # what makes the same values whenever it runs, and does nothing else


def check_fills(net: caffe2_pb2.NetDef) -> None:
    """CannotHold where a net does anything but fill in constants."""
    for i, op in enumerate(net.op):
        if op.type not in _CONSTANT or op.input:
            reads = f" with inputs {', '.join(map(str, op.input))}" if op.input else ""
            raise CannotHold(
                f"operator {i} of net {net.name!r} is {op.type}{reads}: only fill operators of constants are read as tensors. "
                f"Run the net and Save its blobs, then export that"
            )


def made_by(net: caffe2_pb2.NetDef) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors that an init net makes."""
    check_fills(net)
    for op in net.op:
        alone = caffe2_pb2.OperatorDef()
        alone.CopyFrom(op)
        alone.ClearField("device_option")
        _, values = c2_native_run_op(alone, {})
        yield str(op.output[0]), values[0]


def fill_of(name: str, array: np.ndarray) -> caffe2_pb2.OperatorDef:
    """Return the operator that makes an array, bit for bit."""
    kind = FILLS.get(array.dtype.name)
    if kind is None:
        raise CannotHold(
            f"tensor {name!r} is {array.dtype.name}, which no fill operator makes: use a database, or convert it"
        )
    if array.dtype == np.float64 and not np.array_equal(array.astype(np.float32), array, equal_nan=True):
        raise CannotHold(
            f"tensor {name!r} is float64, and the arguments of nets are float32: use a database, or convert it"
        )
    if array.dtype == object and not all(isinstance(v, bytes) for v in array.flat):
        raise CannotHold(f"tensor {name!r} holds records, which no fill operator makes")
    return caffe2_pb2.OperatorDef(type=kind, output=[name], arg=fill_arguments(kind, array))
