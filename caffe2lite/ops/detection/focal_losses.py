"""Detectron's losses by cross entropy, focal ones too, and softmax over groups of channels."""

from __future__ import annotations

from caffe2lite.ops.detection.detectron import TINY, check_same, loss_shape, scalar
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_range
from caffe2lite.ops.kit.shapes import fitted

# ---- cross entropies -----------------------------------------------------------------------------------------------------


def _softplus(xp, x):
    """Return log(1 + exp(x)), without overflow."""
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


@operator(
    "loss",
    shapes="X [N, ...]",
    types={"X": "float32", "targets": "int32"},
    infer=loss_shape,
    gradient=single("SigmoidCrossEntropyLossGradient", "I0 I1 GO0 -> GI0"),
)
def SigmoidCrossEntropyLoss(xp, X, targets, *, scale: float = 1.0, normalize: int = 1, out):
    """Mean over all targets that are not -1 (or, without normalize, over the batch) of the logistic loss.

    X [N, ...] float32, targets of its size, int32 -> loss, a scalar. ValueError where the sizes differ.
    """
    counted = _counted(xp, X, targets)
    loss = (_softplus(xp, X) - X * targets.reshape(X.shape)) * counted
    return scalar(out, loss.sum() * (scale / _normalizer(X, counted, normalize)))


def _counted(xp, X, targets):
    if X.size != targets.size:
        raise ValueError(f"logits {list(X.shape)} and targets {list(targets.shape)} must be as many")
    return (targets.reshape(X.shape) >= 0).astype(X.dtype)


def _normalizer(X, counted, normalize):
    return float(counted.sum()) + 1e-5 if normalize else max(X.shape[0], 1)


@operator("dX", shapes="X [N, ...]", types={"X": "float32", "targets": "int32", "dloss": "float32"}, infer=like(0))
def SigmoidCrossEntropyLossGradient(xp, X, targets, dloss, *, scale: float = 1.0, normalize: int = 1, out):
    """The gradient by the logits; 0 where the target is -1.

    X [N, ...] float32, targets of its size, int32, dloss [1] -> dX of X's shape. ValueError where the sizes differ.
    """
    counted = _counted(xp, X, targets)
    d = out(X.shape, X.dtype)
    d[...] = (_sigmoid(xp, X) - targets.reshape(X.shape)) * counted
    d *= fitted(dloss, (), "dloss") * (scale / _normalizer(X, counted, normalize))
    return d


def _by_class(xp, X, labels, num_classes):
    """Return the logits as [N, A, classes, H, W], the labels as [N, A, 1, H, W]."""
    if X.ndim != 4 or num_classes < 1 or X.shape[1] % num_classes:
        raise ValueError(f"logits must be [N, A * {num_classes}, H, W], got shape {list(X.shape)}")
    n, _, height, width = X.shape
    anchors = X.shape[1] // num_classes
    if labels.size != n * anchors * height * width:
        raise ValueError(f"labels must be [{n}, {anchors}, {height}, {width}], got shape {list(labels.shape)}")
    return X.reshape(n, anchors, num_classes, height, width), labels.reshape(n, anchors, 1, height, width)


def _focal_terms(xp, X, labels, fg, num_classes, alpha):
    x, t = _by_class(xp, X, labels, num_classes)
    classes = xp.arange(1, num_classes + 1).reshape(1, 1, -1, 1, 1)
    if fg.size != 1:
        raise ValueError(f"fg_num must be one number, found the shape {list(fg.shape)}")
    most = xp.maximum(fg.reshape(-1)[0], 1)
    positive = (t == classes).astype(X.dtype) * (alpha / most)
    negative = ((t >= 0) & (t != classes)).astype(X.dtype) * ((1 - alpha) / most)
    return x, positive, negative


@operator(
    "loss",
    types={"X": "float32", "labels": "int32", "fg_num": "float32"},
    infer=loss_shape,
    gradient=single("SigmoidFocalLossGradient", "I0 I1 I2 GO0 -> GI0"),
)
def SigmoidFocalLoss(
    xp, X, labels, fg_num, *, scale: float = 1.0, gamma: float = 2.0, alpha: float = 0.25, num_classes: int = 80, out
):
    """Sum of the focal losses of one sigmoid a class, over the number of foreground boxes; label -1 is left out.

    X [N, A * num_classes, H, W] float32, labels [N, A, H, W] int32, 0 for the background, fg_num [1] -> loss, a scalar.
    ValueError where the shapes do not fit.

    T.-Y. Lin et al., "Focal loss for dense object detection", 2017.
    """
    x, positive, negative = _focal_terms(xp, X, labels, fg_num, num_classes, alpha)
    p = _sigmoid(xp, x)
    loss = -positive * (1 - p) ** gamma * xp.log(xp.maximum(p, TINY)) + negative * p**gamma * _softplus(xp, x)
    return scalar(out, loss.sum() * scale)


@operator("dX", types={"X": "float32", "labels": "int32", "fg_num": "float32", "dloss": "float32"}, infer=like(0))
def SigmoidFocalLossGradient(
    xp,
    X,
    labels,
    fg_num,
    dloss,
    *,
    scale: float = 1.0,
    gamma: float = 2.0,
    alpha: float = 0.25,
    num_classes: int = 80,
    out,
):
    """The gradient by the logits.

    The operands of SigmoidFocalLoss [N, A * num_classes, H, W] float32, ..., dloss [1] -> dX. ValueError where the
    shapes do not fit.
    """
    x, positive, negative = _focal_terms(xp, X, labels, fg_num, num_classes, alpha)
    p = _sigmoid(xp, x)
    good = (1 - p) ** gamma * (1 - p - p * gamma * xp.log(xp.maximum(p, TINY)))
    bad = p**gamma * (-_softplus(xp, x) * (1 - p) * gamma - p)
    d = out(X.shape, X.dtype)
    d.reshape(x.shape)[...] = (-positive * good - negative * bad) * (fitted(dloss, (), "dloss") * scale)
    return d


def _softmax(xp, x, axis):
    e = xp.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _weights(xp, t, fg, alpha, dtype):
    if fg.size != 1:
        raise ValueError(f"fg_num must be one number, found the shape {list(fg.shape)}")
    most = xp.maximum(fg.reshape(-1)[0], 1)
    return xp.where(t == 0, (1 - alpha) / most, xp.where(t >= 1, alpha / most, 0)).astype(dtype)


@operator(
    "loss P",
    types={"X": "float32", "labels": "int32", "fg_num": "float32"},
    infer=lambda args, inputs: [Spec(()), Spec(inputs[0].shape)],
    gradient=single("SoftmaxFocalLossGradient", "I0 I1 I2 O1 GO0 -> GI0"),
)
def SoftmaxFocalLoss(
    xp, X, labels, fg_num, *, scale: float = 1.0, gamma: float = 2.0, alpha: float = 0.25, num_classes: int = 81, out
):
    """Sum of the focal losses of a softmax an anchor, over the number of foreground boxes; and the softmax P.

    X [N, A * num_classes, H, W] float32, labels [N, A, H, W] int32, 0 for the background, fg_num [1] -> loss, a scalar,
    P of X's shape. ValueError where the shapes do not fit, or a label is not below num_classes.

    T.-Y. Lin et al., "Focal loss for dense object detection", 2017.
    """
    x, t = _by_class(xp, X, labels, num_classes)
    P = out[1](X.shape, X.dtype)
    p = fitted(P, x.shape, "P")
    p[...] = _softmax(xp, x, 2)
    check_range(xp.maximum(t, 0), num_classes, "a label")
    mine = xp.take_along_axis(p, xp.maximum(t, 0).astype("int64"), axis=2)
    loss = -((1 - mine) ** gamma) * xp.log(xp.maximum(mine, TINY)) * _weights(xp, t, fg_num, alpha, X.dtype)
    return scalar(out[0], loss.sum() * scale), P


@operator(
    "dX",
    types={"X": "float32", "labels": "int32", "fg_num": "float32", "P": "float32", "dloss": "float32"},
    infer=like(0),
)
def SoftmaxFocalLossGradient(
    xp,
    X,
    labels,
    fg_num,
    P,
    dloss,
    *,
    scale: float = 1.0,
    gamma: float = 2.0,
    alpha: float = 0.25,
    num_classes: int = 81,
    out,
):
    """The gradient by the logits.

    The operands of SoftmaxFocalLoss [N, A * num_classes, H, W] float32, ..., P, dloss [1] -> dX. ValueError where the
    shapes do not fit, or a label is not below num_classes.
    """
    x, t = _by_class(xp, X, labels, num_classes)
    p = fitted(P, x.shape, "P")
    check_range(xp.maximum(t, 0), num_classes, "a label")
    mine = xp.take_along_axis(p, xp.maximum(t, 0).astype("int64"), axis=2)
    derivative = -((1 - mine) ** gamma) + gamma * (1 - mine) ** (gamma - 1) * mine * xp.log(xp.maximum(mine, TINY))
    derivative = derivative * _weights(xp, t, fg_num, alpha, X.dtype)
    here = (t == xp.arange(num_classes).reshape(1, 1, -1, 1, 1)).astype(X.dtype)
    d = out(X.shape, X.dtype)
    d.reshape(x.shape)[...] = derivative * (here - p) * (fitted(dloss, (), "dloss") * scale)
    return d


def _groups(X, num_classes):
    if X.ndim != 4 or num_classes < 1 or X.shape[1] % num_classes:
        raise ValueError(f"scores must be [N, A * {num_classes}, H, W], got shape {list(X.shape)}")
    return (X.shape[0], X.shape[1] // num_classes, num_classes, *X.shape[2:])


@operator("P", types="float32", infer=like(0), gradient=single("GroupSpatialSoftmaxGradient", "O0 GO0 -> GI0"))
def GroupSpatialSoftmax(xp, X, *, num_classes: int = 81, out):
    """A softmax over each group of num_classes channels, pixel by pixel.

    X [N, A * num_classes, H, W] float32 -> P of its shape. ValueError where the channels are no multiple of
    num_classes.
    """
    shape = _groups(X, num_classes)
    P = out(X.shape, X.dtype)
    P.reshape(shape)[...] = _softmax(xp, X.reshape(shape), 2)
    return P


@operator("dX", shapes="dP = P", types={"P": "float32", "dP": "float32"}, infer=like(0))
def GroupSpatialSoftmaxGradient(xp, P, dP, *, num_classes: int = 81, out):
    """The gradient by the scores.

    P [N, A * num_classes, H, W] float32, dP alike -> dX. ValueError where the shapes differ, or the channels are no
    multiple of num_classes.
    """
    shape = _groups(P, num_classes)
    check_same(P, dP)
    p, g = P.reshape(shape), dP.reshape(shape)
    d = out(P.shape, P.dtype)
    d.reshape(shape)[...] = p * (g - (p * g).sum(axis=2, keepdims=True))
    return d
