"""Stumps, percentiles, piecewise linear maps and histograms."""

import numpy as np
import pytest
from running import check, check_again, check_places, floats, refused, run

X = floats(20, 3)


def test_stumps():
    args = {"threshold": 0.2, "low_value": -3.0, "high_value": 7.0}
    check("StumpFunc", [X], [np.where(X > 0.2, 7.0, -3.0)], args)
    check("StumpFuncIndex", [X], [*(np.flatnonzero(v) for v in (np.float32(0.2) >= X, np.float32(0.2) < X))], args)
    assert run("StumpFunc", [np.array([0.2], "f")], args)[0] == -3  # the threshold itself is low
    check_places("StumpFunc", [X], args)
    check_again("StumpFunc", [X], [X[0]], args)


TABLES = [np.array([[-1, 0.1], [0, 0.5], [2, 0.9]], "f"), np.array([[0, 0.3]], "f"), np.array([[-2, 0], [1, 1]], "f")]


def test_percentiles():
    """Between known values they are interpolated, below all 0 and above all 1."""
    table, lengths = np.concatenate(TABLES), np.array([3, 1, 2], "int32")
    columns = [np.interp(X[:, j], t[:, 0], t[:, 1], left=0, right=1) for j, t in enumerate(TABLES)]
    check("Percentile", [X, table, lengths], [np.stack(columns, axis=1)])
    known = run("Percentile", [np.array([[0, 0, 1]], "f"), table, lengths])[0]
    np.testing.assert_allclose(known, [[0.5, 0.3, 1]])


def bisect(x, raw, mapping, lower, upper):
    """The percentile of a known value; between two from the upper one of the first to the lower one of the second."""
    if x < raw[0]:
        return 0
    if x > raw[-1]:
        return 1
    k = int(np.searchsorted(raw, x))
    if raw[k] == x:
        return mapping[k]
    return upper[k - 1] + (lower[k] - upper[k - 1]) * (x - raw[k - 1]) / (raw[k] - raw[k - 1])


def test_bisected_percentiles():
    raw, mapping = [-1.0, 0.0, 1.5, -0.5, 0.5], [0.1, 0.5, 0.9, 0.4, 0.8]
    lower, upper = [m - 0.05 for m in mapping], [m + 0.05 for m in mapping]
    args = {"percentile_raw": raw, "percentile_mapping": mapping, "percentile_lower": lower, "percentile_upper": upper,
            "lengths": [3, 2]}  # fmt: skip
    x = np.concatenate([X[:, :2], [[0, 0.5], [-1, -0.5]]]).astype("f")
    parts = [slice(0, 3), slice(3, 5)]
    wanted = [[bisect(v, *(c[parts[j]] for c in (raw, mapping, lower, upper))) for j, v in enumerate(row)] for row in x]
    check("BisectPercentile", [x], [np.array(wanted, "d")], args)


BOUNDS = np.array([[-1, 0, 1], [-2, 0.5, 2], [0, 0.1, 0.2]], "f")
SLOPES, OFFSETS = np.array([[1, 2], [0.5, -1], [3, 0]], "f"), np.array([[0, 1], [2, 3], [1, 1]], "f")


def piecewise(x, bounds, slopes, offsets):
    x = np.clip(x.astype("d"), bounds[0], bounds[-1])
    k = np.clip(np.searchsorted(bounds, x) - 1, 0, len(slopes) - 1)
    return slopes[k] * x + offsets[k]


@pytest.mark.parametrize("as_inputs", [False, True])
def test_piecewise_linear_maps(as_inputs):
    columns = np.stack([piecewise(X[:, j], BOUNDS[j], SLOPES[j], OFFSETS[j]) for j in range(3)], axis=1)
    parts = [BOUNDS.reshape(-1), SLOPES.reshape(-1), OFFSETS.reshape(-1)]
    named = dict(zip(("bounds", "slopes", "intercepts"), (p.tolist() for p in parts)))
    inputs, args = ([X, *parts], {}) if as_inputs else ([X], named)
    check("PiecewiseLinearTransform", inputs, [columns], args)
    two = {k: v[: len(v) // 3] for k, v in named.items()}
    positive = piecewise(X[:, 1], BOUNDS[0], SLOPES[0], OFFSETS[0])
    check("PiecewiseLinearTransform", [X[:, :2]], [np.stack([1 - positive, positive], axis=1)], {**two, "binary": 1})
    check("PiecewiseLinearTransform", [X[:, 1]], [positive], {**two, "binary": 1})


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_histograms(kind):
    edges = [-1.0, 0.0, 0.5, 2.0]
    values = np.concatenate([X.reshape(-1), [-1, 0, 0.5, 2]]).astype(kind)
    inside = values[values < 2]  # the last bin has no end of its own, unlike NumPy's
    check("Histogram", [values, values[:5]], [np.histogram(inside, edges)[0] + np.histogram(values[:5][values[:5] < 2], edges)[0]],
          {"bin_edges": edges})  # fmt: skip


def test_counts_of_several_runs():
    first, second = X[:10], X[10:]
    args = {"lower_bound": -1.0, "upper_bound": 1.0, "num_buckets": 4}

    def counts(x):
        return np.histogram(x, [-np.inf, -1, -0.5, 0, 0.5, 1, np.inf])[0]

    check("AccumulateHistogram", [first], [counts(first)] * 2, args)
    check("AccumulateHistogram", [second], [counts(second)] * 2, args)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_histograms_that_find_their_bins(kind):
    x = X.astype(kind)
    values, counts = run("SelfBinningHistogram", [x[:10], x[10:]], {"num_bins": 5}, 2)
    assert values.dtype == kind and values[0] == x.min() and values[-1] > x.max() and counts[-1] == 0
    np.testing.assert_allclose(np.diff(values), (x.max() - x.min()) * 1.0001 / 5, rtol=1e-4)
    np.testing.assert_array_equal(counts[:-1], np.histogram(x, values)[0])
    args = {"num_bins": 5, "bin_spacing": "logarithmic", "abs": 1, "logspacing_start": 0.01}
    values, counts = run("SelfBinningHistogram", [x], args, 2)
    np.testing.assert_allclose(np.diff(np.log(values)), np.log(values[-1] / values[0]) / 5, rtol=1e-3)
    assert counts.sum() == x.size
    args = {"num_bins": 3, "bin_spacing": "logarithmic", "logspacing_start": 2.5}  # which changes nothing in Caffe2
    values, counts = run("SelfBinningHistogram", [np.arange(9, dtype="f")], args, 2)
    np.testing.assert_allclose(values, [1e-24, 2.0000663e-16, 4.0002654e-08, 8.0007963], rtol=1e-6)
    assert counts.tolist() == [1, 0, 8, 0]
    assert run("SelfBinningHistogram", [x[:0]], {"num_bins": 3}, 2)[1].tolist() == [0] * 4


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_quantiles(q):
    for absolute in (0, 1):
        x = abs(X) if absolute else X
        found = run("Quantile", [X[:10], X[10:]], {"quantile": q, "abs": absolute})[0][0]
        near = 2e-3 * abs(found) + 1e-6  # it is found by bisection, up to the tolerance
        wanted = np.ceil(float(np.float32(q)) * x.size)
        assert (x <= found + near).sum() >= wanted and (x < found - near).sum() <= wanted


PIECES = {"bounds": [0.0, 1.0], "slopes": [1.0], "intercepts": [0.0]}


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("Percentile", [X, TABLES[0], np.array([3, 0, 0], "int32")], {}, r"lengths \[3, 0, 0\] must be above 0"),
    ("Percentile", [X[0], TABLES[0], np.array([3], "int32")], {}, r"\[3\], \[3, 2\], \[1\]"),
    ("BisectPercentile", [X], {"percentile_raw": [1.0, 2.0], "percentile_mapping": [1.0], "percentile_lower": [1.0],
     "percentile_upper": [1.0], "lengths": [1]}, "found 2, 1, 1 and 1"),
    ("PiecewiseLinearTransform", [X], {}, "found 0, 0, 0 values"),
    ("PiecewiseLinearTransform", [X], PIECES, "found 1, 1 and 2"),
    ("PiecewiseLinearTransform", [X[:, 0]], {**PIECES, "bounds": [1.0, 0.0]}, r"must not descend, found \[\[1.0, 0.0\]\]"),
    ("PiecewiseLinearTransform", [X], {**PIECES, "binary": 1}, "1 or 2 columns, found 3"),
    ("Histogram", [X], {"bin_edges": [1.0]}, r"greater than or equal to 2, found \[1.0\]"),
    ("Histogram", [X], {"bin_edges": [1.0, 1.0]}, r"strictly increasing sequence of values, found \[1.0, 1.0\]"),
    ("AccumulateHistogram", [X], {"num_buckets": 0}, "num_buckets .*must be > 0, found 0"),
    ("AccumulateHistogram", [X], {"lower_bound": 2.0}, "lower_bound=2.0 must be at most upper_bound=1.0"),
    ("SelfBinningHistogram", [X], {"num_bins": 0}, "greater than or equal to 1. Found num_bins 0"),
    ("SelfBinningHistogram", [X], {"num_bins": 1, "bin_spacing": "odd"}, "found 'odd'"),
    ("Quantile", [X], {"quantile": 1.5}, "quantile .*must be <= 1, found 1.5"),
    ("Quantile", [X], {"quantile": 0.5, "tol": 0.0}, "tol must be above 0, found 0"),
    ("Quantile", [X, X.astype("d")], {"quantile": 0.5}, "found float32, float64"),
    ("Quantile", [X[:0]], {"quantile": 0.5}, r"no values: the inputs have the shapes \[\[0, 3\]\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if "Histogram" in kind and kind != "Histogram" else 1)
