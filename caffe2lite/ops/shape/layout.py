"""Values in another order: transposition, concatenation, pieces, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.broadcast import result_shape, sum_to
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, like, size_of
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import check_range, last_of_each, take_rows
from caffe2lite.ops.kit.shapes import axis_of

# ---- transposition -----------------------------------------------------------------------------------------------


def _transpose_gradient(g: Any) -> Any:
    """The inverse permutation."""
    axes = g.arg("axes")
    if not axes:
        return g.single("Transpose", [g.GO(0)], [g.GI(0)])
    if sorted(axes) != list(range(len(axes))):
        raise ValueError(f"the argument axes of Transpose is no permutation: {axes}")
    g.copy_arguments = False
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    op = g.new("Transpose", [g.GO(0)], [g.GI(0)], axes=inverse)
    op.arg.extend(a for a in g.op.arg if a.name != "axes")
    return [op]


def transpose_order(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return the permutation, by default the reversal; ValueError where `axes` is none."""
    order = tuple(axes) or tuple(range(ndim))[::-1]
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"axes={list(axes)} is no permutation of the {ndim} dimensions")
    return order


@operator(
    "Y",
    types="float32 float64 int32 int64",
    infer=lambda args, inputs: [
        Spec(
            tuple(inputs[0].shape[a] for a in transpose_order(args.get("axes") or (), len(inputs[0].shape))),
            inputs[0].dtype,
        )
    ],
    gradient=_transpose_gradient,
)
def Transpose(xp, X, *, axes: list[int] = (), out):
    """Y = X with its dimensions in the order `axes` (default: the last first).

    X [d0, d1, ...] -> Y [d of axes[0], d of axes[1], ...]; float32, float64, int32 or int64. ValueError where `axes` is
    no permutation of X's dimensions.
    """
    turned = X.transpose(transpose_order(axes, X.ndim))
    return _write(xp, turned, out)


def _write(xp: Any, turned: Any, out: Any) -> Any:
    """Write a view with its dimensions in another order.

    A few lines of the cache serve all places that are a large power of 2 apart: there the copy goes in strips, which
    use up a line while it is there (1024 x 1024: 7 times quicker).
    """
    Y = out(turned.shape, turned.dtype)
    if xp is np and turned.ndim and turned.strides[-1] % 1024 == 0:
        for k in range(0, Y.shape[-1], _STRIP):
            np.copyto(Y[..., k : k + _STRIP], turned[..., k : k + _STRIP])
    else:
        xp.copyto(Y, turned)
    return Y


_STRIP = 16


def _channels(name: str, back: str, to_last: bool) -> None:
    """Register the operator that moves the channels last, or back behind the batch."""

    def moved(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *shape[2:], shape[1]) if to_last else (shape[0], shape[-1], *shape[1:-1])

    def kernel(xp, X, *, out):
        if X.ndim < 3:
            raise ValueError(f"a batch of images with channels is needed, found {list(X.shape)}")
        turned = xp.moveaxis(X, 1, -1) if to_last else xp.moveaxis(X, -1, 1)
        return _write(xp, turned, out)

    operator(
        "Y",
        name=name,
        types="float32",
        infer=lambda args, inputs: [Spec(moved(inputs[0].shape), inputs[0].dtype)],
        gradient=single(back, "GO0 -> GI0"),
        doc=f"""Y = X with the channels {"last" if to_last else "behind the batch"}.

        X {"[N, C, ...] -> Y [N, ..., C]" if to_last else "[N, ..., C] -> Y [N, C, ...]"}; float32. ValueError where X has
        fewer than three dimensions.
        """,
    )(kernel)


_channels("NCHW2NHWC", "NHWC2NCHW", to_last=True)
_channels("NHWC2NCHW", "NCHW2NHWC", to_last=False)


# ---- concatenation and pieces ------------------------------------------------------------------------------------


def _channel_axis(axis: int | None, order: str | None) -> int:
    if axis is not None:
        if order is not None:
            raise ValueError(f"give axis ({axis}) or order ({order!r}), not both")
        return axis
    if order not in (None, "NCHW", "NHWC"):
        raise ValueError(f"order must be NCHW or NHWC, found {order!r}")
    return 3 if order == "NHWC" else 1


def _concat_gradient(g: Any) -> Any:
    if not g.has_GO(0):
        return []
    return g.single("Split", [g.GO(0), g.O(1)], [g.GI(i) for i in range(g.num_inputs)])


def _infer_concat(args: Any, inputs: Any) -> list[Spec]:
    first = inputs[0].shape
    axis = _channel_axis(args.get("axis"), args.get("order"))
    if args.get(
        "add_axis"
    ):  # also without `axis`, where a run adds none: Caffe2 infers it so, and its tests ask for it
        axis = axis_of(axis, len(first) + 1)
        return [Spec((*first[:axis], len(inputs), *first[axis:]), inputs[0].dtype), _sizes([1] * len(inputs))]
    axis = axis_of(axis, len(first))
    if len({(*s.shape[:axis], *s.shape[axis + 1 :]) for s in inputs}) > 1:
        return [UNKNOWN, UNKNOWN]
    sizes = [s.shape[axis] for s in inputs]
    return [Spec((*first[:axis], sum(sizes), *first[axis + 1 :]), inputs[0].dtype), _sizes(sizes)]


def _sizes(sizes: Sequence[int]) -> Spec:
    """The second output of Concat, by which its gradient splits again."""
    return Spec((len(sizes),), "int32", tuple(sizes))


def _concat(xp, *Xs, axis: int | None = None, order: str | None = None, add_axis: bool = False, out):
    first = Xs[0]
    add_axis = add_axis and axis is not None  # Caffe2 adds one only where it is told which
    at = axis_of(_channel_axis(axis, order), first.ndim + add_axis)
    for i, X in enumerate(Xs):
        if X.dtype != first.dtype:
            raise ValueError(f"all inputs must have one type: input 0 is {first.dtype}, input {i} {X.dtype}")
        if X.ndim != first.ndim or any(
            a != b for d, (a, b) in enumerate(zip(X.shape, first.shape)) if add_axis or d != at
        ):
            raise ValueError(
                f"all dimensions but the one concatenated (axis {at}) must agree: input 0 is {list(first.shape)}, "
                f"input {i} {list(X.shape)}"
            )
    sizes = out[1]((len(Xs),), "int32")
    for i, X in enumerate(Xs):
        sizes[i] = 1 if add_axis else X.shape[at]
    if add_axis:
        Xs = tuple(xp.expand_dims(X, at) for X in Xs)
    total = sum(X.shape[at] for X in Xs)
    Y = out[0]((*Xs[0].shape[:at], total, *Xs[0].shape[at + 1 :]), first.dtype)
    xp.concatenate(Xs, axis=at, out=Y)
    return Y, sizes


def _cost_of_copy(args: Any, inputs: Any) -> tuple[int, int, int]:
    """Cost of moving values: nothing is computed, the pieces are as large as the whole, and the sizes are an int32 each."""
    return 0, size_of(inputs[0]), size_of(*inputs)


def _cost_of_concat(args: Any, inputs: Any) -> tuple[int, int, int]:
    return 0, size_of(*inputs) + 4 * len(inputs), size_of(*inputs)


for _name in ("Concat", "DepthConcat"):
    operator(
        "Y sizes",
        name=_name,
        num_inputs=(1, MANY),
        host="sizes",
        peer=True,
        infer=_infer_concat,
        cost=_cost_of_concat,
        gradient=_concat_gradient,
        doc="""Y = the inputs one behind the other along an axis (or a new one); sizes = how much is from each.

        Inputs [..., n, ...], alike but for `axis` (or the channels of `order`) -> Y [..., sum of n, ...] of their type, which
        may be any; with `add_axis` Y [..., number of inputs, ...]; sizes [number of inputs] int32.
        ValueError where the inputs differ in type or another dimension, or `axis` and `order` are both given.
        """,
    )(_concat)


def _split_gradient(g: Any) -> Any:
    parts = [g.GO(i) for i in range(g.num_outputs) if g.has_GO(i)]
    if not parts:
        return []
    return g.single("Concat", parts, [g.GI(0), f"_{g.GI(0)}_dims"])


def _pieces(xp: Any, X: Any, at: int, sizes: Sequence[int], out: Any, add_axis: bool = False) -> tuple[Any, ...]:
    results, start = [], 0
    for size, place in zip(sizes, out):
        part = X[(slice(None),) * at + (slice(start, start + size),)]
        start += size
        if add_axis:
            part = part.reshape((*X.shape[:at], *X.shape[at + 1 :]))
        Y = place(part.shape, X.dtype)
        xp.copyto(Y, part)
        results.append(Y)
    return tuple(results)


def _split_op(
    xp,
    X,
    lengths=None,
    *,
    axis: int | None = None,
    order: str | None = None,
    add_axis: bool = False,
    split: list[int] = (),
    out,
):
    add_axis = add_axis and axis is not None  # as Concat has it
    at = axis_of(_channel_axis(axis, order), X.ndim)
    count, length = len(out), X.shape[at]
    if lengths is not None and split:
        raise ValueError(f"the sizes come as argument split ({list(split)}) or as second input, not as both")
    if lengths is not None:
        sizes = lengths.reshape(-1).tolist()
    elif split:
        sizes = list(split)
    elif length % count:
        raise ValueError(f"axis {at} of {list(X.shape)} cannot be split into {count} equal parts")
    else:
        sizes = [length // count] * count
    if len(sizes) != count or sum(sizes) != length or min(sizes) < 0:
        raise ValueError(f"axis {at} of {list(X.shape)} cannot be split into {count} parts of sizes {sizes}")
    if add_axis and set(sizes) != {1}:
        raise ValueError(f"with add_axis each part must have the size 1, found {sizes}")
    return _pieces(xp, X, at, sizes, out, add_axis)


def _infer_split(args: Any, inputs: Any) -> list[Spec]:
    """Equal pieces, or those of the argument, or those in the second input where its values are known."""
    X, count = inputs[0], args["#outputs"]
    at = axis_of(_channel_axis(args.get("axis"), args.get("order")), len(X.shape))
    if len(inputs) > 1:
        sizes = list(inputs[1].values or ())
    else:
        sizes = list(args.get("split") or [X.shape[at] // count] * count)
    if len(sizes) != count or sum(sizes) != X.shape[at] or (args.get("add_axis") and set(sizes) != {1}):
        return [UNKNOWN] * count
    middle = () if args.get("add_axis") else None
    return [Spec((*X.shape[:at], *((n,) if middle is None else middle), *X.shape[at + 1 :]), X.dtype) for n in sizes]


for _name in ("Split", "DepthSplit"):
    operator(
        "parts*",
        name=_name,
        types={"lengths": "int32"},
        host="lengths",
        num_outputs=(1, MANY),
        infer=_infer_split,
        cost=_cost_of_copy,
        gradient=_split_gradient,
        doc="""The pieces of X along an axis: of the sizes given by argument or second input, or of equal size.

        X [..., n, ...] of any type, lengths [number of outputs] int32 -> parts [..., size, ...]; with `add_axis` the axis,
        of size 1 in each part, falls away.
        ValueError where the sizes do not sum to n, are not as many as the outputs, or are given twice.
        """,
    )(_split_op)


@operator("parts*", types={"lengths": "int32"}, host="lengths", num_outputs=(1, MANY), gradient=_split_gradient)
def SplitByLengths(
    xp, X, lengths, *, axis: int | None = None, order: str | None = None, use_scaling_lengths: bool = False, out
):
    """The pieces of X along an axis, where each output takes the sum of its equal share of `lengths`.

    X [..., n, ...] of any type, lengths [k * outputs] int32 -> parts [..., size, ...]. With `use_scaling_lengths` the
    lengths are multiplied so that their sum is n. ValueError where the lengths cannot be shared out evenly, or do not
    sum to n.
    """
    at = axis_of(_channel_axis(axis, order), X.ndim)
    count, length = len(out), X.shape[at]
    if lengths.size % count:
        raise ValueError(f"{lengths.size} lengths cannot be shared among {count} outputs")
    sizes = [sum(part) for part in lengths.reshape(count, -1).tolist()]
    total = sum(sizes)
    if use_scaling_lengths and total and length % total == 0:
        sizes = [s * (length // total) for s in sizes]
    if sum(sizes) != length:
        raise ValueError(f"the lengths add up to {total}, but axis {at} of {list(X.shape)} has {length}")
    return _pieces(xp, X, at, sizes, out)


# ---- slices ------------------------------------------------------------------------------------------------------


def slice_window(shape: tuple[int, ...], starts: Any, ends: Any) -> tuple[slice, ...]:
    """The slices of an array; a negative bound counts from one behind the end."""
    starts, ends = list(starts), list(ends)
    if len(starts) != len(ends) or len(starts) > len(shape):
        raise ValueError(f"starts={starts} and ends={ends} do not fit the {len(shape)} dimensions of {list(shape)}")
    window = []
    for d, start, end in zip(shape, starts, ends):
        start = d + 1 + start if start < 0 else start
        end = d + 1 + end if end < 0 else end
        end = min(end, d)
        if start >= d or start < 0:
            window.append(slice(0, 0))
            continue
        if end < start:
            raise ValueError(f"a slice ends at {end} before its start {start}: starts={starts}, ends={ends}")
        window.append(slice(start, end))
    cut = [axis for axis, (d, w) in enumerate(zip(shape, window)) if w != slice(0, d)]
    if len(cut) > 1:
        raise ValueError(
            f"starts={starts} and ends={ends} cut the axes {cut} of {list(shape)}; one axis can be cut at a time"
        )
    return tuple(window)


def _slice_gradient(g: Any) -> Any:
    bounds = [g.I(1), g.I(2)] if g.num_inputs > 1 else []
    return g.single("SliceGradient", [g.I(0), *bounds, g.GO(0)], [g.GI(0)])


def slice_bounds(starts: Any, ends: Any, given_starts: Any, given_ends: Any) -> tuple[Any, Any]:
    """Return the bounds from the inputs where there are any, else those of the arguments."""
    if starts is None:
        return given_starts, given_ends
    if ends is None or starts.ndim != 1 or ends.ndim != 1:
        raise ValueError(
            f"starts and ends must both be vectors, found {list(starts.shape)} and "
            f"{'no ends' if ends is None else list(ends.shape)}"
        )
    return starts.tolist(), ends.tolist()


def _infer_slice(args: Any, inputs: Any) -> list[Spec]:
    if len(inputs) > 1 or args.get("starts") is None:
        return [UNKNOWN]
    shape = inputs[0].shape
    window = slice_window(shape, args["starts"], args["ends"])
    return [Spec((*(w.stop - w.start for w in window), *shape[len(window) :]), inputs[0].dtype)]


@operator(
    "Y",
    anywhere="starts_in ends_in",
    types={"starts_in": "int32 int64", "ends_in": "=starts_in"},
    infer=_infer_slice,
    gradient=_slice_gradient,
)
def Slice(xp, X, starts_in=None, ends_in=None, *, starts: list[int] = (), ends: list[int] = (), out):
    """Y = X[starts:ends] in each dimension; an end of -1 is the end.

    X [d0, d1, ...] of any type, starts and ends [k] int32 or int64, in place of the arguments -> Y [ends - starts,
    ...]; a start beyond the end gives nothing. ValueError where the bounds are more than the dimensions, or an end is
    before its start.
    """
    part = X[slice_window(X.shape, *slice_bounds(starts_in, ends_in, starts, ends))]
    Y = out(part.shape, X.dtype)
    xp.copyto(Y, part)
    return Y


@operator("dX", anywhere="X", num_inputs=(0, MANY), num_outputs=(0, MANY), infer=like(0))
def SliceGradient(xp, X, *rest, starts: list[int] = (), ends: list[int] = (), out):
    """dX = dY in the slice, 0 elsewhere; the inputs are X, dY, or X, starts, ends, dY.

    X [...] of any type, dY of the slice's shape -> dX of X's shape and dY's type. ValueError where there are neither 2
    nor 4 inputs, or dY has not the slice's shape.
    """
    if len(rest) not in (1, 3):
        raise ValueError(f"the inputs are X and dY, or X, starts, ends and dY; there are {1 + len(rest)}")
    for bounds in rest[:-1]:
        if bounds.dtype.kind != "i":
            raise TypeError(f"starts and ends must be int32 or int64, found {bounds.dtype}")
    window = slice_window(X.shape, *slice_bounds(*(rest[:2] if len(rest) == 3 else (None, None)), starts, ends))
    if len(out) != 1:
        raise ValueError(f"there is one output, dX, and {len(out)} are named")
    dY = rest[-1]
    if dY.shape != X[window].shape:
        raise ValueError(f"the gradient has the shape {list(dY.shape)}, and the slice of X {list(X[window].shape)}")
    dX = out[0](X.shape, dY.dtype)
    dX[...] = 0
    dX[window] = dY
    return dX


# ---- repetition --------------------------------------------------------------------------------------------------


def _tiling(X: Any, tiles_in: Any, axis_in: Any, tiles: int | None, axis: int | None) -> tuple[int, int]:
    """(tiles, axis), from the arguments or the inputs."""
    for what, operand, argument in (("tiles", tiles_in, tiles), ("axis", axis_in, axis)):
        if operand is None and argument is None:
            raise ValueError(f"{what} is missing: give it as argument, or as input")
        if operand is not None and operand.shape != (1,):
            raise ValueError(f"{what} must be a vector of one value, found the shape {list(operand.shape)}")
    tiles = tiles if tiles_in is None else int(tiles_in[0])
    axis = axis if axis_in is None else int(axis_in[0])
    if tiles < 0:
        raise ValueError(f"tiles must not be negative, found {tiles}")
    return tiles, axis_of(axis, X.ndim)


def _infer_tile(args: Any, inputs: Any) -> list[Spec]:
    X = inputs[0]
    if len(inputs) > 1 or args.get("tiles") is None:
        return [UNKNOWN]
    at = axis_of(args.get("axis") or 0, len(X.shape))
    return [Spec((*X.shape[:at], X.shape[at] * args["tiles"], *X.shape[at + 1 :]), X.dtype)]


def _tile_gradient(g: Any) -> Any:
    return g.single("TileGradient", [g.GO(0), *g.op.input[1:]], [g.GI(0)])


@operator(
    "Y",
    types={
        "X": "float32 float64 float16 int32 int64 uint8 string",
        "tiles_in": "int32 int64",
        "axis_in": "int32 int64",
    },
    anywhere="tiles_in axis_in",
    infer=_infer_tile,
    gradient=_tile_gradient,
)
def Tile(xp, X, tiles_in=None, axis_in=None, *, tiles: int | None = None, axis: int | None = None, out):
    """Y = X, `tiles` times one behind the other along `axis`.

    X [..., n, ...], tiles [1] and axis [1], in place of the arguments -> Y [..., tiles * n, ...]; float32, float64,
    float16, int32, int64, uint8 or string. ValueError where tiles or axis is missing, tiles is negative, or the axis is
    none of X's.
    """
    if tiles_in is not None and tiles_in.dtype.itemsize > 4 and axis is not None:
        axis = 0  # in Caffe2 the upper half of the number goes into `axis`, and there are programs that rely on it
    tiles, at = _tiling(X, tiles_in, axis_in, tiles, axis)
    Y = out((*X.shape[:at], X.shape[at] * tiles, *X.shape[at + 1 :]), X.dtype)
    Y.reshape((*X.shape[:at], tiles, *X.shape[at:]))[...] = xp.expand_dims(X, at)
    return Y


@operator(
    "dX",
    types={"dY": "float32 float64 int32 int64", "tiles_in": "int32 int64", "axis_in": "int32 int64"},
    anywhere="tiles_in axis_in",
)
def TileGradient(xp, dY, tiles_in=None, axis_in=None, *, tiles: int | None = None, axis: int | None = None, out):
    """dX = the sum of dY over the repetitions.

    dY [..., tiles * n, ...] -> dX [..., n, ...]; float32, float64, int32 or int64. ValueError where the axis is no
    multiple of `tiles`.
    """
    tiles, at = _tiling(dY, tiles_in, axis_in, tiles, axis)
    if not tiles or dY.shape[at] % tiles:
        raise ValueError(f"axis {at} of {list(dY.shape)} is no multiple of tiles={tiles}")
    rest = (dY.shape[at] // tiles, *dY.shape[at + 1 :])
    dX = out((*dY.shape[:at], *rest), dY.dtype)
    return dY.reshape((*dY.shape[:at], tiles, *rest)).sum(axis=at, out=dX)


@operator("Y", types={"repeats": "int64"}, anywhere="repeats", num_outputs=(0, MANY))
def NumpyTile(xp, X, repeats, *, out):
    """Y = X repeated repeats[d] times along each dimension d.

    X [d0, d1, ...] of any type, repeats [number of dimensions] int64 -> Y [repeats[0] * d0, ...]. ValueError where
    there is not one repeat for each dimension, or one is negative.
    """
    if repeats.shape != (X.ndim,):
        raise ValueError(f"a repeat for each of the {X.ndim} dimensions is needed, found {list(repeats.shape)}")
    if len(out) != 1:
        raise ValueError(f"there is one output, and {len(out)} are named")
    counts = repeats.tolist()
    if any(c < 0 for c in counts):
        raise ValueError(f"repeats must not be negative, found {counts}")
    Y = out[0](tuple(d * c for d, c in zip(X.shape, counts)), X.dtype)
    Y[...] = xp.tile(X, counts)
    return Y


@operator(
    "Y",
    types={"X": "float32 float64 int32 int64", "shape": "int64"},
    anywhere="shape",
    gradient=single("ExpandGradient", "GO0 I0 -> GI0"),
)
def Expand(xp, X, shape, *, out):
    """Y = X broadcast with the shape in the second input.

    X [...], shape [k] int64, where a dimension below 1 counts as 1 -> Y of the shape of both; float32,
    float64, int32 or int64. ValueError where the two shapes cannot be broadcast, or X is empty.
    """
    if shape.ndim != 1:
        raise ValueError(f"the shape must be a vector, found {list(shape.shape)}")
    if not X.size:
        raise ValueError(f"an empty tensor is not expanded, in Caffe2 neither; X has the shape {list(X.shape)}")
    wanted = tuple(max(d, 1) for d in shape.tolist())
    Y = out(result_shape(X.shape, wanted), X.dtype)
    Y[...] = X
    return Y


@operator("dX", types={"dY": "float32 float64 int32 int64", "X": "=dY"}, infer=like(1))
def ExpandGradient(xp, dY, X, *, out):
    """dX = dY, summed where X was repeated.

    dY [...] of the result's shape, X [...] -> dX of X's shape; float32, float64, int32 or int64, both of one type.
    ValueError where dY has not the shape that X takes by broadcasting.
    """
    if result_shape(X.shape, dY.shape) != dY.shape:
        raise ValueError(f"dY must have a shape that {list(X.shape)} expands to, found {list(dY.shape)}")
    dX = out(X.shape, X.dtype)
    sum_to(xp, dY, X.shape, dX)
    return dX


@operator("Y", types={"X": "float32", "indices": "int32"}, gradient=single("BatchPermutationGradient", "I1 GO0 -> GI0"))
def BatchPermutation(xp, X, indices, *, out):
    """Y[i] = X[indices[i]].

    X [N, ...] float32, indices [N] int32 -> Y of X's shape. ValueError where there is not one index for each row, or
    one is not in [0, N).
    """
    _check_rows(indices, X)
    Y = out(X.shape, X.dtype)
    take_rows(xp, X, indices, Y)
    return Y


@operator("dX", types={"indices": "int32", "dY": "float32"})
def BatchPermutationGradient(xp, indices, dY, *, out):
    """dX[indices[i]] = dY[i].

    indices [N] int32, dY [N, ...] float32 -> dX of its shape. ValueError where there is not one index for each row, or
    one is not in [0, N).
    """
    _check_rows(indices, dY)
    dX = out(dY.shape, dY.dtype)
    dX[...] = dY[:1]
    keep = last_of_each(xp, indices)
    dX[indices[keep]] = dY[keep]
    return dX


def _check_rows(indices: Any, X: Any) -> None:
    n = X.shape[0] if X.ndim else 0
    if not X.ndim or indices.shape != (n,):
        raise ValueError(
            f"one index for each of the {n} rows of {list(X.shape)} is needed, found {list(indices.shape)}"
        )
    check_range(indices, n, "an index")
