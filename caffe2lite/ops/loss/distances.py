"""Distances, similarities and products of rows, and criteria that compare pairs."""

from __future__ import annotations

import math
from typing import Any

from caffe2lite.ops.kit.gradient import NO_GRADIENT_YET, single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import BLOCK, blocks
from caffe2lite.ops.kit.products import abs_sums
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import check_sizes


def _rows(X: Any, Y: Any, same: bool = True) -> tuple[Any, Any]:
    """Both as matrices with the first dimension as rows; ValueError where they do not go together."""
    if X.shape != Y.shape if same else (X.ndim != Y.ndim or X.shape[:1] != Y.shape[:1]):
        raise ValueError(f"the two must have one shape, found {list(X.shape)} and {list(Y.shape)}")
    n = X.shape[0] if X.ndim else 1
    return X.reshape(n, math.prod(X.shape[1:])), Y.reshape(n, math.prod(Y.shape[1:]))


def _row_blocks(xp: Any, x: Any) -> Any:
    """Blocks of rows: what is computed of them on the way stays in the cache."""
    return blocks(xp, len(x), max(1, BLOCK // max(x.shape[1], 1)))


def _infer_rows(args: Any, inputs: Any) -> list[Spec]:
    return [Spec(inputs[0].shape[:1] or (1,), inputs[0].dtype)]


def _check_rows(dZ: Any, rows: int) -> None:
    if dZ.shape != (rows,):
        raise ValueError(f"dZ must have one value for each of {rows} rows, found {list(dZ.shape)}")


_TINY = 1e-12


def _cosine_parts(xp: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """(dot product, |x|, |y|) of each row."""
    kind = x.dtype.type
    norm = lambda v: xp.sqrt(xp.maximum(_products(xp, v, v), kind(_TINY)))
    return _products(xp, x, y), norm(x), norm(y)


def _products(xp: Any, x: Any, y: Any) -> Any:
    """The dot product of each pair of rows, without a matrix of products."""
    return xp.einsum("ij,ij->i", x, y)


def _l1(xp: Any, x: Any, y: Any) -> Any:
    away = x - y
    return abs_sums(xp, away)


def _l2(xp: Any, x: Any, y: Any) -> Any:
    away = x - y
    return _products(xp, away, away) * x.dtype.type(0.5)


def _cosine(xp: Any, x: Any, y: Any) -> Any:
    dot, nx, ny = _cosine_parts(xp, x, y)
    return dot / (nx * ny)


def _cosine_gradient(xp: Any, x: Any, y: Any, d: Any) -> tuple[Any, Any]:
    dot, nx, ny = (v[:, None] for v in _cosine_parts(xp, x, y))
    scale = d / (nx * ny)
    return (y - x * (dot / (nx * nx))) * scale, (x - y * (dot / (ny * ny))) * scale


def _l1_gradient(xp: Any, x: Any, y: Any, d: Any) -> tuple[Any, Any]:
    away = x - y
    sign = (away > _TINY).astype(x.dtype) - (away < -_TINY).astype(x.dtype)
    return sign * d, -sign * d


def _l2_gradient(xp: Any, x: Any, y: Any, d: Any) -> tuple[Any, Any]:
    away = (x - y) * d
    return away, -away


_ROWS = """X and Y [N, ...], Z [N] (of a scalar [1]); float32.  ValueError where the shapes of X and Y differ."""
_ROWS_GRADIENT = """X and Y [N, ...], dZ [N], dX and dY of their shape; float32.  ValueError where the shapes differ or dZ is not
[N]."""


def _measure(name: str, gradient: str, measure: Any, derive: Any, doc: str, empty_is_none: bool = False) -> None:
    """Add a measure of rows and its gradient, for which `derive` gives dX and dY of rows."""

    def kernel(xp, X, Y, *, out):
        x, y = _rows(X, Y)
        Z = out((len(x) if X.size or not empty_is_none else 0,), X.dtype)
        if not Z.size:
            return Z
        for part in _row_blocks(xp, x):
            Z[part] = measure(xp, x[part], y[part])
        return Z

    operator(
        "Z",
        name=name,
        types={"X": "float32", "Y": "=X"},
        infer=_infer_rows,
        gradient=single(gradient, "I0 I1 GO0 -> GI0 GI1"),
        doc=f"{doc}\n\n{_ROWS}",
    )(kernel)

    def backward(xp, X, Y, dZ, *, out):
        x, y = _rows(X, Y)
        if empty_is_none and not X.size:
            x, y = x[:0], y[:0]
        _check_rows(dZ, len(x))
        if not X.size:
            return out[0](X.shape, X.dtype), out[1](Y.shape, Y.dtype)
        dX, dY = out[0](X.shape, X.dtype), out[1](Y.shape, Y.dtype)
        dx, dy = dX.reshape(x.shape), dY.reshape(y.shape)
        for part in _row_blocks(xp, x):
            dx[part], dy[part] = derive(xp, x[part], y[part], dZ[part, None])
        return dX, dY

    operator(
        "dX dY",
        name=gradient,
        types={"X": "float32", "Y": "=X", "dZ": "=X"},
        infer=like(0, 1),
        doc=f"dX and dY of {name}.\n\n{_ROWS_GRADIENT}",
    )(backward)


for _name, _back, _compute, _derive, _doc in (
    (
        "L1Distance",
        "L1DistanceGradient",
        lambda xp, x, y: _l1(xp, x, y),
        _l1_gradient,
        "Z[i] = sum of |X - Y| over row i.",
    ),
    (
        "SquaredL2Distance",
        "SquaredL2DistanceGradient",
        lambda xp, x, y: _l2(xp, x, y),
        _l2_gradient,
        "Z[i] = half the sum of (X - Y)^2 over row i.",
    ),
    (
        "CosineSimilarity",
        "CosineSimilarityGradient",
        _cosine,
        _cosine_gradient,
        "Z[i] = cosine of the angle of rows i.",
    ),
    (
        "DotProduct",
        "DotProductGradient",
        _products,
        lambda xp, x, y, d: (y * d, x * d),
        "Z[i] = dot product of rows i.",
    ),
):
    _measure(_name, _back, _compute, _derive, _doc, empty_is_none=_name == "DotProduct")


# ---- rows of different length ------------------------------------------------------------------------------------


def _padding_gradient(g: Any) -> Any:
    others = [a for a in g.op.arg if a.name not in ("pad_value", "replicate")]
    g.copy_arguments = False
    op = g.new("DotProductWithPaddingGradient", [g.I(0), g.I(1), g.GO(0)], [g.GI(0), g.GI(1)])
    op.arg.extend([*g.copied(pad_value=0.0, replicate=0), *others])
    return [op]


def _pair(X: Any, Y: Any, replicate: bool) -> tuple[Any, Any, bool]:
    """(longer rows, shorter rows, whether these are X); as in Caffe2 there are no rows where X has no elements."""
    x, y = _rows(X, Y, same=False)
    if not X.size:
        x, y = x[:0], y[:0]
    swapped = x.shape[1] < y.shape[1]
    long, short = (y, x) if swapped else (x, y)
    if replicate and len(long) and not short.shape[1]:
        raise ValueError(f"with replicate the shorter rows are repeated, but they are empty: {list(Y.shape)}")
    return long, short, swapped


def _turns(rows: Any, n: int) -> Any:
    """Return rows as [rows, repetitions of n, n]."""
    return rows.reshape(len(rows), rows.shape[1] // n, n)


@operator("Z", types={"X": "float32", "Y": "=X"}, infer=_infer_rows, gradient=_padding_gradient)
def DotProductWithPadding(xp, X, Y, *, pad_value: float = 0.0, replicate: bool = False, out):
    """Z[i] = dot product of rows i, the shorter one filled up with `pad_value`, or repeated.

    X [N, D], Y [N, E], Z [N]; float32.  ValueError where the numbers of rows differ, or with replicate neither D nor
    E is a multiple of the other.
    """
    long, short, _ = _pair(X, Y, replicate)
    Z = out((len(long),), X.dtype)
    n = short.shape[1]
    if replicate and len(long):  # what is left behind the last whole repetition does not count
        times = long.shape[1] // n
        Z[...] = (long[:, : times * n].reshape(len(long), times, n) * short[:, None, :]).sum(axis=(1, 2))
    else:
        rest = long[:, n:]
        Z[...] = _products(xp, long[:, :n], short) + rest @ xp.full(rest.shape[1], pad_value, X.dtype)
    return Z


@operator("dX dY", types={"X": "float32", "Y": "=X", "dZ": "=X"}, infer=like(0, 1))
def DotProductWithPaddingGradient(xp, X, Y, dZ, *, pad_value: float = 0.0, replicate: bool = False, out):
    """dX and dY of DotProductWithPadding.

    X and dX [N, D], Y and dY [N, E], dZ [N]; float32.  ValueError where the numbers of rows differ, or with replicate
    neither D nor E is a multiple of the other.
    """
    long, short, swapped = _pair(X, Y, replicate)
    _check_rows(dZ, len(long))
    n = short.shape[1]
    if replicate and len(long) and long.shape[1] % n:
        raise ValueError(f"with replicate the rows of {long.shape[1]} must be a multiple of those of {n}")
    d = dZ.reshape(-1, 1)
    dX, dY = out[0](X.shape, X.dtype), out[1](Y.shape, Y.dtype)
    if not len(long):
        dX[...] = dY[...] = 0
        return dX, dY
    d_long, d_short = (dY, dX) if swapped else (dX, dY)
    d_long, d_short = d_long.reshape(long.shape), d_short.reshape(short.shape)
    if replicate:
        _turns(d_long, n)[...] = (short * d)[:, None, :]
        d_short[...] = _turns(long, n).sum(axis=1) * d
    else:
        xp.multiply(short, d, d_long[:, :n])
        d_long[:, n:] = d * X.dtype.type(pad_value)
        xp.multiply(long[:, :n], d, d_short)
    return dX, dY


# ---- criteria ----------------------------------------------------------------------------------------------------


@operator(
    "loss",
    types={"S": "float32", "Y": "int32"},
    infer=like(0),
    gradient=single("CosineEmbeddingCriterionGradient", "I0 I1 GO0 -> GI0"),
)
def CosineEmbeddingCriterion(xp, S, Y, *, margin: float = 0.0, out):
    """loss = 1 - S where Y is 1, max(0, S - margin) elsewhere.

    S [...], Y of its size, loss of its shape; float32, Y int32.  ValueError where the sizes differ.
    """
    check_sizes(S=S, Y=Y)
    loss = out(S.shape, S.dtype)
    loss[...] = xp.where(Y.reshape(S.shape) == 1, 1 - S, xp.maximum(S - S.dtype.type(margin), 0))
    return loss


@operator("dS", types={"S": "float32", "Y": "int32", "dloss": "float32"}, infer=like(0))
def CosineEmbeddingCriterionGradient(xp, S, Y, dloss, *, margin: float = 0.0, out):
    """dS = -dloss where Y is 1, dloss where S >= margin, else 0.

    S [...], Y and dloss of its size, dS of its shape; float32, Y int32.  ValueError where the sizes differ.
    """
    check_sizes(S=S, Y=Y, dloss=dloss)
    derivative = xp.where(Y.reshape(S.shape) == 1, -1, S.dtype.type(margin) <= S)
    return xp.multiply(dloss.reshape(S.shape), derivative.astype(S.dtype), out(S.shape, S.dtype))


@operator(
    "loss",
    types={"X1": "float32", "X2": "float32", "Y": "int32"},
    infer=like(0),
    gradient=single("MarginRankingCriterionGradient", "I0 I1 I2 GO0 -> GI0 GI1"),
)
def MarginRankingCriterion(xp, X1, X2, Y, *, margin: float = 1.0, out):
    """loss = max(0, margin - Y * (X1 - X2)), where Y is 1 or -1.

    X1 [...], X2 and Y of its size, loss of its shape; float32, Y int32.  ValueError where the sizes differ.
    """
    check_sizes(X1=X1, X2=X2, Y=Y)
    loss = out(X1.shape, X1.dtype)
    y = Y.reshape(X1.shape).astype(X1.dtype)
    return xp.maximum(X1.dtype.type(margin) - y * (X1 - X2.reshape(X1.shape)), 0, out=loss)


@operator("dX1 dX2", types={"X1": "float32", "X2": "float32", "Y": "int32", "dloss": "float32"}, infer=like(0, 1))
def MarginRankingCriterionGradient(xp, X1, X2, Y, dloss, *, margin: float = 1.0, out):
    """dX1 = -Y * dloss and dX2 = Y * dloss where the loss is above 0 or just reaches it, else 0.

    X1 [...], X2, Y and dloss of its size; float32, Y int32.  ValueError where the sizes differ.
    """
    check_sizes(X1=X1, X2=X2, Y=Y, dloss=dloss)
    y = Y.reshape(X1.shape).astype(X1.dtype)
    reached = X1.dtype.type(margin) - y * (X1 - X2.reshape(X1.shape)) >= 0
    step = dloss.reshape(X1.shape) * y * reached
    return xp.negative(step, out[0](X1.shape, X1.dtype)), xp.add(step.reshape(X2.shape), 0, out[1](X2.shape, X2.dtype))


def _entropy(xp: Any, p: Any) -> Any:
    """The entropy of a coin; 0 for what is no probability."""
    inside = (p >= 1e-20) & (p < 1)
    q = xp.where(inside, p, p.dtype.type(0.5))
    return xp.where(inside, -q * xp.log(q) - (1 - q) * xp.log(1 - q), 0)


def _log_odds(xp: Any, p: Any) -> Any:
    q = xp.clip(p, p.dtype.type(1e-20), p.dtype.type(1))
    return xp.log(q) - xp.log(1 - q)


@operator(
    "L", types={"X": "float32", "T": "=X"}, infer=like(0), gradient=single("BernoulliJSDGradient", "GO0 I0 I1 -> GI0")
)
def BernoulliJSD(xp, X, T, *, out):
    """L = Jensen-Shannon divergence of coins with the probabilities X and T.

    H((X + T) / 2) - (H(X) + H(T)) / 2 for the entropy H (Lin, Divergence Measures Based on the Shannon Entropy,
    1991).  X [...], T of its size, L of its shape; float32.  ValueError where the sizes differ.
    """
    check_sizes(X=X, T=T)
    L = out(X.shape, X.dtype)
    t = T.reshape(X.shape)
    L[...] = _entropy(xp, (X + t) / 2) - (_entropy(xp, X) + _entropy(xp, t)) / 2
    return L


@operator("dX", types={"dL": "float32", "X": "=dL", "T": "=dL"}, infer=like(1))
def BernoulliJSDGradient(xp, dL, X, T, *, out):
    """dX of BernoulliJSD.

    dL [...], X and T of its size, dX of X's shape; float32.  ValueError where the sizes differ.
    """
    check_sizes(dL=dL, X=X, T=T)
    mean = (X + T.reshape(X.shape)) / 2
    derivative = (_log_odds(xp, X) - _log_odds(xp, mean)) / 2
    return xp.multiply(dL.reshape(X.shape), derivative, out(X.shape, X.dtype))


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "lambda1": "=X", "lambda2": "=X"},
    infer=like(0),
    gradient=NO_GRADIENT_YET,
)
def BatchBoxCox(xp, X, lambda1, lambda2, *, out):
    """Y = Box-Cox transform of each column: ((X + lambda2)^lambda1 - 1) / lambda1, or its logarithm for lambda1 = 0.

    Box and Cox, An Analysis of Transformations, 1964; X + lambda2 counts as 1e-6 at least.  X [N, D], Y of its shape,
    lambda1 and lambda2 [D]; float32.  ValueError where lambda1 or lambda2 is not [D].
    """
    if X.ndim < 1 or lambda1.size != math.prod(X.shape[1:]) or lambda2.size != lambda1.size:
        raise ValueError(
            f"one lambda1 and lambda2 for each column of X {list(X.shape)} is needed, found {list(lambda1.shape)} and "
            f"{list(lambda2.shape)}"
        )
    rows = X.reshape(X.shape[0], lambda1.size)
    lambda1, lambda2 = lambda1.reshape(-1), lambda2.reshape(-1)
    base = xp.maximum(rows + lambda2, X.dtype.type(1e-6))
    flat = lambda1 == 0
    power = (xp.power(base, lambda1) - 1) / xp.where(flat, 1, lambda1)
    Y = out(X.shape, X.dtype)
    Y.reshape(rows.shape)[...] = xp.where(flat, xp.log(base), power)
    return Y
