"""Transposition, concatenation, pieces, slices, repetition."""

import itertools

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, refused, run

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f")
EMPTY = X[:, :0]


@pytest.mark.parametrize("axes", [[], *map(list, itertools.permutations(range(3)))])
def test_transpose(axes):
    for x in (X, EMPTY, X.astype("int64")):
        (Y,) = run("Transpose", [x], {"axes": axes} if axes else {})
        np.testing.assert_array_equal(Y, x.transpose(axes or None), strict=True)
    if axes:
        np.testing.assert_array_equal(run("Transpose", [Y], {"axes": np.argsort(axes).tolist()})[0], X.astype("int64"))
    check("Transpose", [values(2, 3, 4)], [0], **({"axes": axes} if axes else {}))


@pytest.mark.parametrize("ndim", [3, 4, 5])
def test_channels_go_last_and_come_back(ndim):
    x = np.arange(2 * 3 * 4 ** (ndim - 2), dtype="f").reshape(2, 3, *[4] * (ndim - 2))
    (Y,) = run("NCHW2NHWC", [x])
    np.testing.assert_array_equal(Y, np.moveaxis(x, 1, -1), strict=True)
    np.testing.assert_array_equal(run("NHWC2NCHW", [Y])[0], x, strict=True)


@pytest.mark.parametrize("kind", ["Concat", "DepthConcat"])
@pytest.mark.parametrize("args", [{}, {"axis": 0}, {"axis": 2}, {"axis": -1}, {"order": "NCHW"}])
def test_concatenation_and_split_undo_each_other(kind, args):
    axis = args.get("axis", 1)
    Xs = [X.repeat(n, axis) for n in (1, 2, 1)]
    Y, sizes = run(kind, Xs, args, outputs=2)
    np.testing.assert_array_equal(Y, np.concatenate(Xs, axis), strict=True)
    np.testing.assert_array_equal(sizes, np.array([x.shape[axis] for x in Xs], "int32"), strict=True)
    for have, x in zip(run("Split", [Y, sizes], args, outputs=3), Xs):
        np.testing.assert_array_equal(have, x, strict=True)
    check_again(kind, Xs, [x[:1] for x in Xs], args, outputs=2)


def test_gradients_of_concatenation_slices_and_expansion():
    check("Concat", [values(3, 4), values(3, 2)], [0, 1], outputs=2, axis=1)
    check("Split", [values(3, 4)], [0], outputs=2, by=(0, 1), axis=1)
    check("Slice", [values(3, 4)], [0], starts=[0, 1], ends=[-1, 3])
    check("Expand", [values(3, 1), np.array([3, 4])], [0])


def test_a_new_axis():
    Y, sizes = run("Concat", [X, -X], {"axis": 1, "add_axis": 1}, outputs=2)
    np.testing.assert_array_equal(Y, np.stack([X, -X], 1))
    assert sizes.tolist() == [1, 1]
    for have, x in zip(run("Split", [Y], {"axis": 1, "add_axis": 1}, outputs=2), (X, -X)):
        np.testing.assert_array_equal(have, x, strict=True)


@pytest.mark.parametrize("kind", ["Split", "DepthSplit"])
def test_split(kind):
    for have, want in zip(run(kind, [X], {"axis": 2}, outputs=2), np.split(X, 2, 2)):
        np.testing.assert_array_equal(have, want, strict=True)
    first, second, third = run(kind, [X], {"axis": 1, "split": [1, 0, 2]}, outputs=3)
    np.testing.assert_array_equal(first, X[:, :1])
    assert second.shape == (2, 0, 4)
    np.testing.assert_array_equal(third, X[:, 1:])


def test_split_by_lengths():
    lengths = np.array([1, 0, 2, 1], "int32")
    for have, want in zip(run("SplitByLengths", [X, lengths], {"axis": 2}, outputs=2), (X[..., :1], X[..., 1:])):
        np.testing.assert_array_equal(have, want, strict=True)
    halves = run("SplitByLengths", [X, lengths[:2] * 0 + 1], {"axis": 2, "use_scaling_lengths": 1}, outputs=2)
    np.testing.assert_array_equal(halves, np.split(X, 2, 2))


@pytest.mark.parametrize(
    ("starts", "ends", "want"),
    [
        ([0, 1], [-1, 3], np.s_[:, 1:3]),
        ([0, 0, 2], [-1, -1, -1], np.s_[:, :, 2:]),
        ([-2], [-1], np.s_[1:]),
        ([5], [9], np.s_[:0]),
        ([], [], np.s_[:]),
    ],
)
def test_slice(starts, ends, want):
    args = {"starts": starts, "ends": ends}
    for dtype in ("int32", "int64"):
        (Y,) = run("Slice", [X, np.array(starts, dtype), np.array(ends, dtype)])
        np.testing.assert_array_equal(Y, X[want], strict=True)
    np.testing.assert_array_equal(run("Slice", [X], args)[0], X[want], strict=True)
    (dX,) = run("SliceGradient", [X, X[want]], args)
    kept = np.zeros_like(X)
    kept[want] = X[want]
    np.testing.assert_array_equal(dX, kept, strict=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("tiles", [0, 1, 3])
def test_tile(tiles, axis):
    want = np.concatenate([X] * tiles, axis) if tiles else X.take([], axis)
    np.testing.assert_array_equal(run("Tile", [X], {"tiles": tiles, "axis": axis})[0], want, strict=True)
    np.testing.assert_array_equal(run("Tile", [X, np.array([tiles]), np.array([axis])])[0], want)
    if tiles:
        check("Tile", [values(2, 3, 4)], [0], tiles=tiles, axis=axis)


def test_numpy_tile():
    np.testing.assert_array_equal(run("NumpyTile", [X, np.array([2, 1, 3])])[0], np.tile(X, (2, 1, 3)), strict=True)
    assert run("NumpyTile", [X, np.array([0, 1, 1])])[0].shape == (0, 3, 4)


@pytest.mark.parametrize(
    ("shape", "want"), [([3, 4], (2, 3, 4)), ([5, 1, 1, 1], (5, 2, 3, 4)), ([-1], (2, 3, 4)), ([], (2, 3, 4))]
)
def test_expand(shape, want):
    (Y,) = run("Expand", [X, np.array(shape, "int64")])
    np.testing.assert_array_equal(Y, np.broadcast_to(X, want), strict=True)
    (dX,) = run("ExpandGradient", [np.ones_like(Y), X])
    np.testing.assert_array_equal(dX, np.full_like(X, Y.size / X.size), strict=True)


def test_batch_permutation_and_its_inverse():
    order = np.array([2, 0, 1], "int32")
    x = X.transpose(1, 0, 2).copy()
    (Y,) = run("BatchPermutation", [x, order])
    np.testing.assert_array_equal(Y, x[order], strict=True)
    np.testing.assert_array_equal(run("BatchPermutationGradient", [order, Y])[0], x, strict=True)


INT = lambda *v: np.array(v, "int32")


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        (r"axes=\[0, 0, 1\] is no permutation of the 3 dimensions", "Transpose", [X], {"axes": [0, 0, 1]}, 1),
        (r"images with channels is needed, found \[3, 4\]", "NCHW2NHWC", [X[0]], {}, 1),
        (r"input 0 is \[2, 3, 4\], input 1 \[3, 4\]", "Concat", [X, X[0]], {"axis": 1}, 2),
        ("input 0 is float32, input 1 float64", "Concat", [X, X.astype("float64")], {"axis": 1}, 2),
        ("axis 3 is out of range: the tensor has 3 dimensions", "Concat", [X, X], {"axis": 3}, 2),
        ("not both", "Concat", [X, X], {"axis": 1, "order": "NHWC"}, 2),
        ("found 'NCWH'", "Concat", [X, X], {"order": "NCWH"}, 2),
        (r"axis 1 of \[2, 3, 4\] cannot be split into 2 equal parts", "Split", [X], {"axis": 1}, 2),
        (r"into 2 parts of sizes \[1, 1\]", "Split", [X], {"axis": 1, "split": [1, 1]}, 2),
        ("not as both", "Split", [X, INT(1, 2)], {"axis": 1, "split": [1, 2]}, 2),
        (r"each part must have the size 1, found \[2, 2\]", "Split", [X], {"axis": 2, "add_axis": 1}, 2),
        ("3 lengths cannot be shared among 2 outputs", "SplitByLengths", [X, INT(1, 1, 1)], {"axis": 1}, 2),
        (r"add up to 5, but axis 1 of \[2, 3, 4\] has 3", "SplitByLengths", [X, INT(1, 4)], {"axis": 1}, 2),
        ("ends at 0 before its start 1", "Slice", [X], {"starts": [1], "ends": [0]}, 1),
        ("do not fit the 3 dimensions", "Slice", [X], {"starts": [0] * 4, "ends": [1] * 4}, 1),
        (r"found \[1\] and no ends", "Slice", [X, INT(1)], {}, 1),
        ("there are 3", "SliceGradient", [X, X, X], {}, 1),
        (
            r"the shape \[3, 4\], and the slice of X \[1, 3, 4\]",
            "SliceGradient",
            [X, X[0]],
            {"starts": [0], "ends": [1]},
            1,
        ),
        ("tiles is missing", "Tile", [X], {"axis": 0}, 1),
        ("found -1", "Tile", [X], {"axis": 0, "tiles": -1}, 1),
        (r"axis 1 of \[2, 3, 4\] is no multiple of tiles=2", "TileGradient", [X], {"axis": 1, "tiles": 2}, 1),
        (r"each of the 3 dimensions is needed, found \[2\]", "NumpyTile", [X, np.array([1, 2])], {}, 1),
        (r"found \[1, -2, 1\]", "NumpyTile", [X, np.array([1, -2, 1])], {}, 1),
        (r"\[2, 3, 4\] and \[5\] cannot be broadcast", "Expand", [X, np.array([5])], {}, 1),
        (r"a shape that \[2, 4\] expands to, found \[4\]", "ExpandGradient", [X[0, 0], X[:, 0]], {}, 1),
        (r"2 rows of \[2, 3, 4\] is needed, found \[3\]", "BatchPermutation", [X, INT(0, 1, 0)], {}, 1),
        ("an index is 2; it must be from 0 to 1", "BatchPermutation", [X, INT(0, 2)], {}, 1),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    refused(kind, inputs, words, args, outputs)
