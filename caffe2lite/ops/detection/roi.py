"""Pools over regions of interest: RoIPool and RoIAlign, with gradients."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from caffe2lite.ops.detection import cuda
from caffe2lite.ops.kit.arguments import fields_of
from caffe2lite.ops.kit.compiled import compiled, loop, pays
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import CPU, operator
from caffe2lite.ops.kit.shapes import check_order

SIZES = "pooled_h >= 0, pooled_w >= 0"


class Align(NamedTuple):
    """The arguments of RoIAlign and its kin."""

    order: str = "NCHW"
    spatial_scale: float = 1.0
    pooled_h: int = 1
    pooled_w: int = 1
    sampling_ratio: int = -1
    aligned: bool = False

    @property
    def pooled(self) -> tuple[int, int]:
        """How many parts a roi has."""
        return self.pooled_h, self.pooled_w

    @property
    def shift(self) -> float:
        """How far a roi is moved towards the origin on the features."""
        return 0.5 if self.aligned else 0.0

    def grid(self, length: float, bins: int) -> int:
        """Return how many samples are taken along one of the parts of a side."""
        return self.sampling_ratio if self.sampling_ratio > 0 else math.ceil(length / bins)


fields_of(Align)


def check_rois(X, rois, sizes, order="NCHW", scale=1.0):
    """Raise a ValueError where features or rois have a wrong number of dimensions or columns, or rois no place."""
    check_order(order)
    if X.ndim != 4:
        raise ValueError(f"the features must have four dimensions, got shape {list(X.shape)}")
    if rois.ndim != 2 or rois.shape[1] not in sizes:
        raise ValueError(f"rois must be [R, {' or '.join(map(str, sizes))}], got shape {list(rois.shape)}")
    for r, roi in enumerate(on_host(rois).tolist()):
        if not all(abs(v) < 2**31 and abs(v * scale) < 2**31 for v in roi):
            raise ValueError(
                f"roi {r} is {roi}; its numbers, and these times spatial_scale={scale}, must be below 2^31"
            )


def on_host(rois):
    """Return the rois in host memory."""
    return rois if isinstance(rois, np.ndarray) else rois.get()


def image_of(roi, size, batch):
    """Return (image number, the box itself)."""
    image, box = (0, roi) if len(roi) == size else (int(roi[0]), roi[1:])
    if not 0 <= image < batch:
        must = f"must be from 0 to {batch - 1}" if batch else "cannot be: there are no images"
        raise ValueError(f"the image of a roi is {image}; it {must}")
    return image, box


def _check_boxes(rois, batch, size, aligned=False):
    """ValueError where a roi is of no image or, if aligned, has a negative size: before a kernel takes all of them."""
    for roi in on_host(rois):
        box = image_of(roi, size, batch)[1]
        if aligned:
            check_size(box)


def check_size(box):
    """ValueError where the box is turned inside out."""
    x1, y1, x2, y2 = (float(v) for v in box)
    if x2 < x1 or y2 < y1:
        raise ValueError(f"a roi has a negative size: {[x1, y1, x2, y2]}")


def _shape(X, rois, order, *pooled):
    """Return the shape of what is pooled from each of `rois` boxes of features of the shape X."""
    return (rois, *pooled, X[3]) if order == "NHWC" else (rois, X[1], *pooled)


def infer(args, inputs):
    X, rois = inputs[0].shape, inputs[1].shape
    return [Spec(_shape(X, rois[0], args.get("order"), args["pooled_h"], args["pooled_w"]))]


def check_pooled(dY, rois, X, *pooled):
    shape = _shape(X.shape, rois.shape[0], "NCHW", *pooled)
    if dY.shape != shape:
        raise ValueError(f"the gradient has the shape {list(dY.shape)}; expected {list(shape)}")


def planes(X, RoIs, align, out):
    """Return (X with its channels first, the output, the output with its channels first)."""
    Y = out(_shape(X.shape, len(RoIs), align.order, *align.pooled), X.dtype)
    return (X.transpose(0, 3, 1, 2), Y, Y.transpose(0, 3, 1, 2)) if align.order == "NHWC" else (X, Y, Y)


# ---- RoIAlign: both directions apart, Y = rows X columns' ------------------------------------------------------------


def _side(start, length, bins, size, align):
    """Return the matrix [bins, size] of the mean of bilinear samples in each of `bins` parts of a side."""
    if bins < 1 or not math.isfinite(start) or not math.isfinite(length):
        raise ValueError(f"{bins} parts of a roi from {start:g} of the length {length:g} cannot be pooled")
    step = length / bins
    grid = align.grid(length, bins)
    check_result((bins, grid), "float64")
    matrix = np.zeros((bins, size), np.float32)
    if grid == 0 or size == 0:
        return matrix
    at = start + (np.arange(bins)[:, None] + (np.arange(grid)[None] + 0.5) / grid) * step
    outside = (at < -1.0) | (at > size)
    at = np.clip(at, 0, None)
    low = np.minimum(at.astype(np.int64), size - 1)
    at = np.where(low >= size - 1, size - 1, at)
    high = np.minimum(low + 1, size - 1)
    share = at - low
    rows = np.repeat(np.arange(bins), grid)
    np.add.at(matrix, (rows, low.reshape(-1)), np.where(outside, 0, 1 - share).reshape(-1) / grid)
    np.add.at(matrix, (rows, high.reshape(-1)), np.where(outside, 0, share).reshape(-1) / grid)
    return matrix


def _align_sides(roi, shape, align):
    x1, y1, x2, y2 = (float(v) * align.spatial_scale - align.shift for v in roi)
    w, h = x2 - x1, y2 - y1
    if not align.aligned:
        w, h = max(w, 1.0), max(h, 1.0)
    else:
        check_size(roi)
    return _side(y1, h, align.pooled_h, shape[0], align), _side(x1, w, align.pooled_w, shape[1], align)


@operator(
    "Y",
    types={"X": "float32", "RoIs": "float32"},
    infer=infer,
    gradient=single("RoIAlignGradient", "I0 I1 GO0 -> GI0"),
    limits=SIZES,
)
def RoIAlign(
    xp,
    X,
    RoIs,
    *,
    align: Align,
    out,
):
    """The mean of bilinear samples in each of pooled_h × pooled_w parts of each roi.

    X [N, C, H, W] float32 (NHWC: channels last), RoIs [R, 4] or [R, 5] of (image,) x1, y1, x2, y2 -> Y [R, C, pooled_h,
    pooled_w]. ValueError where the shapes do not fit, a roi is of no image, has a negative size (if aligned), or
    pooled_h or pooled_w is below 0.

    K. He et al., "Mask R-CNN", 2017.
    """
    check_rois(X, RoIs, (4, 5), align.order, align.spatial_scale)
    x, Y, y = planes(X, RoIs, align, out)
    if usable(xp, X) and align.order != "NHWC":
        _check_boxes(RoIs, X.shape[0], 4, align.aligned)
        sizes = (RoIs.shape[1], *X.shape[1:], *align.pooled, align.spatial_scale)
        cuda.ROI_ALIGN(xp, Y.size, Y, X, RoIs, *sizes, align.sampling_ratio, align.aligned)
        return Y
    for r, roi in enumerate(on_host(RoIs) if Y.size else ()):
        image, box = image_of(roi, 4, x.shape[0])
        rows, columns = _align_sides(box, x.shape[2:], align)
        y[r] = _sampled(xp, x[image], rows, columns)
    return Y


def _sampled(xp, image, rows, columns):
    """rows X columns'; an infinite pixel counts where it is seen, and 0 * inf does not make NaN of all the others."""
    made = xp.matmul(xp.matmul(xp.asarray(rows), image), xp.asarray(columns).T)
    if bool(xp.isfinite(image).all()):
        return made
    for i, j in itertools.product(range(len(rows)), range(len(columns))):
        seen, across = np.flatnonzero(rows[i]), np.flatnonzero(columns[j])
        weights = xp.asarray(rows[i, seen][:, None] * columns[j, across])
        part = image[:, xp.asarray(seen)[:, None], xp.asarray(across)] * weights
        made[:, i, j] = part.sum(axis=(1, 2))
    return made


@operator("dX", types={"X": "float32", "RoIs": "float32", "dY": "float32"}, infer=like(0), limits=SIZES)
def RoIAlignGradient(
    xp,
    X,
    RoIs,
    dY,
    *,
    align: Align,
    out,
):
    """Each pixel gets the gradients of the means that it has a part in, by that part.

    X [N, C, H, W] float32, RoIs [R, 4] or [R, 5], dY [R, C, pooled_h, pooled_w] -> dX of X's shape. As in Caffe2, X is
    NCHW whatever `order` says, and the values of dY count in that order, the last ones being 0 if there are fewer.
    ValueError where the shapes do not fit, or a roi is of no image.
    """
    check_rois(X, RoIs, (4, 5), align.order, align.spatial_scale)
    wanted = (RoIs.shape[0], X.shape[1], *align.pooled)
    missing = math.prod(wanted) - dY.size
    if missing < 0 or (missing and align.order != "NHWC"):
        raise ValueError(f"the gradient has the shape {list(dY.shape)}; expected {list(wanted)}")
    if missing:
        check_result(wanted, dY.dtype)
        dY = xp.concatenate([dY.reshape(-1), xp.zeros(missing, dY.dtype)])
    dY = dY.reshape(wanted)
    dX = out(X.shape, dY.dtype)
    dX[...] = 0
    if usable(xp, dY) and dX.flags.c_contiguous:
        _check_boxes(RoIs, X.shape[0], 4, align.aligned)
        sizes = (RoIs.shape[1], *X.shape[1:], *align.pooled, align.spatial_scale)
        cuda.ROI_ALIGN_GRADIENT(xp, dY.size, dX, dY, RoIs, *sizes, align.sampling_ratio, align.aligned)
        return dX
    for r, roi in enumerate(on_host(RoIs) if dY.size else ()):
        image, box = image_of(roi, 4, X.shape[0])
        rows, columns = _align_sides(box, X.shape[2:], align)
        if bool(xp.isfinite(dY[r]).all()):
            dX[image] += xp.matmul(xp.matmul(xp.asarray(rows).T, dY[r]), xp.asarray(columns))
            continue
        for i, j in np.ndindex(*align.pooled):  # 0 * inf would make NaN of all pixels
            down, across = np.flatnonzero(rows[i]), np.flatnonzero(columns[j])
            weights = xp.asarray(rows[i, down][:, None] * columns[j, across])
            dX[image][:, xp.asarray(down)[:, None], xp.asarray(across)] += dY[r, :, i, j, None, None] * weights
    return dX


@compiled(RoIAlign, work=16)
def _align_compiled(
    xp,
    X,
    RoIs,
    *,
    align: Align,
    out,
):
    if align.order == "NHWC" or not X.size or not RoIs.size or not align.pooled_h * align.pooled_w:
        return RoIAlign(xp, X, RoIs, align=align, out=out)
    check_rois(X, RoIs, (4, 5), align.order, align.spatial_scale)
    Y = out((len(RoIs), X.shape[1], *align.pooled), X.dtype)
    images, *sides = _all_sides(X, RoIs, align)
    _align_loop(X, images, *sides, Y)
    if not np.isfinite(Y).all():  # 0 * inf makes NaN of means that do not see the pixel
        return RoIAlign(xp, X, RoIs, align=align, out=out)
    return Y


@compiled(RoIAlignGradient, work=16)
def _align_gradient_compiled(
    xp,
    X,
    RoIs,
    dY,
    *,
    align: Align,
    out,
):
    check_rois(X, RoIs, (4, 5), align.order, align.spatial_scale)
    fits = dY.shape == (RoIs.shape[0], *X.shape[1:2], *align.pooled)
    if not fits or not dY.size or not X.size or not np.isfinite(dY).all():  # 0 * inf would make NaN of all pixels
        return RoIAlignGradient(xp, X, RoIs, dY, align=align, out=out)
    dX = out(X.shape, dY.dtype)
    dX[...] = 0
    images, *sides = _all_sides(X, RoIs, align)
    _align_gradient_loop(dX, images, *sides, dY)
    return dX


def _all_sides(X, rois, align):
    """Return of all rois the images, the matrices of rows and of columns, and where their rows are not 0."""
    _check_boxes(rois, X.shape[0], 4, align.aligned)
    x1, y1, x2, y2 = (rois[:, -4:].astype(np.float64) * align.spatial_scale - align.shift).T
    w, h = x2 - x1, y2 - y1
    if not align.aligned:
        w, h = np.maximum(w, 1.0), np.maximum(h, 1.0)
    (pooled_h, pooled_w), samples = align.pooled, align.sampling_ratio
    most = samples if samples > 0 else int(max(h.max() / pooled_h, w.max() / pooled_w, 0))
    check_result((max(pooled_h, pooled_w), most), "float64")
    made = [rois[:, 0].astype(np.int64) if rois.shape[1] == 5 else np.zeros(len(rois), np.int64)]
    for starts, lengths, bins, size in ((y1, h, pooled_h, X.shape[2]), (x1, w, pooled_w, X.shape[3])):
        matrices, spans = np.zeros((len(rois), bins, size), np.float32), np.empty((len(rois), bins, 2), np.int64)
        _sides_loop(starts, lengths, samples, matrices, spans)
        made += [matrices, spans]
    return made


@loop
def _sides_loop(starts, lengths, samples, matrices, spans):
    """The matrices of `_side`, and for each of their rows the first column and the last but one that are not 0."""
    bins, size = matrices.shape[1:]
    for r in range(starts.size):
        step = lengths[r] / bins
        grid = samples if samples > 0 else int(np.ceil(step))
        for b in range(bins):
            row = matrices[r, b]
            first, last = size, 0
            for g in range(grid):
                at = starts[r] + (b + (g + 0.5) / grid) * step
                if at < -1.0 or at > size:
                    continue
                at = max(at, 0.0)
                low = min(int(at), size - 1)
                at = float(size - 1) if low >= size - 1 else at
                high = min(low + 1, size - 1)
                row[low] += np.float32((1 - (at - low)) / grid)
                row[high] += np.float32((at - low) / grid)
                first, last = min(first, low), max(last, high + 1)
            spans[r, b, 0], spans[r, b, 1] = first, last


@loop(reorder=True)
def _align_loop(X, images, rows, heights, columns, widths, Y):
    line = np.empty(X.shape[3], np.float32)
    for r in range(images.size):
        left, right = widths[r, :, 0].min(), widths[r, :, 1].max()
        for c in range(X.shape[1]):
            plane = X[images[r], c]
            for i in range(rows.shape[1]):
                for x in range(left, right):
                    line[x] = 0
                for y in range(heights[r, i, 0], heights[r, i, 1]):
                    share, pixels = rows[r, i, y], plane[y]
                    if share != 0:
                        for x in range(left, right):
                            line[x] += share * pixels[x]
                for j in range(columns.shape[1]):
                    total = np.float32(0)
                    for x in range(widths[r, j, 0], widths[r, j, 1]):
                        total += columns[r, j, x] * line[x]
                    Y[r, c, i, j] = total


@loop
def _align_gradient_loop(dX, images, rows, heights, columns, widths, dY):
    line = np.empty(dX.shape[3], np.float32)
    for r in range(images.size):
        left, right = widths[r, :, 0].min(), widths[r, :, 1].max()
        for c in range(dX.shape[1]):
            plane = dX[images[r], c]
            for i in range(rows.shape[1]):
                for x in range(left, right):
                    line[x] = 0
                for j in range(columns.shape[1]):
                    for x in range(widths[r, j, 0], widths[r, j, 1]):
                        line[x] += columns[r, j, x] * dY[r, c, i, j]
                for y in range(heights[r, i, 0], heights[r, i, 1]):
                    share, pixels = rows[r, i, y], plane[y]
                    if share != 0:
                        for x in range(left, right):
                            pixels[x] += share * line[x]


# ---- RoIPool ---------------------------------------------------------------------------------------------------------


def _bins(start, length, bins, size):
    """Yield (first, last) pixel of each part of a side."""
    step = length / bins
    for i in range(bins):
        first = math.floor(i * step) + start
        last = math.ceil((i + 1) * step) + start
        yield min(max(first, 0), size), min(max(last, 0), size)


def _pool_box(roi, spatial_scale):
    """Return (x, y, width, height) in whole pixels of the features."""
    x1, y1, x2, y2 = (math.floor(float(v) * spatial_scale + 0.5) for v in roi)
    return x1, y1, max(x2 - x1 + 1, 1), max(y2 - y1 + 1, 1)


def _infer_pool(args, inputs):
    made = infer({**args, "order": "NCHW"}, inputs)[0]
    return [made] if args["is_test"] else [made, made._replace(dtype="int32")]


@operator(
    "Y argmaxes?",
    num_outputs=(1, 2),
    types={"X": "float32", "rois": "float32"},
    infer=_infer_pool,
    gradient=single("RoIPoolGradient", "I0 I1 O1 GO0 -> GI0"),
    limits="pooled_h > 0, pooled_w > 0, spatial_scale > 0",
)
def RoIPool(
    xp,
    X,
    rois,
    *,
    is_test: int = 0,
    order: str = "NCHW",
    pooled_h: int = 1,
    pooled_w: int = 1,
    spatial_scale: float = 1.0,
    out,
):
    """The maximum in each of pooled_h × pooled_w parts of each roi, and, unless is_test, which pixel it is.

    X [N, C, H, W] float32, rois [R, 5] of image, x1, y1, x2, y2 -> Y [R, C, pooled_h, pooled_w], argmaxes alike, int32,
    -1 where a part is empty. ValueError where the order is not NCHW, the shapes do not fit, a roi is of no image,
    outputs do not go with is_test, or a size or scale is not above 0.

    R. Girshick, "Fast R-CNN", 2015.
    """
    check_rois(X, rois, (5,), order, spatial_scale)
    if order != "NCHW":
        raise ValueError(f"RoIPool takes the order NCHW only, found {order!r}")
    if len(out) != (1 if is_test else 2):
        raise ValueError(
            f"with is_test={int(bool(is_test))} there {'is one output' if is_test else 'are two outputs'}, {len(out)} are named"
        )
    shape = (rois.shape[0], X.shape[1], pooled_h, pooled_w)
    Y = out[0](shape, X.dtype)
    argmax = None if is_test else out[1](shape, "int32")
    if usable(xp, X):
        _check_boxes(rois, X.shape[0], 4)
        sizes = (5, *X.shape[1:], pooled_h, pooled_w, spatial_scale)
        cuda.ROI_POOL(xp, Y.size, Y, argmax, X, rois, *sizes)
        return (Y,) if is_test else (Y, argmax)
    for r, roi in enumerate(on_host(rois) if Y.size else ()):
        image, box = image_of(roi, 4, X.shape[0])
        x, y, w, h = _pool_box(box, spatial_scale)
        if pays(xp, X):
            rows, columns = (
                np.array(list(_bins(*side))) for side in ((y, h, pooled_h, X.shape[2]), (x, w, pooled_w, X.shape[3]))
            )
            _pool_loop(
                X[image], rows, columns, Y[r], Y[r].view("int32") if argmax is None else argmax[r], bool(is_test)
            )
            continue
        for i, (top, bottom) in enumerate(_bins(y, h, pooled_h, X.shape[2])):
            for j, (left, right) in enumerate(_bins(x, w, pooled_w, X.shape[3])):
                if bottom <= top or right <= left:
                    Y[r, :, i, j] = 0
                    if argmax is not None:
                        argmax[r, :, i, j] = -1
                    continue
                part = X[image, :, top:bottom, left:right].reshape(X.shape[1], -1)
                at = part.argmax(axis=1)
                Y[r, :, i, j] = part[xp.arange(X.shape[1]), at]
                if argmax is not None:
                    argmax[r, :, i, j] = (at // (right - left) + top) * X.shape[3] + at % (right - left) + left
    return (Y,) if is_test else (Y, argmax)


@loop
def _pool_loop(X, rows, columns, Y, argmax, values_only):
    """The largest of each part, NaN above all, and where it is (0 and -1 where there is none)."""
    for c in range(X.shape[0]):
        for i in range(rows.shape[0]):
            for j in range(columns.shape[0]):
                best, at = np.float32(0), -1
                for y in range(rows[i, 0], rows[i, 1]):
                    for x in range(columns[j, 0], columns[j, 1]):
                        value = X[c, y, x]
                        if at < 0 or value > best or (value != value and best == best):
                            best, at = value, y * X.shape[2] + x
                if not values_only:
                    argmax[c, i, j] = at
                Y[c, i, j] = best


@operator("dX", types={"X": "float32", "rois": "float32", "argmaxes": "int32", "dY": "float32"})
def RoIPoolGradient(
    xp,
    X,
    rois,
    argmaxes,
    dY,
    *,
    order: str = "NCHW",
    pooled_h: int = 1,
    pooled_w: int = 1,
    spatial_scale: float = 1.0,
    out,
):
    """The gradient goes to the pixel that each maximum was.

    X [N, C, H, W] float32, rois [R, 5], argmaxes [R, C, pooled_h, pooled_w] int32, dY alike -> dX of X's shape.
    ValueError on the CPU, for which Caffe2 has none, and where the shapes do not fit.
    """
    check_rois(X, rois, (5,), order, spatial_scale)
    check_pooled(dY, rois, X, pooled_h, pooled_w)
    if argmaxes.shape != dY.shape:
        raise ValueError(f"the gradient {list(dY.shape)} and the argmaxes {list(argmaxes.shape)} must have one shape")
    if argmaxes.size and int(argmaxes.max()) >= X.shape[2] * X.shape[3]:
        raise ValueError(f"an argmax is {int(argmaxes.max())}, and an image has {X.shape[2] * X.shape[3]} pixels")
    dX = out(X.shape, dY.dtype)
    dX[...] = 0
    if usable(xp, dY):
        _check_boxes(rois, X.shape[0], 4)
        sizes = (5, *X.shape[1:], pooled_h, pooled_w, spatial_scale)
        cuda.ROI_POOL_GRADIENT(xp, dY.size, dX, dY, argmaxes, rois, *sizes)
        return dX
    channels, size = X.shape[1], X.shape[2] * X.shape[3]
    for r, roi in enumerate(on_host(rois)):
        image, _ = image_of(roi, 4, X.shape[0])
        at = argmaxes[r].reshape(channels, -1)
        there = at >= 0
        places = (xp.arange(channels).reshape(-1, 1) * size + xp.maximum(at, 0)).reshape(-1)
        weights = xp.where(there, dY[r].reshape(channels, -1), 0).reshape(-1)
        dX[image] += (
            xp.bincount(places, weights=weights, minlength=channels * size).reshape(X.shape[1:]).astype(dX.dtype)
        )
    return dX


@RoIPoolGradient.engine(device=CPU)
def _no_kernel(
    xp,
    X,
    rois,
    argmaxes,
    dY,
    *,
    order: str = "NCHW",
    pooled_h: int = 1,
    pooled_w: int = 1,
    spatial_scale: float = 1.0,
    out,
):
    raise ValueError(
        "Caffe2 has no RoIPoolGradient for the CPU: run it on a GPU, which may be emulated, or use RoIAlign"
    )
