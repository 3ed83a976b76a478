"""Rows by index, and by mask."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, definition, refused, run

from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace

X = np.random.default_rng(0).standard_normal((3, 4, 2)).astype("f")
IDS = np.array([[2, 0], [2, 1]])
INT = lambda *v: np.array(v, "int32")


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis, dtype):
    ids = IDS.astype(dtype) % X.shape[axis]
    for x in (X, X.astype("float64"), X > 0, np.array([b"x"] * 24, object).reshape(X.shape)):
        np.testing.assert_array_equal(run("Gather", [x, ids], {"axis": axis})[0], x.take(ids, axis), strict=True)
    assert run("Gather", [X, ids[:0]], {"axis": axis})[0].size == 0
    check_again("Gather", [X, ids], [X, ids[0]], {"axis": axis})


def test_gather_of_rows_counts_from_the_end_and_of_nothing_is_nothing():
    np.testing.assert_array_equal(run("Gather", [X, np.array([-1, 0])])[0], X[[-1, 0]])
    assert run("Gather", [X[:0], np.array([5])])[0].shape == (0, 4, 2)


def test_each_has_its_own_indices():
    ids = np.array([[3, 0], [1, 1], [2, 3]])
    want = np.stack([x[i] for x, i in zip(X, ids)])
    np.testing.assert_array_equal(run("BatchGather", [X, ids], {"match_outer": 1})[0], want, strict=True)
    np.testing.assert_array_equal(run("Gather", [X, ids], {"axis": 1, "match_outer": 1})[0], want)
    check("BatchGather", [values(3, 4, 2), ids], [0], match_outer=1)


def test_gradients_of_gather():
    check("BatchGather", [values(2, 4, 3), np.array([1, 3, 1])], [0])
    check("Gather", [values(2, 4, 3), np.array([1, 3, 1])], [0], axis=1)
    check("Gather", [values(3, 4), np.array([1, 2, 1])], [0], dense_gradient=1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_scatter_assign(dtype):
    x, rows = X.astype(dtype), X[:3].astype(dtype)[::-1].copy()
    want = x.copy()
    want[2], want[0] = rows[1], rows[2]
    np.testing.assert_array_equal(run("ScatterAssign", [x, np.array([2, 2, 0]), rows])[0], want, strict=True)


def test_scatter():
    x, ids, updates = X[..., 0], np.array([[3, 0], [1, 2]]), np.array([[10, 20], [30, 40]], "f")
    want = x.copy()
    np.put_along_axis(want[:2], ids, updates, 1)
    np.testing.assert_array_equal(run("Scatter", [x, ids, updates])[0], want, strict=True)
    check_places("Scatter", [x, ids, updates])


def test_scatter_weighted_sum():
    x, rows = X[..., 0], X[:2, :, 1].copy()
    inputs = [x, np.array([0.5], "f"), np.array([2, 0]), rows, np.array([3], "f"), -rows, np.array([1], "f")]
    want = x.copy()
    want[[2, 0]] = 0.5 * x[[2, 0]] + 2 * rows
    np.testing.assert_allclose(run("ScatterWeightedSum", inputs)[0], want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_sparse_to_dense(dtype):
    ids, rows = INT(1, 3, 1), np.arange(6).reshape(3, 2).astype(dtype)
    want = np.zeros((4, 2), dtype)
    np.add.at(want, ids, rows)
    np.testing.assert_array_equal(run("SparseToDense", [ids, rows])[0], want, strict=True)
    assert run("SparseToDense", [ids, rows, np.zeros(6)])[0].shape == (6, 2)
    check("SparseToDense", [ids, values(3, 4)], [1])


def test_copy_rows():
    x, row = X[0], np.array([7, 8], "f")
    want = x.copy()
    want[[1, 3]] = row
    np.testing.assert_array_equal(run("CopyRowsToTensor", [x, np.array([1, 3]), row])[0], want)
    np.testing.assert_array_equal(run("CopyRowsToTensorGradient", [X])[0], X, strict=True)
    check_places("CopyRowsToTensorGradient", [X])


MASK = np.array([True, False, True])


def test_boolean_mask_and_back():
    for x in (X, X[:, 0, 0].astype("int64"), np.array([b"a", b"b", b"c"], object)):
        rows, which = run("BooleanMask", [x, MASK], outputs=2)
        np.testing.assert_array_equal(rows, x[MASK], strict=True)
        assert which.tolist() == [0, 2]
    (dX,) = run("BooleanMaskGradient", [MASK, np.array([5, 6], "f")])
    assert dX.tolist() == [5, 0, 6]


def test_boolean_unmask_puts_together_what_masks_took_apart():
    x = np.array([1, 2, 3], "f")
    assert run("BooleanUnmask", [MASK, x[MASK], ~MASK, x[~MASK]])[0].tolist() == [1, 2, 3]
    assert run("BooleanUnmask", [MASK, -x[MASK], MASK | True, x])[0].tolist() == [-1, 2, -3]


def test_conditional():
    np.testing.assert_array_equal(run("Conditional", [MASK, X, -X])[0], [X[0], -X[1], X[2]])


LENGTHS, AT, FLAT = INT(2, 0, 1), np.array([3, 0, 1]), np.array([5, 6, 7], "f")
DENSE = np.array([[6, 0, 0, 5], [0, 0, 0, 0], [0, 7, 0, 0]], "f")


def test_batches_sparse_and_dense():
    np.testing.assert_array_equal(run("BatchSparseToDense", [LENGTHS, AT.astype("int32"), FLAT, DENSE])[0], DENSE)
    args = {"dense_last_dim": 4, "default_value": -1.0}
    (Y,) = run("BatchSparseToDense", [LENGTHS.astype(int), AT, FLAT], args)
    np.testing.assert_array_equal(Y, np.where(DENSE == 0, -1, DENSE))
    np.testing.assert_array_equal(run("BatchDenseToSparse", [LENGTHS, AT, DENSE])[0], FLAT)
    check("BatchSparseToDense", [LENGTHS, AT, values(3)], [2], dense_last_dim=4)
    check("BatchDenseToSparse", [LENGTHS, AT, values(3, 4)], [2])


def test_coalesced_blobs_share_memory():
    workspace = Workspace()
    for name, value in {"a": X, "b": X[0]}.items():
        workspace.feed(name, value)
    runner.run_operator(workspace, definition("UnsafeCoalesce", ["a", "b"], ["a", "b", "all"]))
    runner.run_operator(workspace, definition("Scale", ["all"], ["all"], {"scale": 2.0}))
    np.testing.assert_array_equal(workspace.fetch("a"), 2 * X)
    np.testing.assert_array_equal(workspace.fetch("b"), 2 * X[0])


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        ("index 3 is outside of the data, which has 3 rows", "Gather", [X, np.array([3])], {}),
        ("index -4 is outside", "Gather", [X, np.array([-4])], {}),
        ("index -1 is outside", "Gather", [X, np.array([-1])], {"axis": 1}),
        ("must have entries, found a scalar", "Gather", [X[0, 0, 0], np.array([0])], {}),
        ("axis behind the first, found axis 0", "Gather", [X, np.array([0])], {"match_outer": 1}),
        (r"the indices \[1\] must begin with \[3\]", "BatchGather", [X, np.array([0])], {"match_outer": 1}),
        (r"found the shape \[4\]", "BatchGather", [X[0, :, 0], np.array([0])], {}),
        (r"dY \[3, 4, 2\] does not fit X \[3, 4, 2\]", "BatchGatherGradient", [X, np.array([0]), X], {}),
        ("index 3 is outside of the data, which has 3 rows", "ScatterAssign", [X, np.array([3]), X[:1]], {}),
        (r"slices \[2, 4, 2\] must have a row", "ScatterAssign", [X, np.array([0]), X[:2]], {}),
        ("must have rows, found a scalar", "ScatterAssign", [X[0, 0, 0], np.array([0]), X[0, 0]], {}),
        (r"indices \[1\] and updates \[2\]", "Scatter", [X, np.array([0]), X[0, 0]], {}),
        (
            r"the indices \[4, 1\] go beyond X \[3, 2\]",
            "Scatter",
            [X[0, :3], AT.reshape(3, 1)[[0, 1, 2, 2]], X[0, :, :1]],
            {},
        ),
        (
            r"the rows of pair 1, \[3, 4, 2\], must have a row of 8 for each of 1 indices",
            "ScatterWeightedSum",
            [X, FLAT[:1], np.array([0]), X, FLAT[:1]],
            {},
        ),
        (
            "pair 1 must be rows of float32 and one weight",
            "ScatterWeightedSum",
            [X, FLAT[:1], np.array([0]), X[:1], FLAT],
            {},
        ),
        (
            r"the weight of X must be one value, found the shape \[3\]",
            "ScatterWeightedSum",
            [X, FLAT, np.array([0]), X[:1], FLAT[:1]],
            {},
        ),
        (r"indices \[3\], values \[2\]", "SparseToDense", [AT, FLAT[:2]], {}),
        ("index 3 is outside of the dense tensor, which has 2 rows", "SparseToDense", [AT, FLAT, X[:2]], {}),
        (r"the matrix is \[4, 2\], the row \[3\]", "CopyRowsToTensor", [X[0], AT, FLAT], {}),
        ("index 9 is outside of the matrix", "CopyRowsToTensor", [X[0], 3 * AT, FLAT[:2]], {}),
        (r"each of 3 rows, found \[2\]", "BooleanMask", [X, MASK[:2]], {}),
        ("2 true values, dY only 1", "BooleanMaskGradient", [MASK, FLAT[:1]], {}),
        ("no mask is true at 1", "BooleanUnmask", [MASK, FLAT[:2]], {}),
        ("mask 0 is true 2 times, and there are 1 values", "BooleanUnmask", [MASK, FLAT[:1]], {}),
        (r"mask 1 must be bool\[3\], found bool\[2\]", "BooleanUnmask", [MASK, FLAT, MASK[:2], FLAT], {}),
        (r"condition \[2\]", "Conditional", [MASK[:2], X, X], {}),
        ("the lengths add up to 3, and there are 2 indices", "BatchSparseToDense", [LENGTHS, AT[:2], FLAT[:2]], {}),
        ("the width is missing: give dense_last_dim > 0 .found -1", "BatchSparseToDense", [LENGTHS, AT, FLAT], {}),
        ("index 3 is outside of a row, which has 2", "BatchSparseToDense", [LENGTHS, AT, FLAT], {"dense_last_dim": 2}),
        (
            r"dense_last_dim is 5, and the fourth input \[3, 4\]",
            "BatchSparseToDense",
            [LENGTHS, AT, FLAT, DENSE],
            {"dense_last_dim": 5},
        ),
        (r"a matrix of 3 rows is needed, found \[2, 4\]", "BatchDenseToSparse", [LENGTHS, AT, DENSE[:2]], {}),
        ("1 inputs and 1 outputs do not go together", "UnsafeCoalesce", [X], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args)
