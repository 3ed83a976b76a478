"""Reductions of runs of rows that are told apart by their lengths, dense and by index, with their gradients."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit import segments
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.segments import column, lengths_to_starts, maximum_rows, reduce_rows, spread

_INT = "int32 int64"
_DENSE = {"data": "float32", "lengths": "int32"}
_SPARSE = {"data": "float32 float16", "indices": _INT, "lengths": _INT}


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
    if indices is not None:
        check_lookup(data, indices, lengths)
    starts, counts = lengths_to_starts(xp, lengths, size, exact=True)
    return reduce_rows(xp, xp.add, data, starts, counts, _result(out, lengths, data), indices, weights), counts


def check_lookup(data, indices, lengths):
    """An error where an index is outside of the data, or lengths are not int32 (without indices Caffe2 does not look)."""
    if indices.size and lengths.dtype != np.int32:
        raise TypeError(f"lengths must be int32, got {lengths.dtype}")
    segments.check_indices(indices, data.shape[0])


@operator("Y", types=_DENSE, infer=_infer, gradient=single("LengthsIndicesInGradientSumGradient", "GO0 I1 I0 -> GI0"))
def LengthsSum(xp, data, lengths, *, out):
    """Y[k] = sum of the rows of segment k of the data."""
    return _sum(xp, data, None, lengths, out)[0]


@operator("Y", types=_DENSE, infer=_infer, gradient=single("LengthsIndicesInGradientMeanGradient", "GO0 I1 I0 -> GI0"))
def LengthsMean(xp, data, lengths, *, out):
    """Y[k] = mean of the rows of segment k; 0 for one without rows."""
    result, counts = _sum(xp, data, None, lengths, out)
    return _divide(xp, result, counts)


@operator(
    "Y",
    types=_DENSE,
    infer=_infer,
    gradient=single("LengthsMaxWithMainInputAndForwardOutputGradient", "O0 GO0 I1 I0 -> GI0"),
)
def LengthsMax(xp, data, lengths, *, out):
    """Y[k] = maximum of the rows of segment k; 0 for one without rows."""
    starts, counts = lengths_to_starts(xp, lengths, data.shape[0], exact=True)
    return maximum_rows(xp, data, starts, counts, _result(out, lengths, data))


@operator("dX", types={"Y": "float32", "dY": "=Y", "lengths": "int32", "data": "=Y"}, infer=like(3))
def LengthsMaxWithMainInputAndForwardOutputGradient(xp, Y, dY, lengths, data, *, out):
    """The gradient goes to every row that is the maximum of its segment."""
    _, counts = lengths_to_starts(xp, lengths, data.shape[0], exact=True)
    if Y.shape[0] != counts.shape[0]:
        raise ValueError(f"there are {counts.shape[0]} segments, and {Y.shape[0]} maxima")
    dX = spread(xp, dY, counts, out, data.shape[0])
    rows = xp.repeat(xp.arange(counts.shape[0]), counts.tolist() if xp is not np else counts)
    return xp.multiply(dX, data == Y[rows], out=dX)


@operator(
    "Y",
    types={"data": "float32", "weights": "float32", "lengths": "int32"},
    infer=_infer,
    gradient=lambda g: _weighted(g, "LengthsWeightedSumGradient", "LengthsWeightedSumWithMainInputGradient"),
)
def LengthsWeightedSum(xp, data, weights, lengths, *, grad_on_weights: bool = False, out):
    """Y[k] = sum of the rows of segment k, each times its weight."""
    _check_weights(weights, data.shape[0])
    return _sum(xp, data, None, lengths, out, weights)[0]


def _check_weights(weights, size):
    if weights.ndim != 1 or weights.shape[0] != size:
        raise ValueError(f"there must be one weight for each of {size} rows, got shape {list(weights.shape)}")


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


@operator("Y", types=_SPARSE, infer=_infer, gradient=_sparse("SparseLengthsIndicesInGradientSumGradient"))
def SparseLengthsSum(xp, data, indices, lengths, *, out):
    """Y[k] = sum of data[i] over the indices of segment k: a lookup of embeddings."""
    return _sum(xp, data, indices, lengths, out)[0]


@operator("Y", types=_SPARSE, infer=_infer, gradient=_sparse("SparseLengthsIndicesInGradientMeanGradient"))
def SparseLengthsMean(xp, data, indices, lengths, *, out):
    """Y[k] = mean of data[i] over the indices of segment k."""
    result, counts = _sum(xp, data, indices, lengths, out)
    return _divide(xp, result, counts)


@operator("Y", types={"data": "float32", "indices": _INT, "lengths": "int32"}, infer=_infer)
def SparseLengthsMax(xp, data, indices, lengths, *, out):
    """Y[k] = maximum of data[i] over the indices of segment k."""
    segments.check_indices(indices, data.shape[0])
    starts, counts = lengths_to_starts(xp, lengths, indices.shape[0], exact=True)
    return maximum_rows(xp, data, starts, counts, _result(out, lengths, data), indices)


@operator("Y", types={**_SPARSE, "weights": "float32"}, infer=_infer, gradient=_sparse_weighted)
def SparseLengthsWeightedSum(xp, data, weights, indices, lengths, *, grad_on_weights: int = 0, out):
    """Y[k] = sum of weight * data[i] over the indices of segment k."""
    _check_weights(weights, indices.shape[0])
    return _sum(xp, data, indices, lengths, out, weights)[0]


@operator("Y", types={**_SPARSE, "weights": "float32"}, infer=_infer)
def SparseLengthsPositionalWeightedSum(xp, data, weights, indices, lengths, *, out):
    """Y[k] = sum of weights[j] * data[i] where i is the j-th index of segment k."""
    starts, counts = lengths_to_starts(xp, lengths, indices.shape[0], exact=True)
    if counts.size and int(counts.max()) > weights.shape[0]:
        raise ValueError(f"a segment has {int(counts.max())} indices, and there are {weights.shape[0]} weights")
    repeats = counts.tolist() if xp is not np else counts
    positions = xp.arange(indices.shape[0]) - xp.repeat(starts, repeats)
    return _sum(xp, data, indices, lengths, out, weights[positions])[0]


# ---- gradients -------------------------------------------------------------------------------------------------


def _check_gradients(dY, lengths):
    if lengths.ndim != 1 or dY.ndim < 1 or dY.shape[0] != lengths.shape[0]:
        raise ValueError(
            f"there must be one gradient for each segment, got {list(dY.shape)} and lengths of shape {list(lengths.shape)}"
        )


def _spread(xp, dY, lengths, out):
    _check_gradients(dY, lengths)
    counts = lengths.astype("int64")
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


def _weighted_gradient(xp, weights, dY, lengths, *, out):
    made, _counts = _spread(xp, dY, lengths, out)
    _check_weights(weights, made.shape[0])
    return xp.multiply(made, column(xp, weights, made), out=made)


def _weighted_gradient_of(xp, weights, dY, lengths, indices, *, out):
    return _weighted_gradient(xp, weights, dY, lengths, out=out)


def _weighted_gradient_both(xp, weights, dY, lengths, data, indices, out):
    made, _counts = _spread(xp, dY, lengths, out[0])
    _check_weights(weights, made.shape[0])
    rows = data if indices is None else segments.take_rows(xp, data, indices)
    by_weights = out[1](weights.shape, weights.dtype)
    if made.size:
        xp.sum((made * rows).reshape(made.shape[0], -1), axis=1, out=by_weights)
    else:
        by_weights[...] = 0
    return xp.multiply(made, column(xp, weights, made), out=made), by_weights


def _dense_both(xp, weights, dY, lengths, data, *, out):
    return _weighted_gradient_both(xp, weights, dY, lengths, data, None, out)


def _sparse_both(xp, weights, dY, lengths, data, indices, *, out):
    segments.check_indices(indices, data.shape[0])
    return _weighted_gradient_both(xp, weights, dY, lengths, data, indices, out)


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

for _name, _outputs, _kernel, _types, _doc in (
    ("LengthsSumGradient", "dX", _sum_gradient, _PLAIN, "Each row gets its segment's gradient."),
    ("LengthsMeanGradient", "dX", _mean_gradient, _PLAIN, "Each row gets its share of its segment's gradient."),
    ("SparseLengthsSumGradient", "dX", _sum_gradient, _PLAIN, "Each lookup gets its segment's gradient."),
    ("SparseLengthsMeanGradient", "dX", _mean_gradient, _PLAIN, "Each lookup gets its share of its segment's gradient."),
    ("LengthsIndicesInGradientSumGradient", "dX", _sum_gradient_of, _PLAIN, "As LengthsSumGradient."),
    ("LengthsIndicesInGradientMeanGradient", "dX", _mean_gradient_of, _PLAIN, "As LengthsMeanGradient."),
    ("SparseLengthsIndicesInGradientSumGradient", "dX", _sum_gradient_of, _PLAIN, "As SparseLengthsSumGradient."),
    ("SparseLengthsIndicesInGradientMeanGradient", "dX", _mean_gradient_of, _PLAIN, "As SparseLengthsMeanGradient."),
    ("LengthsWeightedSumGradient", "dX", _weighted_gradient, _WEIGHTED, "Each row gets its weight times its segment's gradient."),
    ("SparseLengthsWeightedSumGradient", "dX", _weighted_gradient, _WEIGHTED, "As LengthsWeightedSumGradient."),
    ("SparseLengthsIndicesInGradientWeightedSumGradient", "dX", _weighted_gradient_of, _WEIGHTED, "As LengthsWeightedSumGradient."),
    ("LengthsWeightedSumWithMainInputGradient", "dX dweights", _dense_both, _WEIGHTED, "Gradients by the rows and by the weights."),
    ("SparseLengthsWeightedSumWithMainInputGradient", "dX dweights", _sparse_both, _WEIGHTED, "Gradients by lookups and by weights."),
    (
        "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient", "dX dweights", _sparse_both, _WEIGHTED,
        "Gradients by the lookups and by the weights.",
    ),
):  # fmt: skip
    operator(_outputs, name=_name, types=_types, infer=_GRADIENT_SHAPES.get(_name), doc=_doc)(_kernel)
