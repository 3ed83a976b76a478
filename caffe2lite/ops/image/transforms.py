"""Images resized, padded, summed up, cut into blocks, and their channels scaled and shuffled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit import windows
from caffe2lite.ops.kit.arguments import group
from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, given, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_order, resized
from caffe2lite.ops.kit.windows import WINDOW_ARGS

_U = np.uint64  # of places in arrays: signed ones might count from the end


def four_dimensional(X, what="the input"):
    """Raise a ValueError where a tensor is not of images."""
    if X.ndim != 4:
        raise ValueError(f"{what} must have four dimensions, got shape {list(X.shape)}")


def _first(array, order):
    """Return a view with channels before the image."""
    check_order(order)
    four_dimensional(array)
    return array if order == "NCHW" else array.transpose(0, 3, 1, 2)


def _shape(batch, channels, size, order):
    return (batch, channels, *size) if order == "NCHW" else (batch, *size, channels)


# ---- maps of rows and columns: Y = rows @ X @ columns, for every image and channel -----------------------------------


def _apply(xp, X, Y, rows, columns):
    """Write Y = rows X columns', with matrices (out, in)."""
    xp.matmul(xp.matmul(rows, X), columns.T, out=Y)


def _chosen(xp, index, size):
    """Return the matrix [len(index), size] that picks pixels; -1 picks none."""
    return (index.reshape(-1, 1) == xp.arange(size).reshape(1, -1)).astype("float32")


# ---- nearest neighbours ----------------------------------------------------------------------------------------------


def _scales(scales, height_scale, width_scale):
    """Return the scales in the input, if there is one, instead of those in the arguments."""
    if scales is None:
        return height_scale, width_scale
    if scales.ndim != 1 or scales.shape[0] != 2:
        raise ValueError(f"scales must be [height_scale, width_scale], got shape {list(scales.shape)}")
    for s in scales:
        if not 0 < s < math.inf:
            raise ValueError(f"scales must be positive, got {s}")
    return float(scales[0]), float(scales[1])


def _check_resized(shape, height_scale, width_scale, dtype):
    """ValueError where an image [N, C, H, W] is too large with these scales, before what its rows show is computed."""
    n, c, height, width = shape
    check_result((n, c, resized(height, height_scale), resized(width, width_scale)), dtype)


def _nearest(xp, size, scale, count=None):
    """Return for each pixel of the result (`count`, or as many as the scale gives) the pixel that it copies."""
    if count is None:
        count = resized(size, scale)
        check_result((count,), "int64")
    source = (xp.arange(count).astype("float32") / xp.float32(scale)).astype("int64")
    return xp.minimum(source, size - 1)


@operator(
    "Y",
    types={"X": "float32", "scales": "float32"},
    host="scales",
    gradient=lambda g: _resize_gradient(g, "ResizeNearestGradient"),
    limits="width_scale > 0, height_scale > 0",
)
def ResizeNearest(xp, X, scales=None, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW", out):
    """The image in another size, each pixel the nearest one: height and width times their scales, rounded down.

    X [N, C, H, W] float32 (NHWC: channels last), scales [2] float32 of height and width in place of the arguments -> Y
    [N, C, H * height_scale, W * width_scale]. ValueError where X has not four dimensions, or a scale is not above 0.
    """
    height_scale, width_scale = _scales(scales, height_scale, width_scale)
    x = _first(X, order)
    _check_resized(x.shape, height_scale, width_scale, X.dtype)
    rows, columns = _nearest(xp, x.shape[2], height_scale), _nearest(xp, x.shape[3], width_scale)
    Y = out(_shape(x.shape[0], x.shape[1], (rows.shape[0], columns.shape[0]), order), X.dtype)
    if Y.size:
        _show(xp, x, rows, columns, _first(Y, order))
    return Y


def _show(xp, x, rows, columns, y, value=0.0):
    """y[..., i, j] = x[..., rows[i], columns[j]], or the value where one of these is -1."""
    if y.flags.c_contiguous and x.flags.c_contiguous and y.dtype == np.float32 and pays(xp, y):
        sizes = (_U(n) for n in (*x.shape[2:], *_side_by_side(columns)))
        height, width, first, last = sizes
        places = (rows + 1).astype(np.uint64), (columns + 1).astype(np.uint64)
        _show_planes(x.reshape(-1), height, width, *places, y.reshape(-1), np.float32(value), first, last)
        return
    if bool((rows < 0).any()) or bool((columns < 0).any()):
        y[...] = value
        i, j = xp.nonzero(rows >= 0)[0], xp.nonzero(columns >= 0)[0]
        if i.size and j.size:
            show, across = slice(int(i[0]), int(i[-1]) + 1), slice(int(j[0]), int(j[-1]) + 1)
            y[:, :, show, across] = x[
                :, :, int(rows[i[0]]) : int(rows[i[-1]]) + 1, int(columns[j[0]]) : int(columns[j[-1]]) + 1
            ]
        return
    y[...] = xp.take(xp.take(x, columns, axis=3), rows, axis=2)


def _side_by_side(columns):
    """Return (first, last): the longest run of columns that lie side by side in the source and can be copied so."""
    apart = (np.diff(columns) != 1) | (columns[1:] < 0) | (columns[:-1] < 0)
    cuts = np.concatenate([[0], np.flatnonzero(apart) + 1, [len(columns)]])
    k = int(np.diff(cuts).argmax())
    return (int(cuts[k]), int(cuts[k + 1])) if columns[cuts[k]] >= 0 else (0, 0)


@loop
def _show_planes(x, height, width, rows, columns, y, value, first, last):
    """Rows and columns count from 1 here, 0 stands for the value: signed places would be looked at for their sign."""
    out, planes = _U(columns.size), _U(x.size) // (height * width)
    for plane in range(planes):
        for i in range(_U(rows.size)):
            to = (plane * _U(rows.size) + i) * out
            if i > _U(0) and rows[i] == rows[i - _U(1)]:
                for j in range(out):
                    y[to + j] = y[to - out + j]
            elif rows[i] == _U(0):
                for j in range(out):
                    y[to + j] = value
            else:
                begin = (plane * height + rows[i] - _U(1)) * width
                for j in range(first):
                    y[to + j] = x[begin + columns[j] - _U(1)] if columns[j] else value
                source = begin + columns[first] - _U(1) - first
                for j in range(first, last):
                    y[to + j] = x[source + j]
                for j in range(last, out):
                    y[to + j] = x[begin + columns[j] - _U(1)] if columns[j] else value


def _resize_gradient(g, kind):
    return g.single(kind, [g.GO(0), *g.op.input], [g.GI(0)])


@operator(
    "dX",
    types={"dY": "float32", "X": "float32", "scales": "float32"},
    host="scales",
    infer=like(1),
    limits="width_scale > 0, height_scale > 0",
)
def ResizeNearestGradient(
    xp, dY, X, scales=None, *, width_scale: float = 1.0, height_scale: float = 1.0, order: str = "NCHW", out
):
    """Each pixel gets the sum of the gradients of its copies.

    dY [N, C, h, w] float32, X [N, C, H, W] (NHWC: channels last), scales [2] -> dX of X's shape. ValueError where batch
    or channels differ, or a scale is not above 0.
    """
    height_scale, width_scale = _scales(scales, height_scale, width_scale)
    dy, shape = _first(dY, order), _first(X, order).shape
    if dy.ndim != 4 or dy.shape[:2] != shape[:2]:
        raise ValueError(f"the gradient has the shape {list(dY.shape)}, X has {list(X.shape)}")
    rows = _nearest(xp, shape[2], height_scale, dy.shape[2])
    columns = _nearest(xp, shape[3], width_scale, dy.shape[3])
    dX = out(X.shape, dY.dtype)
    _apply(xp, dy, _first(dX, order), _chosen(xp, rows, shape[2]).T, _chosen(xp, columns, shape[3]).T)
    return dX


def _volume(X):
    if X.ndim != 5:
        raise ValueError(f"the input must be [N, C, T, H, W], got shape {list(X.shape)}")


@operator(
    "Y",
    types={"X": "float32"},
    gradient=lambda g: _resize_gradient(g, "ResizeNearest3DGradient"),
    limits="temporal_scale > 0, height_scale > 0, width_scale > 0",
)
def ResizeNearest3D(
    xp, X, *, temporal_scale: float = 1.0, height_scale: float = 1.0, width_scale: float = 1.0, order: str = "NCHW", out
):
    """A video in another size, each pixel the nearest one.

    X [N, C, T, H, W] float32 -> Y [N, C, T * temporal_scale, H * 2, W * 2]. ValueError where X has not five dimensions,
    the order is not NCHW, or a scale is one that Caffe2 does not take: temporal 1 or 2, height and width 2.
    """
    if order != "NCHW":
        raise ValueError(f"ResizeNearest3D takes the order NCHW only, found {order!r}")
    if temporal_scale not in (1, 2):
        raise ValueError(f"temporal_scale must be 1 or 2, found {temporal_scale}")
    if (height_scale, width_scale) != (2, 2):
        raise ValueError(f"height_scale and width_scale must be 2, found {height_scale} and {width_scale}")
    _volume(X)
    t, h, w = (_nearest(xp, n, s) for n, s in zip(X.shape[2:], (temporal_scale, height_scale, width_scale)))
    Y = out((*X.shape[:2], t.shape[0], h.shape[0], w.shape[0]), X.dtype)
    if Y.size:
        frames = xp.ascontiguousarray(X[:, :, t])
        shape = (-1, *X.shape[3:]), (-1, *Y.shape[3:])
        _show(xp, frames.reshape(1, *shape[0]), h, w, Y.reshape(1, *shape[1]))
    return Y


@operator(
    "dX",
    types={"dY": "float32", "X": "float32"},
    infer=like(1),
    limits="temporal_scale > 0, height_scale > 0, width_scale > 0",
)
def ResizeNearest3DGradient(
    xp,
    dY,
    X,
    *,
    temporal_scale: float = 1.0,
    height_scale: float = 1.0,
    width_scale: float = 1.0,
    order: str = "NCHW",
    out,
):
    """Each pixel gets the sum of the gradients of its copies.

    dY [N, C, t, h, w] float32, X [N, C, T, H, W] -> dX of X's shape. ValueError where these are not five dimensions, or
    a scale is not above 0.
    """
    check_order(order)
    _volume(X)
    _volume(dY)
    if dY.shape[:2] != X.shape[:2]:
        raise ValueError(f"dY {list(dY.shape)} must have the batch and the channels of X {list(X.shape)}")
    scales = (temporal_scale, height_scale, width_scale)
    t, h, w = (_nearest(xp, n, s, count) for n, s, count in zip(X.shape[2:], scales, dY.shape[2:]))
    dX = out(X.shape, dY.dtype)
    planes = xp.matmul(xp.matmul(_chosen(xp, h, X.shape[3]).T, dY), _chosen(xp, w, X.shape[4]))  # (N, C, out T, H, W)
    flat = planes.reshape(*planes.shape[:3], X.shape[3] * X.shape[4])
    dX[...] = xp.matmul(_chosen(xp, t, X.shape[2]).T, flat).reshape(X.shape)
    return dX


# ---- bilinear ----------------------------------------------------------------------------------------------------------


def _bilinear(xp, size, scale):
    """Return the matrix [result, size] of a linear interpolation whose corners are the image's."""
    count = resized(size, scale)
    check_result((count, max(size, 1)), "float32")
    step = xp.float32((size - 1) / (count - 1)) if count > 1 else xp.float32(0)
    at = xp.arange(count).astype("float32") * step
    low = xp.minimum(at.astype("int64"), max(size - 1, 0))
    share = at - low.astype("float32")
    high = xp.minimum(low + 1, size - 1)
    return _chosen(xp, low, size) * (1 - share)[:, None] + _chosen(xp, high, size) * share[:, None]


@operator(
    "Y",
    types={"X": "float32", "scales": "float32"},
    host="scales",
    gradient=lambda g: _resize_gradient(g, "UpsampleBilinearGradient"),
    limits="width_scale > 0, height_scale > 0",
)
def UpsampleBilinear(xp, X, scales=None, *, width_scale: float = 1.0, height_scale: float = 1.0, out):
    """The image in another size by bilinear interpolation; the corners stay.

    X [N, C, H, W] float32, scales [2] float32 of height and width in place of the arguments -> Y [N, C, H *
    height_scale, W * width_scale]. ValueError where X has not four dimensions, or a scale is not above 0.
    """
    height_scale, width_scale = _scales(scales, height_scale, width_scale)
    four_dimensional(X)
    _check_resized(X.shape, height_scale, width_scale, X.dtype)
    rows, columns = _bilinear(xp, X.shape[2], height_scale), _bilinear(xp, X.shape[3], width_scale)
    Y = out((*X.shape[:2], rows.shape[0], columns.shape[0]), X.dtype)
    if Y.size:
        _apply(xp, X, Y, rows, columns)
    return Y


@operator(
    "dX",
    types={"dY": "float32", "X": "float32", "scales": "float32"},
    host="scales",
    infer=like(1),
    limits="width_scale > 0, height_scale > 0",
)
def UpsampleBilinearGradient(xp, dY, X, scales=None, *, width_scale: float = 1.0, height_scale: float = 1.0, out):
    """Each pixel gets the gradients of the pixels that it has a part in, by that part.

    dY [N, C, h, w] float32, X [N, C, H, W], scales [2] -> dX of X's shape. ValueError where dY has not the result's
    size, or a scale is not above 0.
    """
    height_scale, width_scale = _scales(scales, height_scale, width_scale)
    four_dimensional(X)
    four_dimensional(dY, "the gradient")
    rows, columns = _bilinear(xp, X.shape[2], height_scale), _bilinear(xp, X.shape[3], width_scale)
    if dY.shape != (*X.shape[:2], rows.shape[0], columns.shape[0]):
        raise ValueError(
            f"the gradient has the shape {list(dY.shape)}; the result is {[len(rows), len(columns)]} pixels"
        )
    dX = out(X.shape, dY.dtype)
    _apply(xp, dY, dX, rows.T, columns.T)
    return dX


# ---- padding -----------------------------------------------------------------------------------------------------------


class Padding(NamedTuple):
    """Pixels around an image, and the order of its dimensions."""

    top: int
    left: int
    bottom: int
    right: int
    order: str


def _pads(args: Mapping[str, Any]) -> Padding:
    given = {name: value for name, value in args.items() if name != "group"}
    sized = {"kernels", "kernel"} & given.keys() or {"kernel_h", "kernel_w"} <= given.keys()
    window = windows.parse(given if sized else {"kernel": 1, **given})
    if any(d != 1 for d in window.dilation):
        raise ValueError(f"the dilation must be 1, found {list(window.dilation)}")
    if len(window.pads) != 4:
        raise ValueError(f"four pads are needed (top, left, bottom, right), got {list(window.pads)}")
    return Padding(*window.pads, args.get("order", "NCHW"))


group("Padding", WINDOW_ARGS, _pads)


def _sources(xp, size, head, tail, mode):
    """Return for each pixel along a padded side the pixel that it shows; -1 for a constant."""
    at = xp.arange(head + size + tail) - head
    if mode == "edge":
        return xp.clip(at, 0, size - 1)
    if mode == "reflect":
        if head >= size or tail >= size:
            raise ValueError(f"{head} and {tail} pixels cannot be reflected from a side of {size}")
        at = xp.abs(at)
        return xp.where(at >= size, 2 * size - 2 - at, at)
    if mode == "constant":
        return xp.where((at < 0) | (at >= size), -1, at)
    raise ValueError(f"there is no padding mode {mode!r}; there are constant, reflect and edge")


def _infer_pad(args, inputs):
    top, left, bottom, right, order = _pads(given(args))
    shape = inputs[0].shape
    h = 1 if order == "NHWC" else 2
    size = shape[h] + top + bottom, shape[h + 1] + left + right
    return [Spec((*shape[:h], *size, *shape[h + 2 :]), inputs[0].dtype)]


@operator("Y", types="float32", infer=_infer_pad, gradient=single("PadImageGradient", "GO0 -> GI0"))
def PadImage(xp, X, *, mode: str = "constant", value: float = 0.0, padding: Padding, out):
    """X with a border: of a constant value, of the pixels at the edge, or reflected.

    X [N, C, H, W] float32 (NHWC: channels last) -> Y [N, C, top + H + bottom, left + W + right]. ValueError where
    nothing is left, the mode is not constant, reflect or edge, there are not four pads, or a side is too short to be reflected.
    """
    top, left, bottom, right, order = padding
    x = _first(X, order)
    height, width = top + x.shape[2] + bottom, left + x.shape[3] + right
    if height < 1 or width < 1:
        raise ValueError(
            f"nothing is left of {x.shape[2]} by {x.shape[3]} pixels with {top + bottom} rows and {left + right} columns more"
        )
    Y = out(_shape(x.shape[0], x.shape[1], (height, width), order), X.dtype)
    if not Y.size:
        return Y
    rows, columns = _sources(xp, x.shape[2], top, bottom, mode), _sources(xp, x.shape[3], left, right, mode)
    y = _first(Y, order)
    if x.size:
        _show(xp, x, rows, columns, y, value)
    else:
        y[...] = value
    return Y


@operator("dX", types="float32")
def PadImageGradient(xp, dY, *, mode: str = "constant", padding: Padding, out):
    """Each pixel gets the sum of the gradients of all places that show it.

    dY [N, C, H, W] float32 (NHWC: channels last) -> dX without the border. ValueError where dY is not larger than its
    padding, or the mode is unknown.
    """
    top, left, bottom, right, order = padding
    dy = _first(dY, order)
    height, width = dy.shape[2] - top - bottom, dy.shape[3] - left - right
    if height < 1 or width < 1:
        raise ValueError(
            f"the gradient has the shape {list(dY.shape)}, no larger than its padding of {top + bottom} rows and {left + right} columns"
        )
    dX = out(_shape(dy.shape[0], dy.shape[1], (height, width), order), dY.dtype)
    rows, columns = _sources(xp, height, top, bottom, mode), _sources(xp, width, left, right, mode)
    if mode == "constant" and min(padding[:4]) >= 0:
        _first(dX, order)[...] = dy[:, :, top : top + height, left : left + width]
    elif dX.size:
        _apply(xp, dy, _first(dX, order), _chosen(xp, rows, height).T, _chosen(xp, columns, width).T)
    return dX


# ---- sums, blocks, regions ---------------------------------------------------------------------------------------------


@operator("Y", types="float32", gradient=single("IntegralImageGradient", "I0 GO0 -> GI0"))
def IntegralImage(xp, X, *, out):
    """Y[i, j] = sum of the pixels above row i and left of column j.

    X [N, C, H, W] float32 -> Y [N, C, H + 1, W + 1]. ValueError where X has not four dimensions.

    P. Viola, M. Jones, "Rapid object detection using a boosted cascade of simple features", 2001.
    """
    four_dimensional(X)
    Y = out((*X.shape[:2], X.shape[2] + 1, X.shape[3] + 1), X.dtype)
    Y[...] = 0
    Y[:, :, 1:, 1:] = xp.cumsum(xp.cumsum(X, axis=2), axis=3)
    return Y


@operator("dX", types={"X": "float32", "dY": "float32"})
def IntegralImageGradient(xp, X, dY, *, out):
    """An integral of dY up to each pixel, as Caffe2 has it: not the sum over the places that a pixel counts for, which lie behind it.

    X [N, C, H, W] float32, dY [N, C, H + 1, W + 1] -> dX of X's shape. ValueError where dY is of another shape.
    """
    four_dimensional(X)
    if dY.shape != (*X.shape[:2], X.shape[2] + 1, X.shape[3] + 1):
        raise ValueError(f"the gradient of X {list(X.shape)} must have one row and column more, found {list(dY.shape)}")
    dX = out(X.shape, X.dtype)
    dX[...] = xp.cumsum(xp.cumsum(dY, axis=2), axis=3)[:, :, : X.shape[2], : X.shape[3]]
    return dX


def _block_pads(pad, pad_t, order):
    """Return (top, left, bottom, right): Caffe2 reads no other side either."""
    if order != "NCHW":
        raise ValueError(f"the order must be NCHW, found {order!r}")
    return pad if pad_t is None else pad_t, pad, pad, pad


@operator("Y", types="float32", gradient=single("BatchToSpace", "GO0 -> GI0"), limits="block_size > 0")
def SpaceToBatch(xp, X, *, block_size: int = 2, pad: int = 0, pad_t: int | None = None, order: str = "NCHW", out):
    """Pad with zeros, and move each place of a block of pixels to a part of the batch of its own.

    X [N, C, H, W] float32 -> Y [N * block_size², C, (H + pads) / block_size, (W + pads) / block_size]. ValueError where
    the order is not NCHW, block_size is below 1, or the padded sides are no multiples of it.
    """
    top, left, bottom, right = _block_pads(pad, pad_t, order)
    four_dimensional(X)
    n, c, h, w = X.shape
    height, width = h + top + bottom, w + left + right
    if block_size < 1 or min(top, left, bottom, right) < 0:
        raise ValueError(
            f"block_size must be positive and the pads not negative: {block_size}, {[top, left, bottom, right]}"
        )
    check_result((n, c, height, width), X.dtype)
    for what, size in (("height", height), ("width", width)):
        if size % block_size:
            raise ValueError(f"the padded {what} {size} is no multiple of block_size {block_size}")
    padded = xp.zeros((n, c, height, width), X.dtype)
    padded[:, :, top : top + h, left : left + w] = X
    b = block_size
    parts = padded.reshape(n, c, height // b, b, width // b, b).transpose(3, 5, 0, 1, 2, 4)
    Y = out((n * b * b, c, height // b, width // b), X.dtype)
    Y.reshape(parts.shape)[...] = parts
    return Y


@operator("Y", types="float32", gradient=single("SpaceToBatch", "GO0 -> GI0"), limits="block_size > 0")
def BatchToSpace(xp, X, *, block_size: int = 2, pad: int = 0, pad_t: int | None = None, order: str = "NCHW", out):
    """The reverse of SpaceToBatch: parts of the batch become pixels, then the border is cut off.

    X [N * block_size², C, h, w] float32 -> Y [N, C, h * block_size - pads, w * block_size - pads]. ValueError where the
    order is not NCHW, block_size is below 1, the batch is no multiple of its square, or nothing is left within the
    border.
    """
    top, left, bottom, right = _block_pads(pad, pad_t, order)
    four_dimensional(X)
    n, c, h, w = X.shape
    b = block_size
    if b < 1 or n % (b * b):
        raise ValueError(f"a batch of {n} cannot be divided among blocks of {b} by {b}")
    if min(top, left, bottom, right) < 0:
        raise ValueError(f"the pads must not be negative, found {[top, left, bottom, right]}")
    height, width = h * b - top - bottom, w * b - left - right
    if height < 1 or width < 1:
        raise ValueError(f"images of {h * b} by {w * b} are smaller than the border that is cut off")
    whole = X.reshape(b, b, n // (b * b), c, h, w).transpose(2, 3, 4, 0, 5, 1).reshape(n // (b * b), c, h * b, w * b)
    Y = out((n // (b * b), c, height, width), X.dtype)
    Y[...] = whole[:, :, top : top + height, left : left + width]
    return Y
