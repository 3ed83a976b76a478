"""Pools: maximum, average and p-norm over windows, in one, two and three dimensions, NCHW and NHWC."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit import registry, windows
from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.extremes import largest_along
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, given, like
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.products import mean_along
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import Pool, PoolGradient
from caffe2lite.ops.nn import cuda


def _prepare(shape, window):
    """(window, place, batch, channels) of a pool on an input of that shape.

    Where the window is the image, or the batch is empty, there need be no image: the pool is a copy.
    """
    if len(shape) == 2 and (window.whole or not shape[0]):
        window = window._replace(whole=True)
    elif len(shape) < 3:
        raise ValueError(f"the input must have a batch, channels and an image, got shape {list(shape)}")
    if not math.prod(shape[1:]):
        raise ValueError(f"the images must have channels and pixels, got shape {list(shape)}")
    if len(shape) == 2:
        return window, windows.place(window, ()), *shape
    batch, channels, size = windows.split_shape(shape, window, "the input")
    window = windows.first_dimensions(window, len(size))
    if not window.whole:
        n = len(window.kernel)
        if any(window.pads[i] >= window.kernel[i % n] for i in range(2 * n)):
            raise ValueError(f"padding must be smaller than the window: {list(window.pads)}, {list(window.kernel)}")
    return window, windows.place(window, size), batch, channels


def _shape(shape, window):
    window, place, batch, channels = _prepare(shape, window)
    return windows.join_shape(batch, channels, place.out, window)


def _infer(args, inputs):
    return [Spec(_shape(inputs[0].shape, windows.of_pool(given(args))), inputs[0].dtype)]


def _axis(window, i):
    """The axis of a tensor that dimension `i` of the image has."""
    return i + (1 if window.channels_last else 2)


def _reach(place, i, tap):
    """(positions, pixels): slices along dimension `i` of the positions whose tap is a pixel, and of these pixels."""
    step, start = place.stride[i], tap * place.dilation[i] - place.heads[i]
    first = max(0, -(start // step)) if start < 0 else 0
    last = min(place.out[i], (place.size[i] - 1 - start) // step + 1)
    if last <= first:
        return slice(0, 0), slice(0, 0)
    begin = start + first * step
    return slice(first, last), slice(begin, begin + (last - first - 1) * step + 1, step)


def _taps(place, i):
    """The taps of the window along dimension `i` that meet a pixel: a window may be far larger than the image."""
    head, step = place.heads[i], place.dilation[i]
    first = max(0, -(-(head - (place.out[i] - 1) * place.stride[i]) // step))
    return range(first, min(place.kernel[i], (head + place.size[i] - 1) // step + 1))


def _along(array, axis, where):
    return array[(slice(None),) * axis + (where,)]


def _reduce(xp, X, out, place, window, join, start):
    """Reduce over the window, one dimension after the other: `join` is a ufunc, `start` what no pixel gives."""
    n = len(place.kernel)
    if not n:
        out[...] = X
    for i in range(n):
        axis = _axis(window, i)
        shape = X.shape[:axis] + (place.out[i],) + X.shape[axis + 1 :]
        Y = out if i == n - 1 else xp.empty(shape, X.dtype)
        taps = [_reach(place, i, t) for t in _taps(place, i)]
        full = [t for t in taps if t[0] == slice(0, place.out[i])]
        if len(full) > 1:
            join(_along(X, axis, full[0][1]), _along(X, axis, full[1][1]), out=Y)
            done = full[:2]
        elif full:
            Y[...] = _along(X, axis, full[0][1])
            done = full
        else:
            Y[...] = start
            done = []
        for positions, pixels in taps:
            if (positions, pixels) in done:
                done.remove((positions, pixels))
            elif positions.stop > positions.start:
                target = _along(Y, axis, positions)
                join(target, _along(X, axis, pixels), out=target)
        X = Y
    return X


def _windows_of(place, window):
    """For each tap of the window the index of its positions and the index of its pixels, in row-major order."""
    lead = (slice(None),) * (1 if window.channels_last else 2)

    def walk(i):
        if i == len(place.kernel):
            yield (), ()
            return
        for tap in _taps(place, i):
            positions, pixels = _reach(place, i, tap)
            if positions.stop <= positions.start:
                continue
            for p, q in walk(i + 1):
                yield (positions, *p), (pixels, *q)

    for p, q in walk(0):
        yield lead + p, lead + q


def _maximum_with_nan(xp, X, Y, place, window):
    """The maximum as Caffe2 finds it: NaN stays where it is the first of a window, and is passed over elsewhere."""
    Y[...] = xp.finfo(Y.dtype).min
    fresh = xp.ones(Y.shape, bool)
    for positions, pixels in _windows_of(place, window):
        y, x, new = Y[positions], X[pixels], fresh[positions]
        y[...] = xp.where(new | (y < x), x, y)
        new[...] = False


def _kernel_geometry(xp, X, window):
    """What the CUDA kernels are told of a pool, None where the plain formulas take it."""
    return _geometry(X, window) if X.size and usable(xp, X) else None


def _whole(place) -> bool:
    """Whether there is one window, which is the image."""
    return place.kernel == place.size and not any(place.heads) and all(o == 1 for o in place.out)


def _images(X, window):
    """(N, C, pixels) or (N, pixels, C), and the axis of the pixels."""
    if window.channels_last:
        return X.reshape(X.shape[0], -1, X.shape[-1]), 1
    return X.reshape(*X.shape[:2], -1), 2


def _MaxPool(xp, X, *, window: Pool, out):
    geometry = _kernel_geometry(xp, X, window)
    if geometry is not None:
        Y = _result(X, window, out)
        cuda.MAX_POOL(xp, Y.size, Y, X, *geometry)
        return Y
    window, place, batch, channels = _prepare(X.shape, window)
    Y = out(windows.join_shape(batch, channels, place.out, window), X.dtype)
    if Y.size and _whole(place):
        images, axis = _images(X, window)
        Y[...] = largest_along(xp, images, axis).reshape(Y.shape)
        if bool(xp.isnan(Y.min())):
            _maximum_with_nan(xp, X, Y, place, window)
    elif Y.size:
        _reduce(xp, X, Y, place, window, xp.maximum, xp.finfo(X.dtype).min if window.channels_last else -xp.inf)
        if bool(xp.isnan(Y.min())):
            _maximum_with_nan(xp, X, Y, place, window)
    return Y


def _MaxPoolGradient(xp, X, Y, dY, *, window: PoolGradient, out):
    if _is_empty(X, window):
        return out(X.shape, X.dtype)
    geometry = _kernel_geometry(xp, X, window)
    window, place, Y, dY = _check_gradient(X, Y, dY, window)
    dX = out(X.shape, X.dtype)
    if geometry is not None:
        cuda.MAX_POOL_GRADIENT(xp, dX.size, dX, X, Y, dY, *geometry)
        return dX
    if dX.size and _whole(place):
        return xp.multiply(dY, X == Y, out=dX)
    clear(dX)
    for positions, pixels in _windows_of(place, window):
        x, y = X[pixels], Y[positions]
        target = dX[pixels]
        target += dY[positions] * (x == y)
    return dX


def _is_empty(X, window):
    """Whether there is no gradient to find, which is seen before the window."""
    return not X.size and (X.ndim > 2 or X.ndim == 2 and (window.whole or not X.shape[0]))


def _check_gradient(X, Y, dY, window, loose="gradient"):
    window, place, batch, channels = _prepare(X.shape, window)
    wanted = windows.join_shape(batch, channels, place.out, window)
    for what, array in (("result", Y), ("gradient", dY)):
        if array.shape != wanted and (what not in loose or array.size != math.prod(wanted)):
            raise ValueError(f"the {what} has the shape {list(array.shape)}; this pool makes {list(wanted)}")
    return window, place, Y.reshape(wanted), dY.reshape(wanted)


def _counts(xp, place, window, include_pad, dtype):
    """How many pixels each position's average is over, in a shape that broadcasts with the result."""
    if include_pad or not place.kernel:
        return dtype.type(math.prod(place.kernel))
    total = None
    for i in range(len(place.kernel)):
        along = [0] * place.out[i]
        for tap in _taps(place, i):
            positions, _ = _reach(place, i, tap)
            for o in range(positions.start, positions.stop):
                along[o] += 1
        shape = (-1,) + (1,) * (len(place.kernel) - 1 - i + window.channels_last)
        counts = xp.asarray(along, dtype).reshape(shape)
        total = counts if total is None else total * counts
    if window.channels_last or total.size > 1 and bool((total != total.reshape(-1)[0]).any()):
        return total
    return total.reshape(-1)[:1]


def _AveragePool(xp, X, *, count_include_pad: int = 0, window: Pool, out):
    geometry = _kernel_geometry(xp, X, window)
    if geometry is not None:
        Y = _result(X, window, out)
        cuda.AVERAGE_POOL(xp, Y.size, Y, X, _fixed(geometry, count_include_pad), *geometry)
        return Y
    window, place, batch, channels = _prepare(X.shape, window)
    Y = out(windows.join_shape(batch, channels, place.out, window), X.dtype)
    if Y.size and _whole(place):
        images, axis = _images(X, window)
        Y[...] = mean_along(xp, images, axis).reshape(Y.shape)
    elif Y.size:
        _reduce(xp, X, Y, place, window, xp.add, 0)
        xp.multiply(Y, 1 / _counts(xp, place, window, count_include_pad, X.dtype), out=Y)
    return Y


def _AveragePoolGradient(xp, X, Y, dY, *, count_include_pad: int = 0, window: PoolGradient, out):
    if _is_empty(X, window):
        return out(X.shape, X.dtype)
    geometry = _kernel_geometry(xp, X, window)
    window, place, Y, dY = _check_gradient(X, Y, dY, window)
    dX = out(X.shape, X.dtype)
    if geometry is not None:
        cuda.AVERAGE_POOL_GRADIENT(xp, dX.size, dX, dY, _fixed(geometry, count_include_pad), *geometry)
        return dX
    if dX.size and _whole(place):
        dX[...] = dY * dY.dtype.type(1 / math.prod(place.kernel))
        return dX
    clear(dX)
    if dX.size:
        share = dY * (1 / _counts(xp, place, window, count_include_pad, X.dtype))
        for positions, pixels in _windows_of(place, window):
            target = dX[pixels]
            xp.add(target, share[positions], out=target)
    return dX


_OPERANDS = """X [N, C, ...], Y [N, C, positions ...] (NHWC: channels last); float32, on GPUs float16 too.  ValueError where
X has no image, the window does not fit into the padded image, or the padding is not smaller than the window."""
_GRADIENT_OPERANDS = """X and dX [N, C, ...], Y and dY [N, C, positions ...] (NHWC: channels last); float32, on GPUs float16
too.  ValueError where Y or dY does not have the pool's shape, or the window does not fit X."""

for _name, _gradient in (
    ("MaxPool", "MaxPoolGradient"),
    ("MaxPool1D", "MaxPool1DGradient"),
    ("MaxPool2D", "MaxPool2DGradient"),
    ("MaxPool3D", "MaxPool3DGradient"),
):
    operator(
        "Y",
        name=_name,
        types="float32",
        cuda_types="float32 float16",
        infer=_infer,
        gradient=single(_gradient, "I0 O0 GO0 -> GI0"),
        doc=f"Y = the maximum of X under each position of the window.\n\n{_OPERANDS}  NaN counts where it comes first in its window.",
    )(_MaxPool)
    operator(
        "dX",
        name=_gradient,
        types={"X": "float32", "Y": "=X", "dY": "=X"},
        cuda_types={"X": "float32 float16", "Y": "=X", "dY": "=X"},
        infer=like(0),
        doc=f"dX = the sum of dY over the windows whose maximum Y a pixel has.\n\n{_GRADIENT_OPERANDS}",
    )(_MaxPoolGradient)

for _name, _gradient in (
    ("AveragePool", "AveragePoolGradient"),
    ("AveragePool1D", "AveragePool1DGradient"),
    ("AveragePool2D", "AveragePool2DGradient"),
    ("AveragePool3D", "AveragePool3DGradient"),
):
    operator(
        "Y",
        name=_name,
        types="float32",
        cuda_types="float32 float16",
        infer=_infer,
        gradient=single(_gradient, "I0 O0 GO0 -> GI0"),
        doc=f"Y = the mean of X under each position of the window, without padding unless count_include_pad.\n\n{_OPERANDS}",
    )(_AveragePool)
    operator(
        "dX",
        name=_gradient,
        types={"X": "float32", "Y": "=X", "dY": "=X"},
        cuda_types={"X": "float32 float16", "Y": "=X", "dY": "=X"},
        infer=like(0),
        doc=f"dX = the sum of dY / n over the windows that a pixel is in, n being what the mean was over.\n\n{_GRADIENT_OPERANDS}",
    )(_AveragePoolGradient)


# ---- compiled, for the CPU and for GPUs: one- and two-dimensional images NCHW --------------------------------------


def _geometry(X: Any, window: Pool) -> tuple[int, ...] | None:
    """(planes, H, W, result H, W, kernel H, W, stride H, W, top, left), or None where the loops do not fit."""
    window, place, batch, channels = _prepare(X.shape, window)
    if _whole(place) or window.channels_last or len(place.size) > 2 or any(d != 1 for d in place.dilation):
        return None
    for size, positions, stride, head in zip(place.size, place.out, place.stride, place.heads):
        if head < 0 or (positions - 1) * stride - head >= size:  # a window without a pixel of the image
            return None
    fields = (place.size, place.out, place.kernel, place.stride, place.heads)
    pairs = [((1,) if k < 4 else (0,)) * (2 - len(f)) + tuple(f) for k, f in enumerate(fields)]
    return (batch * channels, *(n for pair in pairs for n in pair))


def _result(X: Any, window: Pool, out: Any) -> Any:
    window, place, batch, channels = _prepare(X.shape, window)
    return out(windows.join_shape(batch, channels, place.out, window), X.dtype)


def _row(geometry: tuple[int, ...]) -> Any:
    """Working memory: a row of the padded image."""
    _, _, w, _, ow, _, kw, _, sw, _, left = geometry
    return np.empty(max((ow - 1) * sw + kw, left + w), np.float32)


@compiled(*(registry.find(n) for n in ("MaxPool", "MaxPool1D", "MaxPool2D")))
def _max_pool_compiled(xp, X, *, window: Pool, out):
    geometry = _geometry(X, window) if X.size else None
    if geometry is None:
        return _MaxPool(xp, X, window=window, out=out)
    Y = _result(X, window, out)
    _max_pool_loop(X.reshape(-1), Y.reshape(-1), _row(geometry), *geometry)
    return Y


@loop
def _max_pool_loop(X, Y, row, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
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


@compiled(*(registry.find(n) for n in ("MaxPoolGradient", "MaxPool1DGradient", "MaxPool2DGradient")))
def _max_pool_gradient_compiled(xp, X, Y, dY, *, window: PoolGradient, out):
    geometry = _geometry(X, window) if X.size else None
    if geometry is None:
        return _MaxPoolGradient(xp, X, Y, dY, window=window, out=out)
    _check_gradient(X, Y, dY, window)
    dX = out(X.shape, X.dtype)
    _max_pool_gradient_loop(X.reshape(-1), Y.reshape(-1), dY.reshape(-1), dX.reshape(-1), *geometry)
    return dX


@loop
def _max_pool_gradient_loop(X, Y, dY, dX, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
    one, zero = np.float32(1), np.float32(0)
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
                        dx[j] += dy * (one if x[j] == y else zero)  # NaN for an infinite dy, as NumPy has it


@compiled(*(registry.find(n) for n in ("AveragePool", "AveragePool1D", "AveragePool2D")))
def _average_pool_compiled(xp, X, *, count_include_pad: int = 0, window: Pool, out):
    geometry = _geometry(X, window) if X.size else None
    if geometry is None:
        return _AveragePool(xp, X, count_include_pad=count_include_pad, window=window, out=out)
    Y = _result(X, window, out)
    _average_pool_loop(X.reshape(-1), Y.reshape(-1), _row(geometry), _fixed(geometry, count_include_pad), *geometry)
    return Y


def _fixed(geometry: tuple[int, ...], count_include_pad: int) -> int:
    """How many pixels each average is over, 0 where only those of the image count."""
    return math.prod(geometry[5:7]) if count_include_pad else 0


@loop
def _average_pool_loop(X, Y, row, fixed, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
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


@compiled(*(registry.find(n) for n in ("AveragePoolGradient", "AveragePool1DGradient", "AveragePool2DGradient")))
def _average_pool_gradient_compiled(xp, X, Y, dY, *, count_include_pad: int = 0, window: PoolGradient, out):
    geometry = _geometry(X, window) if X.size else None
    if geometry is None:
        return _AveragePoolGradient(xp, X, Y, dY, count_include_pad=count_include_pad, window=window, out=out)
    _check_gradient(X, Y, dY, window)
    dX = out(X.shape, X.dtype)
    _average_pool_gradient_loop(
        dY.reshape(-1), dX.reshape(-1), _row(geometry), _fixed(geometry, count_include_pad), *geometry
    )
    return dX


@loop
def _average_pool_gradient_loop(dY, dX, row, fixed, planes, h, w, oh, ow, kh, kw, sh, sw, top, left):
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


# ---- p-norms, maxima with their places -------------------------------------------------------------------------------


@operator("Y", types="float32", infer=_infer, gradient=single("LpPoolGradient", "I0 O0 GO0 -> GI0"))
def LpPool(xp, X, *, p: float = 2.0, window: Pool, out):
    """Y = (sum of |X|^p under the window)^(1/p).

    X [N, C, ...], Y [N, C, positions ...] (NHWC: channels last); float32.  ValueError where the window does not fit
    into the padded image, or the padding is not smaller than the window.
    """
    window, place, batch, channels = _prepare(X.shape, window)
    Y = out(windows.join_shape(batch, channels, place.out, window), X.dtype)
    if Y.size:
        powers = xp.power(xp.abs(X), X.dtype.type(p))
        _reduce(xp, powers, Y, place, window, xp.add, 0)
        xp.power(Y, X.dtype.type(1 / np.float64(p)), out=Y)
    return Y


@operator("dX", types={"X": "float32", "Y": "=X", "dY": "=X"}, infer=like(0))
def LpPoolGradient(xp, X, Y, dY, *, p: float = 2.0, window: PoolGradient, out):
    """dX = sum over windows of dY * X * |X|^(p-2) / Y^(p-1).

    X and dX [N, C, ...], Y and dY [N, C, positions ...] (NHWC: channels last); float32.  ValueError where Y or dY
    does not have the pool's shape.
    """
    if _is_empty(X, window):
        return out(X.shape, X.dtype)
    window, place, Y, dY = _check_gradient(X, Y, dY, window, loose="result")
    dX = out(X.shape, X.dtype)
    clear(dX)
    for positions, pixels in _windows_of(place, window):
        x, target = X[pixels], dX[pixels]
        target += dY[positions] * x * xp.abs(x) ** (p - 2) / Y[positions] ** (p - 1)
    return dX


@operator(
    "Y Index",
    types="float32",
    cuda_types="float32 float16",
    infer=lambda args, inputs: [*_infer(args, inputs), _infer(args, inputs)[0]._replace(dtype="int32")],
    gradient=single("MaxPoolWithIndexGradient", "I0 GO0 O1 -> GI0"),
)
def MaxPoolWithIndex(xp, X, *, window: Pool, out):
    """Y = the maximum of X under each position of the window, Index = which pixel of the image it is.

    X [N, C, ...], Y and Index [N, C, positions ...]; float32, on GPUs float16 too, Index int32.  ValueError for the
    order NHWC and where the window does not fit into the padded image.
    """
    window, place, batch, channels = _prepare(X.shape, window)
    if window.channels_last:
        raise ValueError("MaxPoolWithIndex takes the order NCHW only")
    shape = (batch, channels, *place.out)
    Y, index = out[0](shape, X.dtype), out[1](shape, "int32")
    Y[...] = xp.finfo(X.dtype).min
    index[...] = -1
    numbers = xp.arange(math.prod(place.size), dtype="int32").reshape(1, 1, *place.size)
    for positions, pixels in _windows_of(place, window):
        y, i, x = Y[positions], index[positions], X[pixels]
        better = (x > y) | (i < 0)
        i[...] = xp.where(better, numbers[(slice(0, 1), slice(0, 1), *pixels[2:])], i)
        y[...] = xp.where(better, x, y)
    return Y, index


@operator("dX", types={"X": "float32", "dY": "=X", "Index": "int32"},
          cuda_types={"X": "float32 float16", "dY": "=X", "Index": "int32"})  # fmt: skip
def MaxPoolWithIndexGradient(xp, X, dY, Index, *, window: PoolGradient, out):
    """dX = the sum of dY over the windows whose maximum is the pixel that Index names.

    X and dX [N, C, ...], dY and Index [N, C, positions ...]; float32, on GPUs float16 too, Index int32.  ValueError
    where dY or Index does not have the values of N C planes.
    """
    pixels = math.prod(X.shape[2:])
    if X.ndim < 3 or Index.shape != dY.shape or dY.shape[:2] != X.shape[:2]:
        raise ValueError(f"dY {list(dY.shape)} and Index {list(Index.shape)} are none of images {list(X.shape)}")
    if Index.size and not 0 <= int(Index.min()) <= int(Index.max()) < pixels:
        raise ValueError(f"Index must be from 0 to {pixels - 1}, found {int(Index.min())} to {int(Index.max())}")
    dX = out(X.shape, X.dtype)
    clear(dX)
    planes = X.shape[0] * X.shape[1]
    if planes:
        rows, positions = xp.arange(planes).reshape(-1, 1), math.prod(dY.shape[2:])
        places = (rows, Index.reshape(planes, positions))
        xp.add.at(dX.reshape(planes, pixels), places, dY.reshape(planes, positions))
    return dX
