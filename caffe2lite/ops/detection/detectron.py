"""Operators of Detectron's own module, which the CPU wheel of Caffe2 does not hold, and AffineNd of older branches.

Losses are those of Girshick, Fast R-CNN, 2015 and of Lin et al., Focal Loss, 2017.
"""

from __future__ import annotations

import math

from caffe2lite.ops.detection.roi import RoIPool, RoIPoolGradient, check_rois, image_of, on_host
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import fitted

_TINY = 1.17549435e-38  # the smallest normal float


def _scalar(out, value):
    Y = out((), "float32")
    Y[...] = value
    return Y


def _loss_shape(args, inputs):
    return [Spec(())]


# ---- smooth L1 -----------------------------------------------------------------------------------------------------------


def _smooth(xp, d, beta):
    size = xp.abs(d)
    return xp.where(size < beta, 0.5 * d * d / beta, size - 0.5 * beta)


def _slope(xp, d, beta):
    return xp.where(xp.abs(d) < beta, d / beta, xp.sign(d))


def _check_same(Y_hat, *others):
    for other in others:
        if other.shape != Y_hat.shape:
            raise ValueError(f"all operands must have the shape {list(Y_hat.shape)}, got {list(other.shape)}")


@operator(
    "loss",
    shapes="Y_hat [N, ...]",
    types={"Y_hat": "float32", "Y": "float32", "alpha_in": "float32", "alpha_out": "float32"},
    infer=_loss_shape,
    gradient=single("SmoothL1LossGradient", "I0 I1 I2 I3 GO0 -> GI0"),
)
def SmoothL1Loss(xp, Y_hat, Y, alpha_in, alpha_out, *, beta: float = 1.0, scale: float = 1.0, out):
    """scale / N * sum of alpha_out * smooth(alpha_in * (Y_hat - Y))."""
    _check_same(Y_hat, Y, alpha_in, alpha_out)
    total = (alpha_out * _smooth(xp, alpha_in * (Y_hat - Y), beta)).sum()
    return _scalar(out, total * (scale / max(Y_hat.shape[0], 1)))


@operator("dY_hat", shapes="Y_hat [N, ...]", types={"Y_hat": "float32", "Y": "float32", "alpha_in": "float32", "alpha_out": "float32", "dloss": "float32"}, infer=like(0))
def SmoothL1LossGradient(xp, Y_hat, Y, alpha_in, alpha_out, dloss, *, beta: float = 1.0, scale: float = 1.0, out):
    """The gradient by the prediction."""
    _check_same(Y_hat, Y, alpha_in, alpha_out)
    d = out(Y_hat.shape, Y_hat.dtype)
    slope = alpha_in * alpha_out * _slope(xp, alpha_in * (Y_hat - Y), beta)
    d[...] = slope * (fitted(dloss, (), "dloss") * (scale / max(Y_hat.shape[0], 1)))
    return d


def _places(Y_hat, Y, L):
    """Four index vectors: for each target box the places of its four numbers in (N, A * 4, H, W)."""
    if Y_hat.ndim != 4 or Y.ndim != 2 or Y.shape[1] != 4 or L.shape != Y.shape:
        raise ValueError(
            f"expected predictions [N, A * 4, H, W], targets [M, 4] and places [M, 4], got {list(Y_hat.shape)}, "
            f"{list(Y.shape)} and {list(L.shape)}"
        )
    n, c, y, x = (L[:, k].astype("int64") for k in range(4))
    for what, index, size in (("image", n, Y_hat.shape[0]), ("row", y, Y_hat.shape[2]), ("column", x, Y_hat.shape[3])):
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise ValueError(f"a place has the {what} {int(index.max())}, and there are {size}")
    if c.size and not 0 <= int(c.min()) <= int(c.max()) <= Y_hat.shape[1] - 4:
        raise ValueError(f"a place has the channel {int(c.max())}, and there are {Y_hat.shape[1]}")
    return n, c, y, x


def _chosen(xp, Y_hat, Y, L):
    n, c, y, x = _places(Y_hat, Y, L)
    return n[:, None], c[:, None] + xp.arange(4).reshape(1, -1), y[:, None], x[:, None]


@operator(
    "loss",
    types={"Y_hat": "float32", "Y": "float32", "L": "float32", "S": "float32"},
    infer=_loss_shape,
    gradient=single("SelectSmoothL1LossGradient", "I0 I1 I2 I3 GO0 -> GI0"),
)
def SelectSmoothL1Loss(xp, Y_hat, Y, L, S, *, beta: float = 1.0, scale: float = 1.0, out):
    """scale / max(S, 1) * sum of smooth(prediction - target) over the places L (image, channel, row, column)."""
    if not Y.size:
        return _scalar(out, 0)
    d = Y_hat[_chosen(xp, Y_hat, Y, L)] - Y
    return _scalar(out, _smooth(xp, d, beta).sum() * scale / xp.maximum(S.reshape(-1)[0], 1))


@operator("dY_hat", types={"Y_hat": "float32", "dloss": "float32"}, infer=like(0))
def SelectSmoothL1LossGradient(xp, Y_hat, Y, L, S, dloss, *, beta: float = 1.0, scale: float = 1.0, out):
    """The gradient by the prediction: 0 except at the places."""
    d = out(Y_hat.shape, Y_hat.dtype)
    d[...] = 0
    if Y.size:
        where = _chosen(xp, Y_hat, Y, L)
        d[where] = _slope(xp, Y_hat[where] - Y, beta) * (fitted(dloss, (), "dloss") * scale / xp.maximum(S.reshape(-1)[0], 1))
    return d


# ---- cross entropies -----------------------------------------------------------------------------------------------------


def _softplus(xp, x):
    """log(1 + exp(x)), without overflow."""
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


@operator(
    "loss",
    shapes="X [N, ...], targets = X",
    types={"X": "float32", "targets": "int32"},
    infer=_loss_shape,
    gradient=single("SigmoidCrossEntropyLossGradient", "I0 I1 GO0 -> GI0"),
)
def SigmoidCrossEntropyLoss(xp, X, targets, *, scale: float = 1.0, normalize: int = 1, out):
    """Mean over all targets that are not -1 (or, without normalize, over the batch) of the logistic loss."""
    counted = _counted(xp, X, targets)
    loss = (_softplus(xp, X) - X * targets) * counted
    return _scalar(out, loss.sum() * (scale / _normalizer(X, counted, normalize)))


def _counted(xp, X, targets):
    if X.size != targets.size:
        raise ValueError(f"logits {list(X.shape)} and targets {list(targets.shape)} must be as many")
    return (targets.reshape(X.shape) >= 0).astype(X.dtype)


def _normalizer(X, counted, normalize):
    return float(counted.sum()) + 1e-5 if normalize else max(X.shape[0], 1)


@operator("dX", shapes="X [N, ...], targets = X", types={"X": "float32", "targets": "int32", "dloss": "float32"}, infer=like(0))
def SigmoidCrossEntropyLossGradient(xp, X, targets, dloss, *, scale: float = 1.0, normalize: int = 1, out):
    """The gradient by the logits; 0 where the target is -1."""
    counted = _counted(xp, X, targets)
    d = out(X.shape, X.dtype)
    d[...] = (_sigmoid(xp, X) - targets.reshape(X.shape)) * counted
    d *= fitted(dloss, (), "dloss") * (scale / _normalizer(X, counted, normalize))
    return d


def _by_class(xp, X, labels, num_classes):
    """(logits (N, A, classes, H, W), labels (N, A, 1, H, W))."""
    if X.ndim != 4 or X.shape[1] % num_classes:
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
    infer=_loss_shape,
    gradient=single("SigmoidFocalLossGradient", "I0 I1 I2 GO0 -> GI0"),
)
def SigmoidFocalLoss(
    xp, X, labels, fg_num, *, scale: float = 1.0, gamma: float = 2.0, alpha: float = 0.25, num_classes: int = 80, out
):
    """Sum of the focal losses of one sigmoid a class, over the number of foreground boxes; label -1 is left out."""
    x, positive, negative = _focal_terms(xp, X, labels, fg_num, num_classes, alpha)
    p = _sigmoid(xp, x)
    loss = -positive * (1 - p) ** gamma * xp.log(xp.maximum(p, _TINY)) + negative * p**gamma * _softplus(xp, x)
    return _scalar(out, loss.sum() * scale)


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
    """The gradient by the logits."""
    x, positive, negative = _focal_terms(xp, X, labels, fg_num, num_classes, alpha)
    p = _sigmoid(xp, x)
    good = (1 - p) ** gamma * (1 - p - p * gamma * xp.log(xp.maximum(p, _TINY)))
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
    """Sum of the focal losses of a softmax an anchor, over the number of foreground boxes; and the softmax P."""
    x, t = _by_class(xp, X, labels, num_classes)
    P = out[1](X.shape, X.dtype)
    p = P.reshape(x.shape)
    p[...] = _softmax(xp, x, 2)
    mine = xp.take_along_axis(p, xp.maximum(t, 0).astype("int64"), axis=2)
    loss = -((1 - mine) ** gamma) * xp.log(xp.maximum(mine, _TINY)) * _weights(xp, t, fg_num, alpha, X.dtype)
    return _scalar(out[0], loss.sum() * scale), P


@operator(
    "dX",
    types={"X": "float32", "labels": "int32", "fg_num": "float32", "P": "float32", "dloss": "float32"},
    infer=like(0),
)
def SoftmaxFocalLossGradient(
    xp, X, labels, fg_num, P, dloss, *, scale: float = 1.0, gamma: float = 2.0, alpha: float = 0.25,
    num_classes: int = 81, out,
):  # fmt: skip
    """The gradient by the logits."""
    x, t = _by_class(xp, X, labels, num_classes)
    p = P.reshape(x.shape)
    mine = xp.take_along_axis(p, xp.maximum(t, 0).astype("int64"), axis=2)
    slope = -((1 - mine) ** gamma) + gamma * (1 - mine) ** (gamma - 1) * mine * xp.log(xp.maximum(mine, _TINY))
    slope = slope * _weights(xp, t, fg_num, alpha, X.dtype)
    here = (t == xp.arange(num_classes).reshape(1, 1, -1, 1, 1)).astype(X.dtype)
    d = out(X.shape, X.dtype)
    d.reshape(x.shape)[...] = slope * (here - p) * (fitted(dloss, (), "dloss") * scale)
    return d


def _groups(X, num_classes):
    if X.ndim != 4 or X.shape[1] % num_classes:
        raise ValueError(f"scores must be [N, A * {num_classes}, H, W], got shape {list(X.shape)}")
    return (X.shape[0], X.shape[1] // num_classes, num_classes, *X.shape[2:])


@operator("P", types="float32", infer=like(0), gradient=single("GroupSpatialSoftmaxGradient", "O0 GO0 -> GI0"))
def GroupSpatialSoftmax(xp, X, *, num_classes: int = 81, out):
    """A softmax over each group of num_classes channels, pixel by pixel."""
    shape = _groups(X, num_classes)
    P = out(X.shape, X.dtype)
    P.reshape(shape)[...] = _softmax(xp, X.reshape(shape), 2)
    return P


@operator("dX", shapes="dP = P", types={"P": "float32", "dP": "float32"}, infer=like(0))
def GroupSpatialSoftmaxGradient(xp, P, dP, *, num_classes: int = 81, out):
    """The gradient by the scores."""
    shape = _groups(P, num_classes)
    p, g = P.reshape(shape), dP.reshape(shape)
    d = out(P.shape, P.dtype)
    d.reshape(shape)[...] = p * (g - (p * g).sum(axis=2, keepdims=True))
    return d


# ---- samples and parts ---------------------------------------------------------------------------------------------------


@operator("Y", types={"X": "float32", "L": "int32"}, gradient=single("SampleAsGradient", "I0 I1 GO0 -> GI0"))
def SampleAs(xp, X, L, *, out):
    """The rows of X whose label is positive."""
    rows = _labelled(xp, X, L)
    Y = out((rows.shape[0], *X.shape[1:]), X.dtype)
    if Y.size:
        Y[...] = X[rows]
    return Y


def _labelled(xp, X, L):
    if X.ndim < 1 or L.reshape(-1).shape[0] != X.shape[0]:
        raise ValueError(f"there must be one label for each of {X.shape[0]} rows, got shape {list(L.shape)}")
    return xp.nonzero(L.reshape(-1) > 0)[0]


@operator("dX", types={"X": "float32", "L": "int32", "dY": "float32"}, infer=like(0))
def SampleAsGradient(xp, X, L, dY, *, out):
    """The gradients of the rows that were taken, 0 for the others."""
    rows = _labelled(xp, X, L)
    d = out(X.shape, X.dtype)
    d[...] = 0
    if rows.shape[0]:
        d[rows] = fitted(dY, (rows.shape[0], *X.shape[1:]), "dY")
    return d


@operator(
    "C", types={"A": "float32 int32"}, anywhere="B", gradient=single("SpatialNarrowAsGradient", "I0 I1 GO0 -> GI0")
)
def SpatialNarrowAs(xp, A, B, *, out):
    """The top left part of A that is as high and wide as B."""
    if A.ndim not in (3, 4) or B.ndim != 4 or A.shape[-2] < B.shape[2] or A.shape[-1] < B.shape[3]:
        raise ValueError(f"A {list(A.shape)} must be at least as high and wide as B {list(B.shape)}")
    C = out((*A.shape[:-2], *B.shape[2:]), A.dtype)
    C[...] = A[..., : B.shape[2], : B.shape[3]]
    return C


@operator("dA", types={"A": "float32 int32", "dC": "=A"}, anywhere="B", infer=like(0))
def SpatialNarrowAsGradient(xp, A, B, dC, *, out):
    """The gradient within the part, 0 beyond."""
    if dC.ndim != A.ndim or A.ndim < 2 or dC.shape[:-2] != A.shape[:-2] or any(c > a for c, a in zip(dC.shape, A.shape)):
        raise ValueError(f"dC {list(dC.shape)} must be a part of A {list(A.shape)}")
    d = out(A.shape, A.dtype)
    d[...] = 0
    d[..., : dC.shape[-2], : dC.shape[-1]] = dC
    return d


def _images(X):
    if X.ndim not in (3, 4):
        raise ValueError(f"the input must have three or four dimensions, got shape {list(X.shape)}")


@operator("Y", types="float32", gradient=single("UpsampleNearestGradient", "I0 GO0 -> GI0"))
def UpsampleNearest(xp, X, *, scale: int = 2, out):
    """Each pixel becomes scale × scale pixels."""
    _images(X)
    if scale < 1:
        raise ValueError(f"scale must be positive, got {scale}")
    Y = out((*X.shape[:-2], X.shape[-2] * scale, X.shape[-1] * scale), X.dtype)
    if Y.size:
        Y.reshape(*X.shape[:-1], scale, X.shape[-1], scale)[...] = 0
        Y.reshape(*X.shape[:-2], X.shape[-2], scale, X.shape[-1], scale)[...] = X[..., :, None, :, None]
    return Y


@operator("dX", types={"X": "float32", "dY": "float32"}, infer=like(0))
def UpsampleNearestGradient(xp, X, dY, *, scale: int = 2, out):
    """The sum of the gradients of each pixel's copies."""
    _images(X)
    if scale < 1 or dY.shape != (*X.shape[:-2], X.shape[-2] * scale, X.shape[-1] * scale):
        raise ValueError(f"dY {list(dY.shape)} is none of X {list(X.shape)} in {scale} times the size")
    d = out(X.shape, X.dtype)
    d[...] = dY.reshape(*X.shape[:-2], X.shape[-2], scale, X.shape[-1], scale).sum(axis=(-3, -1))
    return d


# ---- pools over regions --------------------------------------------------------------------------------------------------


def _ps_bins(box, spatial_scale, group):
    """(rows, columns) of each of group × group parts of a roi, in whole pixels."""

    x1, y1 = (math.floor(float(v) + 0.5) * spatial_scale for v in box[:2])
    x2, y2 = ((math.floor(float(v) + 0.5) + 1.0) * spatial_scale for v in box[2:4])
    w, h = max(x2 - x1, 0.1) / group, max(y2 - y1, 0.1) / group
    edges = lambda start, step: [
        (math.floor(i * step + start), math.ceil((i + 1) * step + start)) for i in range(group)
    ]
    return edges(y1, h), edges(x1, w)


@operator(
    "Y mapping", types={"X": "float32", "rois": "float32"}, gradient=single("PSRoIPoolGradient", "I0 I1 O1 GO0 -> GI0")
)
def PSRoIPool(xp, X, rois, *, spatial_scale: float = 1.0, group_size: int, output_dim: int, out):
    """The mean of each part of a roi, each part in channels of its own (Dai et al., R-FCN, 2016)."""
    check_rois(X, rois, (5,))
    if X.shape[1] != output_dim * group_size * group_size:
        raise ValueError(f"X must have {output_dim} * {group_size}² channels, got {X.shape[1]}")
    shape = (rois.shape[0], output_dim, group_size, group_size)
    Y, mapping = out[0](shape, X.dtype), out[1](shape, "int32")
    mapping[...] = xp.arange(X.shape[1]).reshape(1, output_dim, group_size, group_size)
    for r, roi in enumerate(on_host(rois)):
        image, box = image_of(roi, 4, X.shape[0])
        rows, columns = _ps_bins(box, spatial_scale, group_size)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                part = X[image].reshape(output_dim, group_size, group_size, *X.shape[2:])[
                    :, i, j, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)
                ]
                Y[r, :, i, j] = part.mean(axis=(1, 2)) if part.size else 0
    return Y, mapping


@operator("dX", types={"X": "float32", "rois": "float32", "mapping": "int32", "dY": "float32"})
def PSRoIPoolGradient(xp, X, rois, mapping, dY, *, spatial_scale: float = 1.0, group_size: int, output_dim: int, out):
    """Each pixel gets its share of the gradients of the means that it has a part in."""
    check_rois(X, rois, (5,))
    shape = (rois.shape[0], output_dim, group_size, group_size)
    if X.shape[1] != output_dim * group_size * group_size or dY.shape != shape:
        raise ValueError(f"X {list(X.shape)} must have {output_dim} * {group_size}² channels and dY the shape {list(shape)}")
    d = out(X.shape, X.dtype)
    d[...] = 0
    for r, roi in enumerate(on_host(rois)):
        image, box = image_of(roi, 4, X.shape[0])
        rows, columns = _ps_bins(box, spatial_scale, group_size)
        planes = d[image].reshape(output_dim, group_size, group_size, *X.shape[2:])
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                part = planes[:, i, j, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
                if part.size:
                    part += (dY[r, :, i, j] / (part.shape[1] * part.shape[2])).reshape(-1, 1, 1)
    return d


@operator(
    "Y argmaxes", types={"X": "float32", "rois": "float32"}, gradient=single("RoIPoolFGradient", "I0 I1 O1 GO0 -> GI0")
)
def RoIPoolF(xp, X, rois, *, pooled_h: int = 1, pooled_w: int = 1, spatial_scale: float = 1.0, out):
    """As RoIPool for training."""
    return RoIPool.kernels["", None](
        xp, X, rois, pooled_h=pooled_h, pooled_w=pooled_w, spatial_scale=spatial_scale, out=out
    )


@operator("dX", types={"X": "float32", "rois": "float32", "argmaxes": "int32", "dY": "float32"})
def RoIPoolFGradient(
    xp, X, rois, argmaxes, dY, *, pooled_h: int = 1, pooled_w: int = 1, spatial_scale: float = 1.0, out
):
    """As RoIPoolGradient."""
    return RoIPoolGradient.kernels["", None](xp, X, rois, argmaxes, dY, pooled_h=pooled_h, pooled_w=pooled_w, out=out)


# ---- older branches ------------------------------------------------------------------------------------------------------


def _along_channels(X, values):
    if X.ndim < 2 or values.shape != (X.shape[1],):
        raise ValueError(f"there must be one value for each channel of {list(X.shape)}, got shape {list(values.shape)}")
    return values.reshape(1, -1, *(1,) * (X.ndim - 2))


@operator("Y", inplace={0: 0}, types="float32", infer=like(0), gradient=single("AffineNdGradient", "I1 GO0 -> GI0"))
def AffineNd(xp, X, scale, bias, *, out):
    """Y = scale * X + bias, channel by channel, for (N, C, …) of any number of dimensions; scale and bias are fixed."""
    Y = out(X.shape, X.dtype)
    xp.multiply(X, _along_channels(X, scale), out=Y)
    return xp.add(Y, _along_channels(X, bias), out=Y)


@operator("dX", inplace={1: 0}, types={"scale": "float32", "dY": "float32"}, infer=like(1))
def AffineNdGradient(xp, scale, dY, *, out):
    """dX = scale * dY."""
    return xp.multiply(dY, _along_channels(dY, scale), out=out(dY.shape, dY.dtype))
