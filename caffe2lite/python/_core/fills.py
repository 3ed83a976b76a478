"""Operators that make given arrays, as init nets hold parameters."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._core.arguments import MakeArgument

# NumPy's name of a dtype -> the operator whose output has it, bit for bit (float64 as far as float32 goes).
FILLS = {
    "float32": "GivenTensorFill",
    "float64": "GivenTensorDoubleFill",
    "int64": "GivenTensorInt64Fill",
    "int32": "GivenTensorIntFill",
    "int16": "GivenTensorInt16Fill",
    "bool": "GivenTensorBoolFill",
    "object": "GivenTensorStringFill",
    "uint8": "GivenTensorByteStringToUInt8Fill",
}


def fill_operator(kind, name, array):
    """Return the fill operator of type `kind` that makes `array` in blob `name`; strings are bytes."""
    op = caffe2_pb2.OperatorDef(type=kind, output=[name])
    op.arg.extend([MakeArgument("shape", [int(d) for d in array.shape])])
    values = op.arg.add(name="values")
    if kind in ("GivenTensorFill", "GivenTensorDoubleFill"):
        values.floats.extend(array.astype(np.float32).ravel().tolist())
    elif kind == "GivenTensorStringFill":
        values.strings.extend(array.ravel().tolist())
    elif kind == "GivenTensorByteStringToUInt8Fill":
        values.strings.append(array.tobytes())
    else:
        values.ints.extend(array.astype(np.int64).ravel().tolist())
    return op
