"""Locally connected layers, whose filter differs from place to place, and deformable convolution."""

from __future__ import annotations

import math

from caffe2lite.ops.kit import columns, windows
from caffe2lite.ops.kit.infer import Spec, given
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.windows import Window
from caffe2lite.ops.nn.convolution import infer_filter_gradient


def _whole(place):
    return columns.Block(0, 0, 0, place.out[0])


def _all_columns(xp, X, place, group):
    """(positions, group, N, depth of a group) of what is under the window."""
    block = _whole(place)._replace(last=X.shape[0])
    made = columns.columns(xp, X, place, block, group)  # (group, depth, N × positions)
    depth = made.shape[1]
    return made.reshape(group, depth, X.shape[0], math.prod(place.out)).transpose(3, 0, 2, 1)


def _prepare(X, filter, window):
    batch, channels, size = windows.split_shape(X.shape, window, "the input")
    place = windows.place(window, size)
    n = len(size)
    outputs = filter.shape[n] if filter.ndim == 2 * n + 2 else -1
    depth = channels // window.group
    wanted = (*place.out, outputs, *((*place.kernel, depth) if window.channels_last else (depth, *place.kernel)))
    if filter.shape != wanted or channels % window.group or outputs % window.group:
        raise ValueError(
            f"the filter has the shape {list(filter.shape)}; it must be [positions…, M, "
            f"{'kernel…, C / group' if window.channels_last else 'C / group, kernel…'}] = {list(wanted)}"
        )
    return place, batch, outputs


def _by_position(xp, filter, window, place, outputs):
    """(positions, group, outputs of a group, depth): channels before the kernel."""
    n = len(place.kernel)
    if window.channels_last:
        filter = filter.transpose(*range(n + 1), 2 * n + 1, *range(n + 1, 2 * n + 1))
    return xp.ascontiguousarray(filter).reshape(math.prod(place.out), window.group, outputs // window.group, -1)


def _infer_lc(args, inputs):
    window = windows.parse(given(args))
    batch, _, size = windows.split_shape(inputs[0].shape, window, "the input")
    place = windows.place(window, size)
    return Spec(windows.join_shape(batch, inputs[1].shape[len(place.kernel)], place.out, window), inputs[0].dtype)


def _LC(xp, X, filter, bias=None, *, window: Window, out):
    place, batch, outputs = _prepare(X, filter, window)
    if bias is not None and bias.shape != (*place.out, outputs):
        raise ValueError(f"the bias has the shape {list(bias.shape)}; expected {[*place.out, outputs]}")
    Y = out(windows.join_shape(batch, outputs, place.out, window), X.dtype)
    if not Y.size:
        return Y
    taps = _all_columns(xp, windows.channels_first(X, window), place, window.group)
    W = _by_position(xp, filter, window, place, outputs)
    product = xp.matmul(taps, W.swapaxes(2, 3))  # positions, group, N, outputs of a group
    result = product.transpose(2, 1, 3, 0).reshape(batch, outputs, *place.out)
    if bias is not None:
        result = result + bias.transpose(bias.ndim - 1, *range(bias.ndim - 1))
    windows.channels_first(Y, window)[...] = result
    return Y


def _LCGradient(xp, X, filter, dY, *, no_bias: int = 0, window: Window, out):
    place, batch, outputs = _prepare(X, filter, window)
    if dY.shape != windows.join_shape(batch, outputs, place.out, window):
        raise ValueError(f"the gradient has the shape {list(dY.shape)}, which is not the result's")
    rest = list(out[1:])
    if no_bias and len(rest) > 1:
        raise ValueError("with no_bias there are two outputs at most, dfilter and dX; three are named")
    if not no_bias and not rest:
        raise ValueError("the second output, dbias, is missing (or no_bias=1)")
    n = len(place.kernel)
    x, dy = windows.channels_first(X, window), windows.channels_first(dY, window)
    taps = _all_columns(xp, x, place, window.group)
    W = _by_position(xp, filter, window, place, outputs)
    g = dy.reshape(batch, window.group, outputs // window.group, math.prod(place.out)).transpose(
        3, 1, 0, 2
    )  # positions, group, N, M
    dW = out[0](filter.shape, X.dtype)
    by_filter = xp.matmul(g.swapaxes(2, 3), taps)
    depth = filter.shape[-1] if window.channels_last else filter.shape[n + 1]
    by_filter = by_filter.reshape(*place.out, outputs, depth, *place.kernel)
    dW[...] = by_filter.transpose(*range(n + 1), *range(n + 2, 2 * n + 2), n + 1) if window.channels_last else by_filter
    db = None
    if not no_bias:
        db = rest.pop(0)((*place.out, outputs), X.dtype)
        db[...] = dy.sum(axis=0).transpose(*range(1, n + 1), 0)
    dX = None
    if rest:
        dX = rest.pop(0)(X.shape, X.dtype)
        dX[...] = 0
        dcol = xp.matmul(g, W).transpose(1, 3, 2, 0)  # group, depth, N, positions
        block = _whole(place)._replace(last=batch)
        columns.fold(xp, xp.ascontiguousarray(dcol), windows.channels_first(dX, window), place, block)
    made = [dW] if no_bias else [dW, db]
    return tuple(made if dX is None else [*made, dX])


def _lc_gradient(kind):
    def make(g):
        if g.num_inputs == 3:
            return g.single(kind, [g.I(0), g.I(1), g.GO(0)], [g.GI(1), g.GI(2), g.GI(0)])
        return g.single(kind, [g.I(0), g.I(1), g.GO(0)], [g.GI(1), g.GI(0)], no_bias=1)

    return make


_OPERANDS = """X [N, C, ...], filter [positions ..., M, C / group, kernel ...], bias [positions ..., M], Y [N, M, positions
...]; in the order NHWC X [N, ..., C], filter [positions ..., M, kernel ..., C / group], Y [N, positions ..., M]; float32.
ValueError where the filter, the bias or dY has another shape, or M or C is no multiple of group."""

for _name, _gradient in (
    ("LC", "LCGradient"),
    ("LC1D", "LC1DGradient"),
    ("LC2D", "LC2DGradient"),
    ("LC3D", "LC3DGradient"),
):
    operator(
        "Y",
        name=_name,
        types={"X": "float32", "filter": "=X", "bias": "=X"},
        infer=lambda args, inputs: [_infer_lc(args, inputs)],
        gradient=_lc_gradient(_gradient),
        doc=f"Y = a convolution with a filter of its own for each position, plus the bias.\n\n{_OPERANDS}",
    )(_LC)
    operator(
        "dfilter dbias? dX?",
        name=_gradient,
        num_inputs=(2, 3),
        types={"X": "float32", "filter": "=X", "dY": "=X"},
        infer=infer_filter_gradient(None),
        doc=f"Gradients of a locally connected layer by its filter, its bias (unless no_bias) and its input.\n\n{_OPERANDS}",
    )(_LCGradient)


# ---- deformable convolution ------------------------------------------------------------------------------------------


def _sampling(xp, X, offset, place, groups):
    """Where each tap of each position looks: (y, x) of shape (N, groups, taps, positions…)."""
    kh, kw = place.kernel
    oh, ow = place.out
    shift = offset.reshape(X.shape[0], groups, kh * kw, 2, oh, ow)
    i, j = xp.arange(kh * kw) // kw, xp.arange(kh * kw) % kw
    rows = xp.arange(oh) * place.stride[0] - place.heads[0]
    across = xp.arange(ow) * place.stride[1] - place.heads[1]
    y = rows.reshape(1, -1, 1) + (i * place.dilation[0]).reshape(-1, 1, 1)
    x = across.reshape(1, 1, -1) + (j * place.dilation[1]).reshape(-1, 1, 1)
    return y + shift[:, :, :, 0], x + shift[:, :, :, 1]


def _corners(xp, y, x, size):
    """For each of four corners (row, column, weight, inside, derivative by y, derivative by x)."""
    height, width = size
    within = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    y_moves, x_moves = y < height - 1, x < width - 1  # from the last row on, all is the last row
    y, x = xp.minimum(y, height - 1), xp.minimum(x, width - 1)
    low_y, low_x = xp.floor(y), xp.floor(x)
    made = []
    for up in (0, 1):
        for right in (0, 1):
            row, column = low_y + up, low_x + right
            inside = within & (row < height) & (column < width)
            part_y, part_x = 1 - xp.abs(y - row), 1 - xp.abs(x - column)
            made.append(
                (
                    xp.clip(row, 0, height - 1).astype("int64"),
                    xp.clip(column, 0, width - 1).astype("int64"),
                    part_y * part_x * inside,
                    (1 if up else -1) * part_x * (inside & y_moves),
                    (1 if right else -1) * part_y * (inside & x_moves),
                )
            )
    return made


def _deform(X, offset, filter, window, groups):
    if window.channels_last:
        raise ValueError("DeformConv takes the order NCHW only")
    batch, channels, size = windows.split_shape(X.shape, window, "the input")
    if len(size) != 2 or len(window.kernel) != 2:
        raise ValueError(f"DeformConv takes images [N, C, H, W] and windows of two dimensions, found {list(X.shape)}")
    place = windows.place(window, size)
    wanted = (batch, 2 * place.kernel[0] * place.kernel[1] * groups, *place.out)
    if offset.shape != wanted:
        raise ValueError(f"the offsets have the shape {list(offset.shape)}; expected {list(wanted)}")
    if channels % groups or filter.ndim != 4 or filter.shape[1] * window.group != channels or filter.shape[0] % groups:
        raise ValueError(
            f"{channels} channels do not fit {groups} deformable groups and a filter of {list(filter.shape)}, "
            f"whose outputs the groups divide too"
        )
    return place


def _pixels(xp, X, groups, row, column):
    """X at the given places of each deformable group: (N, groups, channels of a group, taps, positions…)."""
    n, c = X.shape[:2]
    planes = X.reshape(n, groups, c // groups, *X.shape[2:])
    return planes[
        xp.arange(n).reshape(-1, 1, 1, 1, 1, 1),
        xp.arange(groups).reshape(1, -1, 1, 1, 1, 1),
        xp.arange(c // groups).reshape(1, 1, -1, 1, 1, 1),
        row[:, :, None],
        column[:, :, None],
    ]


def _sampled(xp, X, offset, place, groups):
    """(columns, corners): the pixels, interpolated, that each tap sees."""
    corners = _corners(xp, *_sampling(xp, X, offset, place, groups), place.size)
    total = 0
    for row, column, weight, _, _ in corners:
        total = total + _pixels(xp, X, groups, row, column) * weight[:, :, None].astype(X.dtype)
    return total, corners


def _deform_gradient(g):
    to_input = [g.GI(0)]
    if g.num_inputs == 4:
        outputs = [g.GI(1), g.GI(2), g.GI(3), *to_input]
        return g.single("DeformConvGradient", [g.I(0), g.I(1), g.I(2), g.GO(0)], outputs)
    return g.single("DeformConvGradient", [g.I(0), g.I(1), g.I(2), g.GO(0)], [g.GI(1), g.GI(2), *to_input], no_bias=1)


def _by_group(xp, array, group, batch):
    """(N, group, depth of a group, positions) of columns (N, channels…, taps, positions…)."""
    positions = array.shape[-2] * array.shape[-1]
    return array.reshape(batch, group, math.prod(array.shape[1:-2]) // group, positions)


@operator(
    "Y",
    types={"X": "float32", "offset": "=X", "filter": "=X", "bias": "=X"},
    gradient=_deform_gradient,
)
def DeformConv(xp, X, offset, filter, bias=None, *, deformable_group: int = 1, window: Window, out):
    """Y = a convolution whose taps are moved by `offset`, pixels being interpolated, plus the bias.

    Dai et al., Deformable Convolutional Networks, 2017.  X [N, C, H, W], offset
    [N, 2 * kh * kw * deformable_group, oh, ow] (y, then x, of each tap), filter [M, C / group, kh, kw], bias [M], Y
    [N, M, oh, ow]; float32.  ValueError for the order NHWC and where offset has another shape, or deformable_group
    does not divide C and M.
    """
    groups = deformable_group
    place = _deform(X, offset, filter, window, groups)
    taps, _ = _sampled(xp, X, offset, place, groups)
    M = filter.shape[0]
    product = xp.matmul(
        filter.reshape(window.group, M // window.group, -1), _by_group(xp, taps, window.group, X.shape[0])
    )
    Y = out((X.shape[0], M, *place.out), X.dtype)
    Y[...] = product.reshape(Y.shape)
    if bias is not None:
        Y += bias.reshape(1, -1, 1, 1)
    return Y


@operator("doffset dfilter dbias? dX?", num_outputs=(2, 4), types={"X": "float32", "offset": "=X"})
def DeformConvGradient(xp, X, offset, filter, dY, *, no_bias: int = 0, deformable_group: int = 1, window: Window, out):
    """Gradients by the offsets, the filter, the bias (unless no_bias) and the input.

    Shapes as in DeformConv, dY [N, M, oh, ow], the gradients as what they are of; float32.  ValueError for the order
    NHWC and where offset has another shape, or deformable_group does not divide C and M.
    """
    groups = deformable_group
    place = _deform(X, offset, filter, window, groups)
    batch, M = X.shape[0], filter.shape[0]
    taps, corners = _sampled(xp, X, offset, place, groups)
    g = dY.reshape(batch, window.group, M // window.group, math.prod(place.out))
    dfilter = out[1](filter.shape, X.dtype)
    by_filter = xp.matmul(g, _by_group(xp, taps, window.group, batch).swapaxes(2, 3)).sum(axis=0)
    dfilter[...] = by_filter.reshape(filter.shape)
    dcol = xp.matmul(filter.reshape(window.group, M // window.group, -1).swapaxes(1, 2), g).reshape(taps.shape)
    doffset = out[0](offset.shape, X.dtype)
    by_offset = doffset.reshape(batch, groups, -1, 2, *place.out)
    by_offset[...] = 0
    rest = list(out[2:])
    if no_bias and len(rest) > 1:
        raise ValueError("with no_bias there are three outputs at most, doffset, dfilter and dX; four are named")
    made = [doffset, dfilter]
    if not no_bias:
        dbias = rest.pop(0)((M,), X.dtype)
        dbias[...] = dY.sum(axis=(0, 2, 3))
        made.append(dbias)
    dX = None
    if rest:
        dX = rest.pop(0)(X.shape, X.dtype)
        dX[...] = 0
        made.append(dX)
    per = X.shape[1] // groups
    plane = xp.arange(batch * X.shape[1]).reshape(batch, groups, per, 1, 1, 1) * (X.shape[2] * X.shape[3])
    for row, column, weight, by_y, by_x in corners:
        seen = _pixels(xp, X, groups, row, column) * dcol
        by_offset[:, :, :, 0] += (seen * by_y[:, :, None].astype(X.dtype)).sum(axis=2)
        by_offset[:, :, :, 1] += (seen * by_x[:, :, None].astype(X.dtype)).sum(axis=2)
        if dX is not None:
            places = plane + (row * X.shape[3] + column)[:, :, None]
            share = dcol * weight[:, :, None].astype(X.dtype)
            dX.reshape(-1)[...] += xp.bincount(places.reshape(-1), weights=share.reshape(-1), minlength=dX.size).astype(
                X.dtype
            )
    return tuple(made)
