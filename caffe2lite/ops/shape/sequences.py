"""Sequences of different lengths in one tensor: packed to a rectangle, unpacked, masked, padded, reversed."""

from __future__ import annotations

import math

from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import copy_runs, take_rows
from caffe2lite.ops.kit.shapes import axis_of

_INT = "int32 int64"
_PACKABLE = "float32 int32 int64 string"


def _total(lengths) -> int:
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have one dimension, got shape {list(lengths.shape)}")
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"a length is negative: {int(lengths.min())}")
    return int(lengths.sum())


def _fill(xp, Y, pad_minf):
    """Write padding: zeros (or -infinity), empty strings."""
    if Y.dtype == object:
        Y[...] = b""
    elif pad_minf and Y.dtype.kind == "f":
        Y[...] = -xp.inf
    else:
        Y[...] = 0


def _within(xp, lengths, longest):
    """Return [segments, longest] bool: which places hold a row."""
    check_result((lengths.size, longest), "bool")
    check_result((longest,), "int64")
    return xp.arange(longest).reshape(1, -1) < lengths.reshape(-1, 1)


@operator(
    "packed presence_mask?",
    types={"lengths": _INT, "tensor": _PACKABLE},
    gradient=single("UnpackSegments", "I0 GO0 -> GI1"),
)
def PackSegments(
    xp, lengths, tensor, *, max_length: int = -1, pad_minf: bool = False, return_presence_mask: bool = False, out
):
    """Rows of each segment side by side, padded at the end; rows past `max_length` are cut.

    lengths [S] int32 or int64, tensor [N, ...] float32, int32, int64 or string -> packed [S, longest, ...] of its type,
    presence_mask [S, longest] bool, which tells rows from padding. Padding is 0 (-infinity with `pad_minf`), or empty
    strings. ValueError where the lengths do not sum to N, or one is negative.
    """
    if tensor.ndim < 1:
        raise ValueError("the tensor must have rows, found a scalar")
    if lengths.ndim != 1:
        raise ValueError(f"lengths must be a vector, found the shape {list(lengths.shape)}")
    if return_presence_mask and len(out) < 2:
        raise ValueError("with return_presence_mask there is a second output, the mask; one is named")
    total = _total(lengths)
    if total != tensor.shape[0]:
        raise ValueError(f"the lengths sum to {total}, and the tensor has {tensor.shape[0]} rows")
    longest = max_length if max_length >= 0 else (int(lengths.max()) if lengths.size else 0)
    Y = out[0]((lengths.shape[0], longest, *tensor.shape[1:]), tensor.dtype)
    counts = lengths.astype("int64")
    if counts.size and int(counts.min()) < longest:
        _fill(xp, Y, pad_minf)
    rows = Y.reshape(lengths.shape[0] * longest, *tensor.shape[1:])
    copy_runs(xp, tensor, *_runs(xp, counts, longest, rows))
    if not return_presence_mask:
        return (Y,)
    presence = out[1]((lengths.shape[0], longest), bool)
    presence[...] = _within(xp, lengths, longest)
    return Y, presence


def _runs(xp, counts, longest, rows):
    """(first row of each segment, the packed rows, first of its places there, how many rows there is room for)."""
    return xp.cumsum(counts) - counts, rows, xp.arange(counts.shape[0]) * longest, xp.minimum(counts, longest)


@operator(
    "tensor",
    types={"lengths": _INT, "packed": _PACKABLE},
    gradient=single("PackSegments", "I0 GO0 -> GI1"),
)
def UnpackSegments(xp, lengths, packed, *, max_length: int = -1, out):
    """The rows of segments one after the other; a segment longer than `max_length` gives what there is.

    lengths [S] int32 or int64, packed [S, longest, ...] float32, int32, int64 or string -> tensor [sum of lengths,
    ...]. ValueError where there are not S lengths, one is negative or above `longest`, or `max_length` is neither -1
    nor `longest`.
    """
    if packed.ndim < 2:
        raise ValueError(f"the packed tensor must have two dimensions at least, got shape {list(packed.shape)}")
    _total(lengths)
    if lengths.shape[0] != packed.shape[0]:
        raise ValueError(f"there are {lengths.shape[0]} lengths and {packed.shape[0]} segments")
    longest = packed.shape[1]
    if max_length not in (-1, longest):
        raise ValueError(f"max_length is {max_length}, and the segments have {longest} places")
    if max_length == -1 and lengths.size and int(lengths.max()) > longest:
        raise ValueError(f"a length is {int(lengths.max())}, and the segments have {longest} places")
    counts = xp.minimum(lengths, longest).astype("int64")
    Y = out((int(counts.sum()), *packed.shape[2:]), packed.dtype)
    rows = packed.reshape(lengths.shape[0] * longest, *packed.shape[2:])
    begins, _, places, counts = _runs(xp, counts, longest, rows)
    copy_runs(xp, rows, places, Y, begins, counts)
    return Y


def _mask_gradient(g):
    return g.single("SequenceMask", [g.GO(0), *([g.I(1)] if g.num_inputs > 1 else [])], [g.GI(0)], **_grad_flag(g))


def _grad_flag(g):
    return {} if g.has_arg("grad") else {"grad": 1}


@operator("Y", types={"X": "float32", "lengths": "int32"}, infer=like(0), gradient=_mask_gradient)
def SequenceMask(
    xp,
    X,
    lengths=None,
    *,
    mode: str,
    axis: int = 1,
    radius: int = 10,
    grad: bool = False,
    fill_val: float = -math.inf,
    batch: int = -1,
    repeat_from_axis: int | None = None,
    out,
):
    """X with some places of each row set to -infinity (0 where `grad`): rows are the dimensions before `axis`.

    mode        places that are masked, for row i and column j
    sequence    j >= lengths[i]
    window      abs(j - lengths[i]) > radius
    upper, lower, upperdiag, lowerdiag    j > i, j < i, j >= i, j <= i

    X [..., rows, columns, ...] float32, lengths [rows] int32 -> Y of X's shape. Dimensions up to `batch` share the
    masks, those from `repeat_from_axis` on are masked as one. ValueError where the mode is unknown, an axis is none of
    X's or out of order, or where a mode needs lengths and there are too few.
    """
    if repeat_from_axis is not None and mode != "sequence":
        raise ValueError(f"repeat_from_axis goes with the mode sequence alone, not with {mode!r}")
    axis = axis_of(axis, X.ndim)
    shape = X.shape
    lead = 1
    first = 0
    if batch >= 0:
        at = axis_of(batch, X.ndim)
        if at >= axis:
            raise ValueError(f"batch ({at}) must be before axis ({axis})")
        first = at + 1
        lead = math.prod(shape[:first])
    rows = math.prod(shape[first:axis])
    repeat = axis_of(repeat_from_axis, X.ndim) if repeat_from_axis else X.ndim
    if repeat < axis:
        raise ValueError(f"repeat_from_axis ({repeat}) must not be before axis ({axis})")
    columns, inner = math.prod(shape[axis:repeat]), math.prod(shape[repeat:])
    i, j = xp.arange(rows).reshape(-1, 1), xp.arange(columns).reshape(1, -1)
    if mode in ("sequence", "window"):
        if lengths is None or lengths.ndim != 1 or lengths.shape[0] < rows:
            found = "none" if lengths is None else list(lengths.shape)
            raise ValueError(f"mode {mode!r} needs a length for each of {rows} rows as second input, found {found}")
        at = lengths[:rows].reshape(-1, 1)
        masked = j >= at if mode == "sequence" else abs(j - at) > radius
    elif mode in _TRIANGLES:
        masked = _TRIANGLES[mode](i, j)
    else:
        raise ValueError(f"there is no mode {mode!r}; there are sequence, window, {', '.join(_TRIANGLES)}")
    Y = out(shape, X.dtype)
    if X.size:
        x = X.reshape(lead, rows, columns, inner)
        y = Y.reshape(x.shape)
        xp.copyto(y, x)
        xp.copyto(y, X.dtype.type(0 if grad else fill_val), where=masked[None, :, :, None])
    return Y


_TRIANGLES = {
    "upper": lambda i, j: j > i,
    "lower": lambda i, j: j < i,
    "upperdiag": lambda i, j: j >= i,
    "lowerdiag": lambda i, j: j <= i,
}


@operator(
    "Y",
    types={"data": "float32 float64 int32 int64 bool", "lengths": _INT},
    infer=like(0),
    gradient=single("ReversePackedSegs", "GO0 I1 -> GI0"),
)
def ReversePackedSegs(xp, data, lengths, *, out):
    """Each segment reversed; what is past its length stays where it is.

    data [longest, S, D] float32, float64, int32, int64 or bool, lengths [S] int32 or int64 -> Y of the data's shape.
    ValueError where the data has not three dimensions, or the lengths do not fit them.
    """
    if data.ndim != 3:
        raise ValueError(f"the data must have three dimensions, got shape {list(data.shape)}")
    if lengths.ndim != 1 or lengths.shape[0] != data.shape[1]:
        raise ValueError(f"one length for each of {data.shape[1]} segments is needed, found {list(lengths.shape)}")
    if lengths.size and int(lengths.max()) > data.shape[0]:
        raise ValueError(f"a length is {int(lengths.max())}, and there are {data.shape[0]} steps")
    t = xp.arange(data.shape[0]).reshape(-1, 1)
    n = lengths.reshape(1, -1)
    source = xp.where(t < n, n - 1 - t, t)
    Y = out(data.shape, data.dtype)
    flat = (data.shape[0] * data.shape[1], data.shape[2])
    rows = source * data.shape[1] + xp.arange(data.shape[1])
    take_rows(xp, data.reshape(flat), rows.reshape(-1), Y.reshape(flat))
    return Y


@operator(
    "Y",
    types={"values": "float32 float64 int32 int64 string", "lengths": "int32"},
    gradient=single("UnpackRNNSequence", "GO0 I1 -> GI0"),
)
def PackRNNSequence(xp, values, lengths, *, out):
    """Step t of each segment side by side, zeros (or empty strings) past its end.

    values [N, ...] float32, float64, int32, int64 or string, lengths [S] int32 -> Y [longest, S, ...].
    ValueError where the values have fewer than two dimensions, the lengths do not sum to N, or one is negative.
    """
    total = _total(lengths)
    if values.ndim < 2:
        raise ValueError(f"the values must have rows, of two dimensions at least, got shape {list(values.shape)}")
    if total != values.shape[0]:
        raise ValueError(f"the lengths sum to {total}, and there are {values.shape[0]} values")
    longest = int(lengths.max()) if lengths.size else 0
    Y = out((longest, lengths.shape[0], *values.shape[1:]), values.dtype)
    _fill(xp, Y, False)
    if Y.size:
        Y.swapaxes(0, 1)[_within(xp, lengths, longest)] = values
    return Y


@operator(
    "Y",
    types={"values": "float32 float64 int32 int64 string", "lengths": "int32"},
    gradient=single("PackRNNSequence", "GO0 I1 -> GI0"),
)
def UnpackRNNSequence(xp, values, lengths, *, out):
    """The reverse of PackRNNSequence.

    values [longest, S, ...] float32, float64, int32, int64 or string, lengths [S] int32 -> Y [sum of lengths, ...].
    ValueError where there are not S lengths, or one is negative or above `longest`.
    """
    total = _total(lengths)
    if values.ndim < 3 or values.shape[1] != lengths.shape[0]:
        raise ValueError(f"{lengths.shape[0]} lengths are given for values of shape {list(values.shape)}")
    if lengths.size and int(lengths.max()) > values.shape[0]:
        raise ValueError(f"a length is {int(lengths.max())}, and there are {values.shape[0]} steps")
    Y = out((total, *values.shape[2:]), values.dtype)
    if Y.size:
        Y[...] = values.swapaxes(0, 1)[_within(xp, lengths, values.shape[0])]
    return Y


@operator("Y", types={"X": "float32", "lengths": "int32"}, inplace={0: 0}, infer=like(0))
def VariableLengthSequencePadding(xp, X, lengths, *, out):
    """X with zeros past the end of each segment.

    X [longest, S, D] float32, lengths [S] int32 -> Y of X's shape. ValueError where X has not three dimensions, or
    there is not one length for each segment.
    """
    if X.ndim != 3 or lengths.shape != (X.shape[1],):
        raise ValueError(
            f"expected [steps, segments, D] and a length a segment, got {list(X.shape)}, {list(lengths.shape)}"
        )
    Y = out(X.shape, X.dtype)
    if Y is not X:
        Y[...] = X
    Y.swapaxes(0, 1)[~_within(xp, lengths, X.shape[0])] = 0
    return Y


# ---- padding around each range -------------------------------------------------------------------------------------


def _widths(padding_width, end_padding_width):
    end = padding_width if end_padding_width < 0 else end_padding_width
    if padding_width < 0:
        raise ValueError(f"padding_width must not be negative, got {padding_width}")
    return padding_width, end


def _ranges(xp, data, lengths, exact=True):
    """Return the lengths as int64; without any, the data is one range."""
    if data.ndim < 1:
        raise ValueError("the data must have rows, found a scalar")
    if lengths is None:
        return xp.asarray([data.shape[0]], "int64")
    total = _total(lengths)
    if total > data.shape[0] or (exact and total != data.shape[0]):
        raise ValueError(f"the lengths sum to {total}, and the data has {data.shape[0]} rows")
    return lengths.astype("int64")


def _padding_gradient(g):
    if g.num_inputs == 1:
        return g.single("RemovePadding", [g.GO(0)], [g.GI(0)])
    if g.num_outputs < 2:
        raise ValueError("the gradient of AddPadding with lengths needs its second output, lengths_out")
    made = g.single("RemovePadding", [g.GO(0), g.O(1)], [g.GI(0)])
    if g.num_inputs > 2:
        paddings = [g.GI(i) for i in range(2, g.num_inputs)]
        made += g.single("GatherPadding", [g.GO(0), g.O(1)], paddings)
    return made


_PADDABLE = "float32 float64 int32 int64 bool"


def _infer_padding(args, inputs):
    """Each range, one where there are no lengths, grows by both paddings."""
    before, after = _widths(args["padding_width"], args["end_padding_width"])
    data, ranges = inputs[0], inputs[1].shape[0] if len(inputs) > 1 else 1
    return [Spec((data.shape[0] + ranges * (before + after), *data.shape[1:]), data.dtype), Spec((ranges,), "int32")]


@operator(
    "data_out lengths_out?",
    types={"data": _PADDABLE, "lengths": "int32"},
    infer=_infer_padding,
    gradient=_padding_gradient,
    limits="padding_width >= 0",
)
def AddPadding(
    xp,
    data,
    lengths=None,
    start_padding=None,
    end_padding=None,
    *,
    padding_width: int = 1,
    end_padding_width: int = -1,
    out,
):
    """Put `padding_width` rows of padding (zeros by default) before and after each range of rows.

    data [N, ...] float32, float64, int32, int64 or bool, lengths [S] int32, without which the data is one range,
    start_padding and end_padding [...] like a row -> data_out [N + S * both widths, ...], lengths_out [S] int32.
    ValueError where the lengths do not sum to N, a padding is not like a row, or `padding_width` is negative.
    """
    before, after = _widths(padding_width, end_padding_width)
    counts = _ranges(xp, data, lengths)
    for padding in (start_padding, end_padding):
        if padding is not None and (padding.shape != data.shape[1:] or padding.dtype != data.dtype):
            raise ValueError(
                f"the padding is {padding.dtype}{list(padding.shape)}; a row is {data.dtype}{list(data.shape[1:])}"
            )
    longer = counts + (before + after)
    Y = out[0]((int(longer.sum()), *data.shape[1:]), data.dtype)
    starts = xp.cumsum(longer) - longer
    end_padding = start_padding if end_padding is None else end_padding
    for begins, width, padding in ((starts, before, start_padding), (starts + before + counts, after, end_padding)):
        rows = (begins[:, None] + xp.arange(width)).reshape(-1)
        Y[rows] = 0 if padding is None else padding
    copy_runs(xp, data, xp.cumsum(counts) - counts, Y, starts + before, counts)
    result = out[1](counts.shape, "int32") if len(out) > 1 else None
    if result is not None:
        result[...] = longer
    return (Y,) if result is None else (Y, result)


def _unpadding_gradient(g):
    if g.num_inputs == 1:
        return g.single("AddPadding", [g.GO(0)], [g.GI(0)])
    return g.single("AddPadding", [g.GO(0), g.O(1)], [g.GI(0)])


@operator(
    "data_out lengths_out?",
    types={"data": _PADDABLE, "lengths": "int32"},
    gradient=_unpadding_gradient,
    limits="padding_width >= 0",
)
def RemovePadding(xp, data, lengths=None, *, padding_width: int = 1, end_padding_width: int = -1, out):
    """Take `padding_width` rows away before and after each range of rows.

    data [N, ...] float32, float64, int32, int64 or bool, lengths [S] int32, without which the data is one range ->
    data_out [N - S * both widths, ...], lengths_out [S] int32. ValueError where a range is shorter than its padding, or
    the lengths sum to more than N.
    """
    before, after = _widths(padding_width, end_padding_width)
    counts = _ranges(xp, data, lengths, exact=False)
    shorter = counts - (before + after)
    if counts.size and int(shorter.min()) < 0:
        raise ValueError(f"a range has {int(counts.min())} rows, fewer than the padding of {before} and {after}")
    Y = out[0]((int(shorter.sum()), *data.shape[1:]), data.dtype)
    copy_runs(xp, data, xp.cumsum(counts) - counts + before, Y, xp.cumsum(shorter) - shorter, shorter)
    result = out[1](counts.shape, "int32") if len(out) > 1 else None
    if result is not None:
        result[...] = shorter
    return (Y,) if result is None else (Y, result)


@operator(
    "padding_sum end_padding_sum?",
    types={"data": "float32 float64 int32 int64", "lengths": "int32"},
    limits="padding_width >= 0",
)
def GatherPadding(xp, data, lengths, *, padding_width: int = 1, end_padding_width: int = -1, out):
    """The sums of the padding before and after the ranges; with one output, of both together.

    data [N, ...] float32, float64, int32 or int64, lengths [S] int32 -> padding_sum and end_padding_sum, each [...]
    like a row. ValueError where the padding reaches beyond the data, or the lengths sum to more than N.
    """
    before, after = _widths(padding_width, end_padding_width)
    if not before and not after:  # Caffe2's answer where there is no padding at all
        nothing = tuple(o((), "int64") for o in out)
        for n in nothing:
            n[...] = 0
        return nothing
    counts = _ranges(xp, data, lengths, exact=False)
    if not counts.size:
        before = after = 0
    if max(before, after) > data.shape[0]:
        raise ValueError(f"the padding of {before} and {after} rows reaches beyond the data's {data.shape[0]} rows")
    ends = xp.cumsum(counts)
    # Rows of a range that is shorter than its padding count on both sides.
    starts = ((ends - counts).reshape(-1, 1) + xp.arange(before)).reshape(-1)
    stops = (ends.reshape(-1, 1) - 1 - xp.arange(after)).reshape(-1)
    for rows in (starts, stops):
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < data.shape[0]:
            raise ValueError(f"the padding of {before} and {after} rows reaches beyond the data's {data.shape[0]} rows")
    if len(out) == 1:
        starts = xp.concatenate([starts, stops])
    sums = []
    for target, rows in zip(out, (starts, stops)):
        total = target(data.shape[1:], data.dtype)
        total[...] = data[rows].sum(axis=0) if data.size else 0
        sums.append(total)
    return tuple(sums)


@operator("out_lengths features*", num_inputs=(1, MANY), types={"lengths": "int32"}, gradient=None)
def PadEmptySamples(xp, lengths, *features, out):
    """Give each sample of length 0 one row of zeros (or an empty string) in each feature.

    lengths [S] int32, features [N, ...] of any type -> out_lengths [S] int32, with 1 for 0, and a longer feature for
    each. ValueError where the lengths do not sum to a feature's rows, or one is negative.
    """
    total = _total(lengths)
    if len(out) != 1 + len(features):
        raise ValueError(f"{1 + len(features)} outputs are needed, the lengths and each feature; {len(out)} are named")
    made = [out[0](lengths.shape, "int32")]
    made[0][...] = xp.maximum(lengths, 1)
    counts = xp.maximum(lengths, 1).astype("int64")
    empty = lengths == 0
    ends = xp.cumsum(counts)
    size = int(ends[-1]) if counts.size else 0
    for i, X in enumerate(features):
        if X.ndim < 1 or X.shape[0] != total:
            raise ValueError(f"the lengths sum to {total}, and feature {i} has the shape {list(X.shape)}")
    check_result((size,), "int64")
    owner = xp.searchsorted(ends, xp.arange(size), side="right")
    real = ~empty[owner] if size else xp.zeros(0, bool)
    for i, X in enumerate(features):
        Y = out[1 + i]((size, *X.shape[1:]), X.dtype)
        _fill(xp, Y, False)
        if X.size:
            Y[real] = X
        made.append(Y)
    return tuple(made)
