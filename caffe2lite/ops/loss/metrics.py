"""Measures of how good predictions are."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import Spec, scalar
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn.softmax import check_labels


def _check(X: Any, labels: Any) -> None:
    if X.ndim != 2 or labels.shape != X.shape[:1]:
        raise ValueError(
            f"predictions must be rows of scores and labels one a row, found {list(X.shape)} and {list(labels.shape)}"
        )


@operator(
    "accuracy",
    types={"predictions": "float32", "labels": "int32"},
    infer=scalar("float32"),
    gradient=FORBID_GRADIENT,
    traits="class_labels",
)
def Accuracy(xp, predictions, labels, *, top_k: int = 1, out):
    """The share of rows whose label is among the `top_k` best scores; of equal scores the earlier is better.

    predictions [N, D], labels [N], accuracy a scalar; float32, labels int32.  ValueError where the shapes do not fit.
    """
    _check(predictions, labels)
    n, classes = predictions.shape
    if not classes:
        Y = out((), "float32")
        Y[...] = xp.float32(0) / xp.float32(n)
        return Y
    inside = (labels >= 0) & (labels < classes)
    label = xp.where(inside, labels, 0)[:, None]
    score = xp.take_along_axis(predictions, label, axis=1)
    better = xp.count_nonzero(predictions > score, axis=1)
    equal = predictions == score
    several = xp.nonzero(xp.count_nonzero(equal, axis=1) > 1)[0]
    if several.size:
        better[several] += xp.count_nonzero(equal[several] & (xp.arange(classes) < label[several]), axis=1)
    right = inside & (better < top_k)
    Y = out((), "float32")
    Y[...] = right.sum() / xp.float32(n)  # no rows: NaN
    return Y


@compiled(Accuracy)
def _accuracy_compiled(xp, predictions, labels, *, top_k: int = 1, out):
    _check(predictions, labels)
    Y = out((), "float32")
    Y[...] = _count_right(predictions.reshape(-1), labels, top_k) / np.float32(len(labels))
    return Y


@loop
def _count_right(predictions, labels, top_k):
    right, width = 0, np.uint64(predictions.size // max(labels.size, 1))
    for i in range(labels.size):
        if labels[i] < 0 or labels[i] >= width:
            continue
        begin = np.uint64(i) * width
        at = begin + np.uint64(labels[i])
        score, better = predictions[at], np.int32(0)
        for j in range(begin, at):
            better += np.int32(1) if predictions[j] >= score else np.int32(0)
        for j in range(at, begin + width):
            better += np.int32(1) if predictions[j] > score else np.int32(0)
        right += better < top_k
    return right


@operator(
    "accuracies amounts",
    types={"predictions": "float32", "labels": "int32"},
    infer=lambda args, inputs: [Spec(inputs[0].shape[1:], "float32"), Spec(inputs[0].shape[1:], "int32")],
    gradient=FORBID_GRADIENT,
)
def MultiClassAccuracy(xp, predictions, labels, *, out):
    """For each class the share of its rows that have their best score there, and how many rows it has.

    predictions [N, D], labels [N], accuracies and amounts [D]; float32, labels and amounts int32.  ValueError where
    the shapes do not fit or a label is not from 0 to D - 1.
    """
    _check(predictions, labels)
    classes = predictions.shape[1]
    check_labels(labels, classes)
    hits, amounts = out[0]((classes,), "float32"), out[1]((classes,), "int32")
    amounts[...] = xp.bincount(labels, minlength=classes)
    right = labels[predictions.argmax(axis=1) == labels] if labels.size else labels
    hits[...] = xp.bincount(right, minlength=classes)
    xp.divide(hits, xp.maximum(amounts, 1), out=hits)
    return hits, amounts


@operator("Y", types="float32", infer=scalar("float32"), gradient=FORBID_GRADIENT)
def Perplexity(xp, X, *, out):
    """Y = the geometric mean of 1 / X over the n probabilities of X.

    X [N], Y a scalar; float32.  ValueError where X is no vector.
    """
    if X.ndim != 1:
        raise ValueError(f"the probabilities must be a vector, found {list(X.shape)}")
    Y = out((), X.dtype)
    Y[...] = xp.power(X, X.dtype.type(-1 / max(X.size, 1))).prod()
    return Y
