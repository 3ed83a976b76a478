"""Sums of rows that indices name, and what goes back to these rows, in compiled loops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, cores, loop, prefetch, together
from caffe2lite.ops.reduce import lengths as plain_lengths

_NOTHING = np.zeros(0, np.float32)
_SHARED = 1 << 20  # elements to be read from which on several threads pay
_U = np.uint64
_AHEAD, _LINE = _U(16), _U(16)  # rows to fetch ahead; floats in a line of the cache


def _counts(lengths: Any, size: int) -> None:
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
    count = min(cores(), lengths.size) if work >= _SHARED else 1
    cuts = [lengths.size * k // count for k in range(count + 1)]
    places = [int(lengths[:cut].sum(dtype=np.int64)) for cut in cuts]
    return list(zip(cuts, cuts[1:], places, places[1:]))


def _sum(data: Any, weights: Any, indices: Any, lengths: Any, out: Any, mean: bool = False, positional: bool = False) -> Any:
    if data.ndim < 1:
        raise ValueError("the data must have at least one dimension")
    plain_lengths.check_lookup(data, indices, lengths)
    _counts(lengths, indices.shape[0])
    Y = plain_lengths._result(out, lengths, data)
    if Y.size:
        rows, sums = data.reshape(-1), Y.reshape(Y.shape[0], -1)
        together([
            functools.partial(
                _sum_rows, rows, weights if positional else weights[begin:end], indices[begin:end], lengths[first:last],
                sums[first:last].reshape(-1), mean, positional,
            )
            for first, last, begin, end in _parts(lengths, indices.size * sums.shape[1])
        ])
    return Y


@loop
def _sum_rows(data, weights, indices, lengths, Y, mean, positional):
    """Y[k] = sum of the rows of segment k, all arrays flat.  Indices are unsigned: signed ones might count from the end.

    Four rows are added at a time, one after the other, so that a sum is read and written once for four of them.
    """
    width, last = _U(Y.size // lengths.size), _U(indices.size - 1)
    begin = _U(0)
    for k in range(_U(lengths.size)):
        y = k * width
        for j in range(width):
            Y[y + j] = 0
        end = begin + _U(lengths[k])
        i = begin
        while i < end:
            some = min(end - i, _U(4))
            for s in range(some):
                soon = _U(indices[min(i + s + _AHEAD, last)]) * width
                for j in range(_U(0), width, _LINE):
                    prefetch(data, soon + j)
            if some == _U(4) and not weights.size:
                a, b = _U(indices[i]) * width, _U(indices[i + _U(1)]) * width
                c, d = _U(indices[i + _U(2)]) * width, _U(indices[i + _U(3)]) * width
                for j in range(width):
                    total = Y[y + j] + data[a + j]
                    total += data[b + j]
                    total += data[c + j]
                    total += data[d + j]
                    Y[y + j] = total
            else:
                for s in range(i, i + some):
                    row = _U(indices[s]) * width
                    w = np.float32(1)
                    if weights.size:
                        w = weights[s - begin] if positional else weights[s]
                    for j in range(width):
                        Y[y + j] += w * data[row + j]
            i += some
        if mean and end > begin:
            share = np.float32(1) / np.float32(lengths[k])
            for j in range(width):
                Y[y + j] *= share
        begin = end


@compiled("SparseLengthsSum")
def sparse_lengths_sum(xp, data, indices, lengths, *, out):
    return _sum(data, _NOTHING, indices, lengths, out)


@compiled("SparseLengthsMean")
def sparse_lengths_mean(xp, data, indices, lengths, *, out):
    return _sum(data, _NOTHING, indices, lengths, out, mean=True)


@compiled("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(xp, data, weights, indices, lengths, *, grad_on_weights: int = 0, out):
    plain_lengths._check_weights(weights, indices.shape[0])
    return _sum(data, weights, indices, lengths, out)


@compiled("SparseLengthsPositionalWeightedSum")
def sparse_lengths_positional_weighted_sum(xp, data, weights, indices, lengths, *, out):
    if lengths.size and int(lengths.max()) > weights.size:
        raise ValueError(f"a segment has {int(lengths.max())} indices, and there are {weights.size} weights")
    return _sum(data, weights, indices, lengths, out, positional=True)


@compiled(
    "SparseLengthsSumGradient", "SparseLengthsIndicesInGradientSumGradient",
    "LengthsSumGradient", "LengthsIndicesInGradientSumGradient",
)  # fmt: skip
def sum_gradient(xp, dY, lengths, data=None, *, out):
    return _spread(dY, _NOTHING, lengths, out, mean=False)


@compiled(
    "SparseLengthsMeanGradient", "SparseLengthsIndicesInGradientMeanGradient",
    "LengthsMeanGradient", "LengthsIndicesInGradientMeanGradient",
)  # fmt: skip
def mean_gradient(xp, dY, lengths, data=None, *, out):
    return _spread(dY, _NOTHING, lengths, out, mean=True)


@compiled(
    "SparseLengthsWeightedSumGradient", "SparseLengthsIndicesInGradientWeightedSumGradient", "LengthsWeightedSumGradient"
)
def weighted_sum_gradient(xp, weights, dY, lengths, indices=None, *, out):
    plain_lengths._check_weights(weights, int(lengths.sum(dtype=np.int64)))
    return _spread(dY, weights, lengths, out, mean=False)


def _spread(dY: Any, weights: Any, lengths: Any, out: Any, mean: bool) -> Any:
    plain_lengths._check_gradients(dY, lengths)
    size = int(lengths.sum(dtype=np.int64))
    _counts(lengths, size)
    made = out((size, *dY.shape[1:]), dY.dtype)
    if made.size:
        _spread_rows(dY.reshape(dY.shape[0], -1), weights, lengths, made.reshape(size, -1), mean)
    return made


@loop
def _spread_rows(dY, weights, lengths, made, mean):
    at = 0
    for k in range(lengths.size):
        dy = dY[k]
        share = np.float32(1) / np.float32(lengths[k]) if mean else np.float32(1)
        for i in range(at, at + lengths[k]):
            goal = made[i]
            w = weights[i] if weights.size else share
            for j in range(dy.size):
                goal[j] = dy[j] * w
        at += lengths[k]
