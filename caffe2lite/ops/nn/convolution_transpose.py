"""Transposed convolution: each pixel spreads over a window of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from caffe2lite.ops.kit import columns, windows
from caffe2lite.ops.kit.arguments import Arg, group, read
from caffe2lite.ops.kit.infer import Spec, given
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import WINDOW_ARGS, Place, Window
from caffe2lite.ops.nn.convolution import conv_gradient


class TransposedWindow(NamedTuple):
    """A window, and the pixels that are added at the far end of each dimension (one number: the same for all)."""

    window: Window
    adjustment: int | tuple[int, ...]


def transposed(args: Mapping[str, Any]) -> TransposedWindow:
    """The window and the adjustments that an operator's arguments describe."""
    window = windows.parse({k: v for k, v in args.items() if k != "global_pooling"})
    if "adj" in args:
        return TransposedWindow(window, read(args["adj"]))
    if "adj_h" in args and "adj_w" in args:
        return TransposedWindow(window, (read(args["adj_h"]), read(args["adj_w"])))
    return TransposedWindow(window, tuple(args.get("adjs", ())) or 0)


group(
    "TransposedWindow",
    {
        **WINDOW_ARGS,
        "adjs": Arg("adjs", "list[int]", ()),
        **{name: Arg(name, "int", 0, seldom=True) for name in ("adj", "adj_h", "adj_w")},
    },
    transposed,
)


def prepare(shape, filter_shape, transposed_window):
    """(window, the window on the output, batch, output channels)."""
    window, adjustment = transposed_window
    batch, channels, size = windows.split_shape(shape, window, "the input")
    n = len(size)
    if len(window.kernel) < n:
        raise ValueError(f"the window has {len(window.kernel)} dimensions and the input {n}: {list(shape)}")
    kernel, stride = window.kernel[:n], window.stride[:n]
    half = len(window.pads) // 2
    heads, tails = window.pads[:n], window.pads[half : half + n]
    adj = (adjustment,) * n if isinstance(adjustment, int) else adjustment
    if min(adj) < 0 or len(adj) != n:
        raise ValueError(f"adj must have a number of pixels, 0 or more, for each of {n} dimensions, got {list(adj)}")
    if any(a >= s for a, s in zip(adj, stride)) and any(adj):
        raise ValueError(f"adj must be smaller than the stride, got {list(adj)} for strides {list(stride)}")
    have = filter_shape[1:-1] if window.channels_last else filter_shape[2:]
    if len(filter_shape) != n + 2 or have != kernel:
        raise ValueError(f"the filter has the shape {list(filter_shape)}; a window of {list(kernel)} is asked for")
    if filter_shape[0] != channels:
        raise ValueError(f"the input has {channels} channels and the filter takes {filter_shape[0]}")
    if channels % window.group:
        raise ValueError(f"{channels} input channels cannot be divided among {window.group} groups")
    made = filter_shape[-1 if window.channels_last else 1] * window.group
    out = tuple((size[i] - 1) * stride[i] + kernel[i] + adj[i] - heads[i] - tails[i] for i in range(n))
    if any(o < 1 for o in out):
        raise ValueError(f"the output would have the size {list(out)}: the padding is too large")
    # `adj` adds pixels at the far end that no window reaches; the positions stay those of the input.
    place = Place(kernel, stride, (1,) * n, heads, tails, out, size)
    return window, place, batch, made


def _infer(args, inputs):
    window, place, batch, made = prepare(inputs[0].shape, inputs[1].shape, transposed(given(args)))
    return [Spec(windows.join_shape(batch, made, place.size, window), inputs[0].dtype)]


@operator(
    "Y",
    types={"X": "float32", "filter": "=X", "bias": "=X"},
    cuda_types={"X": "float32 float16", "filter": "=X", "bias": "=X"},
    infer=_infer,
    gradient=conv_gradient("ConvTransposeGradient"),
)
def ConvTranspose(xp, X, filter, bias=None, *, window: TransposedWindow, out):
    """Y = each pixel of X spread over a window by the filter, plus the bias.

    X [N, M, H, W], filter [M, C / group, kh, kw], bias [C], Y [N, C, oh, ow], oh = (H - 1) * stride + kh + adj -
    padding; in the order NHWC X [N, H, W, M], filter [M, kh, kw, C / group]; other numbers of dimensions alike.
    float32, on GPUs float16 too.  ValueError where the filter does not fit the kernel or M, the bias is not [C], adj
    is not from 0 to stride - 1, or nothing is left of Y.
    """
    window, place, batch, made = prepare(X.shape, filter.shape, window)
    if bias is not None and bias.shape != (made,):
        raise ValueError(
            f"the bias has the shape {list(bias.shape)}; it must have one value for each of {made} channels"
        )
    Y = out(windows.join_shape(batch, made, place.size, window), X.dtype)
    if Y.size:
        W = xp.ascontiguousarray(windows.channels_first(filter, window))
        x, y = windows.channels_first(X, window), windows.channels_first(Y, window)
        columns.convolve_transposed(xp, x, W, y, place, window.group)
        if bias is not None:
            xp.add(Y, bias if window.channels_last else bias.reshape(-1, *(1,) * len(place.out)), out=Y)
    return Y


def _infer_gradient(args, inputs):
    """As of a convolution, whose filter's outputs are the inputs here."""
    X, W = inputs[0], inputs[1]
    last = args.get("order", "NCHW") == "NHWC"
    bias = Spec(((W.shape[-1] if last else W.shape[1]) * (args.get("group") or 1),), W.dtype)
    return [W, X] if args.get("no_bias") else [W, bias, X]


@operator(
    "dfilter dbias? dX?",
    types={"X": "float32", "filter": "=X", "dY": "=X"},
    cuda_types={"X": "float32 float16", "filter": "=X", "dY": "=X"},
    infer=_infer_gradient,
)
def ConvTransposeGradient(xp, X, filter, dY, *, no_bias: int = 0, window: TransposedWindow, out):
    """Gradients by the filter, the bias (unless no_bias) and the input (where a last output is named).

    Shapes as in ConvTranspose, dY [N, C, oh, ow], the gradients as what they are of; float32, on GPUs float16 too.
    ValueError where the filter does not fit X or dY does not have the result's shape.
    """
    window, place, batch, made = prepare(X.shape, filter.shape, window)
    wanted = windows.join_shape(batch, made, place.size, window)
    if dY.shape != wanted:
        raise ValueError(f"the gradient has the shape {list(dY.shape)}; the result has {list(wanted)}")
    rest = list(out[1:])
    if no_bias and len(rest) > 1:
        raise ValueError("with no_bias there are two outputs at most, dfilter and dX; three are named")
    if not no_bias and not rest:
        raise ValueError("the second output, dbias, is missing (or no_bias=1)")
    W = xp.ascontiguousarray(windows.channels_first(filter, window))
    dW = out[0](filter.shape, X.dtype)
    total = xp.zeros(W.shape, X.dtype) if window.channels_last else dW
    db = None
    if not no_bias:
        db = rest.pop(0)((made,), X.dtype)
        xp.sum(dY, axis=tuple(i for i in range(X.ndim) if i != (X.ndim - 1 if window.channels_last else 1)), out=db)
    dX = rest.pop(0)(X.shape, X.dtype) if rest else None
    x, dy = windows.channels_first(X, window), windows.channels_first(dY, window)
    # With roles swapped this is a convolution of dY: X stands where that one's gradient stands.
    columns.convolve_gradient(xp, dy, W, x, total, None, place, window.group)
    if dX is not None and dX.size:
        columns.convolve(xp, dy, W, windows.channels_first(dX, window), place, window.group)
    if total is not dW:
        dW[...] = total.transpose(0, *range(2, total.ndim), 1)
    return (dW, dX) if no_bias else (dW, db, dX)
