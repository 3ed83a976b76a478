"""RoIAlign over rotated regions of interest, with its gradient."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.detection.roi import SIZES, Align, check_pooled, check_rois, image_of, infer, on_host, planes
from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator


def _rotated_box(roi, align):
    """Return (x, y, w, h, cosine, sine, samples down, samples across) of a roi on the features."""
    x, y = (float(v) * align.spatial_scale - align.shift for v in roi[:2])
    w, h = (float(v) * align.spatial_scale for v in roi[2:4])
    if not align.aligned:
        w, h = max(w, 1.0), max(h, 1.0)
    angle = math.radians(float(roi[4]))
    grid = align.grid(h, align.pooled_h), align.grid(w, align.pooled_w)
    check_result((4, *align.pooled, *grid), np.float64)
    return x, y, w, h, math.cos(angle), math.sin(angle), *grid


def _rotated_samples(roi, shape, align):
    """Return (pixel numbers, weights) of the four corners of each sample, [4, bins, samples]; bins in row-major order."""
    x, y, w, h, c, s, grid_h, grid_w = _rotated_box(roi, align)
    pooled_h, pooled_w = align.pooled
    v = -h / 2 + (np.arange(pooled_h)[:, None] + (np.arange(grid_h)[None] + 0.5) / grid_h) * (h / pooled_h)
    u = -w / 2 + (np.arange(pooled_w)[:, None] + (np.arange(grid_w)[None] + 0.5) / grid_w) * (w / pooled_w)
    v, u = v[:, None, :, None], u[None, :, None, :]
    px = (u * c + v * s + x).reshape(pooled_h * pooled_w, -1)
    py = (v * c - u * s + y).reshape(pooled_h * pooled_w, -1)
    height, width = shape
    outside = (py < -1.0) | (py > height) | (px < -1.0) | (px > width)
    px, py = np.maximum(px, 0), np.maximum(py, 0)
    x0, y0 = np.minimum(px.astype(np.int64), width - 1), np.minimum(py.astype(np.int64), height - 1)
    px, py = np.where(x0 >= width - 1, width - 1, px), np.where(y0 >= height - 1, height - 1, py)
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    lx, ly = px - x0, py - y0
    weights = np.stack([(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx])
    weights = np.where(outside, 0, weights) / (grid_h * grid_w)
    pixels = np.stack([y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1])
    return pixels, weights.astype(np.float32)


@operator(
    "Y",
    types={"X": "float32", "RoIs": "float32"},
    infer=infer,
    gradient=single("RoIAlignRotatedGradient", "I0 I1 GO0 -> GI0"),
    limits=SIZES,
)
def RoIAlignRotated(
    xp,
    X,
    RoIs,
    *,
    align: Align,
    out,
):
    """RoIAlign for rotated rois.

    X [N, C, H, W] float32 (NHWC: channels last), RoIs [R, 5] or [R, 6] of (image,) x, y, w, h, degrees -> Y [R, C,
    pooled_h, pooled_w]. ValueError where the shapes do not fit, a roi is of no image, or pooled_h or pooled_w is below
    0.

    J. Ma et al., "Arbitrary-oriented scene text detection via rotation proposals", 2018.
    """
    check_rois(X, RoIs, (5, 6), align.order, align.spatial_scale)
    x, Y, y = planes(X, RoIs, align, out)
    if not x.size:
        Y[...] = 0
    for r, roi in enumerate(on_host(RoIs) if Y.size and x.size else ()):
        image, box = image_of(roi, 5, x.shape[0])
        pixels, weights = _rotated_samples(box, x.shape[2:], align)
        plane = x[image].reshape(x.shape[1], -1)
        seen = plane[:, xp.asarray(pixels)] * xp.asarray(weights)
        y[r] = seen.sum(axis=(1, 3)).reshape(y.shape[1:])
    return Y


@operator("dX", types={"X": "float32", "RoIs": "float32", "dY": "float32"}, limits=SIZES)
def RoIAlignRotatedGradient(
    xp,
    X,
    RoIs,
    dY,
    *,
    align: Align,
    out,
):
    """Each pixel gets the gradients of the means that it has a part in, by that part.

    X [N, C, H, W] float32, RoIs [R, 5] or [R, 6], dY [R, C, pooled_h, pooled_w] -> dX of X's shape. ValueError where
    the shapes do not fit, or a roi is of no image.
    """
    check_rois(X, RoIs, (5, 6), align.order, align.spatial_scale)
    check_pooled(dY, RoIs, X, *align.pooled)
    dX = out(X.shape, dY.dtype)
    dX[...] = 0
    channels, size = X.shape[1], X.shape[2] * X.shape[3]
    for r, roi in enumerate(on_host(RoIs) if dY.size else ()):
        image, box = image_of(roi, 5, X.shape[0])
        pixels, weights = _rotated_samples(box, X.shape[2:], align)
        spread = np.zeros((pixels.shape[1], size), np.float32)
        bins = np.broadcast_to(np.arange(pixels.shape[1])[None, :, None], pixels.shape)
        np.add.at(spread, (bins.reshape(-1), pixels.reshape(-1)), weights.reshape(-1))
        dX[image] += xp.matmul(dY[r].reshape(channels, -1), xp.asarray(spread)).reshape(channels, *X.shape[2:])
    return dX


@compiled(RoIAlignRotated, work=16)
def _rotated_compiled(
    xp,
    X,
    RoIs,
    *,
    align: Align,
    out,
):
    check_rois(X, RoIs, (5, 6), align.order, align.spatial_scale)
    x, Y, y = planes(X, RoIs, align, out)
    if not Y.size or not x.size:
        return RoIAlignRotated(xp, X, RoIs, align=align, out=out)
    pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(x.shape[0], -1, x.shape[1])  # channels last
    seen = np.empty((align.pooled_h * align.pooled_w, x.shape[1]), np.float32)
    for r, roi in enumerate(RoIs):
        image, box = image_of(roi, 5, x.shape[0])
        _gather_loop(
            pixels[image],
            *_samples(box, x.shape[2:], align),
            seen,
        )
        y[r] = seen.T.reshape(y.shape[1:])
    return Y


@compiled(RoIAlignRotatedGradient, work=16)
def _rotated_gradient_compiled(
    xp,
    X,
    RoIs,
    dY,
    *,
    align: Align,
    out,
):
    check_rois(X, RoIs, (5, 6), align.order, align.spatial_scale)
    check_pooled(dY, RoIs, X, *align.pooled)
    pixels = np.zeros((X.shape[0], X.shape[2] * X.shape[3], X.shape[1]), np.float32)  # channels last
    for r, roi in enumerate(RoIs if dY.size else ()):
        image, box = image_of(roi, 5, X.shape[0])
        _scatter_loop(
            pixels[image],
            *_samples(box, X.shape[2:], align),
            np.ascontiguousarray(dY[r].reshape(X.shape[1], -1).T),
        )
    dX = out(X.shape, dY.dtype)
    dX.reshape(X.shape[0], X.shape[1], -1)[...] = pixels.transpose(0, 2, 1)
    return dX


def _samples(roi, shape, align):
    """Return what `_rotated_samples` does, as [bins, samples * 4]."""
    *box, grid_h, grid_w = _rotated_box(roi, align)
    pooled_h, pooled_w = align.pooled
    pixels = np.empty((pooled_h * pooled_w, grid_h * grid_w * 4), np.uint32)
    weights = np.empty(pixels.shape, np.float32)
    _samples_loop(*box, *shape, pooled_h, pooled_w, grid_h, grid_w, pixels, weights)
    return pixels, weights


@loop
def _samples_loop(x, y, w, h, c, s, height, width, pooled_h, pooled_w, grid_h, grid_w, pixels, weights):
    share = 1.0 / max(grid_h * grid_w, 1)
    for b in range(pooled_h * pooled_w):
        for g in range(grid_h * grid_w):
            v = -h / 2 + (b // pooled_w + (g // grid_w + 0.5) / grid_h) * (h / pooled_h)
            u = -w / 2 + (b % pooled_w + (g % grid_w + 0.5) / grid_w) * (w / pooled_w)
            px, py = u * c + v * s + x, v * c - u * s + y
            part = 0.0 if py < -1.0 or py > height or px < -1.0 or px > width else share
            px, py = max(px, 0.0), max(py, 0.0)
            x0, y0 = min(int(px), width - 1), min(int(py), height - 1)
            lx, ly = (px - x0 if x0 < width - 1 else 0.0), (py - y0 if y0 < height - 1 else 0.0)
            x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
            pixels[b, 4 * g], weights[b, 4 * g] = y0 * width + x0, (1 - ly) * (1 - lx) * part
            pixels[b, 4 * g + 1], weights[b, 4 * g + 1] = y0 * width + x1, (1 - ly) * lx * part
            pixels[b, 4 * g + 2], weights[b, 4 * g + 2] = y1 * width + x0, ly * (1 - lx) * part
            pixels[b, 4 * g + 3], weights[b, 4 * g + 3] = y1 * width + x1, ly * lx * part


@loop
def _gather_loop(image, pixels, weights, Y):
    for b in range(pixels.shape[0]):
        for c in range(image.shape[1]):
            Y[b, c] = 0
        for g in range(pixels.shape[1]):
            weight, row = weights[b, g], image[pixels[b, g]]
            for c in range(image.shape[1]):
                Y[b, c] += weight * row[c]


@loop
def _scatter_loop(image, pixels, weights, dY):
    for b in range(pixels.shape[0]):
        for g in range(pixels.shape[1]):
            weight, row = weights[b, g], image[pixels[b, g]]
            for c in range(image.shape[1]):
                row[c] += weight * dY[b, c]
