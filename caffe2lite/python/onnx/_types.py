"""Types and tensors of ONNX, and the fill operators that make them in Caffe2."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx.error import Unsupported
from caffe2lite.python.predictor.mobile_exporter import FILLS, fill_arguments

_C2 = caffe2_pb2.TensorProto
# {ONNX's number of a type: Caffe2's}, which have the same names.
TYPES = {TensorProto.DataType.Value(_C2.DataType.Name(number)): number for number in dtypes.NUMBERS.values()}
ONNX_TYPES = {caffe2: onnx for onnx, caffe2 in TYPES.items()}
# The fill operator whose tensors have the type, or hold its values without loss.
_FILLS = {
    **FILLS,
    "float16": "GivenTensorFill",
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), "GivenTensorIntFill"),
    **dict.fromkeys(("uint32", "uint64"), "GivenTensorInt64Fill"),
}


def onnx_type(dtype):
    """Return ONNX's number of a NumPy dtype."""
    try:
        return ONNX_TYPES[dtypes.NUMBERS[np.dtype(dtype).name]]
    except KeyError:
        raise Unsupported(f"ONNX tensors of {dtype} are not supported") from None


def caffe2_type(number):
    """Return Caffe2's number of an ONNX type."""
    if number not in TYPES:
        raise Unsupported(f"Casting to {TensorProto.DataType.Name(number)} is not supported: Caffe2 has no such type")
    return TYPES[number]


def array_of(tensor):
    """Return the NumPy array of an ONNX TensorProto whose values are in the message."""
    if tensor.data_location == TensorProto.EXTERNAL:
        raise Unsupported(f"tensor {tensor.name!r} keeps its values in another file: load the model with onnx.load")
    return numpy_helper.to_array(tensor)


def fill_array(array, name):
    """Return the operator that makes an array, as near to its type as Caffe2 comes."""
    kind = _FILLS.get(array.dtype.name)
    if kind is None:
        raise Unsupported(f"unrecognized tensor type of {name!r}: {array.dtype}")
    if array.dtype == object:
        strings = [v if isinstance(v, bytes) else str(v).encode() for v in array.flat]
        array = np.array([*strings, None], object)[:-1].reshape(array.shape)
    return caffe2_pb2.OperatorDef(type=kind, output=[name], arg=fill_arguments(kind, array))


def fill(tensor, name=""):
    """Return the operator that makes the values of an ONNX TensorProto, under its name or another one."""
    return fill_array(array_of(tensor), name or tensor.name)


class DummyNames:
    """Names for blobs that a conversion adds: OC2_DUMMY_0 and so on, but for those in use."""

    def __init__(self):
        self.reset()

    def reset(self, args=None):
        """Start anew; `args` are the names in use."""
        self._used = set(args or ())
        self._next = 0

    def new_dummy_name(self):
        """Return a name that nothing has."""
        while True:
            name = f"OC2_DUMMY_{self._next}"
            self._next += 1
            if name not in self._used:
                self._used.add(name)
                return name
