"""Init nets as tensors, and tensors as operators of an init net."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from caffe2lite.exchange.formats import CannotHold
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx.helper import c2_native_run_op
from caffe2lite.python.utils import MakeArgument

_FILLS = {
    "float32": "GivenTensorFill", "float64": "GivenTensorDoubleFill", "int64": "GivenTensorInt64Fill",
    "int32": "GivenTensorIntFill", "int16": "GivenTensorInt16Fill", "bool": "GivenTensorBoolFill",
    "object": "GivenTensorStringFill", "uint8": "GivenTensorByteStringToUInt8Fill",
}  # fmt: skip
_CONSTANT = {*_FILLS.values(), "ConstantFill"}  # what makes the same values whenever it runs, and does nothing else


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
    """The tensors that an init net makes."""
    check_fills(net)
    for op in net.op:
        alone = caffe2_pb2.OperatorDef()
        alone.CopyFrom(op)
        alone.ClearField("device_option")
        _, values = c2_native_run_op(alone, {})
        yield str(op.output[0]), values[0]


def fill_of(name: str, array: np.ndarray) -> Any:
    """The operator that makes an array, bit for bit."""
    kind = _FILLS.get(array.dtype.name)
    if kind is None:
        raise CannotHold(
            f"tensor {name!r} is {array.dtype.name}, which no fill operator makes: use a database, or convert it"
        )
    op = caffe2_pb2.OperatorDef(type=kind, output=[name], arg=[MakeArgument("shape", [int(d) for d in array.shape])])
    values = op.arg.add(name="values")
    flat = array.reshape(-1)
    if array.dtype == np.float64 and not np.array_equal(flat.astype(np.float32), flat, equal_nan=True):
        raise CannotHold(
            f"tensor {name!r} is float64, and the arguments of nets are float32: use a database, or convert it"
        )
    if array.dtype.kind == "f":
        values.floats.extend(flat.tolist())
    elif array.dtype == np.uint8:
        values.strings.append(flat.tobytes())
    elif array.dtype == object:
        if not all(isinstance(v, bytes) for v in flat):
            raise CannotHold(f"tensor {name!r} holds records, which no fill operator makes")
        values.strings.extend(flat.tolist())
    else:
        values.ints.extend(flat.astype(np.int64).tolist())
    return op
