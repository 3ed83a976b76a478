"""Losses of predictions and labels, and sums that make one number of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import Spec, like, scalar
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import fitted, rows_of
from caffe2lite.ops.nn.softmax import check_labels

_TINY = 1e-20  # probabilities below it count as this much in a logarithm


def _rows(X: Any) -> Any:
    """X as a matrix with its first dimension as rows; a vector is one column."""
    if X.ndim < 1:
        raise ValueError("a dimension for the batch is needed, found a scalar")
    return rows_of(X)


def _labels(rows: Any, labels: Any) -> Any:
    n, d = rows.shape
    if labels.shape not in ((n,), (n, 1)):
        raise ValueError(f"one label for each of the {n} rows is needed, found {list(labels.shape)}")
    labels = labels.reshape(-1)
    check_labels(labels, d)
    return labels


@loop
def _label_gradient(X, labels, dY, dX, tiny):  # type: ignore[no-untyped-def]
    width = np.uint64(X.size // labels.size)
    for i in range(np.uint64(labels.size)):
        for j in range(i * width, (i + np.uint64(1)) * width):
            dX[j] = 0
        at = i * width + np.uint64(labels[i])
        dX[at] = -dY[i] / max(X[at], tiny)


@operator(
    "Y",
    types={"X": "float32", "labels": "int32"},
    infer=lambda args, inputs: [Spec(inputs[0].shape[:1], inputs[0].dtype)],
    gradient=single("LabelCrossEntropyGradient", "I0 I1 GO0 -> GI0"),
    traits="class_labels",
)
def LabelCrossEntropy(xp, X, labels, *, out):
    """Y[i] = -log(X[i, labels[i]]).

    X [N, D], labels [N] or [N, 1] (int32), Y [N]; float32; probabilities below 1e-20 count as 1e-20.  ValueError
    where a label is not from 0 to D - 1 or there is not one for each row.
    """
    rows = _rows(X)
    labels = _labels(rows, labels)
    Y = out((len(rows),), X.dtype)
    chosen = rows.reshape(-1)[xp.arange(len(rows)) * rows.shape[1] + labels]
    Y[...] = -xp.log(xp.maximum(chosen, _TINY))
    return Y


@operator("dX", types={"X": "float32", "labels": "int32", "dY": "float32"}, infer=like(0), traits="class_labels")
def LabelCrossEntropyGradient(xp, X, labels, dY, *, out):
    """dX[i, labels[i]] = -dY[i] / X[i, labels[i]], 0 elsewhere.

    X and dX [N, D], labels [N] or [N, 1] (int32), dY [N]; float32.  ValueError where a label is not from 0 to D - 1,
    or labels or dY does not have one value for each row.
    """
    rows = _rows(X)
    labels = _labels(rows, labels)
    if dY.shape != (len(rows),):
        raise ValueError(f"dY must have one value for each of the {len(rows)} rows, found {list(dY.shape)}")
    dX = out(X.shape, X.dtype)
    if rows.dtype == np.float32 and dY.dtype == np.float32 and pays(xp, rows):
        _label_gradient(rows.reshape(-1), labels, dY, dX.reshape(-1), np.float32(_TINY))
        return dX
    clear(dX)
    at = xp.arange(len(rows)) * rows.shape[1] + labels
    dX.reshape(-1)[at] = -dY / xp.maximum(rows.reshape(-1)[at], _TINY)
    return dX


def _same(X: Any, labels: Any) -> None:
    if X.size != labels.size or X.shape[:1] != labels.shape[:1]:
        raise ValueError(f"X and the labels must have one shape, found {list(X.shape)} and {list(labels.shape)}")


@operator(
    "Y",
    types={"X": "float32", "labels": "=X"},
    infer=lambda args, inputs: [Spec(inputs[0].shape[:1], inputs[0].dtype)],
    gradient=single("CrossEntropyGradient", "I0 I1 GO0 -> GI0"),
)
def CrossEntropy(xp, X, labels, *, out):
    """Y[i] = sum over j of -labels[i, j] * log(X[i, j]).

    X and labels [N, D], Y [N]; float32; probabilities below 1e-20 count as 1e-20.  ValueError where the shapes differ
    or a label is not from 0 to 1.
    """
    _same(X, labels)
    if not ((labels >= 0) & (labels <= 1)).all():
        raise ValueError(f"the labels must be probabilities from 0 to 1, found {labels.min()} to {labels.max()}")
    rows = _rows(X)
    Y = out((len(rows),), X.dtype)
    Y[...] = (labels.reshape(rows.shape) * -xp.log(xp.maximum(rows, _TINY))).sum(axis=1)
    return Y


@operator("dX", types={"X": "float32", "labels": "=X", "dY": "=X"}, infer=like(0))
def CrossEntropyGradient(xp, X, labels, dY, *, out):
    """dX = -labels / X * dY, row by row.

    X, labels and dX [N, D], dY [N]; float32.  ValueError where the shapes differ or dY is not [N].
    """
    _same(X, labels)
    if labels.ndim > 2 or (labels.ndim == 2 and labels.shape[1] != math.prod(X.shape[1:])):
        raise ValueError(f"the labels must be those of the rows of X {list(X.shape)}, found {list(labels.shape)}")
    rows = _rows(X)
    if dY.shape != (len(rows),):
        raise ValueError(f"dY must have one value for each of the {len(rows)} rows, found {list(dY.shape)}")
    dX = out(X.shape, X.dtype)
    derivative = labels.reshape(rows.shape) / xp.maximum(rows, _TINY)
    xp.multiply(derivative, -dY.reshape(-1, 1), dX.reshape(rows.shape))
    return dX


@operator(
    "Y",
    types="float32",
    infer=lambda args, inputs: [Spec((*inputs[0].shape, 2), inputs[0].dtype)],
    gradient=single("MakeTwoClassGradient", "GO0 -> GI0"),
)
def MakeTwoClass(xp, X, *, out):
    """Y[..., 0] = 1 - X, Y[..., 1] = X.

    X [...], Y [..., 2]; float32.  TypeError for other dtypes.
    """
    Y = out((*X.shape, 2), X.dtype)
    if pays(xp, X):
        _pair_up(X.reshape(-1), Y.reshape(-1, 2))
        return Y
    xp.subtract(1, X, Y[..., 0])
    Y[..., 1] = X
    return Y


@loop
def _pair_up(X, Y):
    for i in range(X.size):
        Y[i, 0] = np.float32(1) - X[i]
        Y[i, 1] = X[i]


@operator("dX", types="float32", infer=lambda args, inputs: [Spec(inputs[0].shape[:-1], inputs[0].dtype)])
def MakeTwoClassGradient(xp, dY, *, out):
    """dX = dY[..., 1] - dY[..., 0].

    dY [..., 2], dX [...]; float32.  ValueError where the last dimension of dY is not 2.
    """
    if not dY.ndim or dY.shape[-1] != 2:
        raise ValueError(f"the last dimension must be 2, found the shape {list(dY.shape)}")
    return xp.subtract(dY[..., 1], dY[..., 0], out(dY.shape[:-1], dY.dtype))


# ---- logits ------------------------------------------------------------------------------------------------------


def _logistic(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))


def _softplus_of_minus_abs(xp: Any, x: Any) -> Any:
    return xp.log1p(xp.exp(-abs(x)))


def _check_logits(logits: Any, targets: Any, log_D_trick: bool, unjoined_lr_loss: bool) -> None:
    if log_D_trick and unjoined_lr_loss:
        raise ValueError("log_D_trick and unjoined_lr_loss exclude each other")
    if logits.shape != targets.shape:
        raise ValueError(
            f"logits and targets must have one shape, found {list(logits.shape)} and {list(targets.shape)}"
        )


def _mean_of_last(xp: Any, terms: Any, out: Any) -> Any:
    Y = out(terms.shape[:-1], terms.dtype)
    Y[...] = terms.mean(axis=-1) if terms.ndim else terms
    return Y


_infer_rows = lambda args, inputs: [Spec(inputs[0].shape[:-1], inputs[0].dtype)]


@operator(
    "Y",
    types={"logits": "float32", "targets": "=logits"},
    infer=_infer_rows,
    gradient=single("SigmoidCrossEntropyWithLogitsGradient", "GO0 I0 I1 -> GI0"),
)
def SigmoidCrossEntropyWithLogits(
    xp, logits, targets, *, log_D_trick: bool = False, unjoined_lr_loss: bool = False, out
):
    """Y = cross entropy of sigmoid(logits) and targets, mean over the last dimension.

    -t * log s - (1 - t) * log(1 - s) for s = sigmoid(x); with log_D_trick -(2 t - 1) * log s; with unjoined_lr_loss
    -t * x + (1 - t) * max(x, 0) + (1 - t) * log(1 + exp(-|x|)).  logits and targets [..., D], Y [...]; float32.
    ValueError where the shapes differ or both arguments are set.
    """
    _check_logits(logits, targets, log_D_trick, unjoined_lr_loss)
    x, t = logits, targets
    positive, rest = xp.maximum(x, 0), _softplus_of_minus_abs(xp, x)
    if log_D_trick:
        terms = (2 * t - 1) * (x - positive - rest)
    elif unjoined_lr_loss:
        terms = x * t + (t - 1) * positive - (1 - t) * rest
    else:
        terms = x * t - positive - rest
    return _mean_of_last(xp, -terms, out)


@operator("dlogits", types={"dY": "float32", "logits": "=dY", "targets": "=dY"}, infer=like(1))
def SigmoidCrossEntropyWithLogitsGradient(
    xp, dY, logits, targets, *, log_D_trick: bool = False, unjoined_lr_loss: bool = False, out
):
    """dlogits of SigmoidCrossEntropyWithLogits.

    dY [...], logits, targets and dlogits [..., D]; float32.  ValueError where the shapes of logits and targets differ.
    """
    _check_logits(logits, targets, False, unjoined_lr_loss)  # which, of both, counts
    sigmoid, t = _logistic(xp, logits), targets
    if unjoined_lr_loss:
        derivative = t - (1 - t) * sigmoid
    elif log_D_trick:
        derivative = (2 * t - 1) * (1 - sigmoid)
    else:
        derivative = t - sigmoid
    return _spread(xp, dY, derivative, out)


def _spread(xp: Any, dY: Any, derivative: Any, out: Any) -> Any:
    """-derivative * dY / n, where n elements of the last dimension were averaged."""
    n = derivative.shape[-1] if derivative.ndim else 1
    dX = out(derivative.shape, derivative.dtype)
    each = fitted(dY, (*derivative.shape[:-1], 1) if derivative.ndim else (), "dY")
    xp.multiply(derivative, each / derivative.dtype.type(-max(n, 1)), dX)
    return dX


@operator(
    "Y",
    types={"logits": "float32", "targets": "=logits", "weights": "=logits"},
    infer=_infer_rows,
    gradient=single("WeightedSigmoidCrossEntropyWithLogitsGradient", "GO0 I0 I1 I2 -> GI0"),
)
def WeightedSigmoidCrossEntropyWithLogits(xp, logits, targets, weights, *, out):
    """Y = weighted cross entropy of sigmoid(logits) and targets, mean over the last dimension.

    logits, targets and weights [..., D], Y [...]; float32.  ValueError where the shapes differ.
    """
    _check_logits(logits, targets, False, False)
    _check_logits(logits, weights, False, False)
    terms = logits * targets - xp.maximum(logits, 0) - _softplus_of_minus_abs(xp, logits)
    return _mean_of_last(xp, -terms * weights, out)


@operator("dlogits", types={"dY": "float32", "logits": "=dY", "targets": "=dY", "weights": "=dY"}, infer=like(1))
def WeightedSigmoidCrossEntropyWithLogitsGradient(xp, dY, logits, targets, weights, *, out):
    """dlogits of WeightedSigmoidCrossEntropyWithLogits.

    dY [...], logits, targets, weights and dlogits [..., D]; float32.  ValueError where the shapes differ.
    """
    _check_logits(logits, targets, False, False)
    _check_logits(logits, weights, False, False)
    return _spread(xp, dY, (targets - _logistic(xp, logits)) * weights, out)


# ---- sums --------------------------------------------------------------------------------------------------------


def _total(xp: Any, X: Any, average: bool, out: Any) -> Any:
    Y = out((), X.dtype)
    if X.dtype == np.float32 and pays(xp, X):
        Y[...] = _sum_all(X.reshape(-1))
    else:
        X.sum(out=Y)
    if average and X.size:
        xp.divide(Y, Y.dtype.type(X.size), Y)
    return Y


@loop(reorder=True)
def _sum_all(X):  # type: ignore[no-untyped-def]
    """By parts: one sum of millions of float32 would lose digits."""
    total = 0.0
    for begin in range(np.uint64(0), np.uint64(X.size), np.uint64(4096)):
        part = np.float32(0)
        for i in range(begin, min(begin + np.uint64(4096), np.uint64(X.size))):
            part += X[i]
        total += part
    return total


@operator(
    "Y",
    types="float32",
    cuda_types="float32 float16",
    infer=scalar(),
    gradient=single("AveragedLossGradient", "I0 GO0 -> GI0"),
)
def AveragedLoss(xp, X, *, out):
    """Y = mean of all elements of X; 0 where there are none.

    X [...], Y a scalar; float32, on GPUs float16 too.  TypeError for other dtypes.
    """
    return _total(xp, X, True, out)


@operator(
    "Y",
    types="float32",
    cuda_types="float32 float16",
    infer=scalar(),
    gradient=single("SumElementsGradient", "I0 GO0 -> GI0"),
)
def SumElements(xp, X, *, average: bool = False, out):
    """Y = sum of all elements of X, or their mean.

    X [...], Y a scalar; float32, on GPUs float16 too.  TypeError for other dtypes.
    """
    return _total(xp, X, average, out)


@operator("Y", types="int32", infer=scalar(), gradient=FORBID_GRADIENT)
def SumElementsInt(xp, X, *, out):
    """Y = sum of all elements of X.

    X [...], Y a scalar; int32.  TypeError for other dtypes.
    """
    return _total(xp, X, False, out)


@operator("Y", types="float32 float64", infer=scalar())
def SumSqrElements(xp, X, *, average: bool = False, out):
    """Y = sum of the squares of X, or their mean.

    X [...], Y a scalar; float32 or float64.  TypeError for other dtypes.
    """
    Y = out((), X.dtype)
    Y[...] = xp.vdot(X, X)
    if average and X.size:
        xp.divide(Y, Y.dtype.type(X.size), Y)
    return Y


def _even(xp: Any, X: Any, dY: Any, average: bool, out: Any) -> Any:
    if dY.size != 1:
        raise ValueError(f"dY must be one value, found the shape {list(dY.shape)}")
    dX = out(X.shape, X.dtype)
    value = dY.reshape(()).astype(X.dtype)
    dX[...] = value / X.dtype.type(X.size) if average and X.size else value
    return dX


@operator("dX", types={"X": "float32", "dY": "float32"}, cuda_types={"X": "float32 float16"}, infer=like(0))
def AveragedLossGradient(xp, X, dY, *, out):
    """dX = dY / n for each of the n elements.

    X [...], dX of its shape, dY a scalar; float32, on GPUs float16 too.  ValueError where dY is not one value.
    """
    return _even(xp, X, dY, True, out)


@operator("dX", types={"X": "float32", "dY": "float32"}, cuda_types={"X": "float32 float16"}, infer=like(0))
def SumElementsGradient(xp, X, dY, *, average: bool = False, out):
    """dX = dY for each element, or its share of the mean.

    X [...], dX of its shape, dY a scalar; float32, on GPUs float16 too.  ValueError where dY is not one value.
    """
    return _even(xp, X, dY, average, out)
