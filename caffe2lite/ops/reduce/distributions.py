"""Distributions: percentiles, piecewise linear maps, histograms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import MANY, operator


@operator("Y", types="float32", infer=like(0), gradient=NO_GRADIENT)
def StumpFunc(xp, X, *, threshold: float = 0.0, low_value: float = 0.0, high_value: float = 0.0, out):
    """Y = low_value where X <= threshold, high_value above.

    X [...], Y of its shape; float32.  TypeError for other dtypes.
    """
    Y = out(X.shape, X.dtype)
    Y[...] = xp.where(X.dtype.type(threshold) >= X, X.dtype.type(low_value), X.dtype.type(high_value))
    return Y


@operator("Index_Low Index_High", types="float32", gradient=NO_GRADIENT)
def StumpFuncIndex(xp, X, *, threshold: float = 0.0):
    """Where the elements of X are that are at most the threshold, and where the others are, int64.

    X [...], Index_Low and Index_High [n], together all of the flat X; float32, indices int64.  TypeError for other
    dtypes.
    """
    low = X.reshape(-1) <= X.dtype.type(threshold)
    return xp.flatnonzero(low), xp.flatnonzero(~low)


def _table(xp: Any, x: Any, values: Any, percentiles: Any) -> Any:
    """Percentiles of x, interpolated between those of known values: 0 below all, 1 above."""
    place = xp.clip(xp.searchsorted(values, x, side="left"), 1, max(len(values) - 1, 1))
    if len(values) == 1:
        between = xp.broadcast_to(percentiles, x.shape)
    else:
        left, right = values[place - 1], values[place]
        share = (x - left) / xp.where(right == left, 1, right - left)
        between = percentiles[place - 1] + share * (percentiles[place] - percentiles[place - 1])
        between = xp.where(x == left, percentiles[place - 1], between)
    return xp.where(x < values[0], 0, xp.where(x > values[-1], 1, between))


@operator(
    "Y",
    types={"X": "float32", "table": "float32", "lengths": "int32"},
    host="lengths",
    infer=like(0),
    gradient=NO_GRADIENT,
)
def Percentile(xp, X, table, lengths, *, out):
    """Y = percentile of each element of column j, by the j-th part of the table of (value, percentile).

    X [N, D], table [rows, 2], lengths [D], Y of X's shape; float32, lengths int32.  ValueError where the shapes do
    not fit, or the lengths are not above 0 and do not add up to the rows.
    """
    Y = out(X.shape, X.dtype)
    start = 0
    for j, n in enumerate(_table_lengths(X, table, lengths)):
        part = table[start : start + n]
        Y[:, j] = _table(xp, X[:, j], part[:, 0], part[:, 1])
        start += n
    return Y


def _table_lengths(X: Any, table: Any, lengths: Any) -> list[int]:
    if X.ndim != 2 or table.ndim != 2 or table.shape[1] != 2 or lengths.shape != X.shape[1:]:
        raise ValueError(
            f"a matrix, a table of two columns and a length for each column are needed: {list(X.shape)}, "
            f"{list(table.shape)}, {list(lengths.shape)}"
        )
    counts = lengths.tolist()
    if sum(counts) != table.shape[0] or min(counts, default=1) < 1:
        raise ValueError(f"the lengths {counts} must be above 0 and add up to the {table.shape[0]} rows of the table")
    return counts


@compiled(Percentile)
def _percentile_compiled(xp, X, table, lengths, *, out):
    counts = _table_lengths(X, table, lengths)
    Y = out(X.shape, X.dtype)
    _percentile_loop(X, table[:, 0].copy(), table[:, 1].copy(), np.cumsum([0, *counts]), Y)
    return Y


@loop
def _percentile_loop(X, values, percentiles, ends, Y):
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x, first, last = X[i, j], ends[j], ends[j + 1] - 1
            low, high = first, last  # the first value that is not below x, if x is within them
            while low < high:
                middle = (low + high) >> 1
                if values[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            if x < values[first]:
                Y[i, j] = 0
            elif x > values[last]:
                Y[i, j] = 1
            elif x == values[first]:
                Y[i, j] = percentiles[first]
            else:
                left, step = values[low - 1], values[low] - values[low - 1]
                share = (x - left) / step
                Y[i, j] = percentiles[low - 1] + share * (percentiles[low] - percentiles[low - 1])


@operator("Y", types="float32", infer=like(0), gradient=NO_GRADIENT)
def BisectPercentile(
    xp,
    X,
    *,
    percentile_raw: list[float],
    percentile_mapping: list[float],
    percentile_lower: list[float],
    percentile_upper: list[float],
    lengths: list[int],
    out,
):
    """Y = percentile of each element of column j: that of an equal known value, else between upper and next lower.

    X [N, D], Y of its shape; float32.  ValueError where X has not as many columns as there are lengths, or the four
    lists differ in length.
    """
    if not len(percentile_raw) == len(percentile_mapping) == len(percentile_lower) == len(percentile_upper):
        raise ValueError(
            f"percentile_raw, _mapping, _lower and _upper must have one length, found {len(percentile_raw)}, "
            f"{len(percentile_mapping)}, {len(percentile_lower)} and {len(percentile_upper)}"
        )
    if sum(lengths) != len(percentile_raw) or min(lengths, default=1) < 1:
        raise ValueError(f"the lengths {list(lengths)} must be above 0 and add up to {len(percentile_raw)}")
    if X.ndim != 2 or X.shape[1] != len(lengths):
        raise ValueError(f"a matrix of {len(lengths)} columns is needed, found {list(X.shape)}")
    known = [
        xp.asarray(v, dtype=X.dtype) for v in (percentile_raw, percentile_mapping, percentile_lower, percentile_upper)
    ]
    Y = out(X.shape, X.dtype)
    start = 0
    for j, n in enumerate(lengths):
        raw, mapping, lower, upper = (v[start : start + n] for v in known)
        start += n
        x = X[:, j]
        k = xp.minimum(xp.searchsorted(raw, x, side="left"), n - 1)
        before = xp.maximum(k - 1, 0)
        step = xp.where(k > before, raw[k] - raw[before], 1)
        between = upper[before] + (lower[k] - upper[before]) / step * (x - raw[before])
        value = xp.where(raw[k] == x, mapping[k], between)
        Y[:, j] = xp.where(x < raw[0], 0, xp.where(x > raw[-1], 1, value))
    return Y


def _pieces(X: Any, columns: int, given: list[Any], binary: bool) -> tuple[Any, ...]:
    """Return bounds, slopes and intercepts as [functions, ...]; ValueError where they do not fit the columns."""
    if any(not v.size for v in given):
        raise ValueError(
            f"bounds, slopes and intercepts are needed, all as arguments or all as inputs; found "
            f"{', '.join(str(v.size) for v in given)} values"
        )
    edges, factors, offsets = (v.reshape(-1) for v in given)
    if X.ndim not in (1, 2):
        raise ValueError(f"predictions must be a vector or a matrix, found {list(X.shape)}")
    if binary and columns > 2:
        raise ValueError(f"binary predictions have 1 or 2 columns, found {columns}")
    functions = 1 if binary else columns
    pieces = factors.size // max(functions, 1)
    if offsets.size != factors.size or pieces * functions != factors.size or edges.size != (pieces + 1) * functions:
        raise ValueError(
            f"{functions} functions of n pieces need n slopes, n intercepts and n + 1 bounds each; found "
            f"{factors.size}, {offsets.size} and {edges.size}"
        )
    edges, factors, offsets = (v.reshape(functions, -1) for v in (edges, factors, offsets))
    if (edges[:, 1:] < edges[:, :-1]).any():
        raise ValueError(f"the bounds of each function must not descend, found {edges.tolist()}")
    return edges, factors, offsets


@operator(
    "Y",
    types={"X": "float32", "bounds_in": "float32", "slopes_in": "float32", "intercepts_in": "float32"},
    num_inputs={1, 4},
    infer=like(0),
    gradient=FORBID_GRADIENT,
)
def PiecewiseLinearTransform(
    xp,
    X,
    bounds_in=None,
    slopes_in=None,
    intercepts_in=None,
    *,
    bounds: list[float] = (),
    slopes: list[float] = (),
    intercepts: list[float] = (),
    binary: bool = False,
    out,
):
    """Y = slope * x + intercept of the piece that x is in, column by column; `binary` maps the positive of two.

    X [N] or [N, D], Y of its shape, bounds [D * (pieces + 1)], slopes and intercepts [D * pieces]; float32.
    ValueError where the three do not fit D, are missing, or the bounds descend.
    """
    if len({bool(v) for v in (bounds, slopes, intercepts)}) > 1:
        raise ValueError("the arguments bounds, slopes and intercepts must all be given, or none of them")
    given = [xp.asarray(v, dtype=X.dtype) for v in (bounds, slopes, intercepts)]
    if bounds_in is not None:
        given = [bounds_in, slopes_in, intercepts_in]
    columns = X.shape[1] if X.ndim == 2 else 1
    if not columns:
        raise ValueError(f"X must have columns, found the shape {list(X.shape)}")
    edges, factors, offsets = _pieces(X, columns, given, binary)
    pieces = factors.shape[1]

    def transform(x: Any, f: int) -> Any:
        x = xp.clip(x, edges[f, 0], edges[f, -1])
        piece = xp.clip(xp.searchsorted(edges[f], x, side="left") - 1, 0, pieces - 1)
        return factors[f][piece] * x + offsets[f][piece]

    Y = out(X.shape, X.dtype)
    x, y = X.reshape(-1, columns) if X.size else X.reshape(0, columns), Y.reshape(X.shape[0], columns)
    if binary:
        y[:, -1] = transform(x[:, -1], 0)
        if columns == 2:
            y[:, 0] = 1 - y[:, 1]
    else:
        for j in range(columns):
            y[:, j] = transform(x[:, j], j)
    return Y


# ---- histograms --------------------------------------------------------------------------------------------------


@operator("histogram", types="float32 float64", num_inputs=(1, MANY), gradient=FORBID_GRADIENT)
def Histogram(xp, *Xs, bin_edges: list[float], out):
    """How many elements of all inputs are in each bin [left, right), int64.

    Xs of any shape, histogram [bins]; float32 or float64.  ValueError where bin_edges are fewer than 2 or do not
    rise.
    """
    edges = list(bin_edges)
    if len(edges) < 2:
        raise ValueError(f"Number of bin edges must be greater than or equal to 2, found {edges}")
    if any(b <= a for a, b in itertools.pairwise(edges)):
        raise ValueError(f"bin_edges must be a strictly increasing sequence of values, found {edges}")
    bounds = xp.asarray(edges, dtype="float32")
    counts = out((len(edges) - 1,), "int64")
    counts[...] = 0
    for X in Xs:
        place = xp.searchsorted(bounds, X.reshape(-1), side="right") - 1
        place = place[(place >= 0) & (place < len(edges) - 1)]
        counts += xp.bincount(place, minlength=len(edges) - 1)
    return counts


@operator("current total", stateful=True, types="float32", gradient=FORBID_GRADIENT, limits="num_buckets > 0")
def AccumulateHistogram(ctx, X, *, lower_bound: float = 0.0, upper_bound: float = 1.0, num_buckets: int = 1, out):
    """Counts of X in equal buckets, with one below and one above: of this run, and of all runs of this operator.

    X [...], current and total [num_buckets + 2]; float32, counts int64.  ValueError where num_buckets is not above 0
    or the lower bound is above the upper one.
    """
    xp = ctx.xp
    if lower_bound > upper_bound:
        raise ValueError(f"lower_bound={lower_bound} must be at most upper_bound={upper_bound}")
    width = xp.float32((upper_bound - lower_bound) / num_buckets)
    x = X.reshape(-1)
    place = xp.trunc((x - xp.float32(lower_bound)) / width).astype("int64") + 1
    place = xp.where(x < xp.float32(lower_bound), 0, xp.where(x >= xp.float32(upper_bound), num_buckets + 1, place))
    current, total = out[0]((num_buckets + 2,), "int64"), out[1]((num_buckets + 2,), "int64")
    current[...] = xp.bincount(xp.clip(place, 0, num_buckets + 1), minlength=num_buckets + 2)
    seen = getattr(ctx.state, "seen", None)
    ctx.state.seen = current.copy() if seen is None else seen + current
    total[...] = ctx.state.seen
    return current, total


_LOWEST = 1e-24
_WIDER = 1.0001  # the range is made wider by this, so that the largest value falls into the last bin


@operator("values counts", types="float32 float64", num_inputs=(1, MANY), gradient=FORBID_GRADIENT)
def SelfBinningHistogram(
    xp, *Xs, num_bins: int, bin_spacing: str = "linear", logspacing_start: float = 1e-24, abs: bool = False, out
):
    """A histogram whose bins span the values: their left edges and the end, and the counts (0 for the end).

    Xs of any shape, values [num_bins + 1] of their dtype, counts [num_bins + 1] (int64); float32 or float64.
    Logarithmic bins begin at 1e-24 or above; as in Caffe2, `logspacing_start` does not change that.  ValueError where
    num_bins is not above 0 or bin_spacing is neither linear nor logarithmic.
    """
    if num_bins < 1:
        raise ValueError(f"Number of bins must be greater than or equal to 1. Found num_bins {num_bins}")
    if bin_spacing not in ("linear", "logarithmic"):
        raise ValueError(f"bin_spacing must be 'linear' or 'logarithmic', found {bin_spacing!r}")
    kind = Xs[0].dtype
    values, counts = out[0]((num_bins + 1,), kind), out[1]((num_bins + 1,), "int64")
    values[...] = 0
    counts[...] = 0
    x = xp.concatenate([X.reshape(-1) for X in Xs])
    if not x.size:
        return values, counts
    if abs:
        x = xp.absolute(x)
    low, high = float(x.min()), float(x.max())
    if bin_spacing == "linear":
        width = (high - low) * _WIDER / num_bins
        values[...] = low + xp.arange(num_bins + 1) * width
        place = (x - low) / width if width else xp.zeros(x.shape)
    else:
        low, high = max(low, _LOWEST), max(high, _LOWEST)
        step = kind.type(math.log((low + (high - low) * _WIDER) / low) / num_bins)
        values[...] = low * xp.exp(xp.arange(num_bins + 1).astype(kind) * step)
        place = xp.log(xp.maximum(x / kind.type(low), 1)) / step if step else xp.zeros(x.shape)
    if high == low:
        counts[0] = x.size
        return values, counts
    guess = xp.clip(place.astype("int64"), 0, num_bins - 1)
    guess = xp.where((values[guess] > x) & (guess > 0), guess - 1, guess)
    guess = xp.where((values[guess + 1] <= x) & (guess < num_bins - 1), guess + 1, guess)
    counts[:num_bins] = xp.bincount(guess, minlength=num_bins)
    return values, counts


@operator(
    "value",
    types="float32 float64",
    num_inputs=(1, MANY),
    gradient=FORBID_GRADIENT,
    limits="quantile >= 0, quantile <= 1",
)
def Quantile(xp, *Xs, quantile: float = -1.0, abs: bool = True, tol: float = 1e-3, out):
    """The smallest value that a share `quantile` of all elements (of their absolute values) does not exceed.

    Xs of any shape, value [1] of their dtype; float32 or float64.  ValueError where quantile is not from 0 to 1, tol
    is not above 0, the dtypes differ, or there are no values.
    """
    if tol <= 0:
        raise ValueError(f"tol must be above 0, found {tol}")
    if any(X.dtype != Xs[0].dtype for X in Xs):
        raise ValueError(f"all inputs must have one type, found {', '.join(X.dtype.name for X in Xs)}")
    x = xp.concatenate([X.reshape(-1) for X in Xs])
    if not x.size:
        raise ValueError(f"there are no values: the inputs have the shapes {[list(X.shape) for X in Xs]}")
    ordered = xp.sort(xp.absolute(x) if abs else x)
    Y = out((1,), x.dtype)
    Y[...] = _bisect(xp, ordered, math.ceil(quantile * x.size), tol)
    return Y


def _bisect(xp: Any, ordered: Any, wanted: int, tol: float) -> float:
    """A value that `wanted` of the values do not exceed: where none of the middles does, one within `tol`."""
    below = lambda value: int(xp.searchsorted(ordered, xp.asarray([value], ordered.dtype), side="right")[0])
    low, high = float(ordered[0]), float(ordered[-1])
    if wanted == ordered.size:
        return high
    if below(low) >= wanted:
        return low
    while abs(high - low) > tol * (abs(high) + abs(low)):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        count = below(middle)
        if count == wanted:
            return middle
        low, high = (low, middle) if count > wanted else (middle, high)
    return high
