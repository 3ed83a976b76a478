"""Batch normalization and the gradient of softmax in compiled loops.

Softmax itself gains nothing by it: NumPy's exponential is vectorised, Numba's is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.memory import scratch
from caffe2lite.ops.nn import batch_norm, softmax

_SLOT = 64  # working memory of this module


# ---- batches -----------------------------------------------------------------------------------------------------


class _Channels(batch_norm.Channels):
    """Sums and results of all images NCHW, each in one pass."""

    def moments(self, xp: Any, X: Any, Y: Any = None) -> tuple[Any, Any]:
        if not self.first or not X.size:
            return super().moments(xp, X, Y)
        sums = scratch(np, (2, self.count), np.float32, _SLOT)
        _moments(X.reshape(-1), (X if Y is None else Y).reshape(-1), sums, self.n, self.count, self.pixels)
        return sums[0], sums[1]

    def affine(self, xp: Any, X: Any, scale: Any, shift: Any, Y: Any) -> None:
        if not self.first or not X.size:
            return super().affine(xp, X, scale, shift, Y)
        _affine(X.reshape(-1), scale, shift, Y.reshape(-1), self.pixels)

    def combine(self, xp: Any, X: Any, a: Any, Y: Any, b: Any, c: Any, Z: Any) -> None:
        if not self.first:
            return super().combine(xp, X, a, Y, b, c, Z)
        _combine(X.reshape(-1), a, Y.reshape(-1), b, c, Z.reshape(-1), self.pixels)


@loop(reorder=True)
def _moments(X, Y, sums, n, channels, pixels):
    for c in range(channels):
        total, product = 0.0, 0.0
        for i in range(n):
            at = (i * channels + c) * pixels
            x, y = X[at : at + pixels], Y[at : at + pixels]
            s, q = np.float32(0), np.float32(0)
            for j in range(pixels):
                s += x[j]
                q += x[j] * y[j]
            total += s
            product += q
        sums[0, c] = total
        sums[1, c] = product


@loop
def _affine(X, scale, shift, Y, pixels):
    for row in range(X.size // pixels):
        a, b = scale[row % scale.size], shift[row % scale.size]
        x, y = X[row * pixels : (row + 1) * pixels], Y[row * pixels : (row + 1) * pixels]
        for j in range(pixels):
            y[j] = x[j] * a + b


@loop
def _combine(X, A, Y, B, C, Z, pixels):
    for row in range(X.size // pixels):
        a, b, c = A[row % A.size], B[row % A.size], C[row % A.size]
        at = slice(row * pixels, (row + 1) * pixels)
        x, y, z = X[at], Y[at], Z[at]
        for j in range(pixels):
            z[j] = x[j] * a + (y[j] * b + c)


@compiled("SpatialBN")
def spatial_bn(xp, X, *inputs, order: str = "NCHW", out, **args):
    return batch_norm.normalize(xp, _Channels(X, order), X, *inputs, out=out, **args)


@compiled("SpatialBNGradient")
def spatial_bn_gradient(xp, X, *inputs, order: str = "NCHW", out, **args):
    return batch_norm.normalize_gradient(xp, _Channels(X, order), X, *inputs, out=out, **args)


# ---- softmax -----------------------------------------------------------------------------------------------------


@compiled("SoftmaxGradient")
def softmax_gradient(xp, Y, dY, *, axis: int = 1, out):
    y = softmax._rows(Y, axis)
    dX = out(Y.shape, Y.dtype)
    _softmax_gradient(y, dY.reshape(y.shape), dX.reshape(y.shape))
    return dX


@loop(reorder=True)
def _softmax_gradient(Y, dY, dX):
    rows, width = Y.shape
    for i in range(rows):
        y, dy, dx = Y[i], dY[i], dX[i]
        mean = np.float32(0)
        for j in range(width):
            mean += y[j] * dy[j]
        for j in range(width):
            dx[j] = (dy[j] - mean) * y[j]
