"""Normalization over neighboring channels (local response normalization)."""

from __future__ import annotations

import math
from typing import Any

from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn import cuda


def _neighbours(xp: Any, V: Any, axis: int, before: int, behind: int, out: Any) -> Any:
    """The sum of each channel, `before` channels below and `behind` above it; beyond the first and last there is 0."""
    count = V.shape[axis]
    xp.copyto(out, V)
    for away in range(1, min(max(before, behind), count - 1) + 1):
        low = (slice(None),) * axis + (slice(None, -away),)
        high = (slice(None),) * axis + (slice(away, None),)
        if away <= behind:
            xp.add(out[low], V[high], out[low])
        if away <= before:
            xp.add(out[high], V[low], out[high])
    return out


def _lrn_axis(X: Any, order: str) -> int:
    if X.ndim != 4:
        raise ValueError(f"images with 4 dimensions are needed, found the shape {list(X.shape)}")
    return 1 if order == "NCHW" else 3


def _window(size: int) -> tuple[int, int]:
    """How many channels below and above count."""
    if size <= 0:
        raise ValueError(f"size must be above 0, found {size}")
    return (size - 1) // 2, size // 2


def _power(xp: Any, S: Any, beta: float, out: Any) -> Any:
    """S to the power of -beta."""
    if beta == 0.75:  # two square roots are several times faster than a power
        root = xp.sqrt(S, out)
        xp.multiply(root, xp.sqrt(root), out)
        return xp.reciprocal(out, out)
    return xp.power(S, S.dtype.type(-beta), out)


@operator(
    "Y scale?",
    types="float32",
    infer=lambda args, inputs: [inputs[0], inputs[0]],
    gradient=single("LRNGradient", "I0 O0 GO0 -> GI0"),
)
def LRN(xp, X, *, size: int = 0, alpha: float = 0.0, beta: float = 0.0, bias: float = 1.0, order: str = "NCHW", out):
    """Y = X * scale^-beta, where scale = bias + alpha / size * the sum of X^2 over neighbouring channels.

    Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural Networks, 2012.  The window is of `size`
    channels, (size - 1) / 2 of them before.  X [N, C, H, W] or [N, H, W, C], Y and scale of its shape; float32.
    ValueError where X has not 4 dimensions or size is below 1.
    """
    axis = _lrn_axis(X, order)
    Y = out[0](X.shape, X.dtype)
    S = out[1](X.shape, X.dtype) if len(out) > 1 else None
    if usable(xp, X):
        cuda.LRN(xp, X.size, Y, S, X, X.shape[axis], _inner(X, axis), *_window(size), alpha / size, beta, bias)
        return Y if S is None else (Y, S)
    for n in range(len(X)):
        x, y = X[n : n + 1], Y[n : n + 1]
        s = _scale(xp, x, axis, size, alpha, bias, S[n : n + 1] if S is not None else None)
        _power(xp, s, beta, y)
        xp.multiply(x, y, y)
    return Y if S is None else (Y, S)


def _inner(X: Any, axis: int) -> int:
    """How far apart neighbours along the axis are."""
    return math.prod(X.shape[axis + 1 :])


def _scale(xp: Any, X: Any, axis: int, size: int, alpha: float, bias: float, out: Any = None) -> Any:
    if out is None:
        out = xp.empty(X.shape, X.dtype)
    _neighbours(xp, X * X, axis, *_window(size), out)
    xp.multiply(out, X.dtype.type(alpha / size), out)
    return xp.add(out, X.dtype.type(bias), out)


@operator("dX", shapes="Y = X, dY = X", types={"X": "float32", "Y": "=X", "dY": "=X"}, infer=like(0))
def LRNGradient(
    xp, X, Y, dY, *, size: int = 0, alpha: float = 0.0, beta: float = 0.0, bias: float = 1.0, order: str = "NCHW", out
):
    """dX = dY * scale^-beta - 2 alpha beta / size * X * the sum of dY * Y / scale over neighbouring channels.

    X [N, C, H, W] or [N, H, W, C], Y, dY and dX of its shape; float32.  ValueError where X has not 4 dimensions or
    size is below 1.
    """
    axis = _lrn_axis(X, order)
    before, behind = _window(size)
    if order == "NCHW":  # for channels last Caffe2 takes the window of the forward pass, which tells for an even size
        before, behind = behind, before
    dX = out(X.shape, X.dtype)
    if usable(xp, X):
        scales, place = xp.empty(X.shape, X.dtype), (X.shape[axis], _inner(X, axis))
        cuda.LRN(xp, X.size, None, scales, X, *place, *_window(size), alpha / size, beta, bias)
        cuda.LRN_GRADIENT(xp, X.size, dX, scales, X, Y, dY, *place, before, behind, alpha / size, beta)
        return dX
    for n in range(len(X)):
        x, y, dy, dx = (A[n : n + 1] for A in (X, Y, dY, dX))
        s = _scale(xp, x, axis, size, alpha, bias)
        ratio = dy * y
        ratio /= s
        around = _neighbours(xp, ratio, axis, before, behind, xp.empty(x.shape, x.dtype))
        xp.multiply(around, x, around)
        xp.multiply(around, x.dtype.type(2 * alpha * beta / size), around)
        _power(xp, s, beta, dx)
        xp.multiply(dx, dy, dx)
        xp.subtract(dx, around, dx)
    return dX
