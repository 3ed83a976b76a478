"""Functions of one tensor, element by element, with their gradients.

A row is: name, what computes it, may it work in place, dtypes, gradient maker.  The computing function is NumPy's
name of a ufunc, or a function of (xp, X, Y) that writes Y, which may be X.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import exp32, pointwise
from caffe2lite.ops.kit.dtypes import in_words
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT_YET, single
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.memory import in_blocks
from caffe2lite.ops.kit.registry import find, operator
from caffe2lite.ops.kit.special import erf, erf32


def _sqr_gradient(g: Any) -> Any:
    return [g.new("Scale", [g.GO(0)], [g.GO(0)], scale=2.0), g.new("Mul", [g.GO(0), g.I(0)], [g.GI(0)])]


def _sqrt_gradient(g: Any) -> Any:
    return [g.new("Scale", [g.GO(0)], [g.GI(0)], scale=0.5), g.new("Div", [g.GI(0), g.O(0)], [g.GI(0)])]


def _cube(xp: Any, X: Any, Y: Any) -> None:
    xp.multiply(X * X, X, Y)


def _rsqrt(xp: Any, X: Any, Y: Any) -> None:
    xp.sqrt(X, Y)
    xp.reciprocal(Y, Y)


def _erf(xp: Any, X: Any, Y: Any) -> None:
    Y[...] = erf(xp, X)


def _sign(xp: Any, X: Any, Y: Any) -> None:
    """0 for NaN, where NumPy says NaN."""
    Y[...] = (X > 0).astype(Y.dtype) - (X < 0).astype(Y.dtype)


def unary(name: str, compute: Any, doc: str, types: str, **schema: Any) -> None:
    """Register an operator of one input and no arguments, Y of X's shape and type."""
    shared = f"X [...] -> Y of its shape and type; {in_words(types)}. TypeError for other types."
    if isinstance(compute, str):

        def kernel(xp, X, *, out):
            return getattr(xp, compute)(X, out(X.shape, X.dtype))

        def again(xp, inputs, outputs, args):
            return functools.partial(getattr(xp, compute), inputs[0], outputs[0])

        operator("Y", name=name, types=types, infer=like(0), doc=f"{doc}\n\n{shared}", **schema)(kernel).bind(again)
        return

    @in_blocks
    def kernel(xp, X, *, out):
        Y = out(X.shape, X.dtype)
        compute(xp, X, Y)
        return Y

    operator("Y", name=name, types=types, infer=like(0), doc=f"{doc}\n\n{shared}", **schema)(kernel)


_IN_PLACE = {0: 0}
_NUMBERS = "float32 float64 int32 int64"

for _name, _compute, _inplace, _types, _gradient, _doc in (
    ("Abs", "absolute", (), "float32", single("AbsGradient", "I0 GO0 -> GI0"), "Y = |X|."),
    ("Acos", "arccos", (), "float32", single("AcosGradient", "I0 GO0 -> GI0"), "Y = arc cosine of X."),
    ("Asin", "arcsin", (), "float32", single("AsinGradient", "I0 GO0 -> GI0"), "Y = arc sine of X."),
    ("Atan", "arctan", (), "float32", single("AtanGradient", "I0 GO0 -> GI0"), "Y = arc tangent of X."),
    ("Cbrt", "cbrt", _IN_PLACE, "float32", single("CbrtGradient", "GO0 O0 -> GI0"), "Y = cube root of X."),
    ("Ceil", "ceil", _IN_PLACE, "float32", NO_GRADIENT_YET, "Y = X rounded up."),
    ("Cos", "cos", (), "float32", single("CosGradient", "I0 GO0 -> GI0"), "Y = cosine of X."),
    ("Cosh", "cosh", (), "float32", single("CoshGradient", "GO0 I0 -> GI0"), "Y = hyperbolic cosine of X."),
    ("Cube", _cube, (), _NUMBERS, single("CubeGradient", "GO0 I0 -> GI0"), "Y = X cubed."),
    ("Erf", _erf, (), "float32", single("ErfGradient", "I0 GO0 -> GI0"), "Y = error function of X."),
    ("Exp", "exp", _IN_PLACE, "float32", single("Mul", "O0 GO0 -> GI0"), "Y = e to the X."),
    ("Floor", "floor", _IN_PLACE, "float32", NO_GRADIENT_YET, "Y = X rounded down."),
    ("Log", "log", _IN_PLACE, "float32", single("Div", "GO0 I0 -> GI0"), "Y = natural logarithm of X."),
    ("Log1p", "log1p", (), "float32", single("Log1pGradient", "I0 GO0 -> GI0"), "Y = log(1 + X)."),
    ("Negative", "negative", _IN_PLACE, _NUMBERS, single("Negative", "GO0 -> GI0"), "Y = -X."),
    ("Not", "logical_not", (), "bool", FORBID_GRADIENT, "Y = not X."),
    ("Reciprocal", "reciprocal", _IN_PLACE, "float32", single("ReciprocalGradient", "O0 GO0 -> GI0"), "Y = 1 / X."),
    ("Rsqrt", _rsqrt, _IN_PLACE, "float32", single("RsqrtGradient", "GO0 O0 -> GI0"), "Y = 1 / sqrt(X)."),
    ("Sign", _sign, (), _NUMBERS, FORBID_GRADIENT, "Y = -1, 0 or 1, the sign of X."),
    ("Sin", "sin", (), "float32", single("SinGradient", "I0 GO0 -> GI0"), "Y = sine of X."),
    ("Sinh", "sinh", (), "float32", single("SinhGradient", "GO0 I0 -> GI0"), "Y = hyperbolic sine of X."),
    ("Sqr", "square", _IN_PLACE, "float32", _sqr_gradient, "Y = X squared."),
    ("Sqrt", "sqrt", _IN_PLACE, "float32 float64", _sqrt_gradient, "Y = square root of X."),
    ("Tan", "tan", (), "float32", single("TanGradient", "I0 GO0 -> GI0"), "Y = tangent of X."),
    ("Tanh", "tanh", _IN_PLACE, "float32", single("TanhGradient", "O0 GO0 -> GI0"), "Y = hyperbolic tangent of X."),
):
    unary(_name, _compute, _doc, _types, inplace=_inplace, gradient=_gradient)


def _abs_derivative(xp: Any, X: Any) -> Any:
    return (X > 0).astype(X.dtype) - (~(X >= 0)).astype(X.dtype)  # -1 for NaN


def unary_gradient(name: str, order: str, derivative: Any, inplace: Any = (), types: str = "float32") -> None:
    """Register dX = dY * derivative(xp, V), with the operands in the given order: "V dY" or "dY V"."""
    first, V = "dY" if order.startswith("dY") else "V", order.replace("dY", "").strip()

    def compute(xp, V, dY, out):
        return xp.multiply(dY, derivative(xp, V), out=out(V.shape, V.dtype))

    if first == "dY":

        @in_blocks
        def kernel(xp, dY, V, *, out):
            return compute(xp, V, dY, out)

    else:

        @in_blocks
        def kernel(xp, V, dY, *, out):
            return compute(xp, V, dY, out)

    operator(
        "dX",
        name=name,
        inplace=inplace,
        types={first: types, "V" if first == "dY" else "dY": f"={first}"},
        broadcasts="V dY",
        infer=like(0),
        doc=f"""dX = dY times the derivative of {name.removesuffix("Gradient")}, from its {"output" if inplace else "input"} {V}.

        {V} [...], dY alike -> dX of their shape; {in_words(types)}. ValueError where the shapes differ.
        """,
    )(kernel)


_FIRST, _SECOND = {0: 0}, {1: 0}

for _name, _order, _derivative, _inplace in (
    ("AbsGradient", "X dY", _abs_derivative, ()),
    ("AcosGradient", "X dY", lambda xp, X: -1 / xp.sqrt(1 - X * X), ()),
    ("AsinGradient", "X dY", lambda xp, X: 1 / xp.sqrt(1 - X * X), ()),
    ("AtanGradient", "X dY", lambda xp, X: 1 / (1 + X * X), ()),
    ("CbrtGradient", "dY Y", lambda xp, Y: 1 / (3 * Y * Y), _FIRST),
    ("CosGradient", "X dY", lambda xp, X: -xp.sin(X), ()),
    ("CoshGradient", "dY X", lambda xp, X: (xp.exp(X) - xp.exp(-X)) / 2, ()),
    ("ErfGradient", "X dY", lambda xp, X: xp.exp(-X * X) * (2 / math.sqrt(math.pi)), ()),
    ("Log1pGradient", "X dY", lambda xp, X: 1 / (1 + X), ()),
    ("ReciprocalGradient", "Y dY", lambda xp, Y: -Y * Y, _SECOND),
    ("RsqrtGradient", "dY Y", lambda xp, Y: Y * Y * Y * -0.5, _FIRST),
    ("SinGradient", "X dY", lambda xp, X: xp.cos(X), ()),
    ("SinhGradient", "dY X", lambda xp, X: (xp.exp(X) + xp.exp(-X)) / 2, ()),
    ("TanGradient", "X dY", lambda xp, X: xp.cos(X) ** -2.0, ()),
    ("TanhGradient", "Y dY", lambda xp, Y: 1 - Y * Y, _SECOND),
):
    unary_gradient(_name, _order, _derivative, _inplace)

unary_gradient("CubeGradient", "dY X", lambda xp, X: 3 * X * X, types=_NUMBERS)


# ---- compiled ------------------------------------------------------------------------------------------------------


@pointwise(find("Cube"))
def _cube_loop(X, Y):
    for i in range(Y.size):
        Y[i] = X[i] * X[i] * X[i]


@pointwise(find("Rsqrt"))
def _rsqrt_loop(X, Y):
    for i in range(Y.size):
        Y[i] = np.float32(1) / np.sqrt(X[i])


@pointwise(find("Erf"))
def _erf_loop(X, Y):
    for i in range(Y.size):
        Y[i] = erf32(X[i])


@pointwise(find("Sign"))
def _sign_loop(X, Y):
    for i in range(Y.size):
        Y[i] = int(X[i] > 0) - int(X[i] < 0)


@pointwise(find("AbsGradient"))
def _abs_gradient_loop(X, dY, dX):
    for i in range(dX.size):
        dX[i] = np.float32(0) * dY[i] if X[i] == 0 else (dY[i] if X[i] > 0 else -dY[i])


@pointwise(find("AtanGradient"))
def _atan_gradient_loop(X, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] / (np.float32(1) + X[i] * X[i])


@pointwise(find("CbrtGradient"))
def _cbrt_gradient_loop(dY, Y, dX):
    for i in range(dX.size):
        dX[i] = dY[i] / (np.float32(3) * Y[i] * Y[i])


@pointwise(find("CubeGradient"))
def _cube_gradient_loop(dY, X, dX):
    for i in range(dX.size):
        three = dY[i] + dY[i] + dY[i]  # in its own type
        dX[i] = three * (X[i] * X[i])


@pointwise(find("ErfGradient"))
def _erf_gradient_loop(X, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * np.float32(2 / math.sqrt(math.pi)) * exp32(-X[i] * X[i])


@pointwise(find("Log1pGradient"))
def _log1p_gradient_loop(X, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] / (np.float32(1) + X[i])


@pointwise(find("ReciprocalGradient"))
def _reciprocal_gradient_loop(Y, dY, dX):
    for i in range(dX.size):
        dX[i] = -dY[i] * (Y[i] * Y[i])


@pointwise(find("RsqrtGradient"))
def _rsqrt_gradient_loop(dY, Y, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * (Y[i] * Y[i] * Y[i]) * np.float32(-0.5)


@pointwise(find("TanhGradient"))
def _tanh_gradient_loop(Y, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * (np.float32(1) - Y[i] * Y[i])
