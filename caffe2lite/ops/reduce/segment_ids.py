"""Reductions of runs of rows that are told apart by segment ids, sorted or not, dense and by index."""

from __future__ import annotations

import functools
import math

import numpy as np

from caffe2lite.ops.kit.compiled import compiled
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import find, operator
from caffe2lite.ops.kit.segments import (
    add_by_id,
    check_ids,
    check_indices,
    check_weights,
    column,
    maximum_runs,
    reduce_rows,
    rows_by_id,
    sorted_ids_to_starts,
    take_rows,
)

_INT = "int32 int64"
_FLOAT = "float32"


def _result(out, count, data):
    return out((count, *data.shape[1:]), data.dtype)


def _mean(xp, result, counts):
    return xp.divide(result, column(xp, xp.maximum(counts, 1).astype(result.dtype), result), out=result)


def _check_data(data, indices=None):
    if data.ndim < 1:
        raise ValueError("the data must have at least one dimension")
    if indices is not None:
        check_indices(indices, data.shape[0])


# ---- sorted ids --------------------------------------------------------------------------------------------------


def _sorted(xp, data, indices, ids, out, weights=None, mean=False, loops=False):
    _check_data(data, indices)
    size = data.shape[0] if indices is None else indices.shape[0]
    if weights is not None:
        check_weights(weights, size)
    starts, counts = sorted_ids_to_starts(xp, ids, size)
    result = _result(out, counts.shape[0], data)
    if loops:
        add_by_id(data, indices, ids, weights, result)
    else:
        reduce_rows(xp, xp.add, data, starts, counts, result, indices, weights)
    return _mean(xp, result, counts) if mean else result


# ---- unsorted ids ------------------------------------------------------------------------------------------------


def _unsorted(xp, data, indices, ids, num_segments, out, weights=None, mean=False, loops=False):
    _check_data(data, indices)
    size = data.shape[0] if indices is None else indices.shape[0]
    check_ids(ids, size)
    if weights is not None:
        check_weights(weights, size)
    least = int(ids.min()) if size else 0
    most = int(ids.max()) if size else -1
    if least < 0:
        raise ValueError(f"segment id {least} is negative")
    if 0 <= num_segments <= most:
        raise ValueError(f"segment id {most} is not within num_segments = {num_segments}")
    if num_segments < -1:
        raise ValueError(f"num_segments is -1 (as many as the ids need) or 0 and more, found {num_segments}")
    count = num_segments if num_segments >= 0 else most + 1
    check_result((count, *data.shape[1:]), data.dtype)
    check_result((count,), "int64")
    counts = xp.bincount(ids, minlength=count) if size and (mean or not loops) else xp.zeros(count, "int64")
    if loops:
        result = add_by_id(data, indices, ids, weights, _result(out, count, data))
        return _mean(xp, result, counts) if mean else result
    order = xp.argsort(ids, kind="stable")
    starts = xp.cumsum(counts) - counts
    rows = order if indices is None else indices[order]
    result = _result(out, count, data)
    reduce_rows(xp, xp.add, data, starts, counts, result, rows, None if weights is None else weights[order])
    return _mean(xp, result, counts) if mean else result


def _reducer(ordered, weighted, sparse, mean, loops=False):
    """The kernel that sums (or averages) rows by sorted or by any ids, with loops that Numba compiles or without."""
    if ordered:
        reduce = functools.partial(_sorted, mean=mean, loops=loops)
        if sparse and weighted:
            return lambda xp, data, weights, indices, segment_ids, *, out: reduce(
                xp, data, indices, segment_ids, out, weights
            )
        if sparse:
            return lambda xp, data, indices, segment_ids, *, out: reduce(xp, data, indices, segment_ids, out)
        if weighted:
            return lambda xp, data, weights, segment_ids, *, out: reduce(xp, data, None, segment_ids, out, weights)
        return lambda xp, data, segment_ids, *, out: reduce(xp, data, None, segment_ids, out)
    reduce = functools.partial(_unsorted, mean=mean, loops=loops)
    if sparse and weighted:

        def kernel(xp, data, weights, indices, segment_ids, *, num_segments: int = -1, out):
            return reduce(xp, data, indices, segment_ids, num_segments, out, weights)

    elif sparse:

        def kernel(xp, data, indices, segment_ids, *, num_segments: int = -1, out):
            return reduce(xp, data, indices, segment_ids, num_segments, out)

    elif weighted:

        def kernel(xp, data, weights, segment_ids, *, num_segments: int = -1, out):
            return reduce(xp, data, None, segment_ids, num_segments, out, weights)

    else:

        def kernel(xp, data, segment_ids, *, num_segments: int = -1, out):
            return reduce(xp, data, None, segment_ids, num_segments, out)

    return kernel


# ---- gradients ---------------------------------------------------------------------------------------------------


def _gradient_rows(xp, dY, ids, out, ordered, mean=False, weights=None, loops=False):
    """Each row gets the gradient of its segment."""
    if dY.ndim < 1:
        raise ValueError("dY must have a row for each segment, found a scalar")
    if ids.ndim != 1:
        raise ValueError(f"segment ids must have one dimension, got shape {list(ids.shape)}")
    size = ids.shape[0]
    if weights is not None:
        check_weights(weights, size)
    made = out((size, *dY.shape[1:]), dY.dtype)
    if not size:
        return made
    if ordered:
        _, counts = sorted_ids_to_starts(xp, ids, size)
        if counts.shape[0] != dY.shape[0]:
            raise ValueError(f"there are {counts.shape[0]} segments and {dY.shape[0]} gradients")
    else:
        check_indices(ids, dY.shape[0])
        counts = xp.bincount(ids, minlength=dY.shape[0]) if mean else None
    if loops:
        return rows_by_id(dY, ids, 1 / xp.maximum(counts, 1).astype(dY.dtype) if mean else None, weights, made)
    source = dY / column(xp, xp.maximum(counts, 1).astype(dY.dtype), dY) if mean else dY
    made[...] = take_rows(xp, source, ids)
    if weights is not None:
        xp.multiply(made, column(xp, weights, made), out=made)
    return made


def _gradient_kernel(ordered, weighted, mean, loops=False):
    if weighted:
        return lambda xp, weights, dY, segment_ids, *, out: _gradient_rows(
            xp, dY, segment_ids, out, ordered, weights=weights, loops=loops
        )
    return lambda xp, dY, segment_ids, *, out: _gradient_rows(xp, dY, segment_ids, out, ordered, mean, loops=loops)


def _by_row(kind):
    """The gradient by the rows alone, of a sum with weights."""

    def make(g):
        if g.arg("grad_on_weights", 0):
            raise ValueError(f"{g.op.type} has no gradient by its weights (argument grad_on_weights)")
        return g.single(kind, [g.I(1), g.GO(0), g.I(2)], [g.GI(0)])

    return make


def _by_index(kind, weighted):
    """The gradient by the data is sparse: the operator's indices, and values that `kind` makes."""

    def make(g):
        if weighted and g.arg("grad_on_weights", 0):
            raise ValueError(f"{g.op.type} has no gradient by its weights (argument grad_on_weights)")
        index, ids = (2, 3) if weighted else (1, 2)
        g.set_sparse(0, g.I(index), g.I(0) + "_grad_values")
        given = [g.I(1), g.GO(0), g.I(ids)] if weighted else [g.GO(0), g.I(ids)]
        return g.single(kind, given, [g.g_input[0][1]])

    return make


def _infer_unsorted(args, inputs):
    count = args["num_segments"]
    return [Spec((count, *inputs[0].shape[1:]), inputs[0].dtype) if count >= 0 else UNKNOWN]


_OPERANDS = """data [N, ...], weights and ids [n] (n = N where there are no indices), indices [n], Y [segments, ...]; float32,
ids int32, indices int32 or int64.  ValueError where an index is no row, """
_SORTED = _OPERANDS + "or the ids do not begin with 0 and rise by 0 or 1."
_UNSORTED = _OPERANDS + "or an id is negative or not below num_segments (where that is given)."
_ROW_GRADIENT = """dY [segments, ...], weights and ids [n], dX [n, ...]; float32, ids int32.  ValueError where there is not one
weight for each id, or the ids do not fit the segments."""

_DENSE = {"data": _FLOAT, "segment_ids": "int32"}
_WEIGHTED = {"data": _FLOAT, "weights": "=data", "segment_ids": "int32"}
_SPARSE = {"data": _FLOAT, "indices": _INT, "segment_ids": "int32"}
_SPARSE_WEIGHTED = {**_SPARSE, "weights": "=data"}

for _name, _types, _maker, _infer, _doc in (
    (
        "SortedSegmentSum",
        _DENSE,
        single("SortedSegmentSumGradient", "GO0 I1 -> GI0"),
        None,
        "Y[k] = sum of the rows with id k; ids are sorted, from 0 on, without gaps.",
    ),
    (
        "SortedSegmentMean",
        _DENSE,
        single("SortedSegmentMeanGradient", "GO0 I1 -> GI0"),
        None,
        "Y[k] = mean of the rows with id k.",
    ),
    (
        "SortedSegmentWeightedSum",
        _WEIGHTED,
        _by_row("SortedSegmentWeightedSumGradient"),
        None,
        "Y[k] = sum of the rows with id k, each times its weight.",
    ),
    (
        "SparseSortedSegmentSum",
        _SPARSE,
        _by_index("SortedSegmentSumGradient", False),
        None,
        "Y[k] = sum of data[i] over the indices with id k.",
    ),
    (
        "SparseSortedSegmentMean",
        _SPARSE,
        _by_index("SortedSegmentMeanGradient", False),
        None,
        "Y[k] = mean of data[i] over the indices with id k.",
    ),
    (
        "SparseSortedSegmentWeightedSum",
        _SPARSE_WEIGHTED,
        _by_index("SortedSegmentWeightedSumGradient", True),
        None,
        "Y[k] = sum of weight * data[i] over the indices with id k.",
    ),
    (
        "UnsortedSegmentSum",
        _DENSE,
        single("UnsortedSegmentSumGradient", "GO0 I1 -> GI0"),
        _infer_unsorted,
        "Y[k] = sum of the rows with id k, 0 where there is none.",
    ),
    (
        "UnsortedSegmentMean",
        _DENSE,
        single("UnsortedSegmentMeanGradient", "GO0 I1 -> GI0"),
        _infer_unsorted,
        "Y[k] = mean of the rows with id k, 0 where there is none.",
    ),
    (
        "UnsortedSegmentWeightedSum",
        _WEIGHTED,
        _by_row("UnsortedSegmentWeightedSumGradient"),
        _infer_unsorted,
        "Y[k] = sum of the rows with id k, each times its weight.",
    ),
    (
        "SparseUnsortedSegmentSum",
        _SPARSE,
        _by_index("UnsortedSegmentSumGradient", False),
        _infer_unsorted,
        "Y[k] = sum of data[i] over the indices with id k.",
    ),
    (
        "SparseUnsortedSegmentMean",
        _SPARSE,
        _by_index("UnsortedSegmentMeanGradient", False),
        _infer_unsorted,
        "Y[k] = mean of data[i] over the indices with id k.",
    ),
    (
        "SparseUnsortedSegmentWeightedSum",
        _SPARSE_WEIGHTED,
        _by_index("UnsortedSegmentWeightedSumGradient", True),
        _infer_unsorted,
        "Y[k] = sum of weight * data[i] over the indices with id k.",
    ),
):
    _operands = _UNSORTED if "Unsorted" in _name else _SORTED
    _how = "Unsorted" not in _name, "weights" in _types, "indices" in _types, "Mean" in _name
    _record = operator("Y", name=_name, types=_types, infer=_infer, gradient=_maker, doc=f"{_doc}\n\n{_operands}")(
        _reducer(*_how)
    )
    compiled(_record)(_reducer(*_how, loops=True))

_PLAIN = {"dY": _FLOAT, "segment_ids": "int32"}
_BY_WEIGHT = {"weights": _FLOAT, "dY": "=weights", "segment_ids": "int32"}

for _name, _types in (
    ("SortedSegmentSumGradient", _PLAIN),
    ("SortedSegmentMeanGradient", _PLAIN),
    ("SortedSegmentWeightedSumGradient", _BY_WEIGHT),
    ("SparseSortedSegmentSumGradient", _PLAIN),
    ("SparseSortedSegmentMeanGradient", _PLAIN),
    ("SparseSortedSegmentWeightedSumGradient", _BY_WEIGHT),
    ("UnsortedSegmentSumGradient", _PLAIN),
    ("UnsortedSegmentMeanGradient", _PLAIN),
    ("UnsortedSegmentWeightedSumGradient", _BY_WEIGHT),
    ("SparseUnsortedSegmentSumGradient", _PLAIN),
    ("SparseUnsortedSegmentMeanGradient", _PLAIN),
    ("SparseUnsortedSegmentWeightedSumGradient", _BY_WEIGHT),
):
    _how = "Unsorted" not in _name, "weights" in _types, "Mean" in _name
    _doc = f"dX[i] = the share that row i has in the gradient of its segment.\n\n{_ROW_GRADIENT}"
    _record = operator("dX", name=_name, types=_types, doc=_doc)(_gradient_kernel(*_how))
    compiled(_record)(_gradient_kernel(*_how, loops=True))


# ---- ranges: reductions that are not sums ------------------------------------------------------------------------


def _range_starts(xp, data, ids):
    _check_data(data)
    starts, counts = sorted_ids_to_starts(xp, ids, data.shape[0])
    return starts, counts


def _range_sum(xp, data, segment_ids, *, out):
    starts, counts = _range_starts(xp, data, segment_ids)
    return reduce_rows(xp, xp.add, data, starts, counts, _result(out, counts.shape[0], data))


def _range_mean(xp, data, segment_ids, *, out):
    _, counts = _range_starts(xp, data, segment_ids)
    return _mean(xp, _range_sum(xp, data, segment_ids, out=out), counts)


def _range_max(xp, data, segment_ids, *, out):
    """Caffe2 begins with the lowest float: NaN and -inf do not show."""
    starts, counts = _range_starts(xp, data, segment_ids)
    lowest = xp.finfo(data.dtype).min
    result = _result(out, counts.shape[0], data)
    return reduce_rows(xp, xp.maximum, xp.where(data > lowest, data, lowest), starts, counts, result)


def _log_exp(xp, data, ids, out, mean):
    starts, counts = _range_starts(xp, data, ids)
    result = _result(out, counts.shape[0], data)
    if not result.size:
        return result
    reduce_rows(xp, xp.maximum, data, starts, counts, result)
    top = xp.where(result == -xp.inf, xp.finfo(result.dtype).min, result)
    reduce_rows(xp, xp.add, xp.exp(data - top[ids]), starts, counts, result)
    if mean:
        _mean(xp, result, counts)
    xp.log(result, out=result)
    return xp.add(result, top, out=result)


def _range_log_sum_exp(xp, data, segment_ids, *, out):
    return _log_exp(xp, data, segment_ids, out, False)


def _range_log_mean_exp(xp, data, segment_ids, *, out):
    return _log_exp(xp, data, segment_ids, out, True)


def _range_counts(xp, data, Y, segment_ids, dY):
    """How many rows each segment has; ValueError where Y and dY have not as many values for each as rows of the data."""
    _, counts = _range_starts(xp, data, segment_ids)
    values = math.prod(data.shape[1:])
    for what, operand in (("Y", Y), ("dY", dY)):
        if operand.size != counts.shape[0] * values:
            raise ValueError(
                f"{what} must have {values} values for each of {counts.shape[0]} segments, found {list(operand.shape)}"
            )
    if math.prod(dY.shape[1:]) != values:
        raise ValueError(f"a row of dY must have {values} values, found the shape {list(dY.shape)}")
    return counts


def _range_gradient(factor):
    """The kernel of a gradient: the segment's gradient times `factor(xp, data, result, counts)` of each row."""

    def kernel(xp, data, Y, dY, segment_ids, *, out):
        counts = _range_counts(xp, data, Y, segment_ids, dY)
        dX = out((data.shape[0], *dY.shape[1:]), data.dtype)
        if dX.size:
            shape = counts.shape[0], *dX.shape[1:]
            data, Y, dY = data.reshape(dX.shape), Y.reshape(shape), dY.reshape(shape)
            rows = column(xp, counts[segment_ids].astype(data.dtype), data)
            dX[...] = dY[segment_ids] * factor(xp, data, Y[segment_ids], rows)
        return dX

    return kernel


_RANGE_OPERANDS = """data and dX [N, ...], ids [N], Y and dY [segments, ...]; float32, ids int32.  ValueError where the ids do not
begin with 0 and rise by 0 or 1."""

for _name, _gradient, _kernel, _factor, _doc in (
    (
        "SortedSegmentRangeSum",
        "SortedSegmentRangeSumGradient",
        _range_sum,
        lambda xp, x, y, n: 1,
        "Y[k] = sum of the rows with id k.",
    ),
    (
        "SortedSegmentRangeMean",
        "SortedSegmentRangeMeanGradient",
        _range_mean,
        lambda xp, x, y, n: 1 / n,
        "Y[k] = mean of the rows with id k.",
    ),
    (
        "SortedSegmentRangeMax",
        "SortedSegmentRangeMaxGradient",
        _range_max,
        lambda xp, x, y, n: x == y,
        "Y[k] = maximum of the rows with id k.",
    ),
    (
        "SortedSegmentRangeLogSumExp",
        "SortedSegmentRangeLogSumExpGradient",
        _range_log_sum_exp,
        lambda xp, x, y, n: xp.exp(x - y),
        "Y[k] = log of the sum of exp of the rows with id k.",
    ),
    (
        "SortedSegmentRangeLogMeanExp",
        "SortedSegmentRangeLogMeanExpGradient",
        _range_log_mean_exp,
        lambda xp, x, y, n: xp.exp(x - y) / n,
        "Y[k] = log of the mean of exp of the rows with id k.",
    ),
):
    operator(
        "Y",
        name=_name,
        types={"data": "float32", "segment_ids": "int32"},
        gradient=single(_gradient, "I0 O0 GO0 I1 -> GI0"),
        doc=f"{_doc}\n\n{_RANGE_OPERANDS}",
    )(_kernel)
    operator(
        "dX",
        name=_gradient,
        types={"data": "float32", "Y": "=data", "dY": "=data", "segment_ids": "int32"},
        infer=like(0),
        doc=f"dX of {_name}: dY of each row's segment times its derivative by that row.\n\n{_RANGE_OPERANDS}",
    )(_range_gradient(_factor))


@compiled(find("SortedSegmentRangeSum"))
def _range_sum_compiled(xp, data, segment_ids, *, out):
    return _sorted(xp, data, None, segment_ids, out, loops=True)


@compiled(find("SortedSegmentRangeMean"))
def _range_mean_compiled(xp, data, segment_ids, *, out):
    return _sorted(xp, data, None, segment_ids, out, mean=True, loops=True)


@compiled(find("SortedSegmentRangeMax"))
def _range_max_compiled(xp, data, segment_ids, *, out):
    _, counts = _range_starts(xp, data, segment_ids)
    return maximum_runs(data, None, counts, _result(out, counts.shape[0], data), lowest=True)


def _range_spread(data, Y, dY, ids, out, mean):
    counts = _range_counts(np, data, Y, ids, dY)
    dX = out((data.shape[0], *dY.shape[1:]), data.dtype)
    return rows_by_id(dY, ids, 1 / counts.astype(data.dtype) if mean else None, None, dX)


@compiled(find("SortedSegmentRangeSumGradient"))
def _range_sum_gradient_compiled(xp, data, Y, dY, segment_ids, *, out):
    return _range_spread(data, Y, dY, segment_ids, out, False)


@compiled(find("SortedSegmentRangeMeanGradient"))
def _range_mean_gradient_compiled(xp, data, Y, dY, segment_ids, *, out):
    return _range_spread(data, Y, dY, segment_ids, out, True)
