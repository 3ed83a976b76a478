"""Sums, means, extremes and norms over dimensions of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.extremes import largest_along, smallest_along
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.products import abs_sums, sum_along
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import end_axis, fitted

_NUMBERS = "float32 float64 int32 int64"


def extreme(xp: Any, X: Any, axes: tuple[int, ...], largest: bool, lanes: bool = False) -> Any:
    """Maximum or minimum over the axes, as Caffe2's loops find it: NaN counts only where it comes first.

    With `lanes`, elements that are neighbours in memory go through registers of four, where the one that NaN must be
    in to count is the fourth.
    """
    if not axes:
        return X
    if not math.prod(X.shape[a] for a in axes):
        kept = tuple(d for a, d in enumerate(X.shape) if a not in axes)
        info = xp.finfo(X.dtype) if X.dtype.kind == "f" else xp.iinfo(X.dtype)
        return xp.full(kept, info.min if largest else info.max, X.dtype)
    run = X.ndim - len(axes)
    if axes == tuple(range(run, X.ndim)) and X.size:  # the last axes are one
        result = (largest_along if largest else smallest_along)(xp, X.reshape((*X.shape[:run], -1)), run)
    else:
        result = X.max(axis=axes) if largest else X.min(axis=axes)
    if X.dtype.kind == "f" and xp.isnan(result).any():
        return _extreme_with_nan(xp, X, axes, largest, lanes)
    return result


def _extreme_with_nan(xp: Any, X: Any, axes: tuple[int, ...], largest: bool, lanes: bool) -> Any:
    run = X.ndim
    while run - 1 in axes:
        run -= 1
    if lanes and run < X.ndim:  # the last axes first, then the others
        tail = X.reshape((*X.shape[:run], -1))
        X = _past_nan(xp, tail, (run,), largest, 3 if tail.shape[run] > 3 else 0)
        axes = tuple(a for a in axes if a < run)
    return _past_nan(xp, X, axes, largest, 0) if axes else X


def _past_nan(xp: Any, X: Any, axes: tuple[int, ...], largest: bool, decisive: int) -> Any:
    clean = xp.where(xp.isnan(X), -xp.inf if largest else xp.inf, X)
    best = clean.max(axis=axes) if largest else clean.min(axis=axes)
    one = X[tuple(decisive if a in axes else slice(None) for a in range(X.ndim))]
    return xp.where(xp.isnan(one), one, best)


def plain_axes(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The axes, sorted, all of them where none is named."""
    if not axes:
        return tuple(range(ndim))
    result = sorted({a + ndim if a < 0 else a for a in axes})
    if result[0] < 0 or result[-1] >= ndim:
        raise ValueError(f"axes={list(axes)} must be from {-ndim} to {ndim - 1}, for {ndim} dimensions")
    return tuple(result)


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else d for a, d in enumerate(shape) if keepdims or a not in axes)


def check_results(X: Any, shape: tuple[int, ...], **operands: Any) -> None:
    """ValueError where operands are not of the size that reducing X gives."""
    for what, operand in operands.items():
        if operand.size != math.prod(shape):
            raise ValueError(
                f"{what} must be {list(shape)}, what X {list(X.shape)} is reduced to; found {list(operand.shape)}"
            )


def _sum(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    return sum_along(xp, X, axes)


def _mean(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    return _sum(xp, X, axes) * X.dtype.type(1 / max(math.prod(X.shape[a] for a in axes), 1))


def _l1(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    if xp is np and X.size and axes and axes[-1] == X.ndim - 1 and axes == tuple(range(axes[0], X.ndim)):
        rows = X.reshape(-1, math.prod(X.shape[axes[0] :]))
        return abs_sums(xp, rows).reshape(X.shape[: axes[0]])
    return abs(X).sum(axis=axes)


def _l2(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    return xp.sqrt((X * X).sum(axis=axes))


def _gradient_mean(xp: Any, dY: Any, X: Any, Y: Any) -> Any:
    return dY * dY.dtype.type(dY.size / max(X.size, 1))


def _gradient_ties(xp: Any, dY: Any, X: Any, Y: Any) -> Any:
    return dY * (X == Y)


def _gradient_l1(xp: Any, dY: Any, X: Any, Y: Any) -> Any:
    return dY * ((X > 1e-12).astype(dY.dtype) - (X < -1e-12).astype(dY.dtype))


def _gradient_l2(xp: Any, dY: Any, X: Any, Y: Any) -> Any:
    return xp.where(Y <= 0, dY, dY * X / Y)


_OVER_AXES = """X [...], Y with a dimension of 1 for each of the axes (all where none is named), or without them where keepdims
is 0; {}.  ValueError where an axis is none of X's."""


def _reduction(name: str, gradient: str, reduce: Any, derive: Any, types: str, doc: str) -> None:
    """Add a reduction over axes and its gradient, for which `derive` gives dX of dY, X and Y."""
    operands = _OVER_AXES.format(types.replace(" ", ", "))

    def kernel(xp, X, *, axes: list[int] = (), keepdims: bool = True, out):
        over = plain_axes(axes, X.ndim)
        Y = out(kept_shape(X.shape, over, keepdims), X.dtype)
        Y[...] = reduce(xp, X, over).reshape(Y.shape)
        return Y

    def infer(args, inputs):
        shape = inputs[0].shape
        over = plain_axes(args.get("axes") or (), len(shape))
        return [Spec(kept_shape(shape, over, args.get("keepdims", True)), inputs[0].dtype)]

    operator(
        "Y",
        name=name,
        types=types,
        infer=infer,
        gradient=single(gradient, "GO0 I0 O0 -> GI0"),
        doc=f"{doc}\n\n{operands}",
    )(kernel)

    def backward(xp, dY, X, Y, *, axes: list[int] = (), out):
        shape = kept_shape(X.shape, plain_axes(axes, X.ndim), True)
        check_results(X, shape, dY=dY, Y=Y)
        dX = out(X.shape, X.dtype)
        dX[...] = derive(xp, fitted(dY, shape, "dY"), X, fitted(Y, shape, "Y"))
        return dX

    operator(
        "dX",
        name=gradient,
        types={"dY": types, "X": "=dY", "Y": "=dY"},
        infer=lambda args, inputs: [UNKNOWN if inputs[1].dtype == "int64" else inputs[1]],  # which may be X's shape
        doc=f"dX of {name}, from dY, X and Y.\n\ndX as X, dY as Y.  {operands}",
    )(backward)


def _max(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    return extreme(xp, X, axes, largest=True, lanes=True)


def _min(xp: Any, X: Any, axes: tuple[int, ...]) -> Any:
    return extreme(xp, X, axes, largest=False, lanes=True)


for _name, _back, _reduce, _derive, _types, _doc in (
    ("ReduceSum", "ReduceSumGradient", _sum, lambda xp, dY, X, Y: dY, _NUMBERS, "Y = sum of X over the axes."),
    ("ReduceMean", "ReduceMeanGradient", _mean, _gradient_mean, "float32", "Y = mean of X over the axes."),
    ("ReduceMax", "ReduceMaxGradient", _max, _gradient_ties, _NUMBERS, "Y = largest of X over the axes."),
    ("ReduceMin", "ReduceMinGradient", _min, _gradient_ties, _NUMBERS, "Y = smallest of X over the axes."),
    ("ReduceL1", "ReduceL1Gradient", _l1, _gradient_l1, "float32", "Y = sum of |X|."),
    ("ReduceL2", "ReduceL2Gradient", _l2, _gradient_l2, "float32", "Y = square root of the sum of X^2."),
):
    _reduction(_name, _back, _reduce, _derive, _types, _doc)


# ---- over the first or the last dimensions -----------------------------------------------------------------------


def _split(X: Any, n: int, front: bool) -> tuple[Any, tuple[int, ...], int]:
    """(X as a matrix, the shape that stays, the axis of the matrix to reduce)."""
    if not 0 <= n <= X.ndim:
        raise ValueError(f"num_reduce_dim={n} must be from 0 to {X.ndim}, for X of shape {list(X.shape)}")
    at = n if front else X.ndim - n
    rows, columns = X.shape[:at], X.shape[at:]
    matrix = X.reshape(math.prod(rows), math.prod(columns))
    return (matrix, columns, 0) if front else (matrix, rows, 1)


def _inside(xp: Any, matrix: Any, axis: int, lengths: Any, least: int) -> Any:
    """Where an element counts, if each row (or column) has a length of its own."""
    if lengths is None:
        return None
    others, most = matrix.shape[1 - axis], matrix.shape[axis]
    if lengths.size != others:
        raise ValueError(f"one length for each of the {others} results is needed, found {list(lengths.shape)}")
    lengths = lengths.reshape(-1)
    if lengths.size and not (int(lengths.min()) >= 0 and int(lengths.max()) <= most):
        raise ValueError(f"lengths must be from 0 to {most}, found {int(lengths.min())} to {int(lengths.max())}")
    lengths = xp.maximum(lengths, least)
    place = xp.arange(most)
    return place[:, None] < lengths if axis == 0 else place < lengths[:, None]


def _counts(matrix: Any, axis: int, lengths: Any) -> Any:
    return matrix.shape[axis] if lengths is None else lengths.reshape(-1)


def _plain_sum(xp: Any, matrix: Any, axis: int, lengths: Any) -> Any:
    inside = _inside(xp, matrix, axis, lengths, 1)  # Caffe2 starts with the first element, whatever the length
    kept = matrix if inside is None else xp.where(inside, matrix, 0)
    return kept.sum(axis=axis, dtype=matrix.dtype)


def _plain_mean(xp: Any, matrix: Any, axis: int, lengths: Any) -> Any:
    total, counts = _plain_sum(xp, matrix, axis, lengths), _counts(matrix, axis, lengths)
    if lengths is None:
        counts = max(counts, 1)
    if matrix.dtype.kind == "f":
        return total / (counts.astype(matrix.dtype) if lengths is not None else matrix.dtype.type(counts))
    return xp.trunc(total / counts)


def _plain_max(xp: Any, matrix: Any, axis: int, lengths: Any) -> Any:
    inside = _inside(xp, matrix, axis, lengths, 1)
    kept = matrix if inside is None else xp.where(inside, matrix, -xp.inf)
    if not matrix.shape[axis]:
        return xp.zeros(matrix.shape[1 - axis], matrix.dtype)
    return extreme(xp, kept, (axis,), largest=True)


def _broadside(values: Any, axis: int) -> Any:
    return values.reshape(1, -1) if axis == 0 else values.reshape(-1, 1)


def _one_sided_gradient(
    xp: Any, dY: Any, X: Any, Y: Any, lengths: Any, n: int, front: bool, mean: bool, out: Any
) -> Any:
    """Return dX of a sum or a mean or, with Y, of a maximum."""
    if Y is None and X.ndim == 1 and X.dtype.name == "int64":  # not X, but its shape
        dims = tuple(X.tolist())
        if min(dims, default=0) < 0:
            raise ValueError(f"the dimensions of X must not be negative, found {list(dims)}")
        check_result(dims, dY.dtype)
        X = xp.broadcast_to(xp.zeros((), dY.dtype), dims)
    matrix, stays, axis = _split(X, n, front)
    if dY.size != math.prod(stays):
        raise ValueError(f"dY must have the shape {list(stays)}, found {list(dY.shape)}")
    if Y is not None and Y.size != dY.size:
        raise ValueError(f"Y must have the shape {list(stays)}, found {list(Y.shape)}")
    if lengths is not None and lengths.shape != (dY.size,):
        raise ValueError(f"lengths must have the shape [{dY.size}], found {list(lengths.shape)}")
    dX = out(X.shape, dY.dtype)
    target = dX.reshape(matrix.shape)
    share = _broadside(dY, axis)
    if mean:
        share = share / _broadside(xp.maximum(xp.asarray(_counts(matrix, axis, lengths)), 1), axis).astype(dY.dtype)
    if Y is not None:
        share = share * (matrix == _broadside(Y, axis))
    inside = _inside(xp, matrix, axis, lengths, 0)
    target[...] = share if inside is None else xp.where(inside, share, 0)
    return dX


def _one_sided(
    name: str, gradient: str, reduce: Any, front: bool, types: str, with_y: bool, mean: bool, doc: str
) -> None:
    """Add a reduction over the first or the last dimensions, and its gradient."""
    operands = (
        f"X [{'n ..., stays ...' if front else 'stays ..., n ...'}], of which num_reduce_dim dimensions are n, Y [stays ...], lengths "
        f"[stays] (int32; how many elements count, where not all); {types.replace(' ', ', ')}.  ValueError where "
        f"num_reduce_dim is not from 0 to X's number of dimensions, or a length not from 0 to n."
    )

    def kernel(xp, X, lengths=None, *, num_reduce_dim: int = 1, out):
        matrix, stays, axis = _split(X, num_reduce_dim, front)
        Y = out(stays, X.dtype)
        Y[...] = reduce(xp, matrix, axis, lengths).reshape(stays)
        return Y

    def infer(args, inputs):
        shape, n = inputs[0].shape, args.get("num_reduce_dim", 1)
        return [Spec(shape[n:] if front else shape[: len(shape) - n], inputs[0].dtype)]

    def make(g):
        inputs = [g.GO(0), g.I(0), *([g.O(0)] if with_y else []), *g.op.input[1:]]
        return g.single(gradient, inputs, [g.GI(0)])

    operator(
        "Y", name=name, types={"X": types, "lengths": "int32"}, infer=infer, gradient=make, doc=f"{doc}\n\n{operands}"
    )(kernel)

    if with_y:

        def backward(xp, dY, X, Y, lengths=None, *, num_reduce_dim: int = 1, out):
            return _one_sided_gradient(xp, dY, X, Y, lengths, num_reduce_dim, front, mean, out)

    else:

        def backward(xp, dY, X, lengths=None, *, num_reduce_dim: int = 1, out):
            return _one_sided_gradient(xp, dY, X, None, lengths, num_reduce_dim, front, mean, out)

    operator(
        "dX",
        name=gradient,
        types={"dY": types, "lengths": "int32", **({"X": "=dY", "Y": "=dY"} if with_y else {})},
        infer=lambda args, inputs: [UNKNOWN if inputs[1].dtype == "int64" else inputs[1]],  # which may be X's shape
        doc=f"dX of {name}, from dY and X (or its shape).\n\ndX as X, dY as Y.  {operands}",
    )(backward)


for _name, _back, _reduce, _front, _types, _with_y, _is_mean, _doc in (
    ("ReduceFrontSum", "ReduceFrontSumGradient", _plain_sum, True, _NUMBERS, False, False, "Y = sum over rows."),
    ("ReduceFrontMean", "ReduceFrontMeanGradient", _plain_mean, True, _NUMBERS, False, True, "Y = mean over rows."),
    ("ReduceFrontMax", "ReduceFrontMaxGradient", _plain_max, True, "float32", True, False, "Y = largest over rows."),
    ("ReduceBackSum", "ReduceBackSumGradient", _plain_sum, False, _NUMBERS, False, False, "Y = sum over columns."),
    ("ReduceBackMean", "ReduceBackMeanGradient", _plain_mean, False, _NUMBERS, False, True, "Y = mean over columns."),
    ("ReduceBackMax", "ReduceBackMaxGradient", _plain_max, False, "float32", True, False, "Y = largest over columns."),
):
    _one_sided(_name, _back, _reduce, _front, _types, _with_y, _is_mean, _doc + " X is a matrix at num_reduce_dim.")


# ---- matrices of a batch -----------------------------------------------------------------------------------------


def _batch_max(name: str, gradient: str, axis: int, doc: str, **arity: Any) -> None:
    """Add the maxima of the rows (or columns) of each matrix of a batch, and their gradient."""
    operands = f"X [N, rows, columns], Y [N, {('columns', 'rows')[axis - 1]}]; float32.  ValueError where X has not 3 dimensions."

    def check(X):
        if X.ndim != 3:
            raise ValueError(f"a batch of matrices is needed, found the shape {list(X.shape)}")

    def kernel(xp, X, *, out):
        check(X)
        Y = out(tuple(d for a, d in enumerate(X.shape) if a != axis), X.dtype)
        Y[...] = extreme(xp, X, (axis,), largest=True, lanes=axis == 2)
        return Y

    infer = lambda args, inputs: [Spec(inputs[0].shape[:axis] + inputs[0].shape[axis + 1 :], inputs[0].dtype)]
    operator(
        "Y",
        name=name,
        types="float32",
        infer=infer,
        gradient=single(gradient, "I0 O0 GO0 -> GI0"),
        doc=f"{doc}\n\n{operands}",
    )(kernel)

    def backward(xp, X, Y, dY, *, out):
        check(X)
        left = X.shape[:axis] + X.shape[axis + 1 :]
        for what, operand in (("Y", Y), ("dY", dY)):
            if operand.size != math.prod(left):
                raise ValueError(f"{what} must be X {list(X.shape)} without axis {axis}, found {list(operand.shape)}")
        Y, dY = Y.reshape(left), dY.reshape(left)
        place = (out or (None,))[0] if isinstance(out, tuple) else out
        if place is None:
            raise ValueError("the output dX is missing")
        dX = place(X.shape, X.dtype)
        return xp.multiply(xp.expand_dims(dY, axis), xp.expand_dims(Y, axis) == X, dX)

    operator(
        "dX",
        name=gradient,
        types={"X": "float32", "Y": "=X", "dY": "=X"},
        infer=like(0),
        doc=f"dX = dY where X is Y, else 0.\n\ndX as X, dY as Y.  {operands}",
        **arity,
    )(backward)


_batch_max("RowwiseMax", "RowwiseMaxGradient", 2, "Y[n, i] = largest of row i of matrix n.")
_batch_max(
    "ColwiseMax",
    "ColwiseMaxGradient",
    1,
    "Y[n, j] = largest of column j of matrix n.",
    num_inputs=(0, MANY),
    num_outputs=(0, MANY),
)


# ---- where the extremes are --------------------------------------------------------------------------------------


_ARG_OPERANDS = """X [..., n, ...], Y [..., 1, ...], or [...] where keepdims is 0, int64; X float32, float64, int32 or int64.
ValueError where the axis is none of X's."""


def _arg_extreme(name: str, largest: bool, doc: str) -> None:
    """Add an operator that tells where the extremes along an axis are."""

    def kernel(xp, X, *, axis: int = -1, keepdims: bool = True, out):
        at = end_axis(axis, X.ndim)
        Y = out(kept_shape(X.shape, (at,), keepdims), "int64")
        if not X.shape[at]:
            Y[...] = 0
            return Y
        found = X.argmax(axis=at) if largest else X.argmin(axis=at)
        if X.dtype.kind == "f" and xp.isnan(xp.take_along_axis(X, xp.expand_dims(found, at), at)).any():
            # NaN is nowhere better, but nothing is better than NaN in front
            worst = -xp.inf if largest else xp.inf
            first = xp.isnan(xp.take(X, 0, axis=at))
            X = xp.where(xp.isnan(X), worst, X)
            found = X.argmax(axis=at) if largest else X.argmin(axis=at)
            found = xp.where(first, 0, found)
        Y[...] = found.reshape(Y.shape)
        return Y

    def infer(args, inputs):
        shape = inputs[0].shape
        return [
            Spec(kept_shape(shape, (end_axis(args.get("axis", -1), len(shape)),), args.get("keepdims", True)), "int64")
        ]

    operator("Y", name=name, types=_NUMBERS, infer=infer, gradient=FORBID_GRADIENT, doc=f"{doc}\n\n{_ARG_OPERANDS}")(
        kernel
    )


_arg_extreme("ArgMax", True, "Y = index of the largest element along the axis, the first of several.")
_arg_extreme("ArgMin", False, "Y = index of the smallest element along the axis, the first of several.")


# ---- weighted sum of rows ----------------------------------------------------------------------------------------


def _weighted_gradient(g: Any) -> Any:
    dims = f"_{g.O(0)}_dims"
    # There is a gradient by the weights too, but Caffe2's maker never asks for it, whatever grad_on_weights says.
    return [
        g.new("Shape", [g.I(0)], [dims]),
        g.new("ReduceFrontWeightedSumGradient", [g.I(1), g.GO(0), dims], [g.GI(0)]),
    ]


@operator(
    "Y",
    types={"X": "float32", "weights": "float32"},
    infer=lambda args, inputs: [Spec(inputs[0].shape[1:], inputs[0].dtype)],
    gradient=_weighted_gradient,
)
def ReduceFrontWeightedSum(xp, X, weights, *, out):
    """Y = sum over rows i of weights[i] * X[i].

    X [N, ...], weights [N], Y [...]; float32.  ValueError where the weights are not [N].
    """
    if not X.ndim or weights.shape != X.shape[:1]:
        raise ValueError(f"one weight for each row of X {list(X.shape)} is needed, found {list(weights.shape)}")
    Y = out(X.shape[1:], X.dtype)
    width = math.prod(X.shape[1:])
    xp.dot(weights, X.reshape(X.shape[0], width), Y.reshape(width))
    return Y


@operator("dX", types={"weights": "float32", "dY": "float32", "dims": "int64"}, anywhere="dims")
def ReduceFrontWeightedSumGradient(xp, weights, dY, dims, *, out):
    """dX[i] = weights[i] * dY.

    weights [n], dY [...], dims (the shape of X, int64), dX [N, ...], 0 from row n on; float32.  ValueError where n is
    above N or dY does not fit.
    """
    shape = tuple(dims.reshape(-1).tolist())
    if not shape or min(shape) < 0 or weights.ndim != 1 or weights.size > shape[0] or dY.size != math.prod(shape[1:]):
        raise ValueError(f"weights {list(weights.shape)} and dY {list(dY.shape)} do not fit X of shape {list(shape)}")
    dX = out(shape, dY.dtype)
    dX[weights.size :] = 0
    n = weights.size
    xp.multiply(weights[:, None], dY.reshape(1, -1), dX.reshape(shape[0], dY.size)[:n])
    return dX
