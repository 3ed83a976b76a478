"""Convolutions in one, two and three dimensions, NCHW and NHWC, with groups and dilation, and their gradients."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.kit import column_kernels, columns, windows
from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, given, size_of
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import Window


def conv_gradient(kind: str):
    """The gradient maker of the convolutions: filter, bias if there is one, and input unless it is not wanted."""

    def make(g):
        to_input = not g.arg("no_gradient_to_input", 0)
        given = [g.I(0), g.I(1), g.GO(0)]
        if g.num_inputs == 3:
            return g.single(kind, given, [g.GI(1), g.GI(2), *([g.GI(0)] if to_input else [])])
        return g.single(kind, given, [g.GI(1), *([g.GI(0)] if to_input else [])], no_bias=1)

    return make


def infer_filter_gradient(outputs_at: int | None):
    """Shapes of a filter's, a bias's and an input's gradient; `outputs_at` is the filter's dimension that is the bias's."""

    def infer(args, inputs):
        X, W = inputs[0], inputs[1]
        if args.get("no_bias"):
            return [W, X]
        return [W, UNKNOWN if outputs_at is None else Spec((W.shape[outputs_at],), W.dtype), X]

    return infer


def check_filter(window, channels, W, b, outputs: int):
    """ValueError where the filter or the bias does not fit the window and the channels of the input."""
    kernel = window.kernel
    have = W.shape[1:-1] if window.channels_last else W.shape[2:]
    if W.ndim != len(kernel) + 2 or have != kernel:
        raise ValueError(f"the filter has the shape {list(W.shape)}; a window of {list(kernel)} is asked for")
    depth = W.shape[-1] if window.channels_last else W.shape[1]
    if channels != depth * window.group:
        raise ValueError(
            f"the input has {channels} channels and the filter takes {depth} in each of {window.group} groups"
        )
    if outputs % window.group:
        raise ValueError(f"{outputs} output channels cannot be divided among {window.group} groups")
    if b is not None and (b.ndim != 1 or b.shape[0] != outputs):
        raise ValueError(
            f"the bias has the shape {list(b.shape)}; it must have one value for each of {outputs} channels"
        )


def _prepare(X, W, b, window):
    batch, channels, size = windows.split_shape(X.shape, window, "the input")
    if len(size) != len(window.kernel):
        raise ValueError(f"the window has {len(window.kernel)} dimensions and the input {len(size)}: {list(X.shape)}")
    if not channels or 0 in size:
        raise ValueError(f"the images must have channels and pixels, got shape {list(X.shape)}")
    check_filter(window, channels, W, b, W.shape[0] if W.ndim else 0)
    place = windows.place(window, size)
    if windows.split_shape(W.shape, window, "the filter")[2] != place.kernel:  # the whole image, with global_pooling
        raise ValueError(f"the filter {list(W.shape)} must have a window of {list(place.kernel)}")
    return place, batch


def _first(xp, array, window):
    """The filter with channels before the kernel, contiguous."""
    return xp.ascontiguousarray(windows.channels_first(array, window))


def _convolve(xp, X, W, b, out, window):
    place, batch = _prepare(X, W, b, window)
    Y = out(windows.join_shape(batch, W.shape[0], place.out, window), X.dtype)
    if not Y.size:
        return Y
    x, y = windows.channels_first(X, window), windows.channels_first(Y, window)
    if window.group > 1 and W.shape[-1 if window.channels_last else 1] == 1 and W.shape[0] == window.group:
        _depthwise(xp, x, _first(xp, W, window), y, place)
    else:
        columns.convolve(xp, x, _first(xp, W, window), y, place, window.group)
    if b is not None:
        xp.add(Y, b if window.channels_last else b.reshape(-1, *(1,) * len(place.out)), out=Y)
    return Y


def _depthwise(xp, X, W, Y, place):
    """Each channel with its own filter: a sum over the taps, without columns."""
    if Y.flags.c_contiguous and column_kernels.fits(xp, place, X, Y):
        column_kernels.depthwise(xp, X, W, Y, place)
        return
    for block in columns.blocks(xp, X.shape[0], X.shape[1], place):
        padded = columns.padded_block(xp, X, place, block)
        views = columns.window_views(xp, padded, place, block)
        target = columns.block_of(Y, block)
        product = xp.empty(target.shape, Y.dtype)
        total = xp.zeros(target.shape, Y.dtype)
        for tap in columns.taps_of(place.kernel):
            weight = W[(slice(None), 0, *tap)].reshape(-1, *(1,) * (target.ndim - 1))
            xp.multiply(views[(slice(None), *tap)], weight, out=product)
            xp.add(total, product, out=total)
        target[...] = total


def _infer(args, inputs):
    window = windows.parse(given(args))
    batch, _, size = windows.split_shape(inputs[0].shape, window, "the input")
    place = windows.place(window, size)
    return [Spec(windows.join_shape(batch, inputs[1].shape[0], place.out, window), inputs[0].dtype)]


def _cost(args, inputs):
    made = _infer(args, inputs)[0].shape
    W = inputs[1].shape
    outputs = math.prod(made)
    return 2 * outputs * math.prod(W[1:]), 4 * outputs, size_of(*inputs)


def _Conv(xp, X, filter, bias=None, *, window: Window, out):
    return _convolve(xp, X, filter, bias, out, window)


def _ConvRelu(xp, X, filter, bias=None, *, window: Window, out):
    Y = _convolve(xp, X, filter, bias, out, window)
    return xp.maximum(Y, Y.dtype.type(0), out=Y)


def _ConvGradient(xp, X, filter, dY, *, no_bias: int = 0, window: Window, out):
    place, batch = _prepare(X, filter, None, window)
    wanted = windows.join_shape(batch, filter.shape[0], place.out, window)
    if dY.shape != wanted:
        raise ValueError(f"the gradient has the shape {list(dY.shape)}; the convolution's result has {list(wanted)}")
    W = _first(xp, filter, window)
    dW = out[0](filter.shape, X.dtype)
    made = dW if W.shape == filter.shape and not window.channels_last else xp.empty(W.shape, X.dtype)
    rest = list(out[1:])
    if no_bias and len(rest) > 1:
        raise ValueError("with no_bias there are two outputs at most, dfilter and dX; three are named")
    if not no_bias and not rest:
        raise ValueError("the second output, dbias, is missing (or no_bias=1)")
    db = None
    if not no_bias:
        db = rest.pop(0)(filter.shape[:1], X.dtype)
        axes = tuple(i for i in range(X.ndim) if i != (X.ndim - 1 if window.channels_last else 1))
        xp.sum(dY, axis=axes, out=db)
    dX = rest.pop(0)(X.shape, X.dtype) if rest else None
    x, dy = windows.channels_first(X, window), windows.channels_first(dY, window)
    dx = None if dX is None else windows.channels_first(dX, window)
    if window.group == X.shape[1] == W.shape[0] and len(place.kernel) == 2 and _plain_images(xp, x, dy, dx):
        made[...] = 0
        none = np.empty((0, 0, 0, 0), X.dtype)
        flat = W.reshape(len(W), *place.kernel)
        geometry = (*place.stride, *place.dilation, *place.heads)
        _depthwise_gradient_loop(x, flat, dy, made.reshape(flat.shape), none if dx is None else dx, *geometry)
    else:
        columns.convolve_gradient(xp, x, W, dy, made, dx, place, window.group)
    if made is not dW:
        dW[...] = made.transpose(0, *range(2, made.ndim), 1)
    return (dW, dX) if no_bias else (dW, db, dX)


def _plain_images(xp, *images):
    """Whether they are what a compiled loop takes: large, float32, with channels first."""
    given = [image for image in images if image is not None and image.size]
    return bool(given) and all(i.dtype == np.float32 and i.flags.c_contiguous for i in given) and pays(xp, *given)


@loop(reorder=True)
def _depthwise_gradient_loop(X, W, dY, dW, dX, stride_h, stride_w, dilation_h, dilation_w, top, left):
    """Tap by tap, so that the pixels of a row are multiplied and added in vectors; dX has no elements if not wanted."""
    height, width = X.shape[2], X.shape[3]
    if dX.size:
        dX[...] = 0
    for c in range(W.shape[0]):
        for n in range(X.shape[0]):
            image, gradient = X[n, c], dY[n, c]
            for i in range(W.shape[1]):
                for j in range(W.shape[2]):
                    shift = j * dilation_w - left
                    begin = (-shift + stride_w - 1) // stride_w if shift < 0 else 0
                    end = min(dY.shape[3], (width - 1 - shift) // stride_w + 1)
                    total, weight = np.float32(0), W[c, i, j]
                    for k in range(dY.shape[2] if begin < end else 0):
                        y = k * stride_h + i * dilation_h - top
                        if y < 0 or y >= height:
                            continue
                        d, at = gradient[k, begin:end], shift + begin * stride_w
                        x = image[y, at:]
                        if stride_w == 1:
                            for m in range(d.size):
                                total += x[m] * d[m]
                        else:
                            for m in range(d.size):
                                total += x[m * stride_w] * d[m]
                        if not dX.size:
                            continue
                        dx = dX[n, c, y, at:]
                        if stride_w == 1:
                            for m in range(d.size):
                                dx[m] += weight * d[m]
                        else:
                            for m in range(d.size):
                                dx[m * stride_w] += weight * d[m]
                    dW[c, i, j] += total


_OPERANDS = """X [N, C, ...], filter [M, C / group, kernel ...], bias [M]; in the order NHWC X [N, ..., C], filter
[M, kernel ..., C / group].  The image has as many dimensions as the kernel; float32, on GPUs float16 too (Y, and the
gradients, as X).  ValueError where the filter does not fit the kernel or C, M or C is no multiple of group, the bias is not
[M], or the window does not fit into the padded image."""
_DOC = f"""Y = X convolved with the filter, plus the bias: Y [N, M, ...].

{_OPERANDS}"""
_GRADIENT_DOC = f"""Gradients of a convolution by its filter, its bias (unless no_bias) and its input (where a last output is named).

{_OPERANDS}  dY must have the result's shape [N, M, ...]."""

for _name, _gradient in (
    ("Conv", "ConvGradient"),
    ("Conv1D", "Conv1DGradient"),
    ("Conv2D", "Conv2DGradient"),
    ("Conv3D", "Conv3DGradient"),
):
    operator(
        "Y",
        name=_name,
        types={"X": "float32", "filter": "=X", "bias": "=X"},
        cuda_types={"X": "float32 float16", "filter": "=X", "bias": "=X"},
        infer=_infer,
        cost=_cost,
        gradient=conv_gradient(_gradient),
        doc=_DOC,
    )(_Conv)
    operator(
        "dfilter dbias? dX?",
        name=_gradient,
        num_inputs=(2, 3),
        types={"X": "float32", "filter": "=X", "dY": "=X"},
        cuda_types={"X": "float32 float16", "filter": "=X", "dY": "=X"},
        infer=infer_filter_gradient(0),
        doc=_GRADIENT_DOC,
    )(_ConvGradient)

operator(
    "Y",
    name="ConvRelu",
    types={"X": "float32", "filter": "=X", "bias": "=X"},
    infer=_infer,
    cost=_cost,
    doc=f"Y = max(Z, 0) of the convolution Z: Y [N, M, ...].\n\n{_OPERANDS}",
)(_ConvRelu)
