"""Comparisons, logic, bits, and choices by a condition."""

from __future__ import annotations

from caffe2lite.ops.kit.dtypes import dtype_of
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.math.binary import binary
from caffe2lite.proto.caffe2_pb2 import Argument

_COMPARED = "float32 float64 int32 int64 bool"
_BITS = "int32 int64 bool"

for _name, _compute, _types, _inplace, _result, _doc in (
    ("EQ", "equal", _COMPARED, (), "bool", "C = A == B."),
    ("NE", "not_equal", _COMPARED, (), "bool", "C = A != B."),
    ("LT", "less", _COMPARED, (), "bool", "C = A < B."),
    ("LE", "less_equal", _COMPARED, (), "bool", "C = A <= B."),
    ("GT", "greater", _COMPARED, (), "bool", "C = A > B."),
    ("GE", "greater_equal", _COMPARED, (), "bool", "C = A >= B."),
    ("And", "logical_and", "bool", {0: 0}, "bool", "C = A and B."),
    ("Or", "logical_or", "bool", {0: 0}, "bool", "C = A or B."),
    ("Xor", "logical_xor", "bool", {0: 0}, "bool", "C = A or B, but not both."),
    ("BitwiseAnd", "bitwise_and", _BITS, {0: 0}, None, "C = A & B, bit by bit."),
    ("BitwiseOr", "bitwise_or", _BITS, {0: 0}, None, "C = A | B, bit by bit."),
    ("BitwiseXor", "bitwise_xor", _BITS, {0: 0}, None, "C = A ^ B, bit by bit."),
):
    binary(_name, _compute, _doc, _types, _result, inplace=_inplace, gradient=FORBID_GRADIENT)


@operator(
    "Z",
    types={"C": "bool", "X": "float32 float64 int32 int64 string bool", "Y": "=X"},
    infer=like(1),
    gradient=FORBID_GRADIENT,
)
def Where(xp, C, X, Y, *, broadcast_on_rows: bool = False, out):
    """Z = X where C, Y elsewhere; with `broadcast_on_rows` C has one value a row.

    C [...] bool, X [...], Y alike -> Z of X's shape; float32, float64, int32, int64, bool or string. On rows: C [N],
    X [N, ...]. ValueError where the shapes do not fit.
    """
    if X.shape != Y.shape:
        raise ValueError(f"the two choices must have one shape, found {list(X.shape)} and {list(Y.shape)}")
    if broadcast_on_rows:
        if C.ndim != 1 or C.shape[0] != X.shape[0]:
            raise ValueError(f"one condition a row is needed: the condition is {list(C.shape)}, X {list(X.shape)}")
        C = C.reshape((-1,) + (1,) * (X.ndim - 1))
    elif C.shape != X.shape:
        raise ValueError(f"the condition must have the shape {list(X.shape)}, found {list(C.shape)}")
    Z = out(X.shape, X.dtype)
    Z[...] = xp.where(C, X, Y)
    return Z


@operator("Y", types="int32 int64 bool string", infer=like(0, dtype="bool"), gradient=FORBID_GRADIENT)
def IsMemberOf(xp, X, *, value: Argument = None, dtype: int = 0, out):
    """Y = whether each element is among the argument `value`.

    X [...] -> Y of its shape, bool; int32, int64, bool or string. ValueError where the argument `dtype` is not X's
    type.
    """
    kind = dtype_of(dtype) if dtype else X.dtype.name
    if kind != X.dtype.name:
        raise ValueError(f"the values are {kind}, the input is {X.dtype}")
    values = [] if value is None else list(value.strings if kind == "object" else value.ints)
    if kind == "bool":
        values = [bool(v) for v in values]
    Y = out(X.shape, "bool")
    Y[...] = False
    for v in values:
        Y |= v == X
    return Y
