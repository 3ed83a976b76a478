"""Sorting, searching, counting distinct values, buckets, one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.extremes import in_order
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT, single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, like
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.rows import check_range, last_of_each
from caffe2lite.ops.kit.shapes import end_axis, one

_INDICES = "int32 int64"


# ---- the best ----------------------------------------------------------------------------------------------------


def _best(xp: Any, rows: Any, k: int) -> Any:
    """Indices of the k largest of each row, the best first, of equal ones the earlier first, and NaN last."""
    n = rows.shape[1]
    k = min(k, n)
    if 8 * k > n or xp is not np:
        return xp.argsort(-rows, axis=1, kind="stable")[:, :k]
    if k <= 64 and rows.flags.c_contiguous and rows.dtype == np.float32 and pays(xp, rows):
        found = np.empty((rows.shape[0], k), np.int64)
        _best_of_rows(rows.reshape(-1), rows.reshape(-1).view(np.int32), np.empty(k, rows.dtype), found)
        return found
    least = np.partition(rows, n - k, axis=1)[:, n - k :].min(axis=1, keepdims=True)
    able = rows >= least  # all that may be among them: k, and more where several are as large as the last
    row, column = np.nonzero(able)
    counts = np.bincount(row, minlength=rows.shape[0])
    if (counts != k).any():  # or none, for NaN
        return np.argsort(-rows, axis=1, kind="stable")[:, :k]
    column = column.reshape(-1, k)
    order = np.argsort(-np.take_along_axis(rows, column, axis=1), axis=1, kind="stable")
    return np.take_along_axis(column, order, axis=1)


@loop
def _best_of_rows(rows, bits, best, found):  # type: ignore[no-untyped-def]
    """The best so far stand in order.  Thirty-two elements at a time are passed over that are no better than the last."""
    k = found.shape[1]
    width = rows.size // found.shape[0]
    for n in range(found.shape[0]):
        begin, where, have = n * width, found[n], 0
        for part in range(0, width, 32):
            stop = min(part + 32, width)
            if have == k and best[k - 1] == best[k - 1]:
                largest = np.int32(-0x80000000)
                for i in range(np.uint64(begin + part), np.uint64(begin + stop)):
                    largest = max(largest, in_order(bits[i]))
                if largest <= in_order(np.float32(best[k - 1]).view(np.int32)):
                    continue
            for i in range(part, stop):
                x = rows[begin + i]
                if have == k and not (x > best[k - 1] or (x == x and best[k - 1] != best[k - 1])):
                    continue
                at = have if have < k else k - 1
                while at > 0 and (x > best[at - 1] or (x == x and best[at - 1] != best[at - 1])):
                    best[at], where[at] = best[at - 1], where[at - 1]
                    at -= 1
                best[at], where[at] = x, i
                have = min(have + 1, k)


def _infer_top_k(args: Any, inputs: Any) -> list[Spec]:
    X = inputs[0]
    if len(inputs) > 1 or args["k"] < 1:
        return [UNKNOWN, UNKNOWN, UNKNOWN]
    at = end_axis(args["axis"], len(X.shape))
    shape = (*X.shape[:at], args["k"], *X.shape[at + 1 :])
    # Caffe2 says int32, though the indices are int64.
    return [Spec(shape, X.dtype), Spec(shape, "int32"), Spec((math.prod(shape),), "int32")]


@operator(
    "values indices flat?",
    types={"X": "float32", "k_in": _INDICES},
    host="k_in",
    infer=_infer_top_k,
    gradient=single("TopKGradient", "GO0 O1 I0 -> GI0"),
)
def TopK(xp, X, k_in=None, *, k: int = -1, axis: int = -1, out):
    """The k largest along the axis, where they are, and where they are in all of X; beyond the end 0 and -1.

    X [..., n, ...] float32, k_in [1] int32 or int64 in place of the argument `k` -> values and indices, int64, of X's
    shape with k for n along `axis`; flat, int64, has an element for each. Of equal values the earlier one comes first.
    ValueError where k is below 1, or the axis is none of X's.
    """
    at = end_axis(axis, X.ndim)
    if k_in is not None:
        k = int(one(k_in, "k"))
    if k < 1:
        raise ValueError(f"k must be 1 or more, found {k}")
    outer, n, inner = math.prod(X.shape[:at]), X.shape[at], math.prod(X.shape[at + 1 :])
    shape = (*X.shape[:at], k, *X.shape[at + 1 :])
    values, indices = out[0](shape, X.dtype), out[1](shape, "int64")
    values[...] = 0
    indices[...] = -1
    flat = out[2]((math.prod(shape),), "int64") if len(out) > 2 else None
    if flat is not None:
        flat[...] = -1
    if X.size:
        rows = xp.moveaxis(X.reshape(outer, n, inner), 1, 2).reshape(outer * inner, n)
        found = _best(xp, rows, k)
        count = found.shape[1]
        target = lambda T: T.reshape(outer, k, inner)[:, :count]
        arranged = lambda T: xp.moveaxis(T.reshape(outer, inner, count), 2, 1)
        target(values)[...] = arranged(xp.take_along_axis(rows, found, axis=1))
        target(indices)[...] = arranged(found)
        if flat is not None:
            place = target(indices) * inner + xp.arange(inner)
            target(flat)[...] = place + (xp.arange(outer) * (n * inner))[:, None, None]
    return (values, indices) if flat is None else (values, indices, flat)


@operator("dX", types={"dvalues": "float32", "indices": "int64", "X": "float32"}, infer=like(2))
def TopKGradient(xp, dvalues, indices, X, *, axis: int = -1, out):
    """dX = dvalues in the places of the best, 0 elsewhere.

    dvalues [..., k, ...] float32, indices like it, int64, X [..., n, ...] -> dX of X's shape.
    ValueError where the shapes do not fit; an index below 0 is passed over.
    """
    at = end_axis(axis, X.ndim)
    others = [a.shape[:at] + a.shape[at + 1 :] for a in (X, dvalues, indices) if a.ndim == X.ndim]
    if len(others) != 3 or len(set(others)) > 1 or dvalues.shape != indices.shape:
        raise ValueError(
            f"dvalues and indices must have X's shape {list(X.shape)} but for axis {at}, found {list(dvalues.shape)} and "
            f"{list(indices.shape)}"
        )
    outer, n, inner = math.prod(X.shape[:at]), X.shape[at], math.prod(X.shape[at + 1 :])
    dX = out(X.shape, X.dtype)
    clear(dX)
    if X.size and dvalues.size:
        k = dvalues.shape[at]
        rows, columns = xp.arange(outer)[:, None, None], xp.arange(inner)
        ids = indices.reshape(outer, k, inner)
        inside = ids >= 0
        check_range(ids[inside], n, "an index")
        places = ((rows * n + ids) * inner + columns)[inside]
        keep = last_of_each(xp, places)
        dX.reshape(-1)[places[keep]] = dvalues.reshape(ids.shape)[inside][keep]
    return dX


def _ks(X: Any, K: Any) -> tuple[Any, list[int]]:
    if X.ndim < 1:
        raise ValueError("rows are needed, found a scalar")
    rows = X.reshape(-1, X.shape[-1]) if X.size else X.reshape(math.prod(X.shape[:-1]), X.shape[-1])
    ks = K.reshape(-1).tolist()
    if len(ks) != len(rows):
        raise ValueError(f"one k for each of {len(rows)} rows is needed, found {list(K.shape)}")
    for i, k in enumerate(ks):
        if not 0 < k <= rows.shape[1]:
            raise ValueError(f"k[{i}]={k} must be from 1 to {rows.shape[1]}, the size of a row")
    return rows, ks


@operator(
    "values indices",
    types={"X": "float32", "K": "int64"},
    host="K",
    gradient=single("FlexibleTopKGradient", "I0 I1 GO0 O1 -> GI0"),
)
def FlexibleTopK(xp, X, K, *, out):
    """The K[i] largest of each row i, one row behind the other, and where they are in their row.

    X [..., n] float32, whose rows are its last dimension, K [rows] int64 -> values [sum of K] float32, indices alike,
    int64. ValueError where K has not one value for each row, or one that is not in 1 to n.
    """
    rows, ks = _ks(X, K)
    values, indices = out[0]((sum(ks),), X.dtype), out[1]((sum(ks),), "int64")
    if ks:
        found = _best(xp, rows, max(ks))
        wanted = xp.arange(found.shape[1]) < xp.asarray(ks)[:, None]
        values[...] = xp.take_along_axis(rows, found, axis=1)[wanted]
        indices[...] = found[wanted]
    return values, indices


@operator("dX", types={"X": "float32", "K": "int64", "dvalues": "float32", "indices": "int64"}, host="K", infer=like(0))
def FlexibleTopKGradient(xp, X, K, dvalues, indices, *, out):
    """dX = dvalues in the places of the best, 0 elsewhere.

    X [..., n], K [rows] int64, dvalues [sum of K] float32, indices alike, int64 -> dX of X's shape.
    ValueError where K does not fit the rows, or has a value that is not in 1 to n.
    """
    rows, ks = _ks(X, K)
    if indices.shape != (sum(ks),) or dvalues.shape != indices.shape:
        raise ValueError(
            f"dvalues and indices must have {sum(ks)} values, found {list(dvalues.shape)} and {list(indices.shape)}"
        )
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < rows.shape[1]:
        raise ValueError(
            f"indices must be from 0 to {rows.shape[1] - 1}, found {int(indices.min())} to {int(indices.max())}"
        )
    dX = out(X.shape, X.dtype)
    clear(dX)
    if ks:
        places = xp.repeat(xp.arange(len(ks)), ks) * rows.shape[1] + indices
        keep = last_of_each(xp, places)
        dX.reshape(-1)[places[keep]] = dvalues[keep]
    return dX


# ---- distinct values, search -------------------------------------------------------------------------------------


@operator(
    "unique remapping?",
    types=_INDICES,
    gradient=FORBID_GRADIENT,
    infer=lambda args, inputs: [inputs[0] if inputs[0].shape[0] < 2 else UNKNOWN, Spec(inputs[0].shape, "int32")],
)
def Unique(xp, X, *, out):
    """The distinct values of X, sorted, and for each element of X which of them it is, int32.

    X [N] int32 or int64 -> unique [U], remapping [N] with unique[remapping] = X. ValueError where X is no vector.
    """
    if X.ndim != 1:
        raise ValueError(f"a vector is needed, found the shape {list(X.shape)}")
    values, inverse = xp.unique(X, return_inverse=True)
    U = out[0](values.shape, X.dtype)
    U[...] = values
    if len(out) < 2:
        return U
    R = out[1](X.shape, "int32")
    R[...] = inverse.reshape(-1)
    return U, R


@operator("indices", types="int32 int64 float32 float64 string", gradient=FORBID_GRADIENT)
def FindDuplicateElements(xp, X, *, out):
    """Where an element comes that has come before, int64.

    X [N] int32, int64, float32, float64 or string -> indices [D], ascending. ValueError where X is no vector.
    """
    if X.ndim != 1:
        raise ValueError(f"a vector is needed, found the shape {list(X.shape)}")
    if X.dtype == object:
        seen: set[bytes] = set()
        places = [i for i, v in enumerate(X.tolist()) if v in seen or seen.add(v)]
    else:
        _, first = xp.unique(X, return_index=True)
        again = xp.ones(X.size, bool)
        again[first] = False
        places = xp.nonzero(again)[0]
    Y = out((len(places),), "int64")
    Y[...] = xp.asarray(places, dtype="int64")
    return Y


@operator("Y", types={"index": _INDICES, "query": "=index"}, infer=like(1))
def Find(xp, index, query, *, missing_value: int = -1, out):
    """Y = where each queried value is in `index` (the last place of several), or missing_value.

    index [...], query [...] of its type -> Y of the query's shape and type; int32 or int64. TypeError for other types.
    """
    bounds = np.iinfo(query.dtype)
    if not bounds.min <= missing_value <= bounds.max:
        raise ValueError(f"missing_value={missing_value} is no {query.dtype}")
    Y = out(query.shape, query.dtype)
    Y[...] = missing_value
    if index.size:
        flat = index.reshape(-1)
        low, high = int(flat.min()), int(flat.max())
        if high - low <= 8 * (flat.size + query.size):  # dense enough for a table of all values between
            table = xp.full(high - low + 2, missing_value, query.dtype)
            keep = last_of_each(xp, flat)
            table[flat[keep] - low] = xp.arange(flat.size, dtype=query.dtype)[keep]
            inside = (query >= low) & (query <= high)
            xp.take(table, xp.where(inside, query - low, high - low + 1), out=Y)
            return Y
        order = xp.argsort(flat, kind="stable")
        place = xp.searchsorted(flat[order], query.reshape(-1), side="right") - 1
        found = order[xp.maximum(place, 0)]
        hit = (place >= 0) & (flat[found] == query.reshape(-1))
        Y.reshape(-1)[hit] = found[hit]
    return Y


# ---- buckets and one-hot vectors ---------------------------------------------------------------------------------


@operator("Y", types="float32", infer=like(0, dtype="int32"))
def Bucketize(xp, X, *, boundaries: list[float] = (), out):
    """Y = how many boundaries are below each element, int32.

    X [N, ...] float32 -> Y of its shape; NaN goes to bucket 0. ValueError where X is a scalar, or where the boundaries
    are not ascending or there are none.
    """
    if not X.ndim:
        raise ValueError("the input must have a dimension at least, found a scalar")
    _ascending(xp.asarray(boundaries, dtype="float32"))
    Y = out(X.shape, "int32")
    counts = xp.searchsorted(xp.asarray(boundaries, dtype=X.dtype), X.reshape(-1), side="left").reshape(X.shape)
    Y[...] = xp.where(xp.isnan(X), 0, counts)
    return Y


def _ascending(boundaries: Any) -> None:
    """Raise a ValueError where a boundary is below the one before it."""
    falls = boundaries[1:] < boundaries[:-1]
    if falls.any():
        i = int(falls.argmax())
        raise ValueError(f"boundaries must be ascending, found {boundaries[i]} before {boundaries[i + 1]}")


@operator("Y", types={"indices": "int64", "size": "int64"}, host="size", gradient=NO_GRADIENT)
def OneHot(xp, indices, size, *, out):
    """Y[i, indices[i]] = 1, 0 elsewhere, float32, with as many columns as the second input says.

    indices [N] int64, size [1] int64 -> Y [N, size]. ValueError where indices is no vector, or has a value that is not
    in [0, size).
    """
    if indices.ndim != 1:
        raise ValueError(f"the indices must be a vector, found the shape {list(indices.shape)}")
    width = int(one(size, "the size"))
    check_range(indices, width, "an index")
    Y = out((indices.size, width), "float32")
    clear(Y)
    Y.reshape(-1)[xp.arange(indices.size) * width + indices] = 1
    return Y


def _sections(lengths: Any, columns: int, values: Any) -> list[int]:
    """The lengths as a list, one a column, that cover the values."""
    counts = lengths.tolist()
    if lengths.ndim != 1 or len(counts) != columns:
        raise ValueError(f"one length for each of {columns} columns is needed, found {list(lengths.shape)}")
    if sum(counts) != values.size or min(counts, default=0) < 0:
        raise ValueError(f"the lengths add up to {sum(counts)}, and there are {values.size} values")
    return counts


@operator(
    "Y",
    types={"X": "int32 int64 bool", "lengths": "int32", "values": "=X"},
    host="lengths",
    gradient=NO_GRADIENT,
    infer=lambda args, inputs: [Spec((inputs[0].shape[0], inputs[2].shape[0]), inputs[0].dtype)],
)
def BatchOneHot(xp, X, lengths, values, *, out):
    """Each column j of X becomes lengths[j] columns that tell which of its values it has.

    X [N, D], lengths [D] int32, values [sum of lengths] -> Y [N, sum of lengths] of X's type; int32, int64 or bool.
    ValueError where X is no matrix, or the lengths do not cover D columns and all values.
    """
    if X.ndim != 2:
        raise ValueError(f"a matrix is needed, found the shape {list(X.shape)}")
    counts = _sections(lengths, X.shape[1], values)
    Y = out((X.shape[0], values.size), X.dtype)
    Y[...] = xp.repeat(X, counts, axis=1) == values.reshape(-1)
    return Y


def _infer_buckets(args: Any, inputs: Any) -> list[Spec]:
    X, lengths, boundaries = inputs
    return [Spec((X.shape[0], math.prod(lengths.shape) + math.prod(boundaries.shape)), "float32")]


@operator(
    "Y",
    types={"X": "float32", "lengths": "int32", "boundaries": "float32"},
    host="lengths",
    infer=_infer_buckets,
    shapes="X [N, D], lengths [D], boundaries [n]",
)
def BatchBucketOneHot(xp, X, lengths, boundaries, *, out):
    """Each column j of X becomes lengths[j] + 1 columns that tell which bucket it is in.

    X [N, D] float32, lengths [D] int32, boundaries [sum of lengths] float32, ascending in each column -> Y [N, sum of
    lengths + D] float32. ValueError where X is no matrix, or the lengths do not cover columns and boundaries.
    """
    if X.ndim != 2:
        raise ValueError(f"a matrix is needed, found the shape {list(X.shape)}")
    counts = _sections(lengths, X.shape[1], boundaries)
    Y = out((X.shape[0], sum(counts) + len(counts)), "float32")
    if pays(xp, X):
        clear(Y)
        _mark_buckets(X, lengths, boundaries, Y)
        return Y
    start = column = 0
    for j, n in enumerate(counts):
        edges = boundaries[start : start + n]
        low, high = (xp.searchsorted(edges, X[:, j], side=side) for side in ("left", "right"))
        bucket = (low + high) // 2  # in the middle of equal boundaries
        Y[:, column : column + n + 1] = xp.arange(n + 1) == bucket[:, None]
        start, column = start + n, column + n + 1
    return Y


@loop
def _mark_buckets(X, lengths, boundaries, Y):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        start = column = 0
        for j in range(X.shape[1]):
            x, low, high = X[i, j], 0, 0
            for k in range(start, start + lengths[j]):
                low += boundaries[k] < x
                high += not boundaries[k] > x
            Y[i, column + (low + high) // 2] = 1
            start, column = start + lengths[j], column + lengths[j] + 1


@operator(
    "Y",
    types={"X": "float32", "indices": "int32", "boundaries": "float32", "lengths": "int32"},
    host="indices lengths",
    gradient=NO_GRADIENT,
)
def BatchBucketize(xp, X, indices, boundaries, lengths, *, out):
    """Y[:, j] = how many of the j-th boundaries are below column indices[j] of X, int32.

    X [N, D] float32, indices [M] int32, boundaries [sum of lengths] float32, lengths [M] int32 -> Y [N, M] int32.
    ValueError where X is no matrix, a column is not in [0, D), boundaries are not ascending or do not fit the lengths.
    """
    if X.ndim != 2 or indices.ndim != 1:
        raise ValueError(f"a matrix and a vector of columns are needed, found {list(X.shape)}, {list(indices.shape)}")
    if boundaries.ndim != 1:
        raise ValueError(f"boundaries must be a vector, found the shape {list(boundaries.shape)}")
    counts = _sections(lengths, indices.size, boundaries)
    check_range(indices, X.shape[1], "a column")
    columns = indices.tolist()
    Y = out((X.shape[0], len(columns)), "int32")
    start = 0
    for j, (column, n) in enumerate(zip(columns, counts)):
        edges = boundaries[start : start + n]
        _ascending(edges)
        Y[:, j] = xp.searchsorted(edges, X[:, column], side="left")
        start += n
    return Y
