"""Random samples, and random replacement of identifiers."""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.registry import operator


@operator(
    "indices values?", stateful=True, types={"weights": "float32", "choices": "float32"}, gradient=FORBID_GRADIENT
)
def WeightedSample(ctx, weights, choices=None, *, out):
    """For each row an index, drawn with the row's weights, int32, and what the second input has there.

    weights and choices [N, D], indices and values [N, 1]; float32, indices int32.  ValueError where the shapes differ
    or the second output has no choices.
    """
    xp = ctx.xp
    if weights.ndim != 2:
        raise ValueError(f"rows of weights are needed, found the shape {list(weights.shape)}")
    if choices is not None and choices.shape != weights.shape:
        raise ValueError(f"the values must have the weights' shape {list(weights.shape)}, found {list(choices.shape)}")
    n, d = weights.shape
    if not weights.size:
        empty = out[0]((0,), "int32")
        return (empty, out[1]((0,), "float32")) if len(out) > 1 else empty
    sums = xp.cumsum(weights, axis=1)
    drawn = ctx.rng.random((n, 1), dtype=xp.float32) * sums[:, -1:]
    found = xp.minimum((sums <= drawn).sum(axis=1, keepdims=True), d - 1)
    indices = out[0]((n, 1), "int32")
    indices[...] = found
    if len(out) < 2:
        return indices
    if choices is None:
        raise ValueError("the second output needs the second input, the values to choose from")
    values = out[1]((n, 1), "float32")
    values[...] = xp.take_along_axis(choices, found, axis=1)
    return indices, values


@operator(
    "indices",
    stateful=True,
    types="float32",
    anywhere="like",
    infer=lambda args, inputs: [Spec(inputs[1].shape if len(inputs) > 1 else (args["num_samples"],), "int32")],
    limits="num_samples >= 0",
)
def WeightedMultiSampling(ctx, cdf, like=None, *, num_samples: int = 0, out):
    """Indices drawn by a cumulative distribution, int32: num_samples, or as many as the second input has elements.

    cdf [D], like [...], indices [num_samples] or of the shape of `like`; float32, indices int32.  ValueError where
    cdf is no vector or num_samples is negative.
    """
    xp = ctx.xp
    if cdf.ndim != 1:
        raise ValueError(f"the cumulative weights must be a vector, found {list(cdf.shape)}")
    if not cdf.size:  # nothing can be drawn of nothing
        return out((0,), "int32")
    Y = out((num_samples,) if like is None else like.shape, "int32")
    if Y.size:
        drawn = ctx.rng.random(Y.shape, dtype=xp.float32).reshape(-1) * cdf[-1]
        Y[...] = xp.minimum(xp.searchsorted(cdf, drawn, side="left"), cdf.size - 1).reshape(Y.shape)
    return Y


def _check(X: Any, lengths: Any) -> None:
    if X.ndim != 1 or lengths.ndim != 1 or int(lengths.sum()) != X.size or (lengths.size and int(lengths.min()) < 0):
        raise ValueError(
            f"the lengths, none below 0, must add up to the {X.size} values of a vector, found {list(X.shape)}"
        )


_SPARSE = {"X": "int64", "lengths": "int32"}


@operator(
    "Y lengths_out",
    stateful=True,
    types=_SPARSE,
    host="X lengths Y lengths_out",
    gradient=NO_GRADIENT,
    limits="ratio >= 0, ratio <= 1",
)
def SparseDropoutWithReplacement(ctx, X, lengths, *, ratio: float = 0.0, replacement_value: int = 0, out):
    """The values of each example, or with probability `ratio` one replacement for all of them.

    X [n], lengths and lengths_out [examples], Y [sum of lengths_out]; int64, lengths int32.  ValueError where the
    lengths do not add up to n or ratio is not from 0 to 1.
    """
    _check(X, lengths)
    drop = ctx.device.to_host(ctx.rng.random(lengths.size)) < ratio
    counts = lengths.copy()
    counts[drop] = 1
    Y, L = out[0]((int(counts.sum()),), "int64"), out[1](lengths.shape, "int32")
    L[...] = counts
    start = end = 0
    for n, gone in zip(lengths.tolist(), drop.tolist()):
        if gone:
            Y[end] = replacement_value
        else:
            Y[end : end + n] = X[start : start + n]
        start, end = start + n, end + (1 if gone else n)
    return Y, L


@operator("Y lengths_out", stateful=True, types=_SPARSE, gradient=NO_GRADIENT, limits="ratio >= 0, ratio <= 1")
def SparseItemwiseDropoutWithReplacement(ctx, X, lengths, *, ratio: float = 0.0, replacement_value: int = 0, out):
    """The values, each replaced with probability `ratio`.

    X and Y [n], lengths and lengths_out [examples]; int64, lengths int32.  ValueError where the lengths do not add up
    to n or ratio is not from 0 to 1.
    """
    _check(X, lengths)
    Y, L = out[0](X.shape, "int64"), out[1](lengths.shape, "int32")
    ctx.xp.copyto(L, lengths)
    Y[...] = ctx.xp.where(ctx.rng.random(X.size) < ratio, replacement_value, X)
    return Y, L
