"""Pools reduce what is under each position of a window."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run
from windowing import CASES, Case, last, positions, taps

WINDOWS = [*CASES, Case({"kernel": 2, "stride": 2}, (2, 2), (2, 2))]
POOLS = {
    "MaxPool": lambda x, case: np.max([v for _, v in taps(x, case, -np.inf)], axis=0),
    "AveragePool": lambda x, case: np.nanmean([v for _, v in taps(x, case, np.nan)], axis=0),
    "LpPool": lambda x, case: np.sum([abs(v) ** 3 for _, v in taps(x, case)], axis=0) ** (1 / 3),
}
ARGS = {"MaxPool": {}, "AveragePool": {}, "LpPool": {"p": 3.0}}


@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
@pytest.mark.parametrize("kind", POOLS)
def test_in_two_dimensions(kind, case):
    x, args = floats(2, 3, 7, 6), {**ARGS[kind], **case.args}
    y = POOLS[kind](x, case)
    check(kind, [x], [y], args, rtol=1e-4)
    check(kind, [last(x)], [last(y)], {**args, "order": "NHWC"}, rtol=1e-4)
    if kind != "LpPool":
        check(kind + "2D", [x], [y], args, rtol=1e-4)
    check_gradient(kind, [values(2, 3, 7, 6)], [0], **args)
    check_gradient(kind, [last(values(2, 3, 7, 6))], [0], **args, order="NHWC")


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c.args))
def test_averages_with_padding(case):
    x, args = floats(2, 3, 7, 6), {**case.args, "count_include_pad": 1}
    check("AveragePool", [x], [np.mean([v for _, v in taps(x, case)], axis=0)], args)
    check_gradient("AveragePool", [values(2, 3, 7, 6)], [0], **args)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("suffix", "size", "lists"), [
    ("1D", (7,), {"kernels": [3], "strides": [2], "pads": [1, 0]}),
    ("3D", (4, 5, 3), {"kernels": [2, 3, 1], "strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 0]}),
])  # fmt: skip
def test_in_other_dimensions(kind, suffix, size, lists):
    n = len(size)
    case = Case(
        {},
        tuple(lists["kernels"]),
        tuple(lists["strides"]),
        (1,) * n,
        tuple(lists["pads"][:n]),
        tuple(lists["pads"][n:]),
    )
    x = floats(2, 3, *size)
    check(kind + suffix, [x], [POOLS[kind](x, case)], lists)
    check(kind, [last(x)], [last(POOLS[kind](x, case))], {**lists, "order": "NHWC"})
    check_gradient(kind + suffix, [values(2, 3, *size)], [0], **lists)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_of_the_whole_image(order):
    x = floats(2, 3, 4, 5)
    turn = last if order == "NHWC" else np.asarray
    args = {"global_pooling": 1, "order": order}
    check("MaxPool", [turn(x)], [turn(x.max(axis=(2, 3), keepdims=True))], args)
    check("AveragePool", [turn(x)], [turn(x.mean(axis=(2, 3), keepdims=True))], args)
    check_gradient("AveragePool", [values(*turn(x).shape)], [0], **args)


def test_maxima_with_their_places():
    x, case = floats(2, 3, 7, 6), CASES[2]
    y, index = run("MaxPoolWithIndex", [x], case.args, 2)
    np.testing.assert_array_equal(y, POOLS["MaxPool"](x, case).astype("f"))
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, -1), index.reshape(2, 3, -1), 2), y.reshape(2, 3, -1)
    )
    check_gradient("MaxPoolWithIndex", [values(2, 3, 7, 6)], [0], outputs=2, **case.args)
    check_again("MaxPoolWithIndex", [x], [floats(1, 2, 5, 5)], case.args, 2)


def test_properties():
    x = floats(2, 3, 8, 8)
    pool = lambda kind, v: run(kind, [v], {"kernel": 2, "stride": 2})[0]
    np.testing.assert_array_equal(-pool("MaxPool", -x) <= pool("AveragePool", x) + 1e-6, True)
    np.testing.assert_array_equal(pool("AveragePool", x) <= pool("MaxPool", x) + 1e-6, True)
    np.testing.assert_allclose(pool("AveragePool", np.full_like(x, 3)), 3, rtol=1e-6)
    np.testing.assert_allclose(pool("AveragePool", x).mean(), x.mean(), rtol=1e-3, atol=1e-6)
    dx = run(
        "AveragePoolGradient", [x, pool("AveragePool", x), np.ones((2, 3, 4, 4), "f")], {"kernel": 2, "stride": 2}
    )[0]
    np.testing.assert_allclose(dx, 0.25)


def test_nan_counts_where_it_comes_first():
    x = np.array([[[[np.nan, 1, 2, np.nan, 3, 4]]]], "f")
    y = run("MaxPool", [x], {"kernel_h": 1, "kernel_w": 3, "stride_h": 1, "stride_w": 3})[0]
    assert np.isnan(y[0, 0, 0]).tolist() == [True, True]
    y = run("MaxPool", [x], {"kernel_h": 1, "kernel_w": 2, "stride_h": 1, "stride_w": 2})[0]
    assert np.isnan(y[0, 0, 0]).tolist() == [True, False, False] and y[0, 0, 0, 1:].tolist() == [2, 4]


def test_legacy_padding():
    """Caffe's pools begin at the padding and round up."""
    x = floats(1, 1, 6, 6)
    assert run("MaxPool", [x], {"kernel": 3, "stride": 2, "legacy_pad": 3})[0].shape == (1, 1, 3, 3)
    assert run("MaxPool", [x], {"kernel": 3, "stride": 2})[0].shape == (1, 1, 2, 2)


@pytest.mark.parametrize("kind", POOLS)
def test_places_further_runs_and_empty_batches(kind):
    args = {**ARGS[kind], "kernel": 3}
    check_places(kind, [floats(2, 3, 7, 6)], args)
    check_again(kind, [floats(2, 3, 7, 6)], [floats(1, 2, 4, 4)], args)
    assert run(kind, [floats(0, 3, 7, 6)], args)[0].shape == (0, 3, 5, 4)


X = floats(2, 3, 7, 6)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("MaxPool", [X], {}, "size of the window is missing"),
    ("MaxPool", [X], {"kernel": 7}, "a window of 7 does not fit into 6 pixels"),
    ("AveragePool", [X], {"kernel": 2, "pad": 2}, r"padding must be smaller than the window: \[2, 2, 2, 2\], \[2, 2\]"),
    ("AveragePool", [X], {"kernel": 2, "stride": -1}, r"stride sizes must be positive, got \[-1, -1\]"),
    ("MaxPool", [floats(3, 4)], {"kernel": 1}, r"got shape \[3, 4\]"),
    ("MaxPool", [X], {"global_pooling": 1, "pad": 1}, "global_pooling"),
    ("LpPool", [X], {"kernel": 2, "order": "HWCN"}, "NCHW or NHWC, got 'HWCN'"),
    ("MaxPoolWithIndex", [X], {"kernel": 2, "order": "NHWC"}, "order NCHW only"),
    ("MaxPoolGradient", [X, floats(2, 3, 2, 2), floats(2, 3, 2, 2)], {"kernel": 3},
     r"result has the shape \[2, 3, 2, 2\].*\[2, 3, 5, 4\]"),
    ("LpPoolGradient", [X, floats(2, 3, 5, 4), floats(2, 3, 2, 2)], {"kernel": 3}, r"gradient has the shape \[2, 3, 2, 2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if kind == "MaxPoolWithIndex" else 1)


def test_positions_are_counted_as_windows_are():
    for case in WINDOWS:
        assert run("MaxPool", [X], case.args)[0].shape[2:] == positions((7, 6), case)
