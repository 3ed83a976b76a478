"""Im2Col lays out what a window sees; Col2Im is its adjoint."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run
from windowing import CASES, DILATED, convolve, last, positions, taps

WINDOWS = [CASES[0], CASES[2], CASES[3], DILATED]


@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
def test_columns(case):
    x = floats(2, 3, 6, 7)
    seen = np.stack([v for _, v in taps(x, case)], axis=2)  # N, C, taps, oh, ow
    y = seen.reshape(2, -1, *positions((6, 7), case))
    check("Im2Col", [x], [y], case.args)
    by_tap = np.moveaxis(seen, 1, 2).reshape(y.shape)  # in the order NHWC the channels come last
    check("Im2Col", [last(x)], [last(by_tap)], {**case.args, "order": "NHWC"})
    check_gradient("Im2Col", [values(2, 3, 6, 7)], [0], **case.args)
    check_gradient("Im2Col", [last(values(2, 3, 6, 7))], [0], **case.args, order="NHWC")
    w = floats(4, 3, *case.kernel)
    product = np.einsum("mk,nkij->nmij", w.reshape(4, -1), run("Im2Col", [x], case.args)[0])
    np.testing.assert_allclose(product, convolve(x, w, case), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: str(c.args))
def test_col2im_is_the_adjoint(case, order):
    args = {**case.args, "order": order}
    x = floats(2, 3, 6, 7) if order == "NCHW" else last(floats(2, 3, 6, 7))
    columns = run("Im2Col", [x], args)[0]
    y = floats(*columns.shape, seed=1)
    back = run("Col2Im", [y, x], args)[0]
    assert (columns * y).sum(dtype="d") == pytest.approx((x * back).sum(dtype="d"), rel=1e-4)
    counts = run("Col2Im", [np.ones_like(columns), x], args)[0]  # how many windows see a pixel
    np.testing.assert_allclose(run("Col2Im", [columns, x], args)[0], x * counts, rtol=1e-4, atol=1e-5)


def test_places_further_runs_and_empty_batches():
    check_places("Im2Col", [floats(2, 3, 6, 7)], {"kernel": 3})
    check_again("Im2Col", [floats(2, 3, 6, 7)], [floats(1, 2, 3, 4)], {"kernel": 3})
    assert run("Im2Col", [floats(0, 3, 6, 7)], {"kernel": 3})[0].shape == (0, 27, 4, 5)
    assert run("Col2Im", [floats(0, 27, 4, 5), floats(0, 3, 6, 7)], {"kernel": 3})[0].shape == (0, 3, 6, 7)


@pytest.mark.parametrize(("inputs", "args", "words"), [
    ([floats(2, 3, 6, 7)], {}, "kernel"),
    ([floats(2, 3, 6, 7)], {"kernel": 0}, r"must be positive, got \[0, 0\]"),
    ([floats(2, 3, 6, 7)], {"kernel": 9}, "a window of 9 does not fit into 6 pixels"),
    ([floats(2, 3)], {"kernel": 1}, r"got shape \[2, 3\]"),
    ([floats(2, 3, 4)], {"kernel": 1}, "the window has 2 dimensions and the image 1"),
])  # fmt: skip
def test_refusals(inputs, args, words):
    refused("Im2Col", inputs, words, args)


def test_columns_that_are_none_of_the_image_are_refused():
    refused("Col2Im", [floats(2, 27, 4, 4), floats(2, 3, 6, 7)], r"\[2, 27, 4, 4\]", {"kernel": 3})
