"""Sorting, searching, buckets, one-hot vectors."""

import numpy as np
import pytest
from derivatives import check, values
from running import refused, run

RNG = np.random.default_rng(0)
X = RNG.permutation(60).reshape(3, 4, 5).astype("f")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k(axis, k):
    found, indices, flat = run("TopK", [X], {"k": k, "axis": axis}, outputs=3)
    want = np.flip(np.sort(X, axis), axis).take(range(k), axis)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.take_along_axis(X, indices, axis), want)
    np.testing.assert_array_equal(X.reshape(-1)[flat], want.reshape(-1))


def test_top_k_of_ties_and_beyond_the_end():
    found, indices = run("TopK", [np.array([[2, 7, 7]], "f"), np.array([4])], {}, outputs=2)
    assert found.tolist() == [[7, 7, 2, 0]] and indices.tolist() == [[1, 2, 0, -1]]
    assert run("TopK", [X[:0]], {"k": 2}, outputs=2)[0].shape == (0, 4, 2)
    check("TopK", [values(3, 4, 2)], [0], outputs=2, k=2, axis=1)


def test_flexible_top_k():
    rows, K = X.reshape(12, 5), np.arange(12) % 5 + 1
    found, indices = run("FlexibleTopK", [X, K], outputs=2)
    np.testing.assert_array_equal(found, np.concatenate([np.sort(row)[::-1][:k] for row, k in zip(rows, K)]))
    np.testing.assert_array_equal(rows[np.repeat(range(12), K), indices], found)
    check("FlexibleTopK", [values(3, 4), np.array([1, 4, 2])], [0], outputs=2)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_unique(dtype):
    x = np.array([5, 1, 5, 3, 1], dtype)
    distinct, where = run("Unique", [x], outputs=2)
    np.testing.assert_array_equal(distinct, np.array([1, 3, 5], dtype), strict=True)
    np.testing.assert_array_equal(distinct[where], x)
    assert where.dtype == "int32" and run("Unique", [x[:0]])[0].shape == (0,)


@pytest.mark.parametrize("x", [np.array([5, 1, 5, 3, 1]), np.array([b"b", b"a", b"b", b"c", b"a"], object)])
def test_duplicates(x):
    assert run("FindDuplicateElements", [x])[0].tolist() == [2, 4]
    assert run("FindDuplicateElements", [x[:0]])[0].tolist() == []


def test_find():
    index, query = np.array([7, 3, 7, 1]), np.array([[7, 1], [2, 3]])
    assert run("Find", [index, query])[0].tolist() == [[2, 3], [-1, 1]]
    assert run("Find", [index[:0], query], {"missing_value": 9})[0].tolist() == [[9, 9], [9, 9]]


EDGES = np.array([-1, 0, 0, 2.5], "f")


def test_buckets():
    x = np.array([[-2, -1, 0], [1, 2.5, 9], [np.nan, np.inf, -np.inf]], "f")
    want = np.where(np.isnan(x), 0, (x[..., None] > EDGES).sum(-1))
    np.testing.assert_array_equal(run("Bucketize", [x], {"boundaries": EDGES.tolist()})[0], want)


def test_one_hot():
    ids = np.array([2, 0, 1])
    np.testing.assert_array_equal(run("OneHot", [ids, np.array([4])])[0], np.eye(4, dtype="f")[ids], strict=True)
    assert run("OneHot", [ids[:0], np.array([4])])[0].shape == (0, 4)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_batch_one_hot(dtype):
    x, values_of = np.array([[0, 1], [1, 0]], dtype), np.array([0, 1, 0], dtype)
    want = np.stack([x[:, 0] == 0, x[:, 0] == 1, x[:, 1] == 0], axis=1).astype(dtype)
    np.testing.assert_array_equal(run("BatchOneHot", [x, np.array([2, 1], "int32"), values_of])[0], want, strict=True)


COUNTS = np.array([3, 1], "int32")
BOUNDS = np.array([0, 1, 2, 5], "f")


def test_batch_buckets():
    x = (RNG.random((6, 2)) * 8 - 1).astype("f")
    (hot,) = run("BatchBucketOneHot", [x, COUNTS, BOUNDS])
    where = np.stack([(x[:, :1] > BOUNDS[:3]).sum(1), (x[:, 1:] > BOUNDS[3:]).sum(1)], axis=1)
    np.testing.assert_array_equal(hot, np.concatenate([np.eye(4)[where[:, 0]], np.eye(2)[where[:, 1]]], axis=1))
    (picked,) = run("BatchBucketize", [x, np.array([1, 0], "int32"), BOUNDS[[3, 0, 1, 2]], COUNTS[::-1].copy()])
    np.testing.assert_array_equal(picked, where[:, ::-1])


M, V = X[0], X[0, 0]


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        ("k must be 1 or more, found 0", "TopK", [M], {"k": 0}),
        ("axis 2 is none of 2 dimensions", "TopK", [M], {"k": 1, "axis": 2}),
        (r"k must be one value, found the shape \[2\]", "TopK", [M, np.array([1, 2])], {}),
        (r"k\[1\]=6 must be from 1 to 5", "FlexibleTopK", [M[:2], np.array([1, 6])], {}),
        (r"each of 4 rows is needed, found \[1\]", "FlexibleTopK", [M, np.array([1])], {}),
        (r"a vector is needed, found the shape \[4, 5\]", "Unique", [M.astype(int)], {}),
        (r"a vector is needed, found the shape \[4, 5\]", "FindDuplicateElements", [M], {}),
        ("found 2.0 before 1.0", "Bucketize", [V], {"boundaries": [0.0, 2.0, 1.0]}),
        ("a dimension at least, found a scalar", "Bucketize", [V[0]], {"boundaries": [0.0]}),
        ("an index is 4; it must be from 0 to 3", "OneHot", [np.array([0, 4]), np.array([4])], {}),
        ("an index is -1; it must be from 0 to 3", "OneHot", [np.array([0, -1]), np.array([4])], {}),
        (r"must be a vector, found the shape \[1, 1\]", "OneHot", [np.array([[0]]), np.array([4])], {}),
        (r"found the shape \[5\]", "BatchOneHot", [V.astype(int), COUNTS, np.arange(4)], {}),
        ("add up to 4, and there are 3 values", "BatchOneHot", [M[:, :2].astype(int), COUNTS, np.arange(3)], {}),
        ("with D = 5", "BatchBucketOneHot", [M, COUNTS, BOUNDS], {}),
        ("a column is 5; it must be from 0 to 4", "BatchBucketize", [M, COUNTS + 2, BOUNDS, COUNTS], {}),
        ("found 5.0 before 2.0", "BatchBucketize", [M, COUNTS - 1, BOUNDS[::-1].copy(), COUNTS], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args, outputs=2 if "TopK" in kind else 1)
