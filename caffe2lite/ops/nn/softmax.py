"""Softmax, alone and with the cross entropy of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, exp32, loop
from caffe2lite.ops.kit.extremes import in_order
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import fitted, matrix

_TINY = 1e-20  # probabilities below it count as this much in a logarithm


def softmax_rows(xp: Any, X: Any, Y: Any) -> None:
    """Y = softmax of each row of X."""
    if not X.size:
        return
    xp.subtract(X, X.max(axis=1, keepdims=True), Y)
    xp.exp(Y, Y)
    xp.divide(Y, Y.sum(axis=1, keepdims=True), Y)


@operator(
    "Y",
    types="float32",
    cuda_types="float32 float16",
    infer=like(0),
    gradient=single("SoftmaxGradient", "O0 GO0 -> GI0"),
)
def Softmax(xp, X, *, axis: int = 1, out):
    """Y = exp(X) / sum of exp(X), over the dimensions from `axis` on.

    X [...], Y of its shape; float32, on GPUs float16 too.  ValueError where X has no such axis.
    """
    rows = matrix(X, axis)
    Y = out(X.shape, X.dtype)
    softmax_rows(xp, rows, Y.reshape(rows.shape))
    return Y


@operator(
    "dX",
    shapes="dY = Y",
    types={"Y": "float32", "dY": "=Y"},
    cuda_types={"Y": "float32 float16", "dY": "=Y"},
    infer=like(0),
)
def SoftmaxGradient(xp, Y, dY, *, axis: int = 1, out):
    """dX = (dY - sum of dY * Y) * Y, row by row.

    Y [...], dX of its shape, dY of its size; float32, on GPUs float16 too.  ValueError where Y has no such axis or
    the sizes differ.
    """
    y = matrix(Y, axis)
    dy = dY.reshape(y.shape)
    dX = out(Y.shape, Y.dtype)
    dx = dX.reshape(y.shape)
    xp.multiply(dy, y, dx)
    mean = dx.sum(axis=1, keepdims=True)
    xp.subtract(dy, mean, dx)
    xp.multiply(dx, y, dx)
    return dX


@compiled(Softmax)
def _softmax_compiled(xp, X, *, axis: int = 1, out):
    rows = matrix(X, axis)
    Y = out(X.shape, X.dtype)
    if Y.size:
        _softmax_loop(rows.reshape(-1), rows.reshape(-1).view(np.int32), Y.reshape(-1), rows.shape[1])
    return Y


@loop(reorder=True)
def _softmax_loop(X, bits, Y, width):
    for begin in range(np.uint64(0), np.uint64(X.size), np.uint64(width)):
        end = begin + np.uint64(width)
        largest = np.int32(-0x80000000)
        for j in range(begin, end):
            largest = max(largest, in_order(bits[j]))
        most, total = np.int32(in_order(largest)).view(np.float32), np.float32(0)
        for j in range(begin, end):
            y = exp32(X[j] - most)
            Y[j] = y
            total += y
        share = np.float32(1) / total
        for j in range(begin, end):
            Y[j] *= share


@compiled(SoftmaxGradient)
def _softmax_gradient_compiled(xp, Y, dY, *, axis: int = 1, out):
    y = matrix(Y, axis)
    dX = out(Y.shape, Y.dtype)
    _softmax_gradient_loop(y, dY.reshape(y.shape), dX.reshape(y.shape))
    return dX


@loop(reorder=True)
def _softmax_gradient_loop(Y, dY, dX):
    rows, width = Y.shape
    for i in range(rows):
        y, dy, dx = Y[i], dY[i], dX[i]
        mean = np.float32(0)
        for j in range(width):
            mean += y[j] * dy[j]
        for j in range(width):
            dx[j] = (dy[j] - mean) * y[j]


def check_labels(labels: Any, classes: int) -> None:
    """ValueError where a label is no class."""
    if labels.size and not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise ValueError(
            f"labels must be from 0 to {classes - 1}, for {classes} classes; found {int(labels.min())} to "
            f"{int(labels.max())}"
        )


def _checked(rows: Any, labels: Any, weights: Any, label_prob: bool) -> Any:
    n, d = rows.shape
    if label_prob:
        if labels.size != rows.size or (not rows.size and labels.shape[1:] != rows.shape[1:]):
            raise ValueError(
                f"with label_prob a probability for each of {n} x {d} is needed, found {list(labels.shape)}"
            )
        if labels.dtype != rows.dtype:
            raise ValueError(f"with label_prob the labels must be {rows.dtype}, found {labels.dtype}")
        labels = labels.reshape(rows.shape)
        sums = labels.sum(axis=1)
        if not (abs(sums - 1) < 1e-5).all():
            raise ValueError(
                f"with label_prob the probabilities of each row must sum to 1, but for 1e-5; found sums from "
                f"{sums.min()} to {sums.max()}"
            )
    else:
        if labels.dtype.name != "int32":
            raise ValueError(f"labels must be int32, found {labels.dtype}; label_prob=1 takes probabilities")
        if labels.size != n or labels.ndim > 2:
            raise ValueError(f"one label for each of the {n} rows is needed, found {list(labels.shape)}")
        labels = labels.reshape(-1)
        check_labels(labels, d)
    if weights is not None and weights.size != n:
        raise ValueError(f"one weight for each of the {n} rows is needed, found {list(weights.shape)}")
    return labels


def _with_loss_gradient(g: Any) -> Any:
    return g.single("SoftmaxWithLossGradient", [*g.op.input, g.O(0), g.GO(1)], [g.GI(0)])


@operator(
    "softmax loss",
    types={"X": "float32", "weights": "=X"},
    cuda_types={"X": "float32 float16"},
    num_outputs={2, 3},
    infer=lambda args, inputs: [inputs[0], Spec((), inputs[0].dtype)],
    gradient=_with_loss_gradient,
    limits="scale >= 0",
    traits="class_labels",
)
def SoftmaxWithLoss(xp, X, labels, weights=None, *, label_prob: bool = False, scale: float = 1.0, axis: int = 1, out):
    """softmax of X, and the weighted mean over rows of -log of the label's probability, times `scale`.

    X [N ..., D ...], labels [N] (int32; with label_prob probabilities [N, D], as X), weights [N], softmax of X's
    shape, loss a scalar; float32, on GPUs float16 too.  ValueError where a label is not from 0 to D - 1,
    probabilities do not sum to 1, a size differs, or scale is below 0.
    """
    rows = matrix(X, axis)
    labels = _checked(rows, labels, weights, label_prob)
    n, d = rows.shape
    P = out[0](X.shape, X.dtype)
    p = P.reshape(rows.shape)
    softmax_rows(xp, rows, p)
    loss = out[1]((), X.dtype)
    if label_prob:
        each = (labels * -xp.log(xp.maximum(p, _TINY))).sum(axis=1)
    elif d:  # the largest score has the probability 1 / sum, from which -log p follows without rounding p to 0
        each = rows.max(axis=1) - rows.reshape(-1)[xp.arange(n) * d + labels] - xp.log(p.max(axis=1))
    else:
        each = xp.zeros(n, X.dtype)
    total: Any = n
    if weights is not None:
        w = weights.reshape(-1)
        each, total = each * w, w.sum()
    mean = (
        xp.where(total != 0, each.sum() / xp.where(total != 0, total, 1), 0)
        if weights is not None
        else each.sum() / max(n, 1)
    )
    loss[...] = mean * X.dtype.type(scale)
    return P, loss


@operator(
    "dX",
    types={"X": "float32", "rest": "=X"},
    cuda_types={"X": "float32 float16", "rest": "=X"},
    num_inputs=(0, MANY),
    infer=like(0),
    limits="scale >= 0",
    traits="class_labels",
)
def SoftmaxWithLossGradient(xp, X, labels, *rest, label_prob: bool = False, scale: float = 1.0, axis: int = 1, out):
    """dX = (softmax - label) * weight / sum of weights * dloss * scale; inputs X, labels, weights?, softmax, dloss.

    X and softmax [N ..., D ...], labels [N] (int32) or [N, D], weights [N], dloss a scalar, dX of X's shape; float32,
    on GPUs float16 too.  ValueError as SoftmaxWithLoss, and where there are not 4 or 5 inputs.
    """
    if len(rest) not in (2, 3):
        raise ValueError(f"4 or 5 inputs are needed (X, labels, weights?, softmax, dloss), got {len(rest) + 2}")
    weights, (P, dloss) = (rest[0] if len(rest) == 3 else None), rest[-2:]
    rows = matrix(X, axis)
    labels = _checked(rows, labels, weights, label_prob)
    n, d = rows.shape
    p = fitted(P, rows.shape, "softmax")
    dX = out(X.shape, X.dtype)
    dx = dX.reshape(rows.shape)
    if label_prob:
        xp.subtract(p, labels, dx)
    else:
        xp.copyto(dx, p)
        flat, at = dx.reshape(-1), xp.arange(n) * d + labels
        flat[at] -= 1
    factor = fitted(dloss, (), "dloss") * X.dtype.type(scale)
    if weights is None:
        xp.multiply(dx, factor / X.dtype.type(max(n, 1)), dx)
        return dX
    w = weights.reshape(n, 1)
    total = w.sum()
    xp.multiply(dx, w * xp.where(total > 0, factor / xp.where(total > 0, total, 1), 1), dx)  # as Caffe2: else unscaled
    return dX


# ---- one label a pixel -------------------------------------------------------------------------------------------

_DONT_CARE = -1  # the label of pixels that do not count


def _spatial(X: Any, labels: Any, weights: Any) -> Any:
    if X.ndim != 4 or labels.shape != (X.shape[0], *X.shape[2:]):
        raise ValueError(
            f"X must be images NCHW and the labels N x H x W, found {list(X.shape)} and {list(labels.shape)}"
        )
    if weights is not None and weights.shape != labels.shape:
        raise ValueError(f"the weights must have the labels' shape {list(labels.shape)}, found {list(weights.shape)}")
    known = labels != _DONT_CARE
    check_labels(labels[known], X.shape[1])
    return known


def _spatial_gradient(g: Any) -> Any:
    return g.single("SpatialSoftmaxWithLossGradient", [*g.op.input, g.O(0), g.GO(1)], [g.GI(0)])


@operator(
    "softmax loss",
    types={"X": "float32", "labels": "int32", "weights": "float32"},
    infer=lambda args, inputs: [inputs[0], Spec((), inputs[0].dtype)],
    gradient=_spatial_gradient,
    limits="scale >= 0",
    traits="class_labels",
)
def SpatialSoftmaxWithLoss(xp, X, labels, weights=None, *, scale: float = 1.0, out):
    """softmax over the channels of X, and the weighted mean of -log of the label's probability; label -1: ignored.

    As in Caffe2, `scale` is for the gradient; the loss itself is not scaled.

    X and softmax [N, C, H, W], labels and weights [N, H, W], loss a scalar; float32, labels int32.  ValueError where
    a label is not from -1 to C - 1, the shapes do not fit, or scale is below 0.
    """
    known = _spatial(X, labels, weights)
    P = out[0](X.shape, X.dtype)
    xp.subtract(X, X.max(axis=1, keepdims=True), P)
    xp.exp(P, P)
    xp.divide(P, P.sum(axis=1, keepdims=True), P)
    picked = xp.take_along_axis(P, xp.where(known, labels, 0)[:, None], axis=1)[:, 0]
    w = known.astype(X.dtype) if weights is None else weights * known
    total = w.sum()
    loss = out[1]((), X.dtype)
    each = -xp.log(xp.maximum(picked, _TINY)) * w
    loss[...] = xp.where(total != 0, each.sum() / xp.where(total != 0, total, 1), 0)
    return P, loss


@operator(
    "dX",
    types={"X": "float32", "labels": "int32", "rest": "float32"},
    num_inputs=(0, MANY),
    infer=like(0),
    limits="scale >= 0",
    traits="class_labels",
)
def SpatialSoftmaxWithLossGradient(xp, X, labels, *rest, scale: float = 1.0, out):
    """dX = (softmax - label) * weight / sum of weights * dloss * scale; inputs X, labels, weights?, softmax, dloss.

    X, softmax and dX [N, C, H, W], labels and weights [N, H, W], dloss a scalar; float32, labels int32.  ValueError
    as SpatialSoftmaxWithLoss, and where there are not 4 or 5 inputs.
    """
    if len(rest) not in (2, 3):
        raise ValueError(f"4 or 5 inputs are needed (X, labels, weights?, softmax, dloss), got {len(rest) + 2}")
    weights, (P, dloss) = (rest[0] if len(rest) == 3 else None), rest[-2:]
    known = _spatial(X, labels, weights)
    classes = xp.arange(X.shape[1]).reshape(1, -1, 1, 1)
    w = (known.astype(X.dtype) if weights is None else weights * known)[:, None]
    total = w.sum()
    if P.shape != X.shape:
        raise ValueError(f"softmax must have the shape of X, {list(X.shape)}, found {list(P.shape)}")
    dX = out(X.shape, X.dtype)
    xp.subtract(P, classes == labels[:, None], dX)
    factor = fitted(dloss, (), "dloss") * xp.where(total > 0, X.dtype.type(scale) / xp.where(total > 0, total, 1), 1)
    xp.multiply(dX, (w * factor).astype(X.dtype), dX)
    return dX
