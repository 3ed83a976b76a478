"""Batch and local response normalization, and softmax, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops import batch_norm, normalization, softmax
from caffe2lite.ops._compiled import compiled, loop, plain
from caffe2lite.ops._scratch import scratch

_SLOT = 64  # working memory of this module
_WIDTH = 256  # pixels at a time: their channels stay in the cache


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


# ---- neighbouring channels ---------------------------------------------------------------------------------------


@compiled("LRN")
def lrn(xp, X, *, size: int = 0, alpha: float = 0.0, beta: float = 0.0, bias: float = 1.0, order: str = "NCHW", out):
    if order != "NCHW" or beta != 0.75 or X.ndim != 4 or not X.size:
        return plain("LRN")(xp, X, size=size, alpha=alpha, beta=beta, bias=bias, order=order, out=out)
    before, behind = normalization._window(size)
    Y = out[0](X.shape, X.dtype)
    S = out[1](X.shape, X.dtype) if len(out) > 1 else None
    shape = X.shape[0], X.shape[1], X.shape[2] * X.shape[3]
    square = scratch(np, (shape[1] + 1, _WIDTH), np.float32, _SLOT)
    scale = scratch(np, (1,), np.float32, _SLOT + 1) if S is None else S.reshape(-1)
    _lrn(
        X.reshape(shape), Y.reshape(shape), scale, S is not None, square, before, behind,
        np.float32(alpha / size), np.float32(bias),
    )  # fmt: skip
    return Y if S is None else (Y, S)


@loop
def _lrn(X, Y, S, keep, square, before, behind, share, bias):
    n, channels, pixels = X.shape
    total = square[channels]
    for i in range(n):
        for start in range(0, pixels, total.size):
            count = min(total.size, pixels - start)
            for c in range(channels):
                x = X[i, c, start : start + count]
                for j in range(count):
                    square[c, j] = x[j] * x[j] * share
            for c in range(channels):
                total[:] = bias
                for k in range(max(0, c - before), min(channels, c + behind + 1)):
                    for j in range(count):
                        total[j] += square[k, j]
                x, y = X[i, c, start : start + count], Y[i, c, start : start + count]
                for j in range(count):
                    root = np.sqrt(total[j])
                    y[j] = x[j] / (root * np.sqrt(root))
                if keep:
                    at = (i * channels + c) * pixels + start
                    S[at : at + count] = total[:count]


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
