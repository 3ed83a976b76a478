"""Runs of rows that are reduced together: how they are told apart, and the reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from caffe2lite.devices.base import Array
from caffe2lite.ops.kit import findings
from caffe2lite.ops.kit.compiled import loop, prefetch
from caffe2lite.ops.kit.cuda_kernels import Kernel, usable
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.rows import check_indices as check_rows
from caffe2lite.ops.kit.rows import outside

_U = np.uint64  # of places in arrays: signed ones might count from the end
_AHEAD, _LINE = _U(16), _U(16)  # rows to fetch ahead; floats in a line of the cache
_BLOCK = 1 << 17  # elements of gathered rows at a time: they stay in the cache until they are summed


def lengths_to_starts(
    xp: ModuleType, lengths: np.ndarray, size: int, exact: bool, late: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(first row, number of rows) of each segment; ValueError unless they lie within `size` rows (or cover them).

    `late`: a GPU's kernels reduce them, and keep to the rows whatever the lengths are, so that the run's end may tell.
    """
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have one dimension, got shape {list(lengths.shape)}")
    counts = lengths.astype("int64")
    wrong = functools.partial(_wrong_lengths, size=size)
    if late and counts.size:
        ends = xp.cumsum(counts)
        findings.find_wrong_lengths(xp, counts, ends, size, exact, wrong)
        return ends - counts, counts
    if counts.size and int(counts.min()) < 0:
        raise ValueError(wrong(int(counts.min())))
    ends = xp.cumsum(counts)
    total = int(ends[-1]) if counts.size else 0
    if total > size or (exact and total != size):
        raise ValueError(wrong(total))
    return ends - counts, counts


def _wrong_lengths(value: int, size: int) -> str:
    """What is said of a negative length, or of a wrong sum."""
    return f"a length is negative: {value}" if value < 0 else f"the lengths sum to {value}, and there are {size} rows"


def sorted_ids_to_starts(xp: ModuleType, ids: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(first row, number of rows) of each segment, for ids 0, 0, 1, 2, 2, …; ValueError where they have gaps."""
    check_ids(ids, size)
    if not size:
        return xp.zeros(0, "int64"), xp.zeros(0, "int64")
    steps = xp.diff(ids)
    if int(ids[0]) != 0:
        raise ValueError(f"segment ids must begin with 0, found {int(ids[0])}")
    wrong = xp.nonzero((steps != 0) & (steps != 1))[0]
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"segment ids must rise by 0 or 1, found {int(ids[at])} before {int(ids[at + 1])}, at {at}")
    starts = xp.concatenate([xp.zeros(1, "int64"), xp.nonzero(steps)[0].astype("int64") + 1])
    return starts, xp.diff(xp.concatenate([starts, xp.asarray([size], "int64")]))


def check_ids(ids: np.ndarray, size: int) -> None:
    """ValueError unless there is one segment id for each row."""
    if ids.ndim != 1 or ids.shape[0] != size:
        raise ValueError(f"there must be one segment id for each of {size} rows, got shape {list(ids.shape)}")


def check_indices(indices: np.ndarray, size: int, xp: ModuleType = np, late: bool = False) -> None:
    """ValueError where an index does not point at one of `size` rows; `late` as in `lengths_to_starts`."""
    if indices.ndim != 1:
        raise ValueError(f"indices must have one dimension, got shape {list(indices.shape)}")
    if late and indices.size:
        findings.find_outside(xp, indices, size, functools.partial(outside, rows=size, what="the data"))
        return
    check_rows(indices, size, "the data")


def check_weights(weights: np.ndarray, size: int) -> None:
    """ValueError unless there is one weight for each of `size` rows."""
    if weights.ndim != 1 or weights.shape[0] != size:
        raise ValueError(f"there must be one weight for each of {size} rows, got shape {list(weights.shape)}")


def take_rows(xp: ModuleType, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The rows of (checked) indices."""
    return xp.take(data, indices, axis=0)


def _blocks(starts: np.ndarray, counts: np.ndarray, width: int) -> Iterator[tuple[int, int, int, int]]:
    """(first segment, last, first row, last): blocks of whole segments that begin where the one before ends."""
    n = counts.shape[0]
    rows = max(1, _BLOCK // max(1, width))
    ends = starts + counts
    first = 0
    while first < n:
        begin = int(starts[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + rows, side="right")))
        last = min(last, n)
        yield first, last, begin, int(ends[last - 1])
        first = last


def reduce_rows(
    xp: ModuleType,
    join: np.ufunc,
    data: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    result: np.ndarray,
    indices: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """result[k] = join of the rows of segment k (0 for one without), of data[indices] * weights where given.

    `join` is add or maximum.  Segments follow each other without gaps from row 0 on.
    """
    if not result.size:
        return result
    if xp is not np:
        (_sum_on_gpu if join is xp.add else _maximum_on_gpu)(xp, data, starts, counts, result, indices, weights)
        return result
    width = result.size // result.shape[0]
    flat, target = data.reshape(data.shape[0], width), result.reshape(result.shape[0], width)
    for first, last, begin, end in _blocks(starts, counts, flat.shape[1]):
        rows = flat[begin:end] if indices is None else take_rows(xp, flat, indices[begin:end])
        if rows.dtype != result.dtype:
            rows = rows.astype(result.dtype)
        if weights is not None:
            rows = (rows * weights[begin:end, None]).astype(result.dtype, copy=False)
        _reduce_block(join, rows, starts[first:last] - begin, counts[first:last], target[first:last])
    return result


def _reduce_block(join: np.ufunc, rows: np.ndarray, starts: np.ndarray, counts: np.ndarray, target: np.ndarray) -> None:
    each = int(counts[0])
    if join is np.add and each and rows.dtype.kind == "f" and bool((counts == each).all()):
        # Segments of one length are a product with ones: BLAS adds rows much faster than reduceat.
        np.matmul(np.ones((1, each), rows.dtype), rows.reshape(len(counts), each, -1), out=target[:, None])
        return
    full = counts > 0
    if bool(full.all()):
        join.reduceat(rows, starts, axis=0, out=target)
        return
    target[...] = 0
    if bool(full.any()):
        target[full] = join.reduceat(rows, starts[full], axis=0)


# CuPy's add.reduceat is a difference of prefix sums: it loses digits, and one Inf or NaN spoils all later segments.
_SUM = Kernel(
    "segment_sum",
    "T* y, const D* x, const int64* starts, const int64* counts, const I* indices, const W* weights, "
    "int64 width, int64 parts, int64 places, int64 rows",
    """
    int64 column = i % width, part = i / width % parts, segment = i / width / parts;
    int64 first = max(starts[segment], (int64)0), end = min(starts[segment] + counts[segment], places);
    A total = 0;
    for (int64 k = first + part; k < end; k += parts) {
      int64 row = indices ? (int64)indices[k] : k;
      if (row < 0 || row >= rows) continue;  // which findings.py tells
      A value = (A)x[row * width + column];
      total += weights ? value * (A)weights[k] : value;
    }
    y[i] = (T)total;
    """,
)
_MAXIMUM = Kernel(
    "segment_maximum",
    "T* y, const T* x, const int64* starts, const int64* counts, const I* indices, int64 width, int64 places, int64 rows",
    """
    int64 column = i % width, segment = i / width;
    int64 first = max(starts[segment], (int64)0), end = min(starts[segment] + counts[segment], places);
    T most = 0;
    for (int64 k = first; k < end; ++k) {
      int64 row = indices ? (int64)indices[k] : k;
      if (row < 0 || row >= rows) continue;
      T value = x[row * width + column];
      if (k == first || value > most) most = value;
    }
    y[i] = most;
    """,
)
_LONG = 256  # rows of a segment from which on several threads share it
_PARTS = 64


def _sum_on_gpu(
    xp: ModuleType,
    data: Array,
    starts: Array,
    counts: Array,
    result: Array,
    indices: Array | None = None,
    weights: Array | None = None,
) -> None:
    n = counts.shape[0]
    width = result.size // n
    exact = "double" if result.dtype.kind == "f" else "long long"
    if usable(xp, data, result, indices, weights) and result.flags.c_contiguous:
        places, rows = (data if indices is None else indices).shape[0], data.shape[0]
        if places < _LONG * n:
            _SUM(xp, result.size, result, data, starts, counts, indices, weights, width, 1, places, rows, A=exact)
            return
        shares = xp.empty((n * _PARTS, width), "float64" if exact == "double" else "int64")
        _SUM(xp, shares.size, shares, data, starts, counts, indices, weights, width, _PARTS, places, rows, A=exact)
        each, places = xp.full(n, _PARTS, "int64"), n * _PARTS
        _SUM(
            xp, result.size, result, shares, xp.arange(n) * _PARTS, each, None, None, width, 1, places, places, A=exact
        )
        return
    ids, rows = _members(xp, starts, counts, data, indices)
    wide = "float64" if exact == "double" else "int64"
    rows = rows.astype(wide)
    if weights is not None:
        rows *= weights[: rows.shape[0], None]
    total = xp.zeros((n, width), wide)
    if rows.size:
        xp.add.at(total, ids, rows)
    result[...] = total.reshape(result.shape)


def _members(xp: ModuleType, starts: Any, counts: Any, data: Array, indices: Array | None) -> tuple[Any, Any]:
    """(the segment of each row, the rows, as a matrix)."""
    total = int(counts.sum())
    ids = xp.searchsorted(starts + counts, xp.arange(total), side="right")
    rows = data[:total] if indices is None else data[indices[:total]]
    return ids, rows.reshape(total, data.size // max(1, data.shape[0]))


def _maximum_on_gpu(
    xp: ModuleType,
    data: Array,
    starts: Array,
    counts: Array,
    result: Array,
    indices: Array | None = None,
    weights: Array | None = None,
) -> None:
    """NaN counts only where it comes first, as in Caffe2; there are no weights of maxima."""
    n = counts.shape[0]
    width = result.size // n
    if usable(xp, data, indices) and result.flags.c_contiguous and result.dtype == data.dtype:
        places = (data if indices is None else indices).shape[0]
        _MAXIMUM(xp, result.size, result, data, starts, counts, indices, width, places, data.shape[0])
        return
    ids, rows = _members(xp, starts, counts, data, indices)
    target = result.reshape((n, width))
    target[...] = 0
    full = xp.greater(counts, 0)
    firsts = xp.zeros(target.shape, rows.dtype)
    if not rows.size:
        return
    firsts[full] = rows[starts[full]]
    most = firsts.copy()
    xp.maximum.at(most, ids, xp.where(rows == rows, rows, firsts[ids]))
    target[...] = xp.where(firsts == firsts, most, firsts)


def maximum_rows(
    xp: ModuleType,
    data: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    result: np.ndarray,
    indices: np.ndarray | None = None,
) -> np.ndarray:
    """The maximum of each segment; NaN counts only where it comes first, as in Caffe2."""
    reduce_rows(xp, xp.maximum, data, starts, counts, result, indices)
    if xp is np and bool(np.isnan(result).any()):
        rows = data if indices is None else data[indices]
        reduce_rows(xp, np.maximum, np.where(np.isnan(rows), -np.inf, rows), starts, counts, result)
        full = counts > 0
        firsts = rows[starts[full]]
        result[full] = np.where(np.isnan(firsts), firsts, result[full])
    return result


def spread(
    xp: ModuleType, values: np.ndarray, counts: np.ndarray, out: Callable[..., np.ndarray], size: int
) -> np.ndarray:
    """Row i of the result is the value of the segment that row i is in; rows past the segments are 0."""
    if xp is np:
        rows = np.repeat(np.arange(counts.shape[0]), counts)
    else:  # CuPy's repeat wants the counts on the host
        ends = xp.cumsum(counts)
        total = int(ends[-1]) if counts.size else 0
        rows = xp.searchsorted(ends, xp.arange(total), side="right")
    made = out((size, *values.shape[1:]), values.dtype)
    made[: rows.shape[0]] = values[rows]
    made[rows.shape[0] :] = 0
    return made


def column(xp: ModuleType, values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A vector shaped to multiply the rows of `like`."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


# ---- compiled: what is given to them has been checked --------------------------------------------------------------

_NONE = np.zeros(0, np.int64)


def maximum_runs(
    data: np.ndarray, indices: np.ndarray | None, lengths: np.ndarray, result: np.ndarray, lowest: bool = False
) -> np.ndarray:
    """As `maximum_rows`, for runs that follow each other; with `lowest`, the lowest float is one of each run."""
    if result.size:
        where = _NONE if indices is None else indices
        _maximum_runs(data.reshape(-1), where, lengths, result.reshape(-1), lowest, np.finfo(data.dtype).min)
    return result


@loop
def _maximum_runs(data, indices, lengths, result, from_least, least):  # type: ignore[no-untyped-def]
    width, i, last = _U(result.size // lengths.size), _U(0), _U(max(indices.size, 1) - 1)
    for k in range(_U(lengths.size)):
        y = k * width
        for n in range(lengths[k]):
            if indices.size:
                soon = _U(indices[min(i + _AHEAD, last)]) * width
                for j in range(_U(0), width, _LINE):
                    prefetch(data, soon + j)
            row = (_U(indices[i]) if indices.size else i) * width
            if n == 0 and from_least:
                for j in range(width):
                    x = data[row + j]
                    result[y + j] = x if x > least else least
            elif n == 0:
                for j in range(width):
                    result[y + j] = data[row + j]
            else:
                for j in range(width):
                    x = data[row + j]
                    result[y + j] = x if x > result[y + j] else result[y + j]
            i += _U(1)
        if not lengths[k]:
            for j in range(width):
                result[y + j] = 0


def add_by_id(
    data: np.ndarray,
    indices: np.ndarray | None,
    ids: np.ndarray,
    weights: np.ndarray | None,
    result: np.ndarray,
    fresh: bool = True,
) -> np.ndarray:
    """result[ids[i]] = sum of the rows data[indices[i]] (all rows, where there are no indices), times their weights."""
    if fresh:
        clear(result)
    if result.size and ids.size:
        nothing = np.zeros(0, data.dtype)
        _add_by_id(
            data.reshape(-1),
            _NONE if indices is None else indices,
            ids,
            nothing if weights is None else weights,
            result.reshape(-1),
            result.shape[0],
        )
    return result


@loop
def _add_by_id(data, indices, ids, weights, result, count):  # type: ignore[no-untyped-def]
    width, last = _U(result.size // count), _U(max(indices.size, 1) - 1)
    for i in range(_U(ids.size)):
        if indices.size:
            soon = _U(indices[min(i + _AHEAD, last)]) * width
            for j in range(_U(0), width, _LINE):
                prefetch(data, soon + j)
        row, y = (_U(indices[i]) if indices.size else i) * width, _U(ids[i]) * width
        if weights.size:
            w = weights[i]
            for j in range(width):
                result[y + j] += w * data[row + j]
        else:
            for j in range(width):
                result[y + j] += data[row + j]


def rows_by_id(
    values: np.ndarray, ids: np.ndarray, scales: np.ndarray | None, weights: np.ndarray | None, result: np.ndarray
) -> np.ndarray:
    """result[i] = values[ids[i]], times the scale of that id and the weight of that row where these are given."""
    if result.size:
        nothing = np.zeros(0, values.dtype)
        _rows_by_id(
            values.reshape(-1),
            ids,
            nothing if scales is None else scales,
            nothing if weights is None else weights,
            result.reshape(-1),
        )
    return result


@loop
def _rows_by_id(values, ids, scales, weights, result):  # type: ignore[no-untyped-def]
    width = _U(result.size // ids.size)
    for i in range(_U(ids.size)):
        k = _U(ids[i])
        w = np.float32(1)
        if scales.size:
            w *= scales[k]
        if weights.size:
            w *= weights[i]
        for j in range(width):
            result[i * width + j] = values[k * width + j] * w
