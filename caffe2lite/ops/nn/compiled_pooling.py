"""Pools of one- and two-dimensional images (NCHW) in compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit import windows
from caffe2lite.ops.kit.compiled import compiled, loop, plain
from caffe2lite.ops.kit.memory import scratch
from caffe2lite.ops.nn import pooling

_SLOT = 60  # working memory of this module


def _geometry(X: Any, args: Any) -> tuple[int, ...] | None:
    """(planes, H, W, result H, W, kernel H, W, stride H, W, top, left), or None where the loops do not fit."""
    window, place, batch, channels = pooling._prepare(X.shape, args)
    if window.channels_last or len(place.size) > 2 or any(d != 1 for d in place.dilation):
        return None
    for size, positions, stride, head in zip(place.size, place.out, place.stride, place.heads):
        if head < 0 or (positions - 1) * stride - head >= size:  # a window without a pixel of the image
            return None
    fields = (place.size, place.out, place.kernel, place.stride, place.heads)
    pairs = [((1,) if k < 4 else (0,)) * (2 - len(f)) + tuple(f) for k, f in enumerate(fields)]
    return (batch * channels, *(n for pair in pairs for n in pair))


def _result(X: Any, args: Any, out: Any) -> Any:
    window, place, batch, channels = pooling._prepare(X.shape, args)
    return out(windows.join_shape(batch, channels, place.out, window), X.dtype)


def _row(geometry: tuple[int, ...]) -> Any:
    """Working memory: a row of the padded image."""
    _, _, w, _, ow, _, kw, _, sw, _, left = geometry
    return scratch(np, (max((ow - 1) * sw + kw, left + w),), np.float32, _SLOT)


@compiled("MaxPool", "MaxPool1D", "MaxPool2D")
def max_pool(xp, X, *, out, **args):
    geometry = _geometry(X, args) if X.size else None
    if geometry is None:
        return plain("MaxPool")(xp, X, out=out, **args)
    Y = _result(X, args, out)
    _max_pool(X.reshape(-1), Y.reshape(-1), _row(geometry), *geometry)
    return Y


@loop
def _max_pool(X, Y, row, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
    lowest = np.float32(-np.inf)
    row[:] = lowest
    inside = row[left : left + w]
    for p in range(planes):
        x = X[p * h * w : (p + 1) * h * w]
        for oy in range(oh):
            begin, end = max(0, oy * sh - top), min(h, oy * sh - top + kh)
            first = x[begin * w : (begin + 1) * w]
            odd = 0
            for j in range(w):
                odd += first[j] != first[j]
                inside[j] = first[j] if first[j] > lowest else lowest
            for i in range(begin + 1, end):
                line = x[i * w : (i + 1) * w]
                for j in range(w):
                    inside[j] = line[j] if line[j] > inside[j] else inside[j]
            y = Y[(p * oh + oy) * ow : (p * oh + oy + 1) * ow]
            taps = row[::sw]
            for ox in range(ow):
                y[ox] = taps[ox]
            for k in range(1, kw):
                taps = row[k::sw]
                for ox in range(ow):
                    y[ox] = taps[ox] if taps[ox] > y[ox] else y[ox]
            if odd:
                for ox in range(ow):  # NaN counts where it is the first of its window
                    v = first[max(0, ox * sw - left)]
                    y[ox] = v if v != v else y[ox]


@compiled("MaxPoolGradient", "MaxPool1DGradient", "MaxPool2DGradient")
def max_pool_gradient(xp, X, Y, dY, *, out, **args):
    geometry = _geometry(X, args) if X.size else None
    if geometry is None:
        return plain("MaxPoolGradient")(xp, X, Y, dY, out=out, **args)
    pooling._check_gradient(X, Y, dY, args)
    dX = out(X.shape, X.dtype)
    _max_pool_gradient(X.reshape(-1), Y.reshape(-1), dY.reshape(-1), dX.reshape(-1), *geometry)
    return dX


@loop
def _max_pool_gradient(X, Y, dY, dX, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
    zero = np.float32(0)
    dX[:] = zero
    for p in range(planes):
        x, dx = X[p * h * w : (p + 1) * h * w], dX[p * h * w : (p + 1) * h * w]
        for oy in range(oh):
            first, last = max(0, oy * sh - top), min(h, oy * sh - top + kh)
            for ox in range(ow):
                y, dy = Y[(p * oh + oy) * ow + ox], dY[(p * oh + oy) * ow + ox]
                begin, end = max(0, ox * sw - left), min(w, ox * sw - left + kw)
                for i in range(first, last):
                    for j in range(i * w + begin, i * w + end):
                        dx[j] += dy if x[j] == y else zero


@compiled("AveragePool", "AveragePool1D", "AveragePool2D")
def average_pool(xp, X, *, count_include_pad: int = 0, out, **args):
    geometry = _geometry(X, args) if X.size else None
    if geometry is None:
        return plain("AveragePool")(xp, X, count_include_pad=count_include_pad, out=out, **args)
    Y = _result(X, args, out)
    _average_pool(X.reshape(-1), Y.reshape(-1), _row(geometry), _fixed(geometry, count_include_pad), *geometry)
    return Y


def _fixed(geometry: tuple[int, ...], count_include_pad: int) -> int:
    """How many pixels each average is over, 0 where only those of the image count."""
    return math.prod(geometry[5:7]) if count_include_pad else 0


@loop
def _average_pool(X, Y, row, fixed, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
    row[:] = 0
    inside = row[left : left + w]
    for p in range(planes):
        x = X[p * h * w : (p + 1) * h * w]
        for oy in range(oh):
            begin, end = max(0, oy * sh - top), min(h, oy * sh - top + kh)
            inside[:] = x[begin * w : (begin + 1) * w]
            for i in range(begin + 1, end):
                line = x[i * w : (i + 1) * w]
                for j in range(w):
                    inside[j] += line[j]
            y = Y[(p * oh + oy) * ow : (p * oh + oy + 1) * ow]
            taps = row[::sw]
            for ox in range(ow):
                y[ox] = taps[ox]
            for k in range(1, kw):
                taps = row[k::sw]
                for ox in range(ow):
                    y[ox] += taps[ox]
            for ox in range(ow):
                across = min(w, ox * sw - left + kw) - max(0, ox * sw - left)
                count = fixed if fixed else (end - begin) * across
                y[ox] *= np.float32(1) / np.float32(count)


@compiled("AveragePoolGradient", "AveragePool1DGradient", "AveragePool2DGradient")
def average_pool_gradient(xp, X, Y, dY, *, count_include_pad: int = 0, out, **args):
    geometry = _geometry(X, args) if X.size else None
    if geometry is None:
        return plain("AveragePoolGradient")(xp, X, Y, dY, count_include_pad=count_include_pad, out=out, **args)
    pooling._check_gradient(X, Y, dY, args)
    dX = out(X.shape, X.dtype)
    _average_pool_gradient(dY.reshape(-1), dX.reshape(-1), _row(geometry), _fixed(geometry, count_include_pad), *geometry)
    return dX


@loop
def _average_pool_gradient(dY, dX, row, fixed, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
    dX[:] = 0
    for line in range(planes * oh):
        p, oy = line // oh, line % oh
        first, last = max(0, oy * sh - top), min(h, oy * sh - top + kh)
        for ox in range(ow):
            across = min(w, ox * sw - left + kw) - max(0, ox * sw - left)
            count = fixed if fixed else (last - first) * across
            row[ox] = dY[line * ow + ox] * (np.float32(1) / np.float32(count))
        for i in range(first, last):
            at = (p * h + i) * w
            for k in range(kw):
                begin = max(0, -((k - left) // sw))  # positions whose tap k is a pixel
                end = min(ow, (w - 1 + left - k) // sw + 1)
                share, dx = row[begin:end], dX[at + begin * sw - left + k : at + w : sw]
                for j in range(end - begin):
                    dx[j] += share[j]
