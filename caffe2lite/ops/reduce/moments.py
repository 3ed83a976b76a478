"""Norms and moments of tensors, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, scalar
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import fitted
from caffe2lite.ops.reduce.reductions import check_results, kept_shape, plain_axes

# ---- norms and moments -------------------------------------------------------------------------------------------


def _power(p: int) -> int:
    if p not in (1, 2):
        raise ValueError(f"p must be 1 or 2, found {p}")
    return p


@operator("Z", types="float32", infer=scalar(shape=(1,)), gradient=single("LpNormGradient", "I0 GO0 -> GI0"))
def LpNorm(xp, X, *, p: int = 2, average: bool = False, out):
    """Z = sum of |X|^p (no root), or its mean.

    X [...], Z [1]; float32.  ValueError where p is neither 1 nor 2, or the mean of no elements is asked for.
    """
    if average and not X.size:
        raise ValueError(f"the input has no elements: {list(X.shape)}")
    Z = out((1,), X.dtype)
    Z[...] = abs(X).sum() if _power(p) == 1 else xp.vdot(X, X)
    if average and X.size:
        xp.divide(Z, Z.dtype.type(X.size), Z)
    return Z


@operator("dX", types={"X": "float32", "dZ": "=X"}, infer=lambda args, inputs: inputs[:1])
def LpNormGradient(xp, X, dZ, *, p: int = 2, average: bool = False, out):
    """dX = dZ * sign(X) for p = 1, dZ * 2 X for p = 2.

    X [...], dX of its shape, dZ [1]; float32; with `average` over X.size.  ValueError where p is neither 1 nor 2, or
    dZ is not [1].
    """
    if dZ.shape != (1,):
        raise ValueError(f"dZ must be one value of the shape [1], found {list(dZ.shape)}")
    count = X.dtype.type(X.size if average and X.size else 1)
    direction = xp.sign(X) if _power(p) == 1 else X
    dX = xp.multiply(direction, dZ.reshape(()) * X.dtype.type(p), out(X.shape, X.dtype))
    return xp.divide(dX, count, dX)


def _infer_moments(args: Any, inputs: Any) -> list[Spec]:
    shape = inputs[0].shape
    spec = Spec(
        kept_shape(shape, plain_axes(args.get("axes") or (), len(shape)), args.get("keepdims", True)), inputs[0].dtype
    )
    return [spec, spec]


def _front_axes(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    if any(a < 0 for a in axes):
        raise ValueError(f"axes={list(axes)} must count from 0: Moments takes no negative ones")
    return plain_axes(axes, ndim)


@operator(
    "mean variance",
    types="float32",
    infer=_infer_moments,
    gradient=single("MomentsGradient", "GO0 GO1 I0 O0 -> GI0"),
)
def Moments(xp, X, *, axes: list[int] = (), keepdims: bool = True, out):
    """Mean and (biased) variance of X over the axes.

    X [...], mean and variance with a dimension of 1 for each of the axes (all where none is named), or without them
    where keepdims is 0; float32.  ValueError where an axis is none of X's.
    """
    over = _front_axes(axes, X.ndim)
    shape = kept_shape(X.shape, over, keepdims)
    mean, variance = out[0](shape, X.dtype), out[1](shape, X.dtype)
    centre = X.mean(axis=over, keepdims=True) if X.size else xp.zeros(kept_shape(X.shape, over, True), X.dtype)
    mean[...] = centre.reshape(shape)
    away = X - centre
    variance[...] = ((away * away).mean(axis=over) if X.size else xp.zeros(shape, X.dtype)).reshape(shape)
    return mean, variance


@compiled(Moments)
def _moments_compiled(xp, X, *, axes: list[int] = (), keepdims: bool = True, out):
    over = _front_axes(axes, X.ndim)
    kept = [a for a in range(X.ndim) if a not in over] or [0]
    first, last = kept[0], kept[-1] + 1
    pixels = math.prod(X.shape[last:])
    if len(kept) != last - first or len(over) == X.ndim or pixels < 16 or not X.size:
        return Moments(xp, X, axes=axes, keepdims=keepdims, out=out)
    shape = kept_shape(X.shape, over, keepdims)
    mean, variance = out[0](shape, X.dtype), out[1](shape, X.dtype)
    _moments_loop(X.reshape(-1, mean.size, pixels), mean.reshape(-1), variance.reshape(-1))
    return mean, variance


@loop(reorder=True)
def _moments_loop(X, mean, variance):
    count = np.float64(X.shape[0] * X.shape[2])
    for c in range(mean.size):
        total = 0.0
        for n in range(X.shape[0]):
            row, part = X[n, c], np.float32(0)
            for j in range(row.size):
                part += row[j]
            total += part
        centre = np.float32(total / count)
        total = 0.0
        for n in range(X.shape[0]):
            row, part = X[n, c], np.float32(0)
            for j in range(row.size):
                part += (row[j] - centre) * (row[j] - centre)
            total += part
        mean[c], variance[c] = centre, total / count


@operator("dX", types={"dmean": "float32", "dvariance": "=dmean", "X": "=dmean", "mean": "=dmean"},
          infer=lambda args, inputs: [inputs[2]])  # fmt: skip
def MomentsGradient(xp, dmean, dvariance, X, mean, *, axes: list[int] = (), keepdims: bool = True, out):
    """dX = (dmean + 2 (X - mean) dvariance) / n.

    X [...], dX of its shape, the others as in Moments, n = X.size / mean.size; float32.  ValueError where an axis is
    none of X's or a size differs.
    """
    shape = kept_shape(X.shape, _front_axes(axes, X.ndim), True)
    check_results(X, shape, dmean=dmean, dvariance=dvariance, mean=mean)
    share = X.dtype.type(mean.size / max(X.size, 1))
    dX = out(X.shape, X.dtype)
    dmean, dvariance, mean = (
        fitted(dmean, shape, "dmean"),
        fitted(dvariance, shape, "dvariance"),
        fitted(mean, shape, "mean"),
    )
    dX[...] = (dmean + 2 * (X - mean) * dvariance) * share
    return dX
