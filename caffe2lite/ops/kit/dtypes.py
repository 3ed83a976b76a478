"""TensorProto's data types and NumPy's: the one table of both, and of the fields that hold their values."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2

_P = caffe2_pb2.TensorProto

# {NumPy's name of a dtype: TensorProto.DataType}
NUMBERS: dict[str, int] = {
    "float32": _P.FLOAT,
    "int32": _P.INT32,
    "object": _P.STRING,
    "bool": _P.BOOL,
    "uint8": _P.UINT8,
    "int8": _P.INT8,
    "uint16": _P.UINT16,
    "int16": _P.INT16,
    "int64": _P.INT64,
    "float16": _P.FLOAT16,
    "float64": _P.DOUBLE,
}
NAMES: dict[int, str] = {**{number: name for name, number in NUMBERS.items()}, _P.BYTE: "uint8"}
NUMPY: dict[int, np.dtype] = {number: np.dtype(name) for number, name in NAMES.items()}

_FIELDS = {"float32": "float_data", "float64": "double_data", "int64": "int64_data", "object": "string_data"}


def in_words(types: str) -> str:
    """Dtype names as an operator's `types` has them, in a sentence: "float32, float64 or int32"."""
    *others, last = types.split()
    return f"{', '.join(others)} or {last}" if others else last


def dtype_of(number: int) -> str:
    """Return NumPy's name of a TensorProto.DataType; ValueError for one that a tensor cannot have."""
    try:
        return NAMES[number]
    except KeyError:
        names = {v: k for k, v in _P.DataType.items()}
        raise ValueError(f"no tensor has the data type {names.get(number, number)}") from None


def number_of(name: str) -> int:
    """Return the TensorProto.DataType of a name in any case, as in Cast's `to`."""
    number = dict(_P.DataType.items()).get(name.upper())
    if number is None:
        raise ValueError(f"there is no data type {name!r}; known are {', '.join(_P.DataType.keys())}")
    return int(number)


def field_of(name: str) -> str:
    """Return the field of a TensorProto that holds values of a dtype (of float16 the bits)."""
    return _FIELDS.get(name, "int32_data")
