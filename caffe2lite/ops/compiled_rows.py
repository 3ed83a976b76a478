"""Sums of rows that indices name, and what goes back to these rows, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops import lengths as plain_lengths
from caffe2lite.ops._compiled import compiled, loop, prefetch

_NOTHING = np.zeros(0, np.float32)
_AHEAD, _LINE = 16, 16  # rows to fetch ahead; floats in a line of the cache


def _counts(lengths: Any, size: int) -> None:
    """ValueError where the lengths do not cover `size` rows."""
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have one dimension, got shape {list(lengths.shape)}")
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"a length is negative: {int(lengths.min())}")
    total = int(lengths.sum(dtype=np.int64))
    if total != size:
        raise ValueError(f"the lengths sum to {total}, and there are {size} rows")


def _sum(data: Any, weights: Any, indices: Any, lengths: Any, out: Any, mean: bool = False, positional: bool = False) -> Any:
    if data.ndim < 1:
        raise ValueError("the data must have at least one dimension")
    plain_lengths.check_lookup(data, indices, lengths)
    _counts(lengths, indices.shape[0])
    Y = plain_lengths._result(out, lengths, data)
    if Y.size:
        rows = data.reshape(data.shape[0], Y.size // Y.shape[0])
        _sum_rows(rows, weights, indices, lengths, Y.reshape(Y.shape[0], -1), mean, positional)
    return Y


@loop
def _sum_rows(data, weights, indices, lengths, Y, mean, positional):
    width = Y.shape[1]
    flat = data.reshape(-1)
    at = 0
    for k in range(lengths.size):
        y = Y[k]
        y[:] = 0
        for i in range(lengths[k]):
            soon = indices[min(at + i + _AHEAD, indices.size - 1)] * width
            for j in range(0, width, _LINE):
                prefetch(flat, soon + j)
            begin = indices[at + i] * width
            row = flat[begin : begin + width]
            if weights.size:
                w = weights[i] if positional else weights[at + i]
                for j in range(width):
                    y[j] += w * row[j]
            else:
                for j in range(width):
                    y[j] += row[j]
        if mean and lengths[k]:
            share = np.float32(1) / np.float32(lengths[k])
            for j in range(width):
                y[j] *= share
        at += lengths[k]


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
