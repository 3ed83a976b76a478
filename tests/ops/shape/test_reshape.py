"""Other shapes for the same values, and questions about shapes."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

X = np.arange(24, dtype="f").reshape(2, 3, 4)
WORDS = np.array([[b"a"], [b"b"]], object)


@pytest.mark.parametrize(
    ("shape", "want"),
    [([6, 4], (6, 4)), ([0, -1], (2, 12)), ([-1], (24,)), ([4, -1, 3], (4, 2, 3)), ([0, 0, 0], (2, 3, 4))],
)
def test_reshape(shape, want):
    for inputs, args in (([X], {"shape": shape}), ([X, np.array(shape)], {}), ([X, np.array(shape, "int32")], {})):
        Y, old = run("Reshape", inputs, args, outputs=2)
        np.testing.assert_array_equal(Y, X.reshape(want), strict=True)
        np.testing.assert_array_equal(old, X.shape)
    check_places("Reshape", [X], {"shape": shape}, outputs=2)
    np.testing.assert_array_equal(run("Reshape", [Y, old], outputs=2)[0], X, strict=True)
    check("Reshape", [values(2, 3, 4)], [0], outputs=2, shape=shape)


def test_of_nothing_a_dimension_left_over_is_nothing():
    assert run("Reshape", [X[:0]], {"shape": [5, -1, 0]}, outputs=2)[0].shape == (5, 0, 0)


SHAPES = {
    "Flatten": (X.reshape(2, 12), {}),
    "FlattenToVec": (X.reshape(24), {}),
    "ExpandDims": (X.reshape(1, 2, 3, 1, 4), {"dims": [3, 0]}),
    "PrependDim": (X.reshape(2, 1, 3, 4), {"dim_size": 2}),
    "MergeDim": (X.reshape(6, 4), {}),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_shapes(kind):
    want, args = SHAPES[kind]
    np.testing.assert_array_equal(run(kind, [X], args)[0], want, strict=True)
    check_again(kind, [X], [X[:, :2]], args)
    if kind not in ("Flatten", "FlattenToVec"):
        check_places(kind, [X], args)
    if kind != "MergeDim":
        check(kind, [values(2, 3, 4)], [0], **args)
    assert run(kind, [X[:0]], args)[0].size == 0


@pytest.mark.parametrize("axis", range(4))
def test_flatten_at_each_axis(axis):
    rows = int(np.prod(X.shape[:axis]))
    assert run("Flatten", [X], {"axis": axis})[0].shape == (rows, 24 // rows)


def test_expanded_dimensions_are_squeezed_away():
    (Y,) = run("ExpandDims", [WORDS], {"dims": [1, 3]})
    np.testing.assert_array_equal(run("Squeeze", [Y], {"dims": [3, 1]})[0], WORDS)
    check_places("Squeeze", [X[:1]], {"dims": [0]})
    check("Squeeze", [values(1, 3, 1)], [0], dims=[0, 2])


def test_resize_like():
    np.testing.assert_array_equal(run("ResizeLike", [X, np.zeros((6, 4))])[0], X.reshape(6, 4), strict=True)


def test_questions():
    for x in (X, X[:0], X[0, 0, 0], WORDS):
        np.testing.assert_array_equal(run("Shape", [x])[0], np.array(x.shape, "int64"), strict=True)
        assert run("Size", [x])[0] == x.size
        assert run("IsEmpty", [x])[0] == (x.size == 0)
        assert run("HasElements", [X[:0], x])[0] == (x.size > 0)
    assert run("Shape", [X], {"axes": [2, 0]})[0].tolist() == [4, 2]


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        (r"does not divide the 24 elements of \[2, 3, 4\]", "Reshape", [X], {"shape": [5, -1]}, 2),
        (r"\[5, 5\] must have the 24 elements of \[2, 3, 4\], and has 25", "Reshape", [X], {"shape": [5, 5]}, 2),
        (r"only one dimension of the new shape \[-1, -1\]", "Reshape", [X], {"shape": [-1, -1]}, 2),
        (r"\[-2, 12\] is -2; below 0 there is only -1", "Reshape", [X], {"shape": [-2, 12]}, 2),
        (r"dimension 3 of the new shape \[2, 3, 4, 0\] is 0", "Reshape", [X], {"shape": [2, 3, 4, 0]}, 2),
        (r"\[6, 4\] has 24 elements, and X \[0, 3, 4\] has none", "Reshape", [X[:0]], {"shape": [6, 4]}, 2),
        (r"only one dimension of the new shape \[-1, -1\]", "Reshape", [X[:0]], {"shape": [-1, -1]}, 2),
        ("not as both", "Reshape", [X, np.array([24])], {"shape": [24]}, 2),
        (r"must be a vector, found \[1, 1\]", "Reshape", [X, np.array([[24]])], {}, 2),
        (r"\[2, 3, 4\] has 24 elements and \[5\] has 5", "ResizeLike", [X, np.zeros(5)], {}, 1),
        (r"axis 4 must be from 0 to 3, for X of shape \[2, 3, 4\]", "Flatten", [X], {"axis": 4}, 1),
        (r"found the shape \[\]", "FlattenToVec", [X[0, 0, 0]], {}, 1),
        (r"dims=\[5\] leaves a gap", "ExpandDims", [X], {"dims": [5]}, 1),
        (r"must not be negative, found \[-1\]", "Squeeze", [X], {"dims": [-1]}, 1),
        ("missing or empty", "Squeeze", [X], {"dims": []}, 1),
        (r"dimension 1 of \[2, 3, 4\] is 3", "Squeeze", [X], {"dims": [1]}, 1),
        (r"beyond the 3 dimensions", "Squeeze", [X], {"dims": [3]}, 1),
        (r"\[2, 3, 4\] is no multiple of dim_size=3", "PrependDim", [X], {"dim_size": 3}, 1),
        ("dim_size.* > 0", "PrependDim", [X], {"dim_size": 0}, 1),
        (r"two dimensions or more are needed, found \[4\]", "MergeDim", [X[0, 0]], {}, 1),
        (r"axis 3 is not one of \[2, 3, 4\]", "Shape", [X], {"axes": [3]}, 1),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    refused(kind, inputs, words, args, outputs)
