"""Types and tensors of ONNX, and the fill operators that make them in Caffe2."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx.error import Unsupported
from caffe2lite.python.utils import MakeArgument

_C2 = caffe2_pb2.TensorProto
# {ONNX's number of a type: Caffe2's}, which have the same names.
TYPES = {TensorProto.DataType.Value(_C2.DataType.Name(number)): number for number in dtypes.NUMBERS.values()}
ONNX_TYPES = {caffe2: onnx for onnx, caffe2 in TYPES.items()}
# The fill operator whose tensors have the type, or hold its values without loss.
_FILLS = {
    "float32": "GivenTensorFill",
    "float16": "GivenTensorFill",
    "float64": "GivenTensorDoubleFill",
    "int64": "GivenTensorInt64Fill",
    "uint32": "GivenTensorInt64Fill",
    "uint64": "GivenTensorInt64Fill",
    "bool": "GivenTensorBoolFill",
    "object": "GivenTensorStringFill",
    "int8": "GivenTensorIntFill",
    "int16": "GivenTensorIntFill",
    "int32": "GivenTensorIntFill",
    "uint8": "GivenTensorIntFill",
    "uint16": "GivenTensorIntFill",
}


def onnx_type(dtype):
    """ONNX's number of a NumPy dtype."""
    try:
        return ONNX_TYPES[dtypes.NUMBERS[np.dtype(dtype).name]]
    except KeyError:
        raise Unsupported(f"ONNX tensors of {dtype} are not supported") from None


def caffe2_type(number):
    """Caffe2's number of an ONNX type."""
    if number not in TYPES:
        raise Unsupported(f"Casting to {TensorProto.DataType.Name(number)} is not supported: Caffe2 has no such type")
    return TYPES[number]


def array_of(tensor):
    """The NumPy array of an ONNX TensorProto whose values are in the message."""
    if tensor.data_location == TensorProto.EXTERNAL:
        raise Unsupported(f"tensor {tensor.name!r} keeps its values in another file: load the model with onnx.load")
    return numpy_helper.to_array(tensor)


def fill_operator(array, name):
    """The operator that makes an array."""
    kind = _FILLS.get(array.dtype.name)
    if kind is None:
        raise Unsupported(f"unrecognized tensor type of {name!r}: {array.dtype}")
    op = caffe2_pb2.OperatorDef(type=kind, output=[name])
    op.arg.extend([MakeArgument("shape", [int(d) for d in array.shape])])
    values = op.arg.add(name="values")
    if kind in ("GivenTensorFill", "GivenTensorDoubleFill"):
        values.floats.extend(array.astype(np.float32).ravel().tolist())
    elif kind == "GivenTensorStringFill":
        values.strings.extend(v if isinstance(v, bytes) else str(v).encode() for v in array.ravel())
    else:
        values.ints.extend(array.astype(np.int64).ravel().tolist())
    return op


def fill(tensor, name=""):
    """The operator that makes the values of an ONNX TensorProto, under its name or another one."""
    return fill_operator(array_of(tensor), name or tensor.name)


class DummyNames:
    """Names for blobs that a conversion adds: OC2_DUMMY_0 and so on, but for those in use."""

    def __init__(self):
        self.reset()

    def reset(self, args=None):
        """Start anew; `args` are the names in use."""
        self._used = set(args or ())
        self._next = 0

    def new_dummy_name(self):
        """A name that nothing has."""
        while True:
            name = f"OC2_DUMMY_{self._next}"
            self._next += 1
            if name not in self._used:
                self._used.add(name)
                return name
