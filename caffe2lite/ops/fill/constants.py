"""Fills with values that are given: constants, lists, ranges, diagonals."""

from __future__ import annotations

import math
from typing import Any

from caffe2lite.ops.kit.arguments import Shape, Values
from caffe2lite.ops.kit.dtypes import dtype_of
from caffe2lite.ops.kit.filling import infer_fill, shape_to_fill
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.memory import check_result, clear
from caffe2lite.ops.kit.registry import operator
from caffe2lite.proto.caffe2_pb2 import Argument, TensorProto

_FLOATS = ("float32", "float64", "float16")
_BOUNDS = {"int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}


def _constant(value: Any, kind: str) -> Any:
    """The constant in an Argument message, for a tensor of that kind."""
    field = "f" if kind in _FLOATS else "s" if kind == "object" else "i"
    if value is None:
        return b"" if field == "s" else 0
    if not value.HasField(field):
        raise ValueError(f"argument value must be in field {field!r} of Argument for a fill of {kind}, found {value!r}")
    constant = getattr(value, field)
    if field == "i" and kind != "bool":
        top = _BOUNDS.get(kind) or {"uint8": 1 << 8, "uint16": 1 << 16}[kind]
        if not (0 if kind[0] == "u" else -top) <= constant < top:
            raise ValueError(f"value={constant} does not fit into {kind}")
    return constant


def _kind(dtype: int | None, value: Any) -> str:
    if dtype is not None:
        if dtype in (TensorProto.UNDEFINED, TensorProto.BYTE):
            raise ValueError(f"dtype={dtype} is no type of a fill")
        kind = dtype_of(dtype)
        if kind == "float16":
            raise ValueError("a fill of float16 is Float16ConstantFill; dtype=FLOAT16 is not taken here")
        return kind
    if value is not None and not value.HasField("i") and not value.HasField("f"):
        raise ValueError(f"without dtype the argument value must be a number, found {value!r}")
    return "int64" if value is not None and value.HasField("i") else "float32"


@operator(
    "Y",
    gradient=NO_GRADIENT,
    inplace={0: 0},
    anywhere="X constant",
    infer=lambda args, inputs: _infer_constant(args, inputs),
    traits="fill",
)
def ConstantFill(
    xp,
    X=None,
    constant=None,
    *,
    value: Argument = None,
    dtype: int | None = None,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = value everywhere, of the argument's shape or the input's; the value may come as second input.

    Y [shape ...], of the type `dtype`, without it float32, or int64 for an integer; X [...] gives its shape, or with
    input_as_shape X [n] (int64) its values; constant [1] of Y's type.  ValueError where the value does not fit the
    type, the shape is given twice, or extra_shape or input_as_shape without X.
    """
    kind = _kind(dtype, value)
    if constant is not None and (constant.size != 1 or constant.dtype != kind):
        raise ValueError(f"the constant must be one {kind}, found {constant.dtype}{list(constant.shape)}")
    Y = out(shape_to_fill(X, shape, extra_shape, input_as_shape), kind)
    Y[...] = _constant(value, kind) if constant is None else constant.item()
    return Y


def _infer_constant(args: Any, inputs: Any) -> list[Spec]:
    """What dtype says, float16 too, which does not run: Caffe2's layers ask for the type of a blob in this way."""
    value = args.get("value")
    whole = value is not None and value.HasField("i")
    kind = dtype_of(args["dtype"]) if args.get("dtype") else "int64" if whole else "float32"
    return infer_fill(kind)({**args, "dtype": 0}, inputs)


@operator("Y", gradient=NO_GRADIENT, inplace={0: 0}, anywhere="X", infer=_infer_constant, traits="fill")
def DiagonalFill(
    xp,
    X=None,
    *,
    value: Argument = None,
    dtype: int | None = None,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = value where all indices are equal, 0 elsewhere; with more than two dimensions these must be equal.

    Y [n, m] or [n, n, n ...], dtypes (float32 or what `dtype` says) and X as in ConstantFill.  ValueError where there are fewer than 2
    dimensions, or more that are not equal.
    """
    kind = _kind(dtype, value)
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    if len(dims) < 2:
        raise ValueError(f"a diagonal needs 2 dimensions or more, found the shape {list(dims)}")
    if len(dims) > 2 and len(set(dims)) > 1:
        raise ValueError(f"with more than 2 dimensions all must be equal, found the shape {list(dims)}")
    constant = _constant(value, kind)
    Y = out(dims, kind)
    clear(Y)
    step = sum(math.prod(dims[i + 1 :]) for i in range(len(dims)))
    Y.reshape(-1)[: min(dims) * step : step] = constant
    return Y


@operator("Y", gradient=NO_GRADIENT, infer=infer_fill("float16"), traits="fill")
def Float16ConstantFill(xp, *, value: float = 0.0, shape: list[int] = (), out):
    """Y = value everywhere, in half precision.

    Y [shape ...], float16.  ValueError where the shape cannot be.
    """
    Y = out(tuple(shape), "float16")
    Y[...] = value
    return Y


def _given(xp: Any, out: Any, dims: tuple[int, ...], values: Any, kind: str) -> Any:
    field = "floats" if kind in _FLOATS else "strings" if kind == "object" else "ints"
    given = values.array(field, kind)
    if given.size != math.prod(dims):
        raise ValueError(
            f"the shape {list(dims)} has room for {math.prod(dims)} values, but `values` holds {given.size} {field}"
        )
    Y = out(dims, kind)
    Y.reshape(-1)[...] = xp.asarray(given)
    return Y


def _none_with_values(g: Any) -> list[Any]:
    """No gradient; without `values` the operator does not fit its schema."""
    g.need("values")
    return []


@operator("Y", gradient=_none_with_values, inplace={0: 0}, anywhere="X", infer=infer_fill("float32"), traits="fill")
def GivenTensorFill(
    xp,
    X=None,
    *,
    values: Values,
    dtype: int = 0,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = the argument `values`, row by row.

    Y [shape ...], of the type `dtype` or float32; X [...] gives its shape, or with input_as_shape X [n] (int64) its
    values.  ValueError where `values` does not fill it, or the shape is given twice.
    """
    kind = dtype_of(dtype) if dtype else "float32"
    return _given(xp, out, shape_to_fill(X, shape, extra_shape, input_as_shape), values, kind)


def _given_fill(name: str, kind: str) -> None:
    doc = f"""Y = the argument `values`, row by row.

    Y [shape ...], {"string" if kind == "object" else kind}; X [...] gives its shape, or with input_as_shape X [n] (int64)
    its values.  ValueError where `values` does not fill it, or the shape is given twice."""

    @operator(
        "Y",
        gradient=_none_with_values,
        name=name,
        inplace={0: 0},
        anywhere="X",
        infer=infer_fill(kind),
        doc=doc,
        traits="fill",
    )
    def fill(
        xp,
        X=None,
        *,
        values: Values,
        shape: Shape = (),
        extra_shape: list[int] = (),
        input_as_shape: bool = False,
        out,
    ):
        return _given(xp, out, shape_to_fill(X, shape, extra_shape, input_as_shape), values, kind)


for _name, _type in (
    ("GivenTensorBoolFill", "bool"),
    ("GivenTensorDoubleFill", "float64"),
    ("GivenTensorInt16Fill", "int16"),
    ("GivenTensorIntFill", "int32"),
    ("GivenTensorInt64Fill", "int64"),
    ("GivenTensorStringFill", "object"),
):
    _given_fill(_name, _type)


def _infer_bytes(args: Any, inputs: Any) -> list[Spec]:
    return infer_fill("uint8")({**args, "dtype": 0}, inputs)  # which says what `values` are


@operator("Y", gradient=_none_with_values, inplace={0: 0}, anywhere="X", infer=_infer_bytes, traits="fill")
def GivenTensorByteStringToUInt8Fill(
    xp,
    X=None,
    *,
    values: list[bytes],
    dtype: int = TensorProto.STRING,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = the bytes of the one string in `values`.

    Y [shape ...], uint8; X [...] gives its shape, or with input_as_shape X [n] (int64) its values.  ValueError where
    the string is too short, dtype is another type, or the shape is given twice.
    """
    if dtype != TensorProto.STRING:
        raise ValueError(f"dtype must be STRING ({TensorProto.STRING}), the type of `values`, found {dtype}")
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    data = values[0] if values else b""
    if len(data) < math.prod(dims):
        raise ValueError(
            f"the shape {list(dims)} needs {math.prod(dims)} bytes, but the string in `values` has {len(data)}"
        )
    Y = out(dims, "uint8")
    Y.reshape(-1)[...] = xp.asarray(list(data[: Y.size]), dtype="uint8")
    return Y


@operator("Y", gradient=NO_GRADIENT, inplace={0: 0}, anywhere="X", infer=infer_fill("float32"), traits="fill")
def RangeFill(xp, X=None, *, shape: Shape = (), extra_shape: list[int] = (), input_as_shape: bool = False, out):
    """Y = 0, 1, 2, ... row by row.

    Y [shape ...], float32; X [...] gives its shape, or with input_as_shape X [n] (int64) its values.  ValueError
    where the shape is given twice.
    """
    Y = out(shape_to_fill(X, shape, extra_shape, input_as_shape), "float32")
    Y.reshape(-1)[...] = xp.arange(Y.size)
    return Y


@operator(
    "Y",
    gradient=NO_GRADIENT,
    types={"start": "float32 float64 int32 int64", "stop": "=start", "step": "=start"},
    host="start stop step",
)
def Range(xp, start, stop=None, step=None, *, out):
    """Y = start, start + step, ... up to but without stop; one input is the stop of a range from 0.

    start, stop and step scalars, Y [n]; float32, float64, int32 or int64.  ValueError where one is no scalar or step
    is 0.
    """
    for what, operand in (("start", start), ("stop", stop), ("step", step)):
        if operand is not None and operand.size != 1:
            raise ValueError(f"{what} must be a scalar, found the shape {list(operand.shape)}")
    first, last = (0, start.item()) if stop is None else (start.item(), stop.item())
    width = 1 if step is None else step.item()
    if width == 0:
        raise ValueError("Step size cannot be 0")
    span = (last - first) / width
    if not math.isfinite(span):
        raise ValueError(f"a range from {first} to {last} in steps of {width} has no length")
    if start.dtype.kind == "f":
        length = max(math.ceil(span), 0)
    else:  # Caffe2's count, short by one where it goes down
        length = max(int(span) + (int(span) * width < last - first), 0)
    check_result((length,), "int64")
    Y = out((length,), start.dtype)
    Y[...] = xp.arange(length) * width + first
    return Y


@operator("Y", gradient=NO_GRADIENT, types="int32", traits="fill")
def LengthsRangeFill(xp, lengths, *, out):
    """Y = for each length n the range 0 .. n-1, one behind the other.

    lengths [segments], Y [sum of lengths]; int32.  ValueError where lengths is no vector or one is negative.
    """
    if lengths.ndim != 1:
        raise ValueError(f"lengths must be a vector, found the shape {list(lengths.shape)}")
    counts = lengths[lengths != 0].astype("int64")
    if counts.size and int(counts.min()) < 0:
        raise ValueError(f"lengths must not be negative, found {int(counts.min())}")
    ends = xp.cumsum(counts)
    Y = out((int(ends[-1]) if counts.size else 0,), "int32")
    if Y.size:  # steps of 1, and back to 0 where a range begins; their sums are the ranges
        Y[...] = 1
        Y[0] = 0
        Y[ends[:-1]] = 1 - counts[:-1]
        xp.cumsum(Y, dtype="int32", out=Y)
    return Y
