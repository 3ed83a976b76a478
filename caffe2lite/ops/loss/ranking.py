"""Losses over pairs of items within a session, and average precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, exp32, loop
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator


def _sessions(lengths: Any, size: int) -> Iterator[tuple[int, slice]]:
    """(number, items) of each session; all items are one where there are no lengths."""
    counts = [size] if lengths is None else lengths.tolist()
    if lengths is not None and (lengths.ndim != 1 or sum(counts) != size or min(counts, default=0) < 0):
        raise ValueError(f"the lengths {counts} of the sessions must add up to the {size} items")
    start = 0
    for k, n in enumerate(counts):
        yield k, slice(start, start + n)
        start += n


def _check_items(X: Any, labels: Any) -> None:
    if X.size != labels.size or any(a.ndim < 1 or a.shape[0] != a.size for a in (X, labels)):
        raise ValueError(f"one score and one label an item are needed, found {list(X.shape)} and {list(labels.shape)}")


def _softplus(xp: Any, V: Any) -> Any:
    return xp.maximum(V, 0) + xp.log1p(xp.exp(-abs(V)))


def _pairs(xp: Any, x: Any, label: Any) -> tuple[Any, Any, int]:
    """(margin of item i over j, where i is to be above j, number of such pairs)."""
    above = label[:, None] > label[None, :]
    return x[:, None] - x[None, :], above, max(int(above.sum()), 1)


def _pair_gradient(g: Any) -> Any:
    return g.single("PairWiseLossGradient", [g.I(0), g.I(1), g.GO(0), *g.op.input[2:]], [g.GI(0)])


@operator("Y", types={"X": "float32", "labels": "=X", "lengths": "int32"}, host="lengths", gradient=_pair_gradient)
def PairWiseLoss(xp, X, labels, lengths=None, *, out):
    """Y[k] = mean of log(1 + exp(x_j - x_i)) over the pairs of session k in which i has the higher label.

    Burges et al., Learning to Rank using Gradient Descent, 2005.  X and labels [n] or [n, 1], lengths [sessions]
    (int32), Y [sessions] (without lengths [1]); float32.  ValueError where there is not one label for each score, or
    the lengths do not add up to n.
    """
    if not X.size:
        if lengths is not None and int(lengths.sum()):
            raise ValueError(f"the lengths {lengths.tolist()} of the sessions must add up to the 0 items")
        Y = out((1 if lengths is None else lengths.size,) if lengths is not None else (0,), X.dtype)
        Y[...] = 0
        return Y
    _check_items(X, labels)
    x, label = X.reshape(-1), labels.reshape(-1)
    Y = out((1 if lengths is None else lengths.size,), X.dtype)
    for k, items in _sessions(lengths, X.size):
        margin, above, count = _pairs(xp, x[items], label[items])
        Y[k] = xp.where(above, _softplus(xp, -margin), X.dtype.type(0)).sum() / count
    return Y


@compiled(PairWiseLoss, work=16)
def _pair_wise_compiled(xp, X, labels, lengths=None, *, out):
    if not X.size:
        return PairWiseLoss(xp, X, labels, lengths, out=out)
    _check_items(X, labels)
    Y = out((1 if lengths is None else lengths.size,), X.dtype)
    _pair_loop(X.reshape(-1), labels.reshape(-1), _ends(lengths, X.size), Y)
    return Y


def _ends(lengths: Any, size: int) -> Any:
    return np.array([items.stop for _, items in _sessions(lengths, size)])


@loop(reorder=True)
def _pair_loop(x, label, ends, Y):
    """The logarithm is taken of a product of many terms 1 + exp(-|margin|), each at most 2."""
    first = 0
    for k in range(ends.size):
        total, pairs = 0.0, 0
        for i in range(first, ends[k]):
            for begin in range(first, ends[k], 512):
                product, linear = 1.0, np.float32(0)
                for j in range(begin, min(begin + 512, ends[k])):
                    above = label[i] > label[j]
                    behind = x[j] - x[i]
                    product *= 1 + (exp32(-abs(behind)) if above else np.float32(0))
                    linear += max(behind, np.float32(0)) if above else np.float32(0)
                    pairs += above
                total += linear + np.log(product)
        Y[k] = total / max(pairs, 1)
        first = ends[k]


@operator("dX", types={"X": "float32", "labels": "=X", "dY": "=X", "lengths": "int32"}, host="lengths", infer=like(0))
def PairWiseLossGradient(xp, X, labels, dY, lengths=None, *, out):
    """dX of PairWiseLoss.

    X, labels and dX [n] or [n, 1], dY and lengths [sessions] (int32); float32.  ValueError where dY has not one value
    for each session, or the lengths do not add up to n.
    """
    dX = out(X.shape, X.dtype)
    _check_items(X, labels)
    if not X.size:
        return dX
    if dY.shape != (1 if lengths is None else lengths.size,):
        raise ValueError(f"dY must have one value for each session, found {list(dY.shape)}")
    x, label, dx = X.reshape(-1), labels.reshape(-1), dX.reshape(-1)
    for k, items in _sessions(lengths, X.size):
        margin, above, count = _pairs(xp, x[items], label[items])
        push = xp.where(above, 1 / (1 + xp.exp(margin)), X.dtype.type(0))
        dx[items] = (push.sum(axis=0) - push.sum(axis=1)) * (dY[k] / count)
    return dX


@compiled(PairWiseLossGradient, work=16)
def _pair_wise_gradient_compiled(xp, X, labels, dY, lengths=None, *, out):
    if not X.size or dY.shape != (1 if lengths is None else lengths.size,):
        return PairWiseLossGradient(xp, X, labels, dY, lengths, out=out)
    _check_items(X, labels)
    dX = out(X.shape, X.dtype)
    _pair_gradient_loop(X.reshape(-1), labels.reshape(-1), _ends(lengths, X.size), dY, dX.reshape(-1))
    return dX


@loop(reorder=True)
def _pair_gradient_loop(x, label, ends, dY, dX):
    first = 0
    for k in range(ends.size):
        pairs = 0
        for i in range(first, ends[k]):
            total = np.float32(0)
            for j in range(first, ends[k]):
                order = np.float32(label[i] > label[j]) - np.float32(label[i] < label[j])
                push = order / (np.float32(1) + exp32(order * (x[i] - x[j])))
                total -= push if order != 0 else np.float32(0)
                pairs += label[i] > label[j]
            dX[i] = total
        for i in range(first, ends[k]):
            dX[i] *= dY[k] / np.float32(max(pairs, 1))
        first = ends[k]


# ---- normalized discounted cumulative gain -----------------------------------------------------------------------


def _discounts(xp: Any, values: Any) -> Any:
    """1 / log2(1 + place) for the place of each value when the largest comes first."""
    n = values.size
    d = xp.empty(n, values.dtype)
    d[xp.argsort(values, kind="stable")] = 1 / xp.log2(xp.arange(n, 0, -1) + 1.0)
    return d


def _lambda_gradient(g: Any) -> Any:
    return g.single("LambdaRankNdcgGradient", [g.I(0), g.I(2), g.O(1), g.GO(0)], [g.GI(0)])


@operator(
    "loss dy",
    types={"y": "float32", "r": "=y", "lengths": "int32"},
    host="lengths",
    infer=lambda args, inputs: [Spec(inputs[2].shape, inputs[0].dtype), inputs[0]],
    gradient=_lambda_gradient,
)
def LambdaRankNdcg(
    xp,
    y,
    r,
    lengths,
    *,
    use_ndcg_as_loss: bool = False,
    use_idcg_normalization: bool = True,
    use_exp_gain: bool = True,
    out,
):
    """LambdaRank for scores y of items with relevance r: the loss of each session, and its gradient by y.

    Burges, From RankNet to LambdaRank to LambdaMART, 2010.  y, r and dy [n], lengths [sessions] (int32), loss
    [sessions]; float32.  ValueError where y and r differ in length, or the lengths do not add up to n.
    """
    if y.shape != r.shape or y.ndim != 1:
        raise ValueError(f"y and r must be vectors of one length, found {list(y.shape)} and {list(r.shape)}")
    loss, dy = out[0]((lengths.size,), y.dtype), out[1](y.shape, y.dtype)
    dy[...] = 0
    for k, items in _sessions(lengths, y.size):
        if items.start >= y.size:
            raise ValueError(f"session {k} has no items")
        score, relevance = y[items], r[items]
        loss[k] = 0
        if not float(abs(relevance).sum()) >= 1e-6:
            continue
        linear = use_ndcg_as_loss and not use_exp_gain
        gain = relevance if linear else xp.exp2(relevance)
        ideal = (gain * _discounts(xp, relevance)).sum()
        weight = xp.maximum(ideal, y.dtype.type(1e-5)) if use_idcg_normalization else y.dtype.type(1)
        discount = _discounts(xp, score)
        swap = abs((gain[:, None] - gain[None, :]) * (discount[:, None] - discount[None, :])) / weight
        margin = score[:, None] - score[None, :]
        above = relevance[:, None] > relevance[None, :]
        if use_ndcg_as_loss:
            loss[k] = (ideal - (gain * discount).sum()) / weight
        else:
            loss[k] = (swap * _softplus(xp, xp.where(above, -margin, margin))).sum()
        dy[items] = (swap * (xp.where(above, 0, 1) - 1 / (1 + xp.exp(margin)))).sum(axis=1)
    return loss, dy


@operator(
    "dy_out", types={"y": "float32", "lengths": "int32", "dy": "=y", "dloss": "=y"}, host="lengths", infer=like(0)
)
def LambdaRankNdcgGradient(xp, y, lengths, dy, dloss, *, out):
    """dy of each session times its dloss.

    y, dy and dy_out [n], lengths and dloss [sessions]; float32, lengths int32.  ValueError where dloss has not one
    value for each session, or the lengths do not add up to n.
    """
    if y.ndim != 1:
        raise ValueError(f"y must be a vector, found the shape {list(y.shape)}")
    if dy.shape != y.shape:
        raise ValueError(f"dy must have the shape of y, {list(y.shape)}, found {list(dy.shape)}")
    if dloss.size != lengths.size:
        raise ValueError(f"dloss must have one value for each of {lengths.size} sessions, found {list(dloss.shape)}")
    result = out(y.shape, y.dtype)
    result[...] = 0
    for k, items in _sessions(lengths, y.size):
        result[items] = dy[items] * dloss.reshape(-1)[k]
    return result


# ---- average precision -------------------------------------------------------------------------------------------


@operator("AP", stateful=True, types={"predictions": "float32", "labels": "int32"}, gradient=FORBID_GRADIENT)
def APMeter(ctx, predictions, labels, *, buffer_size: int = 1000, out):
    """AP[c] = average precision of class c over the last `buffer_size` rows that this operator has seen.

    predictions and labels [N, D], AP [D]; float32, labels int32 (1: positive).  ValueError where the shapes differ or
    change their D, or buffer_size is not above 0.
    """
    xp = ctx.xp
    if predictions.ndim != 2 or labels.shape != predictions.shape:
        raise ValueError(
            f"predictions and labels must be matrices of one shape, found {list(predictions.shape)} and "
            f"{list(labels.shape)}"
        )
    if buffer_size <= 0:
        raise ValueError(f"buffer_size must be above 0, found {buffer_size}")
    state = ctx.state
    if not hasattr(state, "scores"):
        state.scores, state.truth = predictions[:0], labels[:0]
    elif state.scores.shape[1:] != predictions.shape[1:]:
        raise ValueError(f"the meter has seen {state.scores.shape[1]} classes before, now {predictions.shape[1]}")
    state.scores = xp.concatenate([state.scores, predictions])[-buffer_size:]
    state.truth = xp.concatenate([state.truth, labels])[-buffer_size:]
    order = xp.argsort(-state.scores, axis=0, kind="stable")
    truth = xp.take_along_axis(state.truth, order, axis=0)
    precision = xp.cumsum(truth, axis=0) / xp.arange(1, len(truth) + 1)[:, None]
    AP = out(predictions.shape[1:], "float32")
    AP[...] = (precision * (truth == 1)).sum(axis=0) / xp.maximum(truth.sum(axis=0), 1)
    return AP
