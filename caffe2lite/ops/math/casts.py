"""Changes of type."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, halves, loop, narrow, widen
from caffe2lite.ops.kit.dtypes import dtype_of, number_of
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import blocks
from caffe2lite.ops.kit.registry import operator
from caffe2lite.proto.caffe2_pb2 import Argument, TensorProto

_CASTABLE = "float32 float64 int32 int64 int8 int16 uint8 uint16 bool"
_HALF_MAX = np.float32(65504.0)
_VIA_INT32 = frozenset(("uint8", "int8", "int16", "uint16"))


def _number(message: Any) -> int:
    """The type that an argument names, float where there is none."""
    if message is None:
        return TensorProto.FLOAT
    if not message.HasField("s") and not message.HasField("i"):
        raise ValueError(f"argument {message.name} of Cast must be a type's number or its name")
    return number_of(message.s.decode()) if message.HasField("s") else message.i


def _target(message: Any) -> str:
    kind = dtype_of(_number(message))
    if kind == "float16":
        raise ValueError("Cast does not make float16; FloatToHalf does")
    return kind


def _cast_gradient(g: Any) -> Any:
    """Cast back, with `to` and `from_type` changed over."""
    messages = {a.name: a for a in g.op.arg}
    if "from_type" not in messages:
        raise ValueError("the gradient of Cast needs the argument from_type, to cast back to it")
    g.copy_arguments = False
    kinds = {"to": _number(messages["from_type"]), "from_type": _number(messages.get("to"))}
    return g.single("Cast", [g.GO(0)], [g.GI(0)], **kinds)


def _infer_cast(args: Any, inputs: Any) -> list[Spec]:
    return [Spec(inputs[0].shape, _target(args.get("to")))]


@operator("Y", types=_CASTABLE, infer=_infer_cast, gradient=_cast_gradient)
def Cast(xp, X, *, to: Argument | None = None, out):
    """Y = X in the type `to` (default: float), a number or name of TensorProto.DataType; numbers become text for STRING.

    X [...] -> Y of its shape; any numbers or bool but float16. A float that goes to 8 or 16 bits goes through int32, as
    in C: 300 becomes 44 in uint8. ValueError where `to` is no type of a tensor, or is FLOAT16.
    """
    kind = _target(to)
    Y = out(X.shape, kind)
    if kind == "object":
        show = (lambda v: b"%f" % v) if X.dtype.kind == "f" else lambda v: b"%d" % v
        flat = Y.reshape(-1)
        for i, v in enumerate(X.reshape(-1).tolist()):
            flat[i] = show(v)
        return Y
    if X.dtype.kind == "f" and kind in _VIA_INT32:  # as the C conversion does: 300 becomes 44 in a uint8
        X = X.astype("int32")
    Y[...] = X
    return Y


@operator("Y", types="float32", infer=like(0, dtype="float16"), gradient=single("HalfToFloat", "GO0 -> GI0"))
def FloatToHalf(xp, X, *, clip: bool = False, out):
    """Y = X in half precision, limited to its range if `clip` is set.

    X [...] float32 -> Y of its shape, float16. TypeError for other types.
    """
    Y = out(X.shape, "float16")
    if clip:
        X = xp.where(X < _HALF_MAX, xp.where(X > -_HALF_MAX, X, -_HALF_MAX), _HALF_MAX)
    if xp is np:
        return _narrowed(X, Y)
    Y[...] = X
    return Y


def _narrowed(X, Y):
    """Y = X, float16: NumPy converts one number after the other, and shifts bits in vectors.

    Of a normal number the last 13 bits of 23 go; what is not normal, or would not be in half precision, is left to NumPy.
    """
    flat, made = X.reshape(-1), Y.reshape(-1).view(np.uint16)
    for part in blocks(np, flat.size):
        x = flat[part]
        bits = x.view(np.uint32)
        odd = bits >> 13
        odd &= 1
        odd += bits
        odd -= np.uint32((112 << 23) - 0xFFF)  # to the nearest, halves to even; exponents count from 15, not from 127
        odd >>= 13
        odd &= 0x7FFF
        sign = bits >> 16
        sign &= 0x8000
        odd |= sign
        made[part] = odd
        size = bits & np.uint32(0x7FFFFFFF)
        size -= np.uint32(113 << 23)  # 2**-14; what is below wraps round
        others = np.nonzero(size >= np.uint32(29 << 23))[0]
        if others.size:
            made[part][others] = x[others].astype(np.float16).view(np.uint16)
    return Y


@compiled(FloatToHalf)
def _float_to_half_compiled(xp, X, *, clip: bool = False, out):
    if not halves():
        return FloatToHalf(xp, X, clip=clip, out=out)
    Y = out(X.shape, "float16")
    _narrow_all(X.reshape(-1), Y.reshape(-1).view(np.uint16), clip)
    return Y


@loop
def _narrow_all(X, Y, clip):
    most = np.float32(_HALF_MAX)
    if clip:
        for i in range(X.size):
            x = X[i] if X[i] < most else most
            Y[i] = narrow(x if x > -most else -most)
    else:
        for i in range(X.size):
            Y[i] = narrow(X[i])


def widened(X, Y):
    """Y = X of float16, by bits in vectors: the exponents count from 15, and a factor of 2**112 makes them count from 127."""
    flat, made = X.reshape(-1), Y.reshape(-1)
    for part in blocks(np, flat.size):
        bits = flat[part].view(np.int16).astype(np.int32)  # the sign fills the upper half
        bits <<= 13
        bits &= np.int32(-0x70002000)  # 0x8FFFE000: the sign, and what was shifted
        y = np.multiply(bits.view(np.float32), np.float32(2.0**112), out=made[part])
        if y.max() >= 65536 or y.min() <= -65536:  # infinite or NaN
            y[...] = flat[part]
    return Y


@operator("Y", types="float16", infer=like(0, dtype="float32"), gradient=single("FloatToHalf", "GO0 -> GI0"))
def HalfToFloat(xp, X, *, out):
    """Y = X in single precision.

    X [...] float16 -> Y of its shape, float32. TypeError for other types.
    """
    Y = out(X.shape, "float32")
    if xp is np:
        return widened(X, Y)
    Y[...] = X
    return Y


@compiled(HalfToFloat, also="float16")
def _half_to_float_compiled(xp, X, *, out):
    if not halves():
        return HalfToFloat(xp, X, out=out)
    Y = out(X.shape, "float32")
    _widen_all(X.reshape(-1).view(np.uint16), Y.reshape(-1))
    return Y


@loop
def _widen_all(X, Y):
    for i in range(X.size):
        Y[i] = widen(X[i])
