"""Convolutions are sums over the taps of their window."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run
from windowing import CASES, DILATED, Case, convolve, last

WINDOWS = [*CASES, DILATED]


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
def test_in_two_dimensions(case, group):
    x, w, b = floats(2, 4, 7, 6), floats(8, 4 // group, *case.kernel), floats(8)
    y = convolve(x, w, case, group) + b[:, None, None]
    args = {**case.args, "group": group}
    check("Conv", [x, w, b], [y], args, rtol=1e-4, atol=1e-5)
    check("Conv2D", [x, w], [y - b[:, None, None]], args, rtol=1e-4, atol=1e-5)
    check("Conv", [last(x), last(w), b], [last(y)], {**args, "order": "NHWC"}, rtol=1e-4, atol=1e-5)
    check("ConvRelu", [x, w, b], [np.maximum(y, 0)], args, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_a_filter_for_each_channel(order):
    case, x, w = CASES[2], floats(2, 4, 7, 6), floats(4, 1, 3, 3)
    turn = last if order == "NHWC" else np.asarray
    args = {**case.args, "group": 4, "order": order}
    check("Conv", [turn(x), turn(w)], [turn(convolve(x, w, case, 4))], args, rtol=1e-4, atol=1e-5)
    check_gradient("Conv", [turn(values(2, 4, 5, 4)), turn(values(4, 1, 3, 3)), values(4)], [0, 1, 2], **args)


@pytest.mark.parametrize(("kind", "size", "lists"), [
    ("Conv1D", (7,), {"kernels": [3], "strides": [2], "pads": [1, 0]}),
    ("Conv3D", (4, 5, 3), {"kernels": [2, 3, 1], "strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 0], "dilations": [2, 1, 1]}),
])  # fmt: skip
def test_in_other_dimensions(kind, size, lists):
    n = len(size)
    case = Case({}, tuple(lists["kernels"]), tuple(lists["strides"]), tuple(lists.get("dilations", [1] * n)),
                tuple(lists["pads"][:n]), tuple(lists["pads"][n:]))  # fmt: skip
    x, w = floats(2, 3, *size), floats(4, 3, *case.kernel)
    check(kind, [x, w], [convolve(x, w, case)], lists, rtol=1e-4, atol=1e-5)
    check("Conv", [last(x), last(w)], [last(convolve(x, w, case))], {**lists, "order": "NHWC"}, rtol=1e-4, atol=1e-5)
    check_gradient(kind, [values(1, 3, *size), values(4, 3, *case.kernel), values(4)], [0, 1, 2], **lists)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
def test_gradients(case, group, order):
    x, w = values(2, 4, 5, 6), values(6, 4 // group, *case.kernel)
    if order == "NHWC":
        x, w = last(x), last(w)
    args = {**case.args, "group": group, "order": order}
    check_gradient("Conv", [x, w, values(6)], [0, 1, 2], **args)
    check_gradient("Conv", [x, w], [0, 1], **args)
    check_gradient("Conv", [x, w], [1], **args, no_gradient_to_input=1)


def test_properties():
    x, w = floats(2, 3, 6, 6), floats(4, 3, 3, 3)
    y = run("Conv", [x, w], {"kernel": 3})[0]
    shifted = run("Conv", [np.roll(x, 1, axis=3), w], {"kernel": 3})[0]
    np.testing.assert_allclose(shifted[..., 1:], y[..., :-1], rtol=1e-4, atol=1e-5)
    other = floats(2, 3, 6, 6, seed=1)
    both = run("Conv", [x + other, w], {"kernel": 3})[0]
    np.testing.assert_allclose(both, y + run("Conv", [other, w], {"kernel": 3})[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run("Conv", [x[::-1], w], {"kernel": 3})[0], y[::-1], rtol=1e-5, atol=1e-6)
    unit = np.eye(3, dtype="f").reshape(3, 3, 1, 1)
    np.testing.assert_array_equal(run("Conv", [x, unit], {"kernel": 1})[0], x)


def test_padding_by_name():
    x, w = floats(1, 2, 7, 5), floats(3, 2, 3, 3)
    assert run("Conv", [x, w], {"kernel": 3, "stride": 2, "legacy_pad": 2})[0].shape == (1, 3, 4, 3)  # SAME
    assert run("Conv", [x, w], {"kernel": 3, "stride": 2, "legacy_pad": 1})[0].shape == (1, 3, 3, 2)  # VALID


def test_empty_batches_places_and_further_runs():
    w, b = floats(4, 3, 3, 3), floats(4)
    assert run("Conv", [floats(0, 3, 5, 5), w, b], {"kernel": 3})[0].shape == (0, 4, 3, 3)
    dw, db, dx = run("ConvGradient", [floats(0, 3, 5, 5), w, floats(0, 4, 3, 3)], {"kernel": 3}, 3)
    assert not dw.any() and not db.any() and dx.shape == (0, 3, 5, 5)
    check_places("Conv", [floats(2, 3, 5, 5), w, b], {"kernel": 3})
    check_again("Conv", [floats(2, 3, 5, 5), w, b], [floats(1, 3, 8, 4), w, b], {"kernel": 3})


X, W = floats(2, 4, 5, 5), floats(6, 4, 3, 3)


@pytest.mark.parametrize(("inputs", "args", "words"), [
    ([X, W], {}, "size of the window is missing"),
    ([X, W], {"kernel": 2}, r"filter has the shape \[6, 4, 3, 3\]; a window of \[2, 2\]"),
    ([X, floats(6, 3, 3, 3)], {"kernel": 3}, "4 channels and the filter takes 3 in each of 1 groups"),
    ([X, floats(5, 2, 3, 3)], {"kernel": 3, "group": 2}, "5 output channels cannot be divided among 2 groups"),
    ([X, W, floats(5)], {"kernel": 3}, r"bias has the shape \[5\].*6 channels"),
    ([X, floats(6, 4, 7, 7)], {"kernel": 7}, "a window of 7 does not fit into 5 pixels"),
    ([X, W], {"kernel": 3, "stride": 0}, r"stride sizes must be positive, got \[0, 0\]"),
    ([X, W], {"kernel": 3, "group": 0}, "group must be positive, got 0"),
    ([X, W], {"kernel": 3, "order": "CHWN"}, "NCHW or NHWC, got 'CHWN'"),
    ([floats(4, 5), W], {"kernel": 3}, r"got shape \[4, 5\]"),
    ([X, W.astype("d")], {"kernel": 3}, "'in1' is float64"),
])  # fmt: skip
def test_refusals(inputs, args, words):
    refused("Conv", inputs, words, args)


def test_gradients_of_another_shape_are_refused():
    refused(
        "ConvGradient",
        [X, W, floats(2, 6, 4, 4)],
        r"\[2, 6, 4, 4\]; the convolution's result has \[2, 6, 3, 3\]",
        {"kernel": 3},
        3,
    )
