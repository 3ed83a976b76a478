"""Rows by index: gathered, written, added, selected by a mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays, prefetch
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT, single
from caffe2lite.ops.kit.infer import UNKNOWN, Infer, Spec, like
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import check_indices, last_of_each, put_rows, sweeps, take_rows, within
from caffe2lite.ops.kit.segments import add_by_id
from caffe2lite.ops.kit.shapes import axis_of, one

_INDICES = "int32 int64"
_ANY = "float32 float64 float16 int32 int64 int8 int16 uint8 uint16 bool"


def add_rows(xp: Any, target: Any, indices: Any, values: Any) -> None:
    """target[indices[i]] += values[i], for rows that may come several times."""
    if not indices.size:
        return
    if xp is not np:
        xp.add.at(target, indices, values)
        return
    if pays(xp, values) and values.dtype == np.float32 == target.dtype:
        add_by_id(values, None, indices, None, target, fresh=False)
        return
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) == len(ordered):
        target[indices] += values
    else:
        target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)


def _take(xp: Any, data: Any, indices: Any, axis: int, Y: Any) -> None:
    if xp is np:
        np.take(data, indices, axis=axis, out=Y, mode="clip")  # they are checked: "raise" would go through a buffer
    else:
        xp.take(data, indices, axis=axis, out=Y)


def _gather(xp: Any, X: Any, indices: Any, at: int, match_outer: bool, wrap: bool, out: Any) -> Any:
    indices = within(xp, indices, X.shape[at], wrap)
    if not match_outer:
        Y = out((*X.shape[:at], *indices.shape, *X.shape[at + 1 :]), X.dtype)
        if Y.size:
            _take(xp, X, indices, at, Y)
        return Y
    if indices.ndim < at + 1 or indices.shape[:at] != X.shape[:at]:
        raise ValueError(f"with match_outer the indices {list(indices.shape)} must begin with {list(X.shape[:at])}")
    outer = math.prod(X.shape[:at])
    Y = out((*indices.shape, *X.shape[at + 1 :]), X.dtype)
    rows = X.reshape(outer, X.shape[at], math.prod(X.shape[at + 1 :]))
    each = indices.reshape(outer, math.prod(indices.shape[at:]))
    Y.reshape(outer, each.shape[1], rows.shape[2])[...] = rows[xp.arange(outer)[:, None], each]
    return Y


def _gather_gradient(g: Any) -> Any:
    axis = g.arg("axis", 0)
    if axis > 0:
        return g.single("BatchGatherGradient", [g.I(0), g.I(1), g.GO(0)], [g.GI(0)], axis=axis)
    if g.arg("dense_gradient", 0):
        return g.single("SparseToDense", [g.I(1), g.GO(0), g.I(0)], [g.GI(0)])
    g.set_sparse(0, g.I(1), g.GO(0))
    return []


def _infer_gather(first: int | None) -> Infer:
    """The indices take the place of the axis `first`, or of the argument `axis`."""

    def infer(args: Any, inputs: Any) -> list[Spec]:
        X, indices = inputs
        at = axis_of(args.get("axis", 0), len(X.shape)) if first is None else first
        skip = at if args.get("match_outer") else 0
        return [Spec((*X.shape[:at], *indices.shape[skip:], *X.shape[at + 1 :]), X.dtype)]

    return infer


@operator("Y", types={"indices": _INDICES}, infer=_infer_gather(None), gradient=_gather_gradient)
def Gather(xp, X, indices, *, axis: int = 0, match_outer: bool = False, out):
    """Y = entries of X along the axis, by index; along the first axis negative indices count from the end.

    X [..., n, ...] of any type, indices [k, ...] int32 or int64 -> Y [..., k, ..., ...]. With `match_outer` the indices
    begin with X's dimensions before the axis, and each of these has its own. ValueError where X is a scalar, the axis
    is none of X's, or an index is outside of it.
    """
    if not X.ndim:
        raise ValueError("X must have entries, found a scalar")
    at = axis_of(axis, X.ndim)
    if match_outer and not at:
        raise ValueError("match_outer is for an axis behind the first, found axis 0")
    if not X.shape[at]:  # of no entries Caffe2 gathers none, whatever the indices are
        return out(X.shape, X.dtype)
    return _gather(xp, X, indices, at, match_outer, at == 0, out)


@operator(
    "Y",
    types={"indices": _INDICES},
    infer=_infer_gather(1),
    gradient=single("BatchGatherGradient", "I0 I1 GO0 -> GI0"),
)
def BatchGather(xp, X, indices, *, match_outer: bool = False, out):
    """Y[b] = rows of X[b] by index; with match_outer each b has its own indices.

    X [N, n, ...] of any type, indices [k, ...] int32 or int64 -> Y [N, k, ..., ...]; with match_outer indices [N, k].
    ValueError where X has fewer than two dimensions, or an index is not in [0, n).
    """
    if X.ndim < 2:
        raise ValueError(f"a batch of rows is needed, found the shape {list(X.shape)}")
    return _gather(xp, X, indices, 1, match_outer, False, out)


@operator("dX", types={"X": "float32", "indices": _INDICES, "dY": "float32"}, infer=like(0))
def BatchGatherGradient(xp, X, indices, dY, *, axis: int = 1, match_outer: bool = False, out):
    """dX = dY added to the entries that it was gathered from, 0 elsewhere.

    X [..., n, ...] float32, indices [k, ...] int32 or int64, dY of the shape gathered -> dX of X's shape.
    ValueError where dY has not that shape, or an index is not in [0, n).
    """
    at = axis_of(axis, X.ndim)
    indices = within(xp, indices, X.shape[at], False)
    outer, width = math.prod(X.shape[:at]), math.prod(X.shape[at + 1 :])
    if match_outer and (indices.ndim < at + 1 or indices.shape[:at] != X.shape[:at]):
        raise ValueError(f"with match_outer the indices {list(indices.shape)} must begin with {list(X.shape[:at])}")
    each = indices.reshape(outer if match_outer else 1, -1) if indices.size else indices.reshape(1, 0)
    inner = indices.shape[at:] if match_outer else indices.shape
    if dY.shape != (*X.shape[:at], *inner, *X.shape[at + 1 :]):
        raise ValueError(f"dY {list(dY.shape)} does not fit X {list(X.shape)} and indices {list(indices.shape)}")
    dX = out(X.shape, X.dtype)
    clear(dX)
    if dX.size and dY.size:
        rows = (xp.arange(outer)[:, None] * X.shape[at] + each).reshape(-1)
        add_rows(xp, dX.reshape(outer * X.shape[at], width), rows, dY.reshape(len(rows), width))
    return dX


# ---- writing rows ------------------------------------------------------------------------------------------------


@operator(
    "X_out",
    mutates={0: 0},
    types={"X": _ANY, "indices": _INDICES, "slices": "=X"},
    gradient=FORBID_GRADIENT,
)
def ScatterAssign(xp, X, indices, slices):
    """X[indices[i]] = slices[i]; of several writes to one row the last stays.

    X [N, ...], indices [K] int32 or int64, slices [K, ...]; any numbers or bool -> X. ValueError where X is a scalar,
    an index is not in [0, N), or slices has not a row for each index.
    """
    if not X.ndim:
        raise ValueError("X must have rows, found a scalar")
    ids = check_indices(indices, X.shape[0], "the data")
    width = math.prod(X.shape[1:])
    if slices.size != ids.size * width:
        raise ValueError(
            f"slices {list(slices.shape)} must have a row like those of X {list(X.shape)} for each of {ids.size} "
            f"indices"
        )
    rows, values = X.reshape(X.shape[0], width), slices.reshape(ids.size, width)
    if pays(xp, values) and width:
        put_rows(rows, ids, values)
        return X
    for at in sweeps(xp, ids):
        rows[ids[at]] = values[at]
    return X


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "indices": _INDICES, "updates": "=X"},
    gradient=FORBID_GRADIENT,
)
def Scatter(xp, X, indices, updates, *, axis: int = 1, out):
    """Y = X with updates written along the axis: Y[i, indices[i, j]] = updates[i, j] for axis 1.

    X [...] float32, indices of as many dimensions, int32 or int64, updates of their shape -> Y of X's shape. ValueError
    where the shapes do not fit, or an index is not within the axis.
    """
    at = axis_of(axis, X.ndim)
    if indices.shape != updates.shape or indices.ndim != X.ndim:
        raise ValueError(
            f"indices {list(indices.shape)} and updates {list(updates.shape)} must have one shape, with the dimensions "
            f"of X {list(X.shape)}"
        )
    if any(n > m for d, (n, m) in enumerate(zip(indices.shape, X.shape)) if d != at):
        raise ValueError(f"the indices {list(indices.shape)} go beyond X {list(X.shape)}")
    ids = within(xp, indices, X.shape[at], False)
    in_place = out.replaces(X)
    Y = out(X.shape, X.dtype)
    if not in_place:
        xp.copyto(Y, X)
    where = list(xp.meshgrid(*[xp.arange(d) for d in indices.shape], indexing="ij"))
    where[at] = ids
    places = sum(w.reshape(-1) * math.prod(X.shape[d + 1 :]) for d, w in enumerate(where))
    keep = last_of_each(xp, places)
    Y.reshape(-1)[places[keep]] = updates.reshape(-1)[keep]
    return Y


@operator(
    "X_out",
    mutates={0: 0},
    types={"X": "float32 float64", "weight": "float32", "indices": _INDICES},
    num_inputs=set(range(5, 256, 2)),
    gradient=FORBID_GRADIENT,
)
def ScatterWeightedSum(xp, X, weight, indices, *pairs):
    """X[i] = X[i] * w0 + X1[...] * w1 + ... for the rows i in the indices, each pair being rows and their weight.

    X [N, ...] float32 or float64, weight [1] float32, indices [K] int32 or int64, then pairs of rows [K, ...] and
    weight [1] -> X. ValueError where the shapes do not fit, or an index is not in [0, N); TypeError where the types
    differ.
    """
    if not X.ndim:
        raise ValueError("X must have rows, found a scalar")
    ids = check_indices(indices, X.shape[0], "the data")
    width = math.prod(X.shape[1:])
    sources, weights = pairs[::2], pairs[1::2]
    scale = one(weight, "the weight of X").astype(X.dtype)
    for k, (source, w) in enumerate(zip(sources, weights), 1):
        if source.size != ids.size * width:
            raise ValueError(
                f"the rows of pair {k}, {list(source.shape)}, must have a row of {width} for each of {ids.size} indices"
            )
        if w.size != 1 or w.dtype != weight.dtype or source.dtype != X.dtype:
            raise TypeError(
                f"pair {k} must be rows of {X.dtype} and one weight of {weight.dtype}, found "
                f"{source.dtype}{list(source.shape)} and {w.dtype}{list(w.shape)}"
            )
    if len(sources) == 1 and X.dtype == np.float32 and width and pays(xp, sources[0]):
        _weigh_rows(X.reshape(-1), weight.reshape(-1), ids, sources[0].reshape(-1), weights[0].reshape(-1), width)
        return X
    rows, turns = X.reshape(X.shape[0], width), list(sweeps(xp, ids))
    for at in turns:
        rows[ids[at]] *= scale
    for source, w in zip(sources, weights):
        for at in turns:
            rows[ids[at]] += (source.reshape(ids.size, width)[at] * w.reshape(())).astype(X.dtype)
    return X


@loop
def _weigh_rows(X, w0, ids, source, w1, width):  # type: ignore[no-untyped-def]
    a, b = w0[0], w1[0]
    for i in range(ids.size if a != 1 else 0):
        row = ids[i] * width
        for j in range(width):
            X[row + j] *= a
    for i in range(ids.size):
        soon = ids[min(i + 16, ids.size - 1)] * width
        for j in range(soon, soon + width, 16):
            prefetch(X, j)
        row, at = np.uint64(ids[i] * width), np.uint64(i * width)
        for j in range(np.uint64(width)):
            X[row + j] += source[at + j] * b


def _to_dense_gradient(g: Any) -> Any:
    return g.single("Gather", [g.GO(0), g.I(0)], [g.GI(1)])


@operator(
    "Y",
    types={"indices": _INDICES, "values": "float32 int32 int64"},
    anywhere="rows_of",
    infer=lambda args, inputs: [
        Spec((inputs[2].shape[0], *inputs[1].shape[1:]), inputs[1].dtype) if len(inputs) > 2 else UNKNOWN
    ],
    gradient=_to_dense_gradient,
)
def SparseToDense(xp, indices, values, rows_of=None, *, out):
    """Y[indices[i]] += values[i], 0 elsewhere; as many rows as the third input has, or as the largest index needs.

    indices [K] int32 or int64, values [K, ...] float32, int32 or int64, rows_of [N, ...] whose values are not read -> Y
    [N, ...]. ValueError where there is not a row of values for each index, or an index is not in [0, N).
    """
    if indices.ndim != 1 or values.ndim < 1 or values.shape[0] != indices.size:
        raise ValueError(
            f"one row of values for each index is needed: indices {list(indices.shape)}, values {list(values.shape)}"
        )
    if rows_of is not None and not rows_of.ndim:
        raise ValueError("the third input must have rows, found a scalar")
    needed = int(indices.max()) + 1 if indices.size else 0
    rows = needed if rows_of is None else rows_of.shape[0]
    check_indices(indices, rows, "the dense tensor")
    Y = out((rows, *values.shape[1:]), values.dtype)
    clear(Y)
    add_rows(xp, Y, indices, values)
    return Y


def _copy_rows_gradient(g: Any) -> Any:
    if g.is_dense_GO(0):
        return g.single("CopyRowsToTensorGradient", [g.GO(0)], [g.GI(0)])
    return [
        g.new("CopyRowsToTensorGradient", [g.GO_I(0)], [g.GI_I(0)]),
        g.new("CopyRowsToTensorGradient", [g.GO_V(0)], [g.GI_V(0)]),
    ]


@operator("X_out", mutates={0: 0}, types={"indices": _INDICES}, gradient=_copy_rows_gradient)
def CopyRowsToTensor(xp, X, indices, row):
    """X[i] = row for each of the indices.

    X [N, D] of any type, indices [K] int32 or int64, row [D] of X's type -> X. ValueError where X is no matrix, the row
    does not fit, or an index is not in [0, N).
    """
    if X.ndim != 2 or row.shape != X.shape[1:]:
        raise ValueError(
            f"width of input tensor should match lengths of row: the matrix is {list(X.shape)}, the row "
            f"{list(row.shape)}"
        )
    if row.dtype != X.dtype:
        raise ValueError(f"the row must be {X.dtype}, found {row.dtype}")
    if indices.ndim != 1:
        raise ValueError(f"the indices must be a vector, found {list(indices.shape)}")
    X[check_indices(indices, X.shape[0], "the matrix")] = row
    return X


@operator("dX", inplace={0: 0}, types="float32 float64 float16 int32 int64")
def CopyRowsToTensorGradient(xp, dY, *, out):
    """dX = dY.

    dY [...] float32, float64, float16, int32 or int64 -> dX of its shape. TypeError for other types.
    """
    if not dY.ndim:
        raise ValueError("dY must have rows, found a scalar")
    in_place = out.replaces(dY)
    dX = out(dY.shape, dY.dtype)
    if not in_place:
        xp.copyto(dX, dY)
    return dX


# ---- masks -------------------------------------------------------------------------------------------------------


def _check_mask(rows: int, mask: Any) -> None:
    if mask.shape != (rows,):
        raise ValueError(f"the mask must have one value for each of {rows} rows, found {list(mask.shape)}")


@operator("Y indices?", types={"mask": "bool"}, gradient=single("BooleanMaskGradient", "I1 GO0 -> GI0"))
def BooleanMask(xp, X, mask, *, out):
    """Y = the rows of X where the mask is true, and which these are, int64.

    X [N, ...] of any type, mask [N] bool -> Y [true values, ...], indices [true values]. ValueError where the mask has
    not one value for each row.
    """
    if not X.ndim:
        raise ValueError("X must have rows, found a scalar")
    _check_mask(X.shape[0], mask)
    places = xp.nonzero(mask)[0]
    Y = out[0]((places.size, *X.shape[1:]), X.dtype)
    take_rows(xp, X, places, Y)
    if len(out) < 2:
        return Y
    which = out[1]((places.size,), "int64")
    which[...] = places
    return Y, which


@operator("dX", types={"mask": "bool", "dY": "float32 float64 int32 int64 bool"})
def BooleanMaskGradient(xp, mask, dY, *, out):
    """dX = dY, of a vector, in the places where the mask is true, 0 elsewhere.

    mask [N] bool, dY [true values] float32, float64, int32, int64 or bool -> dX [N]. ValueError where the mask is no
    vector, or has more true values than dY elements.
    """
    if mask.ndim != 1:
        raise ValueError(f"the mask must be a vector, found {list(mask.shape)}")
    places = xp.nonzero(mask)[0]
    if places.size > dY.size:
        raise ValueError(f"the mask has {places.size} true values, dY only {dY.size}")
    dX = out((mask.size,), dY.dtype)
    clear(dX)
    dX[places] = dY.reshape(-1)[: places.size]
    return dX


@operator("Y", num_inputs=set(range(2, 256, 2)), gradient=NO_GRADIENT)
def BooleanUnmask(xp, *pairs, out):
    """Y from pairs of mask and values: each place takes the next value of the first mask that is true there.

    Pairs of mask [N] bool and values [true values] of any type, all of one -> Y [N]. ValueError where masks or values
    differ in shape or type, there are too few values, or a place is in no mask.
    """
    masks, values = pairs[::2], pairs[1::2]
    n = masks[0].size
    for k, (mask, value) in enumerate(zip(masks, values)):
        if mask.shape != (n,) or mask.dtype.name != "bool":
            raise ValueError(f"mask {k} must be bool[{n}], found {mask.dtype}{list(mask.shape)}")
        if value.ndim != 1 or value.dtype != values[0].dtype:
            raise ValueError(
                f"values {k} must be a vector of {values[0].dtype}, found {value.dtype}{list(value.shape)}"
            )
    Y = out((n,), values[0].dtype)
    filled = xp.zeros(n, bool)
    for k, (mask, value) in enumerate(zip(masks, values)):
        turn = mask & ~filled
        place = xp.cumsum(mask) - 1
        count = int(mask.sum())
        if count != value.size:
            raise ValueError(f"mask {k} is true {count} times, and there are {value.size} values")
        Y[turn] = value[place[turn]]
        filled |= mask
    if not filled.all():
        raise ValueError(f"each place needs a value: no mask is true at {int((~filled).argmax())}")
    return Y


@operator("Y", types={"condition": "bool", "on": _ANY, "off": "=on"}, gradient=NO_GRADIENT, infer=like(1))
def Conditional(xp, condition, on, off, *, out):
    """Y[i] = on[i] where the condition is true, else off[i], row by row.

    condition [N] bool, on [N, ...], off alike; any numbers or bool -> Y of their shape. ValueError where the shapes do
    not fit.
    """
    if on.shape != off.shape or condition.ndim != 1 or on.shape[:1] != condition.shape:
        raise ValueError(
            f"two choices of one shape and a condition for each row are needed: {list(on.shape)}, {list(off.shape)}, "
            f"condition {list(condition.shape)}"
        )
    Y = out(on.shape, on.dtype)
    if on.size and pays(xp, on):
        _choose_rows(condition, *(a.reshape(condition.size, -1) for a in (on, off, Y)))
    else:
        Y[...] = xp.where(condition.reshape((-1,) + (1,) * (on.ndim - 1)), on, off)
    return Y


@loop
def _choose_rows(condition, on, off, Y):  # type: ignore[no-untyped-def]
    for i in range(condition.size):
        row, source = Y[i], on[i] if condition[i] else off[i]
        for j in range(row.size):
            row[j] = source[j]


# ---- rows of several lengths ------------------------------------------------------------------------------------


def _check_rows(lengths: Any, indices: Any) -> None:
    """ValueError where the numbers of indices of the rows do not add up."""
    if lengths.ndim != 1 or indices.ndim != 1:
        raise ValueError(f"lengths and indices must be vectors, found {list(lengths.shape)} and {list(indices.shape)}")
    total = int(lengths.sum())
    if total != indices.size or (lengths < 0).any():
        raise ValueError(f"the lengths add up to {total}, and there are {indices.size} indices")


def _places(xp: Any, lengths: Any, indices: Any, width: int) -> Any:
    """The place of each index in a matrix, from the number of indices a row."""
    return xp.repeat(xp.arange(lengths.size) * width, lengths.tolist()) + indices


_BATCH = {"lengths": _INDICES, "indices": _INDICES}


def _dense_gradient(g: Any) -> Any:
    return g.single("BatchDenseToSparse", [g.I(0), g.I(1), g.GO(0)], [g.GI(2)])


def _infer_dense(args: Any, inputs: Any) -> list[Spec]:
    width = inputs[3].shape[1] if len(inputs) > 3 else args["dense_last_dim"]
    return [Spec((inputs[0].shape[0], width), inputs[2].dtype)]


@operator("Y", types={**_BATCH, "values": "float32"}, anywhere="like", infer=_infer_dense, gradient=_dense_gradient)
def BatchSparseToDense(
    xp, lengths, indices, values, like=None, *, dense_last_dim: int = -1, default_value: float = 0.0, out
):
    """Y[i] = row i of a sparse batch, the default where it has no value.

    lengths [N] int32 or int64, indices [K] int32 or int64, values [K] float32, like [N, D], whose values are not read,
    in place of `dense_last_dim` -> Y [N, D]. ValueError where the lengths do not sum to K, an index is not in [0, D),
    or D is not known.
    """
    _check_rows(lengths, indices)
    if values.shape != indices.shape:
        raise ValueError(f"one value for each of {indices.size} indices is needed, found {list(values.shape)}")
    width = dense_last_dim
    if like is not None:
        if like.ndim != 2 or like.shape[0] != lengths.size:
            raise ValueError(f"the fourth input must be a matrix of {lengths.size} rows, found {list(like.shape)}")
        if width not in (-1, like.shape[1]):
            raise ValueError(f"dense_last_dim is {width}, and the fourth input {list(like.shape)}: they must agree")
        width = like.shape[1]
    if width <= 0:
        raise ValueError(
            f"the width is missing: give dense_last_dim > 0 (found {dense_last_dim}), or a fourth input of the result's shape"
        )
    check_indices(indices, width, "a row")
    Y = out((lengths.size, width), values.dtype)
    Y[...] = default_value
    if pays(xp, indices):
        _put_in_rows(lengths, indices, values, Y)
        return Y
    places = _places(xp, lengths, indices, width)
    keep = last_of_each(xp, places)
    Y.reshape(-1)[places[keep]] = values[keep]
    return Y


@loop
def _put_in_rows(lengths, indices, values, Y):  # type: ignore[no-untyped-def]
    k, width, flat = 0, Y.shape[1], Y.reshape(-1)
    for i in range(lengths.size):
        for _ in range(lengths[i]):
            flat[np.uint64(i * width + indices[k])] = values[k]
            k += 1


def _sparse_gradient(g: Any) -> Any:
    return g.single("BatchSparseToDense", [g.I(0), g.I(1), g.GO(0), g.I(2)], [g.GI(2)])


@operator("values", types={**_BATCH, "dense": "float32"}, gradient=_sparse_gradient)
def BatchDenseToSparse(xp, lengths, indices, dense, *, out):
    """The values of the dense rows at the indices of each row.

    lengths [N] int32 or int64, indices [K] int32 or int64, dense [N, D] float32 -> values [K]. ValueError where the
    lengths do not sum to K, dense has not N rows, or an index is not in [0, D).
    """
    _check_rows(lengths, indices)
    if dense.ndim != 2 or dense.shape[0] != lengths.size:
        raise ValueError(f"a matrix of {lengths.size} rows is needed, found {list(dense.shape)}")
    check_indices(indices, dense.shape[1], "a row")
    Y = out(indices.shape, dense.dtype)
    if pays(xp, indices):
        _take_from_rows(lengths, indices, dense, Y)
    else:
        Y[...] = dense.reshape(-1)[_places(xp, lengths, indices, dense.shape[1])]
    return Y


@loop
def _take_from_rows(lengths, indices, dense, Y):  # type: ignore[no-untyped-def]
    k, width, flat = 0, dense.shape[1], dense.reshape(-1)
    for i in range(lengths.size):
        for _ in range(lengths[i]):
            Y[k] = flat[np.uint64(i * width + indices[k])]
            k += 1


@operator("shared*", stateful=True, num_inputs=(0, MANY), num_outputs=(0, MANY),
          counts=lambda n, m: m == n + 1, inplace=[(i, i) for i in range(1000)])  # fmt: skip
def UnsafeCoalesce(ctx, *Xs):
    """Move the inputs into one piece of memory: outputs are the inputs again, and at last the whole as bytes.

    Inputs [...] of any type, all of one -> the same blobs, and shared [number of all elements] of that type. ValueError
    where the outputs are not the inputs and one more, or the types differ.
    """
    if len(ctx.outputs) != len(Xs) + 1 or ctx.outputs[:-1] != ctx.inputs:
        names = [[b.name for b in blobs] for blobs in (ctx.inputs, ctx.outputs)]
        raise ValueError(
            f"the outputs must be the inputs again, and one more for the shared memory; found {names[0]} -> {names[1]}"
        )
    if not Xs:
        raise ValueError("there are no inputs to be moved")
    first = Xs[0]
    if any(X.dtype != first.dtype for X in Xs):
        raise ValueError(f"all inputs must have one type, found {', '.join(str(X.dtype) for X in Xs)}")
    whole = ctx.outputs[-1]
    memory = whole.resize((sum(X.size for X in Xs),), first.dtype, ctx.device)
    start = 0
    for blob, X in zip(ctx.inputs, Xs):
        memory[start : start + X.size] = X.reshape(-1)
        blob.view(whole, start, X.shape)
        start += X.size
