"""Activation functions that treat positive and negative numbers differently."""

from __future__ import annotations

import functools
import math

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, exp32, loop, pointwise
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import like, pointwise_cost
from caffe2lite.ops.kit.memory import ZEROS, in_blocks, zeros
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_order, check_sizes
from caffe2lite.ops.kit.special import keep_where

_FROM_Y = {"Y": "float32", "dY": "=Y"}


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    cuda_types="float32 float16",
    infer=like(0),
    cost=pointwise_cost,
    gradient=single("ReluGradient", "O0 GO0 -> GI0"),
)
def Relu(xp, X, *, out):
    """Y = max(X, 0), element by element.

    X [...], Y of its shape; float32, on GPUs float16 too.  TypeError for other dtypes.
    """
    Y = out(X.shape, X.dtype)
    if xp is not np:
        return xp.maximum(X, X.dtype.type(0), out=Y)
    if X.size <= ZEROS:
        return np.maximum(X, zeros(X.dtype, X.size).reshape(X.shape), out=Y)
    return np.clip(X, X.dtype.type(0), X.dtype.type(np.inf), out=Y)


@Relu.bind
def _relu_again(xp, inputs, outputs, args):
    """NumPy is fastest with an array of zeros while they stay in cache, and with `clip` for what does not."""
    X, Y = inputs[0], outputs[0]
    if X.size <= ZEROS:
        return functools.partial(np.maximum, X, zeros(X.dtype, X.size).reshape(X.shape), out=Y)
    return functools.partial(np.clip, X, X.dtype.type(0), X.dtype.type(np.inf), out=Y)


@operator(
    "dX",
    inplace={1: 0},
    types=_FROM_Y,
    broadcasts="Y dY",
    cuda_types={"Y": "float32 float16", "dY": "=Y"},
    infer=like(0),
)
@in_blocks
def ReluGradient(xp, Y, dY, *, out):
    """dX = dY where Y > 0, else 0.

    Y [...], dY and dX of its shape; float32, on GPUs float16 too.  ValueError where the shapes differ.
    """
    dX = out(Y.shape, Y.dtype)
    return keep_where(xp, Y > 0, dY, dX)


@pointwise(ReluGradient)
def _relu_gradient(Y, dY, dX):
    for i in range(dX.size):
        dX[i] = dY[i] if Y[i] > 0 else np.float32(0)


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("EluGradient", "O0 GO0 -> GI0"))
@in_blocks
def Elu(xp, X, *, alpha: float = 1.0, out):
    """Y = X where X >= 0, alpha * (exp(X) - 1) elsewhere.

    Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2016.  X [...], Y of its
    shape; float32.  TypeError for other dtypes.
    """
    low = (xp.exp(xp.minimum(X, 0)) - 1) * X.dtype.type(alpha)
    Y = out(X.shape, X.dtype)
    Y[...] = xp.where(X < 0, low, X)
    return Y


@pointwise(Elu, "alpha")
def _elu(X, Y, alpha):
    for i in range(Y.size):
        Y[i] = X[i] if X[i] >= 0 else alpha * (exp32(X[i]) - np.float32(1))


@operator("dX", inplace={1: 0}, types=_FROM_Y, broadcasts="Y dY", infer=like(0))
@in_blocks
def EluGradient(xp, Y, dY, *, alpha: float = 1.0, out):
    """dX = dY where Y >= 0, dY * (Y + alpha) elsewhere.

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return xp.multiply(dY, xp.where(Y < 0, Y + Y.dtype.type(alpha), 1), out=out(Y.shape, Y.dtype))


@pointwise(EluGradient, "alpha")
def _elu_gradient(Y, dY, dX, alpha):
    for i in range(dX.size):
        dX[i] = dY[i] * (Y[i] + alpha) if Y[i] < 0 else dY[i]


def _leaky(xp, X, slope, Y):
    """X above 0, slope * X below.  NumPy's `where` takes ten times as long: it branches at each element."""
    low = xp.minimum(X, zero := X.dtype.type(0))
    low *= slope
    xp.maximum(X, zero, out=Y)
    Y += low
    return Y


def _slope(above, slope, dtype):
    """1 where above, the slope elsewhere, both exactly."""
    made = (~above).astype(dtype)
    made *= slope
    made += above
    return made


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("LeakyReluGradient", "O0 GO0 -> GI0"))
@in_blocks
def LeakyRelu(xp, X, *, alpha: float = 0.01, out):
    """Y = X where X >= 0, alpha * X elsewhere.

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    slope = X.dtype.type(alpha)
    Y = out(X.shape, X.dtype)
    if np.isfinite(slope):
        return _leaky(xp, X, slope, Y)
    Y[...] = xp.where(X >= 0, X, slope * X)  # times 0 that slope is NaN
    return Y


@pointwise(LeakyRelu, "alpha")
def _leaky_relu(X, Y, alpha):
    for i in range(Y.size):
        Y[i] = X[i] if X[i] >= 0 else alpha * X[i]


@operator("dX", inplace={1: 0}, types=_FROM_Y, alike="Y dY", infer=like(0))
@in_blocks
def LeakyReluGradient(xp, Y, dY, *, alpha: float = 0.01, out):
    """dX = dY where Y >= 0, alpha * dY elsewhere.

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    slope = Y.dtype.type(alpha)
    factor = _slope(Y >= 0, slope, Y.dtype) if np.isfinite(slope) else xp.where(Y >= 0, Y.dtype.type(1), slope)
    return xp.multiply(dY, factor, out=out(Y.shape, Y.dtype))


@pointwise(LeakyReluGradient, "alpha")
def _leaky_relu_gradient(Y, dY, dX, alpha):
    for i in range(dX.size):
        dX[i] = dY[i] if Y[i] >= 0 else alpha * dY[i]


def _slopes(xp, X, slope, order):
    """Return the slopes as an array that broadcasts against X."""
    axis = 1 if order == "NCHW" else X.ndim - 1
    if not 0 <= axis < X.ndim:
        raise ValueError(f"X has no channels: order {order} has them in axis {axis} of {list(X.shape)}")
    if slope.size == 1:
        return slope.reshape((1,) * X.ndim)
    check_order(order)
    if slope.shape != (X.shape[axis],):
        raise ValueError(
            f"the slope must be one value or one for each channel of X (axis {axis} of {list(X.shape)}), "
            f"found the shape {list(slope.shape)}"
        )
    return slope.reshape([-1 if a == axis else 1 for a in range(X.ndim)])


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "slope": "float32"},
    infer=like(0),
    gradient=single("PReluGradient", "O0 GO0 I0 I1 -> GI0 GI1"),
)
def PRelu(xp, X, slope, *, order: str = "NCHW", out):
    """Y = X where X > 0, slope * X elsewhere; one slope, or one a channel.

    He et al., Delving Deep into Rectifiers, 2015.  X [N, C, ...] (NHWC: [N, ..., C]), slope [1] or [C], Y of X's
    shape; float32.  ValueError where slope has neither one value nor one a channel.
    """
    w = _slopes(xp, X, slope, order)
    Y = out(X.shape, X.dtype)
    if xp is np and np.isfinite(w).all():
        return _leaky(xp, X, w, Y)
    Y[...] = xp.where(X > 0, X, w * X)
    return Y


@compiled(PRelu)
def _p_relu_compiled(xp, X, slope, *, order: str = "NCHW", out):
    if order != "NCHW" or X.ndim < 2 or slope.size == 1:
        return PRelu(xp, X, slope, order=order, out=out)
    _slopes(xp, X, slope, order)
    Y = out(X.shape, X.dtype)
    if X.size:
        rows = X.size // math.prod(X.shape[2:])
        _p_relu_rows(X.reshape(rows, -1), slope, Y.reshape(rows, -1))
    return Y


@loop
def _p_relu_rows(X, slope, Y):
    for k in range(X.shape[0]):
        x, y, w = X[k], Y[k], slope[k % slope.size]
        for i in range(x.size):
            y[i] = x[i] if x[i] > 0 else w * x[i]


@operator("dX dSlope", alike="Y dY X", types={"Y": "float32", "dY": "=Y", "X": "=Y", "slope": "=Y"}, infer=like(0, 3))
def PReluGradient(xp, Y, dY, X, slope, *, order: str = "NCHW", out):
    """dX = dY * (X > 0 ? 1 : slope); dSlope = sum of dY * X over X <= 0.

    Y [N, C, ...], dY, X and dX of its shape, slope and dSlope [1] or [C]; float32.  ValueError where slope has
    neither one value nor one a channel.
    """
    check_order(order)
    w = _slopes(xp, X, slope, order)
    below = ~(X > 0)
    factor = _slope(~below, w, X.dtype) if xp is np and np.isfinite(w).all() else xp.where(below, w, X.dtype.type(1))
    dX = xp.multiply(dY, factor, out=out[0](X.shape, X.dtype))
    dW = out[1](slope.shape, slope.dtype)
    axes = tuple(a for a in range(X.ndim) if w.shape[a] == 1) if slope.size != 1 else None
    dW[...] = xp.where(X <= 0, dY * X, X.dtype.type(0)).sum(axis=axes).reshape(slope.shape)
    return dX, dW


@compiled(PReluGradient)
def _p_relu_gradient_compiled(xp, Y, dY, X, slope, *, order: str = "NCHW", out):
    if order != "NCHW" or X.ndim < 2 or slope.size == 1 or not X.size or dY.shape != X.shape:
        return PReluGradient(xp, Y, dY, X, slope, order=order, out=out)
    _slopes(xp, X, slope, order)
    dX, dW = out[0](X.shape, X.dtype), out[1](slope.shape, slope.dtype)
    rows = X.size // math.prod(X.shape[2:])
    _p_relu_gradient_rows(*(A.reshape(rows, -1) for A in (X, dY, dX)), slope, dW)
    return dX, dW


@loop(reorder=True)
def _p_relu_gradient_rows(X, dY, dX, slope, dW):
    dW[:] = 0
    for k in range(X.shape[0]):
        x, dy, dx, w, total = X[k], dY[k], dX[k], slope[k % slope.size], np.float32(0)
        for i in range(x.size):
            dx[i] = dy[i] if x[i] > 0 else w * dy[i]
            total += np.float32(0) if x[i] > 0 else dy[i] * x[i]
        dW[k % slope.size] += total


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    infer=like(0),
    gradient=single("ReluNGradient", "O0 GO0 -> GI0"),
    limits="n > 0",
)
@in_blocks
def ReluN(xp, X, *, n: float = 6.0, out):
    """Y = X limited to [0, n].

    X [...], Y of its shape; float32.  ValueError where n is not above 0.
    """
    return xp.clip(X, X.dtype.type(0), X.dtype.type(n), out=out(X.shape, X.dtype))


@pointwise(ReluN, "n")
def _relu_n(X, Y, n):
    for i in range(Y.size):
        Y[i] = min(max(X[i], np.float32(0)), n)


@operator("dX", inplace={1: 0}, types=_FROM_Y, broadcasts="Y dY", infer=like(0), limits="n > 0")
@in_blocks
def ReluNGradient(xp, Y, dY, *, n: float = 6.0, out):
    """dX = dY where 0 < Y < n, else 0.

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ or n is not above 0.
    """
    return keep_where(xp, (Y > 0) & (Y.dtype.type(n) > Y), dY, out(Y.shape, Y.dtype))


@pointwise(ReluNGradient, "n")
def _relu_n_gradient(Y, dY, dX, n):
    for i in range(dX.size):
        dX[i] = dY[i] if (Y[i] > 0) & (Y[i] < n) else np.float32(0)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    infer=like(0),
    gradient=single("SeluGradient", "O0 GO0 -> GI0"),
    limits="scale > 1",
)
@in_blocks
def Selu(xp, X, *, alpha: float = _SELU_ALPHA, scale: float = _SELU_SCALE, out):
    """Y = scale * (X where X > 0, alpha * (exp(X) - 1) elsewhere).

    Klambauer et al., Self-Normalizing Neural Networks, 2017.  X [...], Y of its shape; float32.  ValueError where
    scale is not above 1.
    """
    low = (xp.exp(xp.minimum(X, 0)) - 1) * X.dtype.type(alpha)
    return xp.multiply(xp.where(X > 0, X, low), X.dtype.type(scale), out=out(X.shape, X.dtype))


@pointwise(Selu, "alpha", "scale")
def _selu(X, Y, alpha, scale):
    for i in range(Y.size):
        Y[i] = scale * (X[i] if X[i] > 0 else alpha * (exp32(X[i]) - np.float32(1)))


@operator("dX", inplace={1: 0}, types=_FROM_Y, infer=like(0), limits="scale > 1")
@in_blocks
def SeluGradient(xp, Y, dY, *, alpha: float = _SELU_ALPHA, scale: float = _SELU_SCALE, out):
    """dX = dY * (scale where Y > 0, Y + alpha * scale elsewhere).

    Y [...], dX of its shape, dY of as many values; float32.  ValueError where their numbers differ or scale is not
    above 1.
    """
    derivative = xp.where(Y > 0, Y.dtype.type(scale), Y + Y.dtype.type(alpha * scale))
    check_sizes(Y=Y, dY=dY)
    return xp.multiply(dY.reshape(Y.shape), derivative, out=out(Y.shape, Y.dtype))


@pointwise(SeluGradient, "alpha", "scale")
def _selu_gradient(Y, dY, dX, alpha, scale):
    for i in range(dX.size):
        dX[i] = dY[i] * (scale if Y[i] > 0 else Y[i] + alpha * scale)


@operator(
    "Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("ThresholdedReluGradient", "O0 GO0 -> GI0")
)
@in_blocks
def ThresholdedRelu(xp, X, *, alpha: float = 1.0, out):
    """Y = X where X > alpha, else 0.

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    Y = out(X.shape, X.dtype)
    Y[...] = xp.where(X.dtype.type(alpha) < X, X, 0)
    return Y


@pointwise(ThresholdedRelu, "alpha")
def _thresholded_relu(X, Y, alpha):
    for i in range(Y.size):
        Y[i] = X[i] if X[i] > alpha else np.float32(0)


@operator("dX", inplace={1: 0}, types=_FROM_Y, alike="Y dY", infer=like(0))
@in_blocks
def ThresholdedReluGradient(xp, Y, dY, *, alpha: float = 1.0, out):
    """dX = dY where Y > 0, -dY where Y < 0 (as Caffe2 has it, whatever alpha is), else 0.

    Y [...], dY and dX of its shape; float32.  ValueError where the shapes differ.
    """
    return xp.multiply(dY, xp.sign(Y), out=out(Y.shape, Y.dtype))


@pointwise(ThresholdedReluGradient, "alpha")
def _thresholded_relu_gradient(Y, dY, dX, alpha):
    for i in range(dX.size):
        y = Y[i]
        sign = np.float32(1) if y > 0 else (np.float32(-1) if y < 0 else y)  # of 0 and NaN: themselves
        dX[i] = dY[i] * sign
