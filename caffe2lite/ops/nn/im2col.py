"""Im2Col and Col2Im: the columns of a convolution as tensors."""

from __future__ import annotations

import math

from caffe2lite.ops.kit import columns, windows
from caffe2lite.ops.kit.arguments import group
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, given, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import WINDOW_ARGS, Window


def _parse(args):
    """The window; here one side may be given alone, or beside the argument for both, and all sides have one padding."""
    given = [what for what in ("kernel", "stride", "dilation") if {what, f"{what}_h", f"{what}_w"} & args.keys()]
    sides = {f"{what}_{s}": args.get(f"{what}_{s}", args.get(what, 1)) for what in given for s in "hw"}
    ignored = (*given, "kernels", "strides", "dilations", "pads")  # the lists are not read, nor sides of the padding
    rest = {name: value for name, value in args.items() if name not in ignored and not name.startswith("pad_")}
    window = windows.parse({**rest, **sides})
    if len(window.kernel) != 2:
        raise ValueError("kernel sizes must be positive: give kernel, or kernel_h and kernel_w")
    return window


ColumnWindow = Window  # a group of its own: it is read differently
group("ColumnWindow", WINDOW_ARGS, _parse)


def _blocks(shape, place):
    return [columns.Block(n, n + 1, 0, place.out[0]) for n in range(shape[0])]


def _infer(args, inputs):
    window = _parse(given(args))
    batch, channels, size = windows.split_shape(inputs[0].shape, window, "the input")
    place = windows.place(window, size)
    depth = channels * place.kernel[0] * place.kernel[1]
    return [Spec(windows.join_shape(batch, depth, place.out, window), inputs[0].dtype)]


@operator("Y", types="float32", gradient=single("Col2Im", "GO0 I0 -> GI0"), infer=_infer)
def Im2Col(xp, X, *, window: ColumnWindow, out):
    """Y = what is under each position of the window, in the channels.

    X [N, C, H, W], Y [N, C * kh * kw, oh, ow]; in the order NHWC X [N, H, W, C], Y [N, oh, ow, kh * kw * C]; float32.
    ValueError where X has not two dimensions of an image, or the window does not fit into it.
    """
    batch, channels, size = windows.split_shape(X.shape, window, "the input")
    place = windows.place(window, size)
    if len(size) != 2:
        raise ValueError(f"images of two dimensions are needed, found the shape {list(X.shape)}")
    if any(n < reach for n, reach in zip(size, place.reach)):
        raise ValueError(f"a window of {list(place.reach)} must fit into the {list(size)} pixels without padding")
    depth = channels * place.kernel[0] * place.kernel[1]
    Y = out(windows.join_shape(batch, depth, place.out, window), X.dtype)
    x = windows.channels_first(X, window)
    for block in _blocks(X.shape, place):
        view = columns.window_views(xp, columns.padded_block(xp, x, place, block), place, block)  # C, kh, kw, 1, oh, ow
        if window.channels_last:
            Y[block.first].reshape(*place.out, *place.kernel, channels)[...] = view[:, :, :, 0].transpose(3, 4, 1, 2, 0)
        else:
            Y[block.first].reshape(channels, *place.kernel, *place.out)[...] = view[:, :, :, 0]
    return Y


@operator("Y", types={"X": "float32"}, gradient=single("Im2Col", "GO0 -> GI0"), infer=like(1))
def Col2Im(xp, X, Z, *, window: ColumnWindow, out):
    """Y = each column of X added back to the pixels of the shape of Z that Im2Col took it from.

    X [N, C * kh * kw, oh, ow], Z and Y [N, C, H, W] (NHWC: channels last); float32.  ValueError where X does not have
    what Im2Col makes of Z, or the window does not fit into Z.
    """
    batch, channels, size = windows.split_shape(Z.shape, window, "the image")
    place = windows.place(window, size)
    wanted = windows.join_shape(batch, channels * place.kernel[0] * place.kernel[1], place.out, window)
    if X.size != math.prod(wanted) or X.shape[:1] != Z.shape[:1]:
        raise ValueError(f"X must hold the columns of Z, {list(wanted)}, found {list(X.shape)}")
    Y = out(Z.shape, X.dtype)
    Y[...] = 0
    y = windows.channels_first(Y, window)
    for block in _blocks(Z.shape, place):
        col = X[block.first]
        if window.channels_last:
            col = col.reshape(*place.out, *place.kernel, channels).transpose(4, 2, 3, 0, 1)
        columns.fold(xp, xp.ascontiguousarray(col), y, place, block)
    return Y
