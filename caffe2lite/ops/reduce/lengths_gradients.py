"""Gradients of reductions of runs of rows: dense ones and lookups share their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit import registry, segments
from caffe2lite.ops.kit.compiled import compiled, loop, prefetch
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.segments import check_weights, column, spread
from caffe2lite.ops.kit.shapes import fitted
from caffe2lite.ops.reduce.lengths import AHEAD, INDEX, LINE, NO_INDICES, NOTHING, U, check_counts, place

# ---- gradients -------------------------------------------------------------------------------------------------


def _check_gradients(dY, lengths):
    if lengths.ndim != 1 or dY.ndim < 1 or dY.shape[0] != lengths.shape[0]:
        raise ValueError(
            f"there must be one gradient for each segment, got {list(dY.shape)} and lengths of shape {list(lengths.shape)}"
        )


def _spread(xp, dY, lengths, out):
    _check_gradients(dY, lengths)
    counts = lengths.astype("int64")
    if counts.size and int(counts.min()) < 0:
        raise ValueError(f"a length is negative: {int(counts.min())}")
    check_result((int(counts.sum()), *dY.shape[1:]), dY.dtype)
    check_result((int(counts.sum()),), "int64")
    return spread(xp, dY, counts, out, int(counts.sum())), counts


def _sum_gradient(xp, dY, lengths, *, out):
    return _spread(xp, dY, lengths, out)[0]


def _mean_gradient(xp, dY, lengths, *, out):
    counts = lengths.astype("int64")
    _check_gradients(dY, lengths)
    return _spread(xp, dY / column(xp, xp.maximum(counts, 1).astype(dY.dtype), dY), lengths, out)[0]


def _sum_gradient_of(xp, dY, lengths, indices, *, out):
    return _sum_gradient(xp, dY, lengths, out=out)


def _mean_gradient_of(xp, dY, lengths, indices, *, out):
    return _mean_gradient(xp, dY, lengths, out=out)


def _one_each(weights, size):
    """The weights as a vector, one for each of `size` rows; further dimensions of 1 are passed over."""
    if weights.ndim > 1 and weights.size == weights.shape[0]:
        weights = weights.reshape(-1)
    check_weights(weights, size)
    return weights


def _weighted_gradient(xp, weights, dY, lengths, *, out):
    made, _ = _spread(xp, dY, lengths, out)
    weights = _one_each(weights, made.shape[0])
    return xp.multiply(made, column(xp, weights, made), out=made)


def _weighted_gradient_of(xp, weights, dY, lengths, indices, *, out):
    return _weighted_gradient(xp, weights, dY, lengths, out=out)


def _weighted_gradient_both(xp, weights, dY, lengths, data, indices, out):
    made, _ = _spread(xp, dY, lengths, out[0])
    shape, weights = weights.shape, fitted(weights, made.shape[:1], "weights")
    rows = data if indices is None else segments.take_rows(xp, data, indices)
    by_weights = out[1](shape, weights.dtype)
    if made.size != rows.size or made.shape[0] != rows.shape[0]:
        raise ValueError(f"the rows of dY {list(dY.shape)} and of the data {list(data.shape)} must have one size")
    if made.size:
        flat = made.shape[0], -1
        xp.sum(made.reshape(flat) * rows.reshape(flat), axis=1, out=by_weights.reshape(-1))
    else:
        by_weights[...] = 0
    return xp.multiply(made, column(xp, weights, made), out=made), by_weights


def _dense_both(xp, weights, dY, lengths, data, *, out):
    return _weighted_gradient_both(xp, weights, dY, lengths, data, None, out)


def _sparse_both(xp, weights, dY, lengths, data, indices, *, out):
    segments.check_indices(indices, data.shape[0])
    return _weighted_gradient_both(xp, weights, dY, lengths, data, indices, out)


def _spread_compiled(dY: Any, weights: Any, lengths: Any, out: Any, mean: bool) -> Any:
    _check_gradients(dY, lengths)
    size = int(lengths.sum(dtype=np.int64))
    check_counts(lengths, size)
    check_result((size,), "int64")
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


def _infer_rows(args, inputs):
    return [Spec((inputs[2].shape[0], *inputs[0].shape[1:]))]


_PLAIN = {"dY": "float32", "lengths": "int32"}
_GRADIENT_SHAPES = {
    "LengthsIndicesInGradientSumGradient": _infer_rows,
    "LengthsIndicesInGradientMeanGradient": _infer_rows,
    "LengthsWeightedSumWithMainInputGradient": like(3, 0),
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient": like(None, 0),
}
_WEIGHTED = {"weights": "float32", "dY": "float32", "lengths": "int32"}

_GRADIENT_OPERANDS = """dY [segments, ...], lengths [segments], weights, dweights and indices [n], dX [n, ...]; float32,
lengths int32, indices int32 or int64.  ValueError where there is not one gradient for each length, or the weights are not
[n], n being the sum of lengths."""

for _name, _outputs, _kernel, _types, _doc in (
    ("LengthsSumGradient", "dX", _sum_gradient, _PLAIN, "dX[i] = dY of row i's segment."),
    ("LengthsMeanGradient", "dX", _mean_gradient, _PLAIN, "dX[i] = dY of row i's segment over its length."),
    ("SparseLengthsSumGradient", "dX", _sum_gradient, _PLAIN, "dX[i] = dY of lookup i's segment."),
    ("SparseLengthsMeanGradient", "dX", _mean_gradient, _PLAIN, "dX[i] = dY of lookup i's segment over its length."),
    ("LengthsIndicesInGradientSumGradient", "dX", _sum_gradient_of, _PLAIN, "As LengthsSumGradient."),
    ("LengthsIndicesInGradientMeanGradient", "dX", _mean_gradient_of, _PLAIN, "As LengthsMeanGradient."),
    ("SparseLengthsIndicesInGradientSumGradient", "dX", _sum_gradient_of, _PLAIN, "As SparseLengthsSumGradient."),
    ("SparseLengthsIndicesInGradientMeanGradient", "dX", _mean_gradient_of, _PLAIN, "As SparseLengthsMeanGradient."),
    ("LengthsWeightedSumGradient", "dX", _weighted_gradient, _WEIGHTED, "dX[i] = weights[i] * dY of row i's segment."),
    ("SparseLengthsWeightedSumGradient", "dX", _weighted_gradient, _WEIGHTED, "As LengthsWeightedSumGradient."),
    (
        "SparseLengthsIndicesInGradientWeightedSumGradient",
        "dX",
        _weighted_gradient_of,
        _WEIGHTED,
        "As LengthsWeightedSumGradient.",
    ),
    (
        "LengthsWeightedSumWithMainInputGradient",
        "dX dweights",
        _dense_both,
        _WEIGHTED,
        "dX[i] = weights[i] * dY of row i's segment; dweights[i] = data[i] * dY.",
    ),
    (
        "SparseLengthsWeightedSumWithMainInputGradient",
        "dX dweights",
        _sparse_both,
        _WEIGHTED,
        "As LengthsWeightedSumWithMainInputGradient, with the rows data[indices].",
    ),
    (
        "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
        "dX dweights",
        _sparse_both,
        _WEIGHTED,
        "dX[i] = weights[i] * dY of lookup i's segment; dweights[i] = data[indices[i]] * dY.",
    ),
):
    _shapes = "dY [K, ...], lengths [K]" + (", data [R, ...]" if "WithMainInput" in _name else "")
    if "WithMainInput" in _name:
        _types = {**_types, "data": "float32"}
    if "_sparse_both" in _kernel.__name__:
        _types, _shapes = {**_types, "indices": INDEX}, _shapes + ", indices [I]"
    operator(
        _outputs,
        name=_name,
        types=_types,
        shapes=_shapes,
        infer=_GRADIENT_SHAPES.get(_name),
        doc=f"{_doc}\n\n{_GRADIENT_OPERANDS}",
    )(_kernel)


@compiled(*(registry.find(n) for n in ("LengthsSumGradient", "SparseLengthsSumGradient")))
def _sum_gradient_compiled(xp, dY, lengths, *, out):
    return _spread_compiled(dY, NOTHING, lengths, out, mean=False)


@compiled(
    *(registry.find(n) for n in ("LengthsIndicesInGradientSumGradient", "SparseLengthsIndicesInGradientSumGradient"))
)
def _sum_gradient_of_compiled(xp, dY, lengths, indices, *, out):
    return _spread_compiled(dY, NOTHING, lengths, out, mean=False)


@compiled(*(registry.find(n) for n in ("LengthsMeanGradient", "SparseLengthsMeanGradient")))
def _mean_gradient_compiled(xp, dY, lengths, *, out):
    return _spread_compiled(dY, NOTHING, lengths, out, mean=True)


@compiled(
    *(registry.find(n) for n in ("LengthsIndicesInGradientMeanGradient", "SparseLengthsIndicesInGradientMeanGradient"))
)
def _mean_gradient_of_compiled(xp, dY, lengths, indices, *, out):
    return _spread_compiled(dY, NOTHING, lengths, out, mean=True)


@compiled(*(registry.find(n) for n in ("LengthsWeightedSumGradient", "SparseLengthsWeightedSumGradient")))
def _weighted_gradient_compiled(xp, weights, dY, lengths, *, out):
    weights = _one_each(weights, int(lengths.sum(dtype=np.int64)))
    return _spread_compiled(dY, weights, lengths, out, mean=False)


@compiled(registry.find("SparseLengthsIndicesInGradientWeightedSumGradient"))
def _weighted_gradient_of_compiled(xp, weights, dY, lengths, indices, *, out):
    return _weighted_gradient_compiled(xp, weights, dY, lengths, out=out)


def _both_compiled(weights, dY, lengths, data, indices, out):
    _check_gradients(dY, lengths)
    size = data.shape[0] if indices is None else indices.shape[0]
    check_counts(lengths, size)
    shape, weights = weights.shape, fitted(weights, (size,), "weights")
    if indices is not None:
        segments.check_indices(indices, data.shape[0])
    dX, dW = out[0]((size, *dY.shape[1:]), dY.dtype), out[1](shape, weights.dtype)
    if dX.size and dY.shape[1:] == data.shape[1:]:
        where = NO_INDICES if indices is None else indices
        _gradient_by_both(weights, dY.reshape(-1), lengths, data.reshape(-1), where, dX.reshape(-1), dW)
    else:
        _weighted_gradient_both(np, weights, dY, lengths, data, indices, out)
    return dX, dW


@loop(reorder=True)
def _gradient_by_both(weights, dY, lengths, data, indices, dX, dW):
    width, i, last = U(dY.size // lengths.size), U(0), U(max(indices.size, 1) - 1)
    for k in range(U(lengths.size)):
        y = k * width
        for _ in range(lengths[k]):
            if indices.size:
                soon = U(indices[min(i + AHEAD, last)]) * width
                for j in range(U(0), width, LINE):
                    prefetch(data, soon + j)
            row, to, w, total = place(indices, i, width), i * width, weights[i], np.float32(0)
            for j in range(width):
                total += dY[y + j] * data[row + j]
                dX[to + j] = dY[y + j] * w
            dW[i] = total
            i += U(1)


@compiled(registry.find("LengthsWeightedSumWithMainInputGradient"))
def _dense_both_compiled(xp, weights, dY, lengths, data, *, out):
    return _both_compiled(weights, dY, lengths, data, None, out)


@compiled(
    *(
        registry.find(n)
        for n in (
            "SparseLengthsWeightedSumWithMainInputGradient",
            "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient",
        )
    )
)
def _sparse_both_compiled(xp, weights, dY, lengths, data, indices, *, out):
    return _both_compiled(weights, dY, lengths, data, indices, out)
