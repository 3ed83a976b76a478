"""Operators of Detectron's own module, which the CPU wheel of Caffe2 does not hold, and AffineNd of older branches."""

from __future__ import annotations

import math

from caffe2lite.ops.detection.roi import RoIPool, RoIPoolGradient, check_rois, image_of, on_host
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_range
from caffe2lite.ops.kit.shapes import fitted

TINY = 1.17549435e-38  # the smallest normal float


def scalar(out, value):
    Y = out((), "float32")
    Y[...] = value
    return Y


def loss_shape(args, inputs):
    return [Spec(())]


# ---- smooth L1 -----------------------------------------------------------------------------------------------------------


def _smooth(xp, d, beta):
    size = xp.abs(d)
    return xp.where(size < beta, 0.5 * d * d / beta, size - 0.5 * beta)


def _smooth_derivative(xp, d, beta):
    return xp.where(xp.abs(d) < beta, d / beta, xp.sign(d))


def check_same(Y_hat, *others):
    for other in others:
        if other.shape != Y_hat.shape:
            raise ValueError(f"all operands must have the shape {list(Y_hat.shape)}, got {list(other.shape)}")


@operator(
    "loss",
    shapes="Y_hat [N, ...]",
    types={"Y_hat": "float32", "Y": "float32", "alpha_in": "float32", "alpha_out": "float32"},
    infer=loss_shape,
    gradient=single("SmoothL1LossGradient", "I0 I1 I2 I3 GO0 -> GI0"),
)
def SmoothL1Loss(xp, Y_hat, Y, alpha_in, alpha_out, *, beta: float = 1.0, scale: float = 1.0, out):
    """scale / N * sum of alpha_out * smooth(alpha_in * (Y_hat - Y)); smooth(d) = d² / (2 beta) where |d| < beta, else |d| - beta / 2.

    Y_hat [N, ...] float32, Y, alpha_in, alpha_out alike -> loss, a scalar. ValueError where the shapes differ.

    R. Girshick, "Fast R-CNN", 2015.
    """
    check_same(Y_hat, Y, alpha_in, alpha_out)
    total = (alpha_out * _smooth(xp, alpha_in * (Y_hat - Y), beta)).sum()
    return scalar(out, total * (scale / max(Y_hat.shape[0], 1)))


@operator(
    "dY_hat",
    shapes="Y_hat [N, ...]",
    types={"Y_hat": "float32", "Y": "=Y_hat", "alpha_in": "=Y_hat", "alpha_out": "=Y_hat", "dloss": "=Y_hat"},
    infer=like(0),
)
def SmoothL1LossGradient(xp, Y_hat, Y, alpha_in, alpha_out, dloss, *, beta: float = 1.0, scale: float = 1.0, out):
    """The gradient by the prediction.

    The operands of SmoothL1Loss [N, ...] float32, dloss [1] -> dY_hat. ValueError where the shapes differ.
    """
    check_same(Y_hat, Y, alpha_in, alpha_out)
    d = out(Y_hat.shape, Y_hat.dtype)
    derivative = alpha_in * alpha_out * _smooth_derivative(xp, alpha_in * (Y_hat - Y), beta)
    d[...] = derivative * (fitted(dloss, (), "dloss") * (scale / max(Y_hat.shape[0], 1)))
    return d


def _check_gradient(dY, shape):
    if dY.shape != tuple(shape):
        raise ValueError(f"the gradient of the result must have its shape, {list(shape)}; found {list(dY.shape)}")


def _places(Y_hat, Y, L):
    """Return four index vectors: for each target box the places of its four numbers in (N, A * 4, H, W)."""
    if Y_hat.ndim != 4 or Y.ndim != 2 or Y.shape[1] != 4 or L.shape != Y.shape:
        raise ValueError(
            f"expected predictions [N, A * 4, H, W], targets [M, 4] and places [M, 4], got {list(Y_hat.shape)}, "
            f"{list(Y.shape)} and {list(L.shape)}"
        )
    n, c, y, x = (L[:, k].astype("int64") for k in range(4))
    check_range(n, Y_hat.shape[0], "the image of a place")
    check_range(c, Y_hat.shape[1] - 3, "the first channel of a place")
    check_range(y, Y_hat.shape[2], "the row of a place")
    check_range(x, Y_hat.shape[3], "the column of a place")
    return n, c, y, x


def _chosen(xp, Y_hat, Y, L):
    n, c, y, x = _places(Y_hat, Y, L)
    return n[:, None], c[:, None] + xp.arange(4).reshape(1, -1), y[:, None], x[:, None]


@operator(
    "loss",
    types={"Y_hat": "float32", "Y": "float32", "L": "float32", "S": "float32"},
    infer=loss_shape,
    gradient=single("SelectSmoothL1LossGradient", "I0 I1 I2 I3 GO0 -> GI0"),
)
def SelectSmoothL1Loss(xp, Y_hat, Y, L, S, *, beta: float = 1.0, scale: float = 1.0, out):
    """scale / max(S, 1) * sum of smooth(prediction - target) over the places L (image, channel, row, column).

    Y_hat [N, A * 4, H, W] float32, Y [M, 4], L [M, 4], S [1] -> loss, a scalar. ValueError where the shapes do not fit,
    or a place is not within Y_hat.
    """
    if not Y.size:
        return scalar(out, 0)
    d = Y_hat[_chosen(xp, Y_hat, Y, L)] - Y
    return scalar(out, _smooth(xp, d, beta).sum() * scale / xp.maximum(S.reshape(-1)[0], 1))


@operator("dY_hat", types={"Y_hat": "float32", "dloss": "float32"}, infer=like(0))
def SelectSmoothL1LossGradient(xp, Y_hat, Y, L, S, dloss, *, beta: float = 1.0, scale: float = 1.0, out):
    """The gradient by the prediction: 0 except at the places.

    The operands of SelectSmoothL1Loss [N, A * 4, H, W] float32, ..., dloss [1] -> dY_hat. ValueError where the shapes
    do not fit, or a place is not within Y_hat.
    """
    d = out(Y_hat.shape, Y_hat.dtype)
    d[...] = 0
    if Y.size:
        where = _chosen(xp, Y_hat, Y, L)
        d[where] = _smooth_derivative(xp, Y_hat[where] - Y, beta) * (
            fitted(dloss, (), "dloss") * scale / xp.maximum(S.reshape(-1)[0], 1)
        )
    return d


# ---- samples and parts ---------------------------------------------------------------------------------------------------


@operator("Y", types={"X": "float32", "L": "int32"}, gradient=single("SampleAsGradient", "I0 I1 GO0 -> GI0"))
def SampleAs(xp, X, L, *, out):
    """The rows of X whose label is positive.

    X [N, ...] float32, L [N] int32 -> Y [positive labels, ...]. ValueError where there is not one label for each row.
    """
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
    """The gradients of the rows that were taken, 0 for the others.

    X [N, ...] float32, L [N] int32, dY [positive labels, ...] -> dX of X's shape. ValueError where there is not one
    label for each row, or one row of dY for each positive one.
    """
    rows = _labelled(xp, X, L)
    _check_gradient(dY, (rows.shape[0], *X.shape[1:]))
    d = out(X.shape, X.dtype)
    d[...] = 0
    if rows.shape[0]:
        d[rows] = fitted(dY, (rows.shape[0], *X.shape[1:]), "dY")
    return d


@operator(
    "C", types={"A": "float32 int32"}, anywhere="B", gradient=single("SpatialNarrowAsGradient", "I0 I1 GO0 -> GI0")
)
def SpatialNarrowAs(xp, A, B, *, out):
    """The top left part of A that is as high and wide as B.

    A [N, C, H, W] or [N, H, W] float32 or int32, B [N, C, h, w] -> C [..., h, w]. ValueError where A is smaller than B.
    """
    _check_narrow(A, B)
    C = out((*A.shape[:-2], *B.shape[2:]), A.dtype)
    C[...] = A[..., : B.shape[2], : B.shape[3]]
    return C


def _check_narrow(A, B):
    if A.ndim not in (3, 4) or B.ndim != 4 or A.shape[-2] < B.shape[2] or A.shape[-1] < B.shape[3]:
        raise ValueError(f"A {list(A.shape)} must be at least as high and wide as B {list(B.shape)}")


@operator("dA", types={"A": "float32 int32", "dC": "=A"}, anywhere="B", infer=like(0))
def SpatialNarrowAsGradient(xp, A, B, dC, *, out):
    """The gradient within the part, 0 beyond.

    A [..., H, W] float32 or int32, B [N, C, h, w], dC [..., h, w] -> dA of A's shape. ValueError where dC has not the
    part's shape.
    """
    _check_narrow(A, B)
    _check_gradient(dC, (*A.shape[:-2], *B.shape[2:]))
    d = out(A.shape, A.dtype)
    d[...] = 0
    d[..., : dC.shape[-2], : dC.shape[-1]] = dC
    return d


def _upsampled(X, scale):
    """Return the shape of X with each pixel scale × scale times."""
    if X.ndim not in (3, 4):
        raise ValueError(f"the input must have three or four dimensions, got shape {list(X.shape)}")
    if scale < 1:
        raise ValueError(f"scale must be positive, got {scale}")
    return (*X.shape[:-2], X.shape[-2] * scale, X.shape[-1] * scale)


@operator("Y", types="float32", gradient=single("UpsampleNearestGradient", "I0 GO0 -> GI0"))
def UpsampleNearest(xp, X, *, scale: int = 2, out):
    """Each pixel becomes scale × scale pixels.

    X [N, C, H, W] or [C, H, W] float32 -> Y [..., scale * H, scale * W]. ValueError where X has other dimensions, or
    `scale` is below 1.
    """
    Y = out(_upsampled(X, scale), X.dtype)
    if Y.size:
        Y.reshape(*X.shape[:-2], X.shape[-2], scale, X.shape[-1], scale)[...] = X[..., :, None, :, None]
    return Y


@operator("dX", types={"X": "float32", "dY": "float32"}, infer=like(0))
def UpsampleNearestGradient(xp, X, dY, *, scale: int = 2, out):
    """The sum of the gradients of each pixel's copies.

    X [..., H, W] float32, dY [..., scale * H, scale * W] -> dX of X's shape. ValueError where dY has another shape.
    """
    _check_gradient(dY, _upsampled(X, scale))
    d = out(X.shape, X.dtype)
    d[...] = dY.reshape(*X.shape[:-2], X.shape[-2], scale, X.shape[-1], scale).sum(axis=(-3, -1))
    return d


# ---- pools over regions --------------------------------------------------------------------------------------------------


def _check_ps(X, rois, group, channels, scale):
    check_rois(X, rois, (5,), scale=scale)
    if group < 1 or X.shape[1] != channels * group * group:
        raise ValueError(f"X must have output_dim * group_size² channels, {channels} * {group}², got {X.shape[1]}")


def _ps_bins(box, spatial_scale, group):
    """Return (rows, columns) of each of group × group parts of a roi, in whole pixels."""

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
    """The mean of each part of a roi, each part in channels of its own.

    X [N, D * g * g, H, W] float32, rois [R, 5] of (image, x1, y1, x2, y2) -> Y [R, D, g, g], mapping [R, D, g, g]
    int32, the channels. ValueError where the channels are not output_dim * group_size², or a roi is of no image.

    J. Dai et al., "R-FCN: object detection via region-based fully convolutional networks", 2016.
    """
    _check_ps(X, rois, group_size, output_dim, spatial_scale)
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
    """Each pixel gets its share of the gradients of the means that it has a part in.

    X [N, D * g * g, H, W] float32, rois [R, 5], mapping [R, D, g, g] int32, dY [R, D, g, g] -> dX of X's shape.
    ValueError where the shapes do not fit, or a roi is of no image.
    """
    _check_ps(X, rois, group_size, output_dim, spatial_scale)
    _check_gradient(dY, (rois.shape[0], output_dim, group_size, group_size))
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
    """As RoIPool for training.

    X [N, C, H, W] float32, rois [R, 5] -> Y [R, C, pooled_h, pooled_w], argmaxes alike, int32. ValueError where the
    shapes do not fit, or a roi is of no image.
    """
    return RoIPool.kernels["", None](
        xp, X, rois, pooled_h=pooled_h, pooled_w=pooled_w, spatial_scale=spatial_scale, out=out
    )


@operator("dX", types={"X": "float32", "rois": "float32", "argmaxes": "int32", "dY": "float32"})
def RoIPoolFGradient(
    xp, X, rois, argmaxes, dY, *, pooled_h: int = 1, pooled_w: int = 1, spatial_scale: float = 1.0, out
):
    """As RoIPoolGradient.

    X [N, C, H, W] float32, rois [R, 5], argmaxes [R, C, pooled_h, pooled_w] int32, dY alike -> dX of X's shape.
    ValueError where the shapes do not fit, or a roi is of no image.
    """
    return RoIPoolGradient.kernels["", None](xp, X, rois, argmaxes, dY, pooled_h=pooled_h, pooled_w=pooled_w, out=out)


# ---- older branches ------------------------------------------------------------------------------------------------------


def _along_channels(X, values):
    if X.ndim < 2 or values.shape != (X.shape[1],):
        raise ValueError(f"there must be one value for each channel of {list(X.shape)}, got shape {list(values.shape)}")
    return values.reshape(1, -1, *(1,) * (X.ndim - 2))


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "scale": "=X", "bias": "=X"},
    infer=like(0),
    gradient=single("AffineNdGradient", "I1 GO0 -> GI0"),
)
def AffineNd(xp, X, scale, bias, *, out):
    """Y = scale * X + bias, channel by channel; scale and bias are fixed.

    X [N, C, ...] float32, scale [C], bias [C] -> Y of X's shape. ValueError where there is not one value for each
    channel.
    """
    factor, term = _along_channels(X, scale), _along_channels(X, bias)
    Y = out(X.shape, X.dtype)
    xp.multiply(X, factor, out=Y)
    return xp.add(Y, term, out=Y)


@operator("dX", inplace={1: 0}, types={"scale": "float32", "dY": "float32"}, infer=like(1))
def AffineNdGradient(xp, scale, dY, *, out):
    """dX = scale * dY.

    scale [C] float32, dY [N, C, ...] -> dX of its shape. ValueError where there is not one value for each channel.
    """
    return xp.multiply(dY, _along_channels(dY, scale), out=out(dY.shape, dY.dtype))
