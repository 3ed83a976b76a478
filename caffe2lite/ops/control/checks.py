"""Looking at values: printing, NaN and infinity, assertions."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.logs import add_line
from caffe2lite.ops.kit.memory import in_blocks
from caffe2lite.ops.kit.registry import MANY, operator

_C_NAMES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long int", "uint8": "unsigned char", "bool": "bool",
    "object": "std::basic_string<char>",
}  # fmt: skip


def _as_c(value: Any) -> bytes:
    """A value as C++ writes it: six digits, a truth as 0 or 1, a byte as itself."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.uint8):
        return bytes([value])
    return b"%d" % value if isinstance(value, (np.integer, np.bool_)) else b"%.6g" % value


@operator(
    stateful=True,
    types="float32 float64 int32 int64 uint8 bool string",
    gradient=FORBID_GRADIENT,
    limits="every_n >= 1",
)
def Print(ctx, X, *, to_file: int = 0, limit: int = 0, every_n: int = 1):
    """Show the name, type, shape and values of a tensor on stderr, or in the file NAME.log of the workspace's folder.

    X [...] float32, float64, int32, int64, uint8, bool or string -> no tensors; every `every_n`th run shows its first
    `limit` values (0: 1000).  A new operator starts the file anew.  ValueError where every_n is below 1.
    """
    count = ctx.state.count = getattr(ctx.state, "count", 0) + 1
    if (count - 1) % every_n:
        return
    values = ctx.device.to_host(X).reshape(-1)[: limit or 1000]
    name = ctx.op.input[0]
    dims = "".join(f"{d}," for d in X.shape)
    head = f"Tensor {name} of type {_C_NAMES[str(X.dtype)]}. Dims: ({dims}): ".encode()
    line = head + b",".join(map(_as_c, values))
    if to_file:
        add_line(ctx, f"{name}.log", line)
    else:
        print(line.decode("utf-8", "replace"), file=sys.stderr)


def _finite(xp: Any, X: Any, name: str) -> None:
    ok = xp.isfinite(X)
    if not ok.all():
        at = int(ok.reshape(-1).argmin())
        value = X.reshape(-1)[at].item()
        raise ValueError(f"blob {name!r} has values that are not finite: {value} at element {at} of {list(X.shape)}")


@operator(stateful=True, types="float32 float64", gradient=FORBID_GRADIENT)
def EnforceFinite(ctx, X):
    """Fail where X has NaN or infinity.

    X [...] float32 or float64 -> no tensors. ValueError names the first such value and its place.
    """
    _finite(ctx.xp, X, ctx.op.input[0])


def _nan_check_gradient(g: Any) -> Any:
    return g.single("NanCheck", [g.GO(0)], [g.GI(0)])


@operator(
    "Y",
    stateful=True,
    inplace={0: 0},
    types="float32",
    num_inputs=(1, MANY),
    infer=like(0),
    gradient=_nan_check_gradient,
)
def NanCheck(ctx, X, *others, out):
    """Y = X; fail where X has NaN or infinity (the other inputs are context for a debugger).

    X [...] float32, more inputs [...] of any type -> Y of X's shape. ValueError names the first such value and its
    place.
    """
    _finite(ctx.xp, X, ctx.op.input[0])
    in_place = out.replaces(X)
    Y = out(X.shape, X.dtype)
    if not in_place:
        ctx.xp.copyto(Y, X)
    return Y


@operator("Y", types="float32 float64", infer=like(0, dtype="uint8"))
def IsNaN(xp, X, *, out):
    """Y = 1 where X is NaN, else 0, uint8.

    X [...] float32 or float64 -> Y of its shape. TypeError for other types.
    """
    Y = out(X.shape, "uint8")
    Y[...] = xp.isnan(X)
    return Y


@operator("Y", inplace={0: 0}, types="float32 float64", infer=like(0), gradient=FORBID_GRADIENT)
@in_blocks
def ReplaceNaN(xp, X, *, value: float = 0.0, out):
    """Y = X with `value` in the place of NaN.

    X [...] float32 or float64 -> Y of its shape and type. TypeError for other types.
    """
    wrong = xp.isnan(X)
    Y = out(X.shape, X.dtype)
    xp.copyto(Y, X)
    if bool(wrong.any()):
        Y[wrong] = value
    return Y


@operator(types="bool int32 int64")
def Assert(xp, X, *, error_msg: str = ""):
    """Fail where an element is false or 0, with the argument `error_msg`.

    X [...] bool, int32 or int64 -> no tensors. ValueError names the first such element, and says `error_msg`.
    """
    ok = X.astype(bool)
    if not ok.all():
        at = int(ok.reshape(-1).argmin())
        raise ValueError(f"Assert failed at element {at} of {list(X.shape)} values. {error_msg}")
