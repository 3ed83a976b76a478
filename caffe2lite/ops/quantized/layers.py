"""Layers on Int8 tensors: pools, convolutions, fully connected; images are [N, H, W, C]."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.detection.roi import check_rois, image_of
from caffe2lite.ops.kit import windows
from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import Window
from caffe2lite.ops.nn.convolution_transpose import TransposedWindow, prepare
from caffe2lite.ops.quantized.packed import PackedWeights, above_zero
from caffe2lite.ops.quantized.tensors import (
    Int8Tensor,
    bytes_as,
    look_up,
    lowest,
    multiplier,
    need,
    ratio,
    requantize,
    same_scale,
    saturate,
    shift_right,
)


def _placed(X, window):
    """Return the window's place on the image."""
    if not window.channels_last or X.data.ndim != 4:
        raise ValueError(f"Int8 images are [N, H, W, C], order NHWC; got the shape {list(X.shape)}")
    return windows.place(window, X.shape[1:3])


def _views(data, place, padding):
    """Return the pixels under each window, [N, OH, OW, C, KH, KW], what is beyond the image being `padding`."""
    (top, left), (bottom, right) = place.heads, place.tails
    if min(top, left, bottom, right) < 0:
        raise ValueError(f"the pads must not be negative, found {[top, left, bottom, right]}")
    n, h, w, channels = data.shape
    (sh, sw), (dh, dw) = place.stride, place.dilation
    if not (top or bottom or left or right):
        return np.lib.stride_tricks.sliding_window_view(data, place.reach, axis=(1, 2))[:, ::sh, ::sw, :, ::dh, ::dw]
    check_result((n, top + h + bottom, left + w + right, channels), data.dtype)
    padded = np.empty((n, top + h + bottom, left + w + right, channels), data.dtype)
    padded[...] = padding
    padded[:, top : top + h, left : left + w] = data
    views = np.lib.stride_tricks.sliding_window_view(padded, place.reach, axis=(1, 2))
    return views[:, ::sh, ::sw, :, ::dh, ::dw]


def _average(X, window, Y_scale, Y_zero_point, relu):
    place = _placed(X, window)
    ratio(X, Y_scale)
    area = math.prod(place.kernel)
    fraction, exponent = np.frexp(np.float32(X.scale) / (np.float32(Y_scale) * np.float32(area)))
    finish = lambda total: saturate(
        shift_right((total - area * X.zero) * int(fraction * 2**24), 24 - int(exponent)), Y_zero_point, relu
    )
    first, *others = _taps(_views(X.data, place, X.zero))
    if area > 256:
        total = first.astype(np.int64)
        for tap in others:
            total += tap
        return finish(total)
    total = first.astype(np.uint16)
    for tap in others:
        total += tap
    return look_up(finish(np.arange(255 * area + 1, dtype=np.int64)), total)


def _taps(views):
    """Return for each tap of the window the pixels that are under it, [N, OH, OW, C]."""
    return [views[..., i, j] for i in range(views.shape[4]) for j in range(views.shape[5])]


def _largest(X, window, Y_scale, Y_zero_point, relu):
    place = _placed(X, window)
    same_scale(X, Y_scale, Y_zero_point)
    first, *others = _taps(_views(X.data, place, 0))
    best = first.copy()
    for tap in others:
        if pays(np, best):
            _raise_to(tap, best)
        else:
            np.maximum(best, tap, out=best)
    return np.maximum(best, np.uint8(lowest(Y_zero_point, True))) if relu else best


@loop
def _raise_to(pixels, best):
    for n in range(best.shape[0]):
        for y in range(best.shape[1]):
            for x in range(best.shape[2]):
                row, made = pixels[n, y, x], best[n, y, x]
                for c in range(made.size):
                    made[c] = max(made[c], row[c])


_POOLED = """X, an Int8 tensor [N, H, W, C] of uint8 -> Y [N, OH, OW, C]. ValueError where the order is not NHWC, the window does not
fit or is one pixel, or the scales do not; TypeError where X is no Int8 tensor."""


def _pool_op(name, pool, relu, doc):
    """Register a pool."""

    def kernel(xp, X, *, Y_scale: float = 1.0, Y_zero_point: int = 0, window: Window):
        need(X)
        if not window.whole and math.prod(window.kernel) == 1:
            raise ValueError("a window of one pixel is no pool, to QNNPACK: give a larger kernel")
        return Int8Tensor(pool(X, window, Y_scale, Y_zero_point, relu), Y_scale, Y_zero_point)

    operator("Y", name=name, infer=bytes_as("MaxPool"), doc=f"{doc}\n\n{_POOLED}")(kernel)


_pool_op("Int8AveragePool", _average, False, "The mean under each window; what is beyond the image counts as 0.")
_pool_op("Int8AveragePoolRelu", _average, True, "The mean under each window, and none below 0.")
_pool_op("Int8MaxPool", _largest, False, "The largest value under each window; the scale must be that of X.")
_pool_op("Int8MaxPoolRelu", _largest, True, "The largest value under each window, and none below 0.")


def _centred(X, W):
    """Return the bytes of each less its zero point, as floats of a type in which sums of their products are exact."""
    w = W.data.astype(np.float32) - np.float32(W.zero)
    largest = max(X.zero, 255 - X.zero) * np.abs(w.reshape(len(w), -1)).sum(axis=1).max(initial=0)
    kind = np.float32 if largest <= 2**24 else np.float64
    return X.data.astype(kind) - kind(X.zero), w.astype(kind, copy=False)


def _weights(W, bias):
    """Return (weights, bias, whether they were packed)."""
    if isinstance(W, PackedWeights):
        return W.weights, bias if bias is not None else W.bias, True
    return W, bias, False


def _finish(sums, X, W, bias, Y_scale, Y_zero_point, relu, packed=False):
    """Return the output of sums of products, whose scale is that of X times that of W."""
    if bias.shape != (sums.shape[-1],):
        raise ValueError(f"the bias must have {sums.shape[-1]} values, its shape is {list(bias.shape)}")
    if packed and relu:
        Y_scale, Y_zero_point = above_zero(Y_scale, Y_zero_point)
    scale = np.float32(X.scale) * np.float32(W.scale) / np.float32(Y_scale)
    if packed:
        whole = np.rint((sums + bias.data).astype(np.float32) * scale).astype(np.int64)
        return Int8Tensor(saturate(whole, Y_zero_point, relu), Y_scale, Y_zero_point)
    if pays(np, sums):
        made = np.empty(sums.shape, np.uint8)
        flat = (sums.reshape(-1, sums.shape[-1]), made.reshape(-1, sums.shape[-1]))
        _finish_loop(flat[0], bias.data, *multiplier(scale), Y_zero_point & 255, lowest(Y_zero_point, relu), flat[1])
        return Int8Tensor(made, Y_scale, Y_zero_point)
    whole = requantize(sums.astype(np.int64) + bias.data, scale)
    return Int8Tensor(saturate(whole, Y_zero_point, relu), Y_scale, Y_zero_point)


@loop
def _finish_loop(sums, bias, factor, bits, zero_point, low, made):
    """What `requantize` and `saturate` do; the second rounding is to the nearest, halves away from zero."""
    half = (1 << bits) >> 1
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            product = ((np.int64(sums[i, j]) + bias[j]) * factor + (1 << 30)) >> 31
            size = (abs(product) + half) >> bits
            y = (size if product >= 0 else -size) + zero_point
            made[i, j] = np.uint8(min(max(y, low), 255))


def _fc_op(name, relu):
    def kernel(
        xp, X, W, b, Qparam=None, *, axis: int = 1, axis_w: int = 1, Y_scale: float = 1.0, Y_zero_point: int = 0
    ):
        W, b, packed = _weights(W, b)
        need(X, W, bias=b)
        rows, inner = math.prod(X.shape[:axis]), math.prod(X.shape[axis:])
        outputs, width = math.prod(W.shape[:axis_w]), math.prod(W.shape[axis_w:])
        if inner != width:
            raise ValueError(f"X {list(X.shape)} has rows of {inner} values, and W {list(W.shape)} takes {width}")
        x, w = _centred(X, W)
        sums = x.reshape(rows, inner) @ w.reshape(outputs, width).T
        return _finish(sums.reshape(*X.shape[:axis], outputs), X, W, b, Y_scale, Y_zero_point, relu, packed)

    doc = f"""Y = X W' + b, where X is seen as a matrix from `axis` on{", and none below 0" if relu else ""}.

    X, an Int8 tensor [N, K] of uint8, W [M, K] of uint8 or packed, b [M] of int32 -> Y [N, M]. ValueError where the shapes or
    the scales do not fit; TypeError where one is no Int8 tensor.
    """
    operator("Y", name=name, num_inputs=(3, 4), num_outputs=(1, 1 if relu else 4), infer=bytes_as("FC"), doc=doc)(
        kernel
    )


_fc_op("Int8FC", relu=False)
_fc_op("Int8FCRelu", relu=True)


def _conv_op(name, relu):
    def kernel(xp, X, filter, bias=None, *, Y_scale: float = 1.0, Y_zero_point: int = 0, window: Window):
        filter, bias, packed = _weights(filter, bias)
        if bias is None:
            raise ValueError("Int8 convolutions need a bias: give a third input, zeros if need be")
        need(X, filter, bias=bias)
        place = _placed(X, window)
        channels, made = X.shape[3] // window.group, filter.shape[0]
        if filter.shape[1:] != (*place.kernel, channels) or made % window.group or X.shape[3] % window.group:
            raise ValueError(
                f"the filter is {list(filter.shape)}; for {X.shape[3]} channels in {window.group} groups it must be "
                f"[M, {', '.join(map(str, place.kernel))}, {channels}]"
            )
        if window.group == made == X.shape[3] and pays(np, X.data):
            total = _depthwise(X, filter, place)
            return _finish(total, X, filter, bias, Y_scale, Y_zero_point, relu, packed)
        x, w = _centred(X, filter)
        views = _views(x, place, 0).transpose(0, 1, 2, 4, 5, 3)  # channels last, as in the filter
        w = w.reshape(window.group, made // window.group, -1)
        n, h, width = views.shape[:3]
        sums = [
            views[..., g * channels : (g + 1) * channels].reshape(n * h * width, w.shape[2]) @ w[g].T
            for g in range(window.group)
        ]
        total = np.concatenate(sums, axis=1).reshape(n, h, width, made)
        return _finish(total, X, filter, bias, Y_scale, Y_zero_point, relu, packed)

    doc = f"""The convolution of X with a filter, plus bias{", and none below 0" if relu else ""}.

    X, an Int8 tensor [N, H, W, C] of uint8, filter [M, KH, KW, C / group] of uint8 or packed, bias [M] of int32 ->
    Y [N, OH, OW, M]. ValueError where the bias is missing, the order is not NHWC, or shapes, window or scales do not fit;
    TypeError where one is no Int8 tensor.
    """
    operator("Y", name=name, infer=bytes_as("Conv"), doc=doc)(kernel)


def _depthwise(X, filter, place):
    """Return the sums of a convolution of each channel with a filter of its own."""
    views = _views(X.data, place, X.zero)  # [N, OH, OW, C, KH, KW]
    weights = filter.data.astype(np.int32).reshape(filter.shape[:3]) - np.int32(filter.zero)
    total = np.zeros(views.shape[:4], np.int32)
    for i in range(views.shape[4]):
        for j in range(views.shape[5]):
            _add_tap(views[..., i, j], np.ascontiguousarray(weights[:, i, j]), np.int32(X.zero), total)
    return total


@loop
def _add_tap(pixels, weights, zero_point, total):
    for n in range(total.shape[0]):
        for y in range(total.shape[1]):
            for x in range(total.shape[2]):
                row, made = pixels[n, y, x], total[n, y, x]
                for c in range(weights.size):
                    made[c] += np.int32((np.int32(row[c]) - zero_point) * weights[c])


_conv_op("Int8Conv", relu=False)
_conv_op("Int8ConvRelu", relu=True)


@operator("Y", infer=bytes_as("ConvTranspose"))
def Int8ConvTranspose(
    xp, X, filter, bias=None, *, Y_scale: float = 1.0, Y_zero_point: int = 0, window: TransposedWindow
):
    """Y spreads each pixel of X by the filter, plus bias.

    X, an Int8 tensor [N, H, W, M] of uint8, filter [M, KH, KW, C] of uint8, bias [C] of int32 -> Y [N, OH, OW, C].
    ValueError where the bias is missing, shapes do not fit, the order is not NHWC, there are groups, or the scales do
    not fit; TypeError for what is no Int8 tensor.
    """
    if bias is None:
        raise ValueError("Int8 convolutions need a bias: give a third input, zeros if need be")
    need(X, filter, bias=bias)
    window, place, batch, made = prepare(X.shape, filter.shape, window)
    if not window.channels_last or window.group != 1:
        raise ValueError(
            f"Int8 images are [N, H, W, C], order NHWC, and there is one group; found {window.group} groups"
        )
    (top, left), (bottom, right) = place.heads, place.tails
    if min(top, left, bottom, right) < 0:
        raise ValueError(f"the pads must not be negative, found {[top, left, bottom, right]}")
    (sh, sw), (h, w) = place.stride, X.shape[1:3]
    padded = (batch, place.size[0] + top + bottom, place.size[1] + left + right, made)
    check_result(padded, np.float64)
    x, weights = (t.data.astype(np.float64) - t.zero for t in (X, filter))
    total = np.zeros(padded, np.float64)
    for i in range(place.kernel[0]):
        for j in range(place.kernel[1]):
            total[:, i : i + sh * h : sh, j : j + sw * w : sw] += x @ weights[:, i, j]
    total = total[:, top : top + place.size[0], left : left + place.size[1]]
    return _finish(total, X, filter, bias, Y_scale, Y_zero_point, relu=False)


def _samples(start, length, bins, size, sampling_ratio):
    """Return for one side of a roi (samples a bin, the two pixels of each sample, their weights)."""
    step = np.float32(length / bins)
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(step)
    check_result((bins, grid), np.float64)
    k = np.arange(bins * grid)
    at = (start + (k // max(grid, 1)) * step + (k % max(grid, 1) + np.float32(0.5)) * step / max(grid, 1)).astype("f")
    inside = (at >= -1) & (at <= size)
    at = np.clip(at, 0, size - 1)
    low = at.astype(np.int64)
    part = at - low
    return grid, (low, np.minimum(low + 1, size - 1)), ((1 - part) * inside, part * inside)


@operator("Y", types={"RoIs": "float32"}, infer=bytes_as("RoIAlign"))
def Int8RoIAlign(
    xp,
    X,
    RoIs,
    *,
    order: str = "NCHW",
    spatial_scale: float = 1.0,
    pooled_h: int = 1,
    pooled_w: int = 1,
    sampling_ratio: int = -1,
    Y_scale: float = 1.0,
    Y_zero_point: int = 0,
):
    """The mean of bilinear samples in each part of each roi; weights are in steps of 1/255.

    X, an Int8 tensor [N, H, W, C] of uint8, RoIs [R, 4] or [R, 5] float32 of (image,) x1, y1, x2, y2 -> Y [R, pooled_h,
    pooled_w, C]. ValueError where the order is not NHWC, shapes do not fit, or a roi is of no image; TypeError where X
    is no Int8 tensor.
    """
    need(X)
    check_rois(X.data, RoIs, (4, 5), order, spatial_scale)
    if order != "NHWC":
        raise ValueError(f"Int8 images have the order NHWC, got {order}")
    sizes, channels = X.shape[1:3], X.shape[3]
    if pooled_h < 0 or pooled_w < 0:
        raise ValueError(f"pooled_h and pooled_w must not be negative, found {pooled_h} and {pooled_w}")
    check_result((RoIs.shape[0], pooled_h, pooled_w, channels), "uint8")
    Y = np.empty((RoIs.shape[0], pooled_h, pooled_w, channels), np.uint8)
    for r, roi in enumerate(RoIs):
        image, box = image_of(roi, 4, X.shape[0])
        x1, y1, x2, y2 = box * np.float32(spatial_scale)
        grid_h, rows, down = _samples(y1, max(y2 - y1, 1), pooled_h, sizes[0], sampling_ratio)
        grid_w, columns, across = _samples(x1, max(x2 - x1, 1), pooled_w, sizes[1], sampling_ratio)
        total = np.zeros((pooled_h * grid_h, pooled_w * grid_w, channels), np.int64)
        for y, wy in zip(rows, down):
            for x, wx in zip(columns, across):
                weights = np.rint(wy[:, None] * wx * np.float32(255)).astype(np.int64)
                total += weights[:, :, None] * X.data[image][np.ix_(y, x)]
        sums = total.reshape(pooled_h, grid_h, pooled_w, grid_w, channels).sum(axis=(1, 3))
        step = X.scale / (np.float64(np.float32(Y_scale)) * 255 * grid_h * grid_w)
        shift = X.zero_point * X.scale / np.float64(np.float32(Y_scale))
        Y[r] = np.clip(np.floor(sums * step - shift + 0.5).astype(np.int64) + Y_zero_point, 0, 255)
    return Int8Tensor(Y, Y_scale, Y_zero_point)
