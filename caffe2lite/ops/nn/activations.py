"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, exp32, loop, pointwise
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import in_blocks
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import axis_of
from caffe2lite.ops.kit.special import erf, erf32, keep_where

_FROM_Y = {"Y": "float32", "dY": "=Y"}
_FROM_X = {"X": "float32", "dY": "=X"}


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("SigmoidGradient", "O0 GO0 -> GI0"))
@in_blocks
def Sigmoid(xp, X, *, out):
    """Y = 1 / (1 + exp(-X)).

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    Y = out(X.shape, X.dtype)
    xp.negative(X, Y)
    xp.exp(Y, Y)
    xp.add(Y, 1, Y)
    return xp.reciprocal(Y, Y)


@pointwise(Sigmoid)
def _sigmoid(X, Y):
    for i in range(Y.size):
        Y[i] = np.float32(1) / (np.float32(1) + exp32(-X[i]))


@operator("dX", inplace={1: 0}, types=_FROM_Y, broadcasts="Y dY", infer=like(0))
@in_blocks
def SigmoidGradient(xp, Y, dY, *, out):
    """dX = dY * Y * (1 - Y).

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    dX = out(Y.shape, Y.dtype)
    slope = 1 - Y
    slope *= Y
    return xp.multiply(dY, slope, dX)


@pointwise(SigmoidGradient)
def _sigmoid_gradient(Y, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * Y[i] * (np.float32(1) - Y[i])


def _softsign_gradient(g):
    if g.I(0) == g.O(0):
        raise ValueError("Softsign has no gradient in place: it is computed from the input")
    return g.single("SoftsignGradient", [g.I(0), g.GO(0)], [g.GI(0)])


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=_softsign_gradient)
@in_blocks
def Softsign(xp, X, *, out):
    """Y = X / (1 + |X|).

    X [...], Y of its shape; float32.  TypeError for other dtypes; ValueError where the gradient is asked for in
    place.
    """
    return xp.divide(X, 1 + abs(X), out=out(X.shape, X.dtype))


@pointwise(Softsign)
def _softsign(X, Y):
    for i in range(Y.size):
        Y[i] = X[i] / (np.float32(1) + abs(X[i]))


@operator("dX", inplace={1: 0}, types=_FROM_X, broadcasts="X dY", infer=like(0))
@in_blocks
def SoftsignGradient(xp, X, dY, *, out):
    """dX = dY / (1 + |X|)^2.

    X [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return xp.divide(dY, xp.square(1 + abs(X)), out=out(X.shape, X.dtype))


@pointwise(SoftsignGradient)
def _softsign_gradient(X, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] / ((np.float32(1) + abs(X[i])) * (np.float32(1) + abs(X[i])))


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("SoftplusGradient", "O0 GO0 -> GI0"))
@in_blocks
def Softplus(xp, X, *, out):
    """Y = log(exp(X) + 1).

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    Y = out(X.shape, X.dtype)
    xp.exp(X, Y)
    xp.add(Y, 1, Y)
    return xp.log(Y, Y)


@operator("dX", inplace={1: 0}, types=_FROM_Y, alike="Y dY", infer=like(0))
@in_blocks
def SoftplusGradient(xp, Y, dY, *, out):
    """dX = dY * (1 - exp(-Y)).

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return xp.multiply(dY, 1 - xp.exp(-Y), out=out(Y.shape, Y.dtype))


@pointwise(SoftplusGradient)
def _softplus_gradient(Y, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * (np.float32(1) - exp32(-Y[i]))


@operator("Y", types="float32", infer=like(0), gradient=single("GeluGradient", "GO0 I0 -> GI0"))
@in_blocks
def Gelu(xp, X, *, fast_gelu: bool = False, out):
    """Y = X * P(N <= X) for a standard normal N; `fast_gelu` takes an approximation by tanh.

    Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.  The approximation is X / 2 * (1 + tanh(sqrt(2 / pi) * (X
    + 0.044715 X^3))).  X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    if fast_gelu:
        doubled = X * (1 + xp.tanh(_gelu_inner(X)))  # inf for the largest numbers, as in Caffe2
        return xp.multiply(doubled, 0.5, out=out(X.shape, X.dtype))
    half = (1 + erf(xp, X * math.sqrt(0.5))) / 2
    return xp.multiply(X, half, out=out(X.shape, X.dtype))


def _gelu_inner(X):
    return (X + X * X * X * 0.044715) * math.sqrt(2 / math.pi)


@compiled(Gelu)
def _gelu_compiled(xp, X, *, fast_gelu: bool = False, out):
    if fast_gelu:
        return Gelu(xp, X, fast_gelu=fast_gelu, out=out)
    Y = out(X.shape, X.dtype)
    _gelu(X.reshape(-1), Y.reshape(-1))
    return Y


@loop
def _gelu(X, Y):
    for i in range(X.size):
        Y[i] = X[i] * (np.float32(0.5) + np.float32(0.5) * erf32(X[i] * np.float32(math.sqrt(0.5))))


@operator("dX", broadcasts="X dY", types={"dY": "float32", "X": "=dY"}, infer=like(0))
@in_blocks
def GeluGradient(xp, dY, X, *, fast_gelu: bool = False, out):
    """dX = dY * (P(N <= X) + X * density(X)).

    dY [...], X and dX of its shape; float32.  ValueError where dY does not fit X.
    """
    if fast_gelu:
        t = xp.tanh(_gelu_inner(X))
        derivative = (1 + t) / 2 + X * (1 - t * t) / 2 * (1 + X * X * (3 * 0.044715)) * math.sqrt(2 / math.pi)
    else:
        derivative = (1 + erf(xp, X * math.sqrt(0.5))) / 2 + X * xp.exp(X * X / -2) / math.sqrt(2 * math.pi)
    return xp.multiply(dY, derivative, out=out(X.shape, X.dtype))


@compiled(GeluGradient)
def _gelu_gradient_compiled(xp, dY, X, *, fast_gelu: bool = False, out):
    if fast_gelu or dY.shape != X.shape:
        return GeluGradient(xp, dY, X, fast_gelu=fast_gelu, out=out)
    dX = out(X.shape, X.dtype)
    _gelu_gradient(dY.reshape(-1), X.reshape(-1), dX.reshape(-1))
    return dX


@loop
def _gelu_gradient(dY, X, dX):
    for i in range(X.size):
        x = X[i]
        below = np.float32(0.5) + np.float32(0.5) * erf32(x * np.float32(math.sqrt(0.5)))
        dX[i] = dY[i] * (below + x * exp32(x * x * np.float32(-0.5)) * np.float32(1 / math.sqrt(2 * math.pi)))


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("HardSigmoidGradient", "O0 GO0 -> GI0"))
@in_blocks
def HardSigmoid(xp, X, *, alpha: float = 0.2, beta: float = 0.5, out):
    """Y = alpha * X + beta, limited to [0, 1].

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    line = X * X.dtype.type(alpha)
    line += X.dtype.type(beta)
    return xp.clip(line, X.dtype.type(0), X.dtype.type(1), out=out(X.shape, X.dtype))


@pointwise(HardSigmoid, "alpha", "beta")
def _hard_sigmoid(X, Y, alpha, beta):
    for i in range(Y.size):
        Y[i] = max(min(X[i] * alpha + beta, np.float32(1)), np.float32(0))


@operator("dX", inplace={1: 0}, types=_FROM_Y, broadcasts="Y dY", infer=like(0))
@in_blocks
def HardSigmoidGradient(xp, Y, dY, *, alpha: float = 0.2, out):
    """dX = alpha * dY where 0 < Y < 1, else 0.

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return keep_where(xp, (Y > 0) & (Y < 1), dY * Y.dtype.type(alpha), out(Y.shape, Y.dtype))


@pointwise(HardSigmoidGradient, "alpha")
def _hard_sigmoid_gradient(Y, dY, dX, alpha):
    for i in range(dX.size):
        dX[i] = dY[i] * alpha if (Y[i] > 0) & (Y[i] < 1) else np.float32(0)


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    infer=like(0),
    gradient=single("LogitGradient", "I0 GO0 -> GI0"),
    limits="eps > 0, eps < 0.5",
)
@in_blocks
def Logit(xp, X, *, eps: float = 1e-6, out):
    """Y = log(x / (1 - x)), where x is X limited to [eps, 1 - eps].

    X [...], Y of its shape; float32.  ValueError where eps is not between 0 and 0.5.
    """
    low, one = X.dtype.type(eps), X.dtype.type(1)  # NumPy 1 makes float64 of 1 - float32
    x = xp.minimum(xp.maximum(X, low), one - low)
    return xp.log(x / (1 - x), out=out(X.shape, X.dtype))


@operator("dX", types=_FROM_X, alike="X dY", infer=like(0))
@in_blocks
def LogitGradient(xp, X, dY, *, eps: float = 1e-6, out):
    """dX = dY / (X * (1 - X)) where eps <= X <= 1 - eps, else 0.

    X [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    low, one = X.dtype.type(eps), X.dtype.type(1)
    dX = out(X.shape, X.dtype)
    dX[...] = xp.where((low > X) | (one - low < X), 0, dY / (X * (1 - X)))
    return dX


@pointwise(LogitGradient, "eps")
def _logit_gradient(X, dY, dX, eps):
    for i in range(dX.size):
        x = X[i]
        dX[i] = np.float32(0) if (eps > x) | (np.float32(1) - eps < x) else dY[i] / (x * (np.float32(1) - x))


@operator("Y", types="float32 float64", infer=like(0), gradient=single("MishGradient", "I0 O0 GO0 -> GI0"))
@in_blocks
def Mish(xp, X, *, out):
    """Y = X * tanh(log(exp(X) + 1)).

    Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.  X [...], Y of its shape; float32 or
    float64.  TypeError for other dtypes.
    """
    return xp.multiply(X, xp.tanh(xp.log(xp.exp(X) + 1)), out=out(X.shape, X.dtype))


@operator("dX", types={"X": "float32 float64", "Y": "=X", "dY": "=X"}, alike="X Y dY", infer=like(0))
@in_blocks
def MishGradient(xp, X, Y, dY, *, out):
    """dX from dY, by t = tanh(softplus(X)): dY * (t + X * (1 - t^2) * sigmoid(X)).

    X [...], Y, dY and dX of its shape; float32 or float64.  ValueError where the shapes differ.
    """
    t = xp.tanh(xp.log(xp.exp(X) + 1))
    return xp.multiply(dY, t + X * (1 - t * t) / (1 + xp.exp(-X)), out=out(X.shape, X.dtype))


@operator("Y", types="float32", infer=like(0), gradient=single("SwishGradient", "I0 O0 GO0 -> GI0"))
@in_blocks
def Swish(xp, X, *, out):
    """Y = X / (1 + exp(-X)).

    Ramachandran et al., Searching for Activation Functions, 2017.  X [...], Y of its shape; float32.  TypeError for
    other dtypes.
    """
    return xp.divide(X, 1 + xp.exp(-X), out=out(X.shape, X.dtype))


@pointwise(Swish)
def _swish(X, Y):
    for i in range(Y.size):
        Y[i] = X[i] / (np.float32(1) + exp32(-X[i]))


@operator("dX", inplace={2: 0}, types={"X": "float32", "Y": "=X", "dY": "=X"}, alike="Y X dY", infer=like(0))
@in_blocks
def SwishGradient(xp, X, Y, dY, *, out):
    """dX = dY * (Y + (1 - Y) / (1 + exp(-X))).

    X [...], Y, dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return xp.multiply(dY, Y + (1 - Y) / (1 + xp.exp(-X)), out=out(X.shape, X.dtype))


@pointwise(SwishGradient)
def _swish_gradient(X, Y, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] * (Y[i] + (np.float32(1) - Y[i]) / (np.float32(1) + exp32(-X[i])))


def _infer_glu(args, inputs):
    shape = inputs[0].shape
    axis = axis_of(args.get("dim", -1), len(shape))
    return [Spec((*shape[:axis], shape[axis] // 2, *shape[axis + 1 :]), inputs[0].dtype)]


@operator("Y", types="float32", infer=_infer_glu)
def Glu(xp, X, *, dim: int = -1, out):
    """Y = A * sigmoid(B), where X is A and B side by side along `dim`.

    Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.  X [..., 2 D, ...], Y [..., D, ...];
    float32.  ValueError where X has no such dimension or its size is odd.
    """
    axis = dim + X.ndim if dim < 0 else dim
    if not 0 <= axis < X.ndim or X.shape[axis] % 2:
        raise ValueError(f"axis {dim} of {list(X.shape)} cannot be split into halves")
    A, B = xp.split(X, 2, axis=axis)
    return xp.divide(A, 1 + xp.exp(-B), out=out(A.shape, X.dtype))
