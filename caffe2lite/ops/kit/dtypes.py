"""TensorProto's data types and NumPy's."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2

_P = caffe2_pb2.TensorProto

NAMES: dict[int, str] = {
    _P.FLOAT: "float32",
    _P.INT32: "int32",
    _P.BYTE: "uint8",
    _P.STRING: "object",
    _P.BOOL: "bool",
    _P.UINT8: "uint8",
    _P.INT8: "int8",
    _P.UINT16: "uint16",
    _P.INT16: "int16",
    _P.INT64: "int64",
    _P.FLOAT16: "float16",
    _P.DOUBLE: "float64",
}


def in_words(types: str) -> str:
    """Dtype names as an operator's `types` has them, in a sentence: "float32, float64 or int32"."""
    *others, last = types.split()
    return f"{', '.join(others)} or {last}" if others else last


def dtype_of(number: int) -> str:
    """NumPy's name of a TensorProto.DataType; ValueError for one that a tensor cannot have."""
    try:
        return NAMES[number]
    except KeyError:
        names = {v: k for k, v in _P.DataType.items()}
        raise ValueError(f"no tensor has the data type {names.get(number, number)}") from None


def number_of(name: str) -> int:
    """The TensorProto.DataType of a name in any case, as in Cast's `to`."""
    number = dict(_P.DataType.items()).get(name.upper())
    if number is None:
        raise ValueError(f"there is no data type {name!r}; known are {', '.join(_P.DataType.keys())}")
    return int(number)
