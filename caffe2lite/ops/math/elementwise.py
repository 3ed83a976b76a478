"""Scaling, clipping, dropout."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import pointwise
from caffe2lite.ops.kit.filling import draw
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import each_like, like
from caffe2lite.ops.kit.memory import in_blocks
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import check_indices
from caffe2lite.ops.kit.shapes import one


@operator(
    "Y",
    inplace={0: 0},
    types="float32 float64",
    cuda_types="float32 float64 float16",
    infer=like(0),
    gradient=single("Scale", "GO0 -> GI0"),
)
def Scale(xp, X, *, scale: float = 1.0, out):
    """Y = scale * X.

    X [...] -> Y of its shape; float32 or float64, on GPUs float16 too. TypeError for other types.
    """
    return xp.multiply(X, X.dtype.type(scale), out(X.shape, X.dtype))


@Scale.bind
def _scale_again(xp, inputs, outputs, args):
    (X,), (Y,) = inputs, outputs
    return functools.partial(xp.multiply, X, xp.asarray(args.get("scale", 1.0), dtype=X.dtype), Y)


@operator(
    "Ys*",
    inplace=[(-1, -1)],
    types={"Xs": "float32 float64"},
    num_inputs=(1, MANY),
    num_outputs=(1, MANY),
    infer=each_like,
)
def ScaleBlobs(xp, *Xs, scale: float = 1.0, out):
    """Each output = scale * the input of its position.

    Any number of inputs [...], each with an output of its shape; float32 or float64. ValueError where the numbers of
    inputs and outputs differ.
    """
    if len(out) < len(Xs):
        raise ValueError(f"as many outputs as inputs are needed: {len(Xs)} inputs, {len(out)} outputs")
    if any(X.dtype != Xs[0].dtype for X in Xs):
        raise TypeError(f"all inputs must have one type, found {', '.join(X.dtype.name for X in Xs)}")
    return tuple(xp.multiply(X, X.dtype.type(scale), o(X.shape, X.dtype)) for X, o in zip(Xs, out))


_FLT_MAX = 3.4028234663852886e38


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("ClipGradient", "O0 GO0 -> GI0"))
@in_blocks
def Clip(xp, X, *, min: float = -_FLT_MAX, max: float = _FLT_MAX, out):
    """Y = X limited to [min, max].

    X [...] -> Y of its shape; float32. TypeError for other types. NaN stays.
    """
    return xp.clip(X, X.dtype.type(min), X.dtype.type(max), out=out(X.shape, X.dtype))


@pointwise(Clip, "min", "max")
def _clip(X, Y, low, high):
    for i in range(Y.size):
        x = X[i] if (X[i] >= low) | (X[i] != X[i]) else low  # a limit that is NaN makes all NaN
        Y[i] = x if (x <= high) | (x != x) else high


@operator("dX", inplace={1: 0}, types={"Y": "float32", "dY": "=Y"}, alike="Y dY", infer=like(0))
@in_blocks
def ClipGradient(xp, Y, dY, *, min: float = -_FLT_MAX, max: float = _FLT_MAX, out):
    """dX = dY where min < Y < max, else 0.

    Y [...], dY alike -> dX of their shape; float32. ValueError where the shapes differ.
    """
    return xp.multiply(dY, (Y.dtype.type(min) < Y) & (Y.dtype.type(max) > Y), out(Y.shape, Y.dtype))


@pointwise(ClipGradient, "min", "max")
def _clip_gradient(Y, dY, dX, low, high):
    for i in range(dX.size):
        dX[i] = dY[i] * (np.float32(1) if (low < Y[i]) & (high > Y[i]) else np.float32(0))


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "val": "=X", "additional_threshold": "=X"},
    infer=like(0),
    gradient=FORBID_GRADIENT,
    limits="threshold > 0",
)
def ClipTensorByScaling(xp, X, val, additional_threshold=None, *, threshold: float, out):
    """Y = X * threshold / val where val (X's norm, say) is above the threshold, else X.

    X [...], val [1], additional_threshold [1], which multiplies the threshold -> Y of X's shape; float32.
    ValueError where val or additional_threshold has more than one value, or the threshold is not above 0.
    """
    limit = X.dtype.type(threshold)
    if additional_threshold is not None:
        limit = one(additional_threshold, "additional_threshold") * limit
    value = one(val, "val")
    return xp.multiply(X, xp.where(value > limit, limit / value, X.dtype.type(1)), out(X.shape, X.dtype))


def _dropout_gradient(g: Any) -> Any:
    g.need("is_test")
    inputs = [g.GO(0)] if g.arg("is_test", 0) else [g.GO(0), g.O(1)]
    return g.single("DropoutGrad", inputs, [g.GI(0)])


@operator(
    "Y mask?",
    stateful=True,
    inplace={0: 0},
    types="float32",
    cuda_types="float32 float16",
    infer=lambda args, inputs: [inputs[0], inputs[0]._replace(dtype="bool")],
    gradient=_dropout_gradient,
    limits="ratio >= 0, ratio < 1",
)
def Dropout(ctx, X, *, ratio: float = 0.5, is_test: bool, out):
    """Y = X * mask / (1 - ratio), where the mask drops each element with probability `ratio`; a test copies X.

    X [...] -> Y of its shape, mask of its shape, bool, which a test does not write; float32, on GPUs float16 too.
    ValueError where the ratio is not in [0, 1), or where training has no output for the mask.

    N. Srivastava, G. Hinton, A. Krizhevsky, I. Sutskever, R. Salakhutdinov, "Dropout: a simple way to prevent neural
    networks from overfitting", 2014.
    """
    xp = ctx.xp
    scale = 1 / (1 - ratio)
    if is_test:
        in_place = out[0].replaces(X)
        Y = out[0](X.shape, X.dtype)
        if not in_place:
            xp.copyto(Y, X)
        return Y
    if len(out) < 2:
        raise ValueError("training needs the second output, the mask, for the gradient")
    mask = out[1](X.shape, "bool")
    drawn = xp.empty(X.shape, xp.float32)
    draw(ctx.rng.random, drawn)
    xp.greater_equal(drawn, xp.float32(ratio), out=mask)
    Y = xp.multiply(X, X.dtype.type(scale), out[0](X.shape, X.dtype))
    return xp.multiply(Y, mask, Y), mask


@operator(
    "dX",
    inplace={0: 0},
    types={"dY": "float32", "mask": "bool"},
    cuda_types={"dY": "float32 float16"},
    infer=like(0),
    limits="ratio >= 0, ratio < 1",
)
def DropoutGrad(xp, dY, mask=None, *, ratio: float = 0.5, is_test: bool = False, out):
    """dX = dY * mask / (1 - ratio); for a test dX = dY.

    dY [...] float32, on GPUs float16 too, mask of its size, bool -> dX of dY's shape. ValueError where the mask is
    missing though this is no test, or is of another size, or where the ratio is not in [0, 1).
    """
    scale = 1 / (1 - ratio)
    if not is_test and mask is None:
        raise ValueError("the second input, the mask, is missing: without it there is no gradient but for a test")
    if is_test:
        in_place = out.replaces(dY)
        dX = out(dY.shape, dY.dtype)
        if not in_place:
            xp.copyto(dX, dY)
        return dX
    if mask.size != dY.size:
        raise ValueError(f"the mask has the shape {list(mask.shape)}, and dY {list(dY.shape)}")
    dX = xp.multiply(dY, dY.dtype.type(scale), out(dY.shape, dY.dtype))
    return xp.multiply(dX, mask.reshape(dX.shape), dX)


def _bounds(min: float, max: float) -> tuple[float, float]:
    if min > max:
        raise ValueError(f"min must be at most max, found [{min}, {max}]")
    return min, max


@operator("Y", inplace={0: 0}, types={"param": "float32", "indices": "int32 int64"}, gradient=FORBID_GRADIENT)
def EnsureClipped(xp, param, indices=None, grad=None, *, min: float = -_FLT_MAX, max: float = _FLT_MAX, out):
    """The parameter limited to [min, max]; with indices (and a sparse gradient) only in these rows, in place.

    param [N, ...] float32, indices [K] int32 or int64, grad [K, ...] whose values are not read -> the parameter.
    ValueError where min > max, where indices come without a gradient or not in place, or where one is not in [0, N).
    """
    low, high = _bounds(min, max)
    if indices is None:
        return xp.minimum(
            xp.maximum(param, param.dtype.type(low)), param.dtype.type(high), out=out(param.shape, param.dtype)
        )
    if not out.replaces(param):
        raise ValueError("the rows are clipped in place: the output must be the parameter itself")
    if grad is None:
        raise ValueError("three inputs are needed for a sparse parameter: param, indices, grad")
    if not param.ndim:
        raise ValueError("the parameter must have rows, found a scalar")
    if math.prod(param.shape[1:]) != math.prod(grad.shape[indices.ndim :]):
        raise ValueError(
            f"the rows of the gradient {list(grad.shape)} must be those of the parameter {list(param.shape)}"
        )
    Y = out(param.shape, param.dtype)
    rows = indices.reshape(-1)
    check_indices(rows, param.shape[0])
    Y[rows] = xp.minimum(xp.maximum(Y[rows], Y.dtype.type(low)), Y.dtype.type(high))
    return Y
