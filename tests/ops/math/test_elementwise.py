"""Scaling, clipping, dropout."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

X = np.random.default_rng(0).standard_normal((3, 4)).astype("f")
ROWS = np.array([2, 0])


def test_scale():
    for x in (X, X.astype("float64"), X[:0], X[0, 0]):
        np.testing.assert_array_equal(run("Scale", [x], {"scale": -2.5})[0], x * x.dtype.type(-2.5), strict=True)
    check_places("Scale", [X], {"scale": 3.0})
    check_again("Scale", [X], [X[0]], {"scale": 3.0})
    check("Scale", [values(3, 4)], [0], scale=0.3)


def test_scale_blobs():
    for have, x in zip(run("ScaleBlobs", [X, X[0]], {"scale": 0.5}, outputs=2), (X, X[0])):
        np.testing.assert_array_equal(have, x / 2)
    refused("ScaleBlobs", [X, X], "2 inputs, 1 outputs")


def test_clip():
    np.testing.assert_array_equal(run("Clip", [X], {"min": -0.5, "max": 0.5})[0], np.clip(X, -0.5, 0.5))
    np.testing.assert_array_equal(run("Clip", [X])[0], X)
    assert np.isnan(run("Clip", [np.array([np.nan], "f")], {"min": 0.0, "max": 1.0})[0]).all()
    check_places("Clip", [X], {"max": 0.0})
    check_places("ClipGradient", [X, X], {"max": 0.0})
    check("Clip", [values(3, 4)], [0], min=-0.5, max=0.5)


def test_clip_tensor_by_scaling():
    norm = np.linalg.norm(X).reshape(1).astype("f")
    (Y,) = run("ClipTensorByScaling", [X, norm], {"threshold": 0.5})
    np.testing.assert_allclose(np.linalg.norm(Y), 0.5, rtol=1e-6)
    np.testing.assert_array_equal(run("ClipTensorByScaling", [X, norm], {"threshold": 1e6})[0], X)
    twice = run("ClipTensorByScaling", [X, norm, np.array([2], "f")], {"threshold": 0.5})[0]
    np.testing.assert_allclose(np.linalg.norm(twice), 1, rtol=1e-6)
    check_places("ClipTensorByScaling", [X, norm], {"threshold": 0.5})
    refused("ClipTensorByScaling", [X, X[0]], r"val must be one value, found the shape \[4\]", {"threshold": 1.0})
    refused("ClipTensorByScaling", [X, norm], "threshold.* > 0", {"threshold": 0.0})


def test_dropout_and_its_gradient_share_the_mask():
    ones = np.ones((200, 200), "f")
    Y, mask = run("Dropout", [ones], {"ratio": 0.25, "is_test": 0}, outputs=2)
    assert mask.dtype == bool and abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(Y, mask / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(run("DropoutGrad", [ones, mask], {"ratio": 0.25})[0], Y)
    check_places("DropoutGrad", [ones, mask], {"ratio": 0.25})
    np.testing.assert_array_equal(run("Dropout", [X], {"ratio": 0.25, "is_test": 1})[0], X)
    np.testing.assert_array_equal(run("DropoutGrad", [X], {"is_test": 1})[0], X)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        ("the mask, for the gradient", "Dropout", [X], {"is_test": 0}),
        ("ratio.* < 1", "Dropout", [X], {"is_test": 1, "ratio": 1.0}),
        ("is_test", "Dropout", [X], {}),
        ("the mask, is missing", "DropoutGrad", [X], {}),
        (r"the mask has the shape \[4\], and dY \[3, 4\]", "DropoutGrad", [X, X[0] > 0], {}),
    ],
)
def test_dropout_refuses(words, kind, inputs, args):
    refused(kind, inputs, words, args)


def test_ensure_clipped():
    args = {"min": -0.5, "max": 0.5}
    np.testing.assert_array_equal(run("EnsureClipped", [X], args)[0], np.clip(X, -0.5, 0.5))
    have = run("EnsureClipped", [X, ROWS, X[:2]], args, inplace={0: 0})[0]
    np.testing.assert_array_equal(have, [*np.clip(X[:1], -0.5, 0.5), X[1], *np.clip(X[2:], -0.5, 0.5)])
    refused("EnsureClipped", [X, ROWS, X[:2]], "in place", args)
    refused("EnsureClipped", [X], r"found \[1.0, 0.0\]", {"min": 1.0, "max": 0.0})


def test_ensure_clipped_of_rows_that_are_not():
    with pytest.raises(RuntimeError, match="index 5 is outside of the parameter, which has 3 rows"):
        run("EnsureClipped", [X, ROWS + 3, X[:2]], inplace={0: 0})
