"""Reductions of runs of rows that are told apart by their lengths, dense and by index, with their gradients."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from caffe2lite.devices import cores
from caffe2lite.ops.kit import segments
from caffe2lite.ops.kit.compiled import compiled, halves, loop, prefetch, together, widen
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.segments import check_weights, column, lengths_to_starts, maximum_rows, reduce_rows, spread
from caffe2lite.ops.kit.special import keep_where

INDEX = "int32 int64"
_DENSE = {"data": "float32", "lengths": "int32"}
_SPARSE = {"data": "float32 float16", "indices": INDEX, "lengths": INDEX}
_RUNS = "data [R, ...], lengths [K]"
_LOOKUP = "data [R, ...], indices [I], lengths [K]"
NOTHING = np.zeros(0, np.float32)  # for the compiled loops: no weights
NO_INDICES = np.zeros(0, np.int64)  # for the compiled loops: all rows, one after the other
_SHARED = 1 << 20  # elements to be read from which on several threads pay
U = np.uint64
AHEAD, LINE = U(16), U(16)  # rows to fetch ahead; floats in a line of the cache


def _infer(args, inputs):
    data, lengths = inputs[0], inputs[-1]
    return [Spec((lengths.shape[0], *data.shape[1:]), "float32")]


def _result(out, lengths, data):
    return out((lengths.shape[0], *data.shape[1:]), np.float32)


def _divide(xp, result, counts):
    many = xp.maximum(counts, 1).astype(result.dtype)
    return xp.divide(result, column(xp, many, result), out=result)


def _sum(xp, data, indices, lengths, out, weights=None):
    if data.ndim < 1:
        raise ValueError("the data must have at least one dimension")
    size = data.shape[0] if indices is None else indices.shape[0]
    late = usable(xp, data, weights)
    if indices is not None:
        check_lookup(data, indices, lengths, xp, late)
    starts, counts = lengths_to_starts(xp, lengths, size, exact=True, late=late)
    return reduce_rows(xp, xp.add, data, starts, counts, _result(out, lengths, data), indices, weights), counts


def check_lookup(data, indices, lengths, xp=np, late=False):
    """An error where an index is outside of the data, or lengths are not int32 (without indices Caffe2 does not look)."""
    if indices.size and lengths.dtype != np.int32:
        raise TypeError(f"lengths must be int32, got {lengths.dtype}")
    segments.check_indices(indices, data.shape[0], xp, late)


@operator(
    "Y",
    types=_DENSE,
    shapes=_RUNS,
    infer=_infer,
    gradient=single("LengthsIndicesInGradientSumGradient", "GO0 I1 I0 -> GI0"),
)
def LengthsSum(xp, data, lengths, *, out):
    """Y[k] = sum of the rows of segment k of the data.

    data [N, ...], lengths [segments], Y [segments, ...]; float32, lengths int32.  ValueError where the lengths do not
    add up to N.
    """
    return _sum(xp, data, None, lengths, out)[0]


@operator(
    "Y",
    types=_DENSE,
    shapes=_RUNS,
    infer=_infer,
    gradient=single("LengthsIndicesInGradientMeanGradient", "GO0 I1 I0 -> GI0"),
)
def LengthsMean(xp, data, lengths, *, out):
    """Y[k] = mean of the rows of segment k; 0 for one without rows.

    data [N, ...], lengths [segments], Y [segments, ...]; float32, lengths int32.  ValueError where the lengths do not
    add up to N.
    """
    result, counts = _sum(xp, data, None, lengths, out)
    return _divide(xp, result, counts)


@compiled(LengthsSum)
def _lengths_sum_compiled(xp, data, lengths, *, out):
    return _sum_compiled(data, NOTHING, None, lengths, out)


@compiled(LengthsMean)
def _lengths_mean_compiled(xp, data, lengths, *, out):
    return _sum_compiled(data, NOTHING, None, lengths, out, mean=True)


@operator(
    "Y",
    types=_DENSE,
    shapes=_RUNS,
    infer=_infer,
    gradient=single("LengthsMaxWithMainInputAndForwardOutputGradient", "O0 GO0 I1 I0 -> GI0"),
)
def LengthsMax(xp, data, lengths, *, out):
    """Y[k] = maximum of the rows of segment k; 0 for one without rows.

    data [N, ...], lengths [segments], Y [segments, ...]; float32, lengths int32.  ValueError where the lengths do not
    add up to N.
    """
    starts, counts = lengths_to_starts(xp, lengths, data.shape[0], exact=True, late=usable(xp, data))
    return maximum_rows(xp, data, starts, counts, _result(out, lengths, data))


@compiled(LengthsMax)
def _lengths_max_compiled(xp, data, lengths, *, out):
    check_counts(lengths, data.shape[0])
    return segments.maximum_runs(data, None, lengths, _result(out, lengths, data))


@operator(
    "dX",
    types={"Y": "float32", "dY": "=Y", "lengths": "int32", "data": "=Y"},
    shapes="Y [K, *D], dY = Y, lengths [K], data [R, *D]",
    infer=like(3),
)
def LengthsMaxWithMainInputAndForwardOutputGradient(xp, Y, dY, lengths, data, *, out):
    """dX = dY at every row that is the maximum of its segment, else 0.

    data and dX [N, ...], lengths [segments], Y and dY [segments, ...]; float32, lengths int32.  ValueError where the
    lengths do not add up to N or there is not one maximum for each.
    """
    _, counts = lengths_to_starts(xp, lengths, data.shape[0], exact=True)
    if Y.shape[0] != counts.shape[0]:
        raise ValueError(f"there are {counts.shape[0]} segments, and {Y.shape[0]} maxima")
    dX = spread(xp, dY, counts, out, data.shape[0])
    rows = xp.repeat(xp.arange(counts.shape[0]), counts.tolist() if xp is not np else counts)
    return keep_where(xp, data == Y[rows], dX, dX)


@compiled(LengthsMaxWithMainInputAndForwardOutputGradient)
def _lengths_max_gradient_compiled(xp, Y, dY, lengths, data, *, out):
    check_counts(lengths, data.shape[0])
    if Y.shape != (lengths.shape[0], *data.shape[1:]) or dY.shape != Y.shape:
        return LengthsMaxWithMainInputAndForwardOutputGradient(xp, Y, dY, lengths, data, out=out)
    dX = out(data.shape, data.dtype)
    if dX.size:
        _maximum_gradient(Y.reshape(-1), dY.reshape(-1), lengths, data.reshape(-1), dX.reshape(-1))
    return dX


@loop
def _maximum_gradient(Y, dY, lengths, data, dX):
    width, i = U(Y.size // lengths.size), U(0)
    for k in range(U(lengths.size)):
        for _ in range(lengths[k]):
            for j in range(width):
                dX[i + j] = dY[k * width + j] if data[i + j] == Y[k * width + j] else np.float32(0)
            i += width


@operator(
    "Y",
    types={"data": "float32", "weights": "float32", "lengths": "int32"},
    shapes="data [R, ...], weights [R], lengths [K]",
    infer=_infer,
    gradient=lambda g: _weighted(g, "LengthsWeightedSumGradient", "LengthsWeightedSumWithMainInputGradient"),
)
def LengthsWeightedSum(xp, data, weights, lengths, *, out):
    """Y[k] = sum of the rows of segment k, each times its weight.

    data [N, ...], weights [N], lengths [segments], Y [segments, ...]; float32, lengths int32.  ValueError where the
    lengths do not add up to N or the weights are not [N].
    """
    check_weights(weights, data.shape[0])
    return _sum(xp, data, None, lengths, out, weights)[0]


@compiled(LengthsWeightedSum)
def _lengths_weighted_sum_compiled(xp, data, weights, lengths, *, out):
    check_weights(weights, data.shape[0])
    return _sum_compiled(data, weights, None, lengths, out)


def _weighted(g, plain, by_weights):
    """Gradient of a dense weighted sum; by the weights as well where asked."""
    if g.arg("grad_on_weights", 0):
        return g.single(by_weights, [g.I(1), g.GO(0), g.I(2), g.I(0)], [g.GI(0), g.GI(1)])
    return g.single(plain, [g.I(1), g.GO(0), g.I(2)], [g.GI(0)])


def _sparse_weighted(g):
    values = [g.I(1), g.GO(0), g.I(3)]
    g.set_sparse(0, g.I(2), g.I(0) + "_grad_values")
    made = g.g_input[0][1]
    if g.arg("grad_on_weights", 0):
        return g.single(
            "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
            [*values, g.I(0), g.I(2)],
            [made, g.GI(1)],
        )
    return g.single("SparseLengthsIndicesInGradientWeightedSumGradient", [*values, g.I(2)], [made])


def _sparse(kind):
    """The gradient by the data is sparse: the indices of the operator, and values that `kind` makes."""

    def make(g):
        g.set_sparse(0, g.I(1), g.I(0) + "_grad_values")
        return g.single(kind, [g.GO(0), g.I(2), g.I(1)], [g.g_input[0][1]])

    return make


def check_counts(lengths: Any, size: int) -> None:
    """ValueError where the lengths do not cover `size` rows."""
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have one dimension, got shape {list(lengths.shape)}")
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"a length is negative: {int(lengths.min())}")
    total = int(lengths.sum(dtype=np.int64))
    if total != size:
        raise ValueError(f"the lengths sum to {total}, and there are {size} rows")


def _parts(lengths: Any, work: int) -> list[tuple[int, int, int, int]]:
    """(first segment, last, first index, last) of the part of each thread."""
    count = max(1, min(cores.wanted(work, _SHARED), lengths.size))
    cuts = [lengths.size * k // count for k in range(count + 1)]
    places = [int(lengths[:cut].sum(dtype=np.int64)) for cut in cuts]
    return list(zip(cuts, cuts[1:], places, places[1:]))


def _sum_compiled(
    data: Any, weights: Any, indices: Any, lengths: Any, out: Any, mean: bool = False, positional: bool = False
) -> Any:
    if data.ndim < 1:
        raise ValueError("the data must have at least one dimension")
    if data.dtype == np.float16 and not halves():
        data = data.astype(np.float32)
    if indices is None:
        check_counts(lengths, data.shape[0])
        indices = NO_INDICES
    else:
        check_lookup(data, indices, lengths)
        check_counts(lengths, indices.shape[0])
    Y = _result(out, lengths, data)
    if Y.size:
        rows, sums = data.reshape(-1), Y.reshape(Y.shape[0], -1)
        if rows.dtype == np.float16:
            rows = rows.view(np.uint16)
        together(
            [
                functools.partial(
                    _sum_rows,
                    rows if indices.size else rows[begin * sums.shape[1] :],
                    weights if positional else weights[begin:end],
                    indices[begin:end],
                    lengths[first:last],
                    sums[first:last].reshape(-1),
                    mean,
                    positional,
                )
                for first, last, begin, end in _parts(lengths, indices.size * sums.shape[1])
            ]
        )
    return Y


@loop
def place(indices, i, width):
    """Where the i-th row begins."""
    return (U(indices[i]) if indices.size else i) * width


@loop
def _sum_rows(data, weights, indices, lengths, Y, mean, positional):
    """Y[k] = sum of the rows of segment k, all arrays flat; without indices all rows in turn.

    Indices are unsigned: signed ones might count from the end.

    Four rows are added at a time, one after the other, so that a sum is read and written once for four of them.
    """
    width, last = U(Y.size // lengths.size), U(max(indices.size, 1) - 1)
    begin = U(0)
    for k in range(U(lengths.size)):
        y = k * width
        for j in range(width):
            Y[y + j] = 0
        end = begin + U(lengths[k])
        i = begin
        while i < end:
            some = min(end - i, U(4))
            for n in range(some if indices.size else U(0)):
                soon = U(indices[min(i + n + AHEAD, last)]) * width
                for j in range(U(0), width, LINE):
                    prefetch(data, soon + j)
            if some == U(4) and indices.size:
                p, q, r, s = np.float32(1), np.float32(1), np.float32(1), np.float32(1)
                if weights.size:
                    at = i - begin if positional else i
                    p, q, r, s = weights[at], weights[at + U(1)], weights[at + U(2)], weights[at + U(3)]
                a, b = place(indices, i, width), place(indices, i + U(1), width)
                c, d = place(indices, i + U(2), width), place(indices, i + U(3), width)
                for j in range(width):
                    total = Y[y + j] + p * widen(data[a + j])
                    total += q * widen(data[b + j])
                    total += r * widen(data[c + j])
                    total += s * widen(data[d + j])
                    Y[y + j] = total
            else:
                for n in range(i, i + some):
                    row = place(indices, n, width)
                    w = np.float32(1)
                    if weights.size:
                        w = weights[n - begin] if positional else weights[n]
                    for j in range(width):
                        Y[y + j] += w * widen(data[row + j])
            i += some
        if mean and end > begin:
            share = np.float32(1) / np.float32(lengths[k])
            for j in range(width):
                Y[y + j] *= share
        begin = end


@operator(
    "Y", types=_SPARSE, shapes=_LOOKUP, infer=_infer, gradient=_sparse("SparseLengthsIndicesInGradientSumGradient")
)
def SparseLengthsSum(xp, data, indices, lengths, *, out):
    """Y[k] = sum of data[i] over the indices of segment k: a lookup of embeddings.

    data [N, ...], indices [n], lengths [segments], Y [segments, ...] (float32); data float32 or float16, indices
    int32 or int64, lengths int32.  ValueError where an index is no row or the lengths do not add up to n.
    """
    return _sum(xp, data, indices, lengths, out)[0]


@compiled(SparseLengthsSum, also="float16")
def _sparse_lengths_sum_compiled(xp, data, indices, lengths, *, out):
    return _sum_compiled(data, NOTHING, indices, lengths, out)


@operator(
    "Y", types=_SPARSE, shapes=_LOOKUP, infer=_infer, gradient=_sparse("SparseLengthsIndicesInGradientMeanGradient")
)
def SparseLengthsMean(xp, data, indices, lengths, *, out):
    """Y[k] = mean of data[i] over the indices of segment k.

    data [N, ...], indices [n], lengths [segments], Y [segments, ...] (float32); data float32 or float16, indices
    int32 or int64, lengths int32.  ValueError where an index is no row or the lengths do not add up to n.
    """
    result, counts = _sum(xp, data, indices, lengths, out)
    return _divide(xp, result, counts)


@compiled(SparseLengthsMean, also="float16")
def _sparse_lengths_mean_compiled(xp, data, indices, lengths, *, out):
    return _sum_compiled(data, NOTHING, indices, lengths, out, mean=True)


@operator("Y", types={"data": "float32", "indices": INDEX, "lengths": "int32"}, shapes=_LOOKUP, infer=_infer)
def SparseLengthsMax(xp, data, indices, lengths, *, out):
    """Y[k] = maximum of data[i] over the indices of segment k.

    data [N, ...], indices [n], lengths [segments], Y [segments, ...]; float32, indices int32 or int64, lengths int32.
    ValueError where an index is no row or the lengths do not add up to n.
    """
    late = usable(xp, data)
    segments.check_indices(indices, data.shape[0], xp, late)
    starts, counts = lengths_to_starts(xp, lengths, indices.shape[0], exact=True, late=late)
    return maximum_rows(xp, data, starts, counts, _result(out, lengths, data), indices)


@compiled(SparseLengthsMax)
def _sparse_lengths_max_compiled(xp, data, indices, lengths, *, out):
    segments.check_indices(indices, data.shape[0])
    check_counts(lengths, indices.shape[0])
    return segments.maximum_runs(data, indices, lengths, _result(out, lengths, data))


@operator(
    "Y",
    types={**_SPARSE, "weights": "float32"},
    shapes=_LOOKUP + ", weights [I]",
    infer=_infer,
    gradient=_sparse_weighted,
)
def SparseLengthsWeightedSum(xp, data, weights, indices, lengths, *, out):
    """Y[k] = sum of weight * data[i] over the indices of segment k.

    data [N, ...], weights and indices [n], lengths [segments], Y [segments, ...] (float32); data float32 or float16,
    indices int32 or int64, lengths int32.  ValueError where an index is no row, the lengths do not add up to n, or
    the weights are not [n].
    """
    check_weights(weights, indices.shape[0])
    return _sum(xp, data, indices, lengths, out, weights)[0]


@compiled(SparseLengthsWeightedSum, also="float16")
def _sparse_lengths_weighted_sum_compiled(xp, data, weights, indices, lengths, *, out):
    check_weights(weights, indices.shape[0])
    return _sum_compiled(data, weights, indices, lengths, out)


@operator("Y", types={**_SPARSE, "weights": "float32"}, shapes=_LOOKUP + ", weights [W]", infer=_infer)
def SparseLengthsPositionalWeightedSum(xp, data, weights, indices, lengths, *, out):
    """Y[k] = sum of weights[j] * data[i] where i is the j-th index of segment k.

    data [N, ...], weights [longest length], indices [n], lengths [segments], Y [segments, ...] (float32); data
    float32 or float16, indices int32 or int64, lengths int32.  ValueError where an index is no row, the lengths do
    not add up to n, or a segment is longer than the weights.
    """
    starts, counts = lengths_to_starts(xp, lengths, indices.shape[0], exact=True)
    if counts.size and int(counts.max()) > weights.shape[0]:
        raise ValueError(f"a segment has {int(counts.max())} indices, and there are {weights.shape[0]} weights")
    repeats = counts.tolist() if xp is not np else counts
    positions = xp.arange(indices.shape[0]) - xp.repeat(starts, repeats)
    return _sum(xp, data, indices, lengths, out, weights[positions])[0]


@compiled(SparseLengthsPositionalWeightedSum, also="float16")
def _sparse_lengths_positional_weighted_sum_compiled(xp, data, weights, indices, lengths, *, out):
    if lengths.size and int(lengths.max()) > weights.size:
        raise ValueError(f"a segment has {int(lengths.max())} indices, and there are {weights.size} weights")
    return _sum_compiled(data, weights, indices, lengths, out, positional=True)
