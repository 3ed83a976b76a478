"""Comparisons, logic, bits, choices."""

import numpy as np
import pytest
from running import check_places, refused, run

A, B = np.array([[1, 2, 3], [4, 5, 6]]), np.array([3, 2, 1])
T, F = np.array([True, True, False, False]), np.array([True, False, True, False])
COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
BITS = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
@pytest.mark.parametrize("kind", COMPARISONS)
def test_comparisons(kind, dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    want = COMPARISONS[kind](a, b)
    np.testing.assert_array_equal(run(kind, [a, b])[0], want, strict=True)
    np.testing.assert_array_equal(run(kind, [a, b], {"broadcast": 1})[0], want)
    np.testing.assert_array_equal(run(kind, [a[:0], b])[0], want[:0], strict=True)


@pytest.mark.parametrize("kind", COMPARISONS)
def test_nan_is_only_unlike(kind):
    nan = np.array([np.nan], "f")
    assert run(kind, [nan, nan])[0].tolist() == [kind == "NE"]


@pytest.mark.parametrize("kind", LOGIC)
def test_logic(kind):
    np.testing.assert_array_equal(run(kind, [T, F])[0], LOGIC[kind](T, F), strict=True)
    check_places(kind, [T, F])
    refused(kind, [A, A], "takes bool there")


@pytest.mark.parametrize("kind", BITS)
def test_bits(kind):
    for a, b in ((A, B), (A.astype("int32"), B.astype("int32")), (T, F)):
        np.testing.assert_array_equal(run(kind, [a, b])[0], BITS[kind](a, b), strict=True)
    check_places(kind, [A, A])


def test_where():
    C, X, Y = A > 3, A.astype("f"), -A.astype("f")
    np.testing.assert_array_equal(run("Where", [C, X, Y])[0], np.where(C, X, Y), strict=True)
    np.testing.assert_array_equal(run("Where", [C[:, 0], X, Y], {"broadcast_on_rows": 1})[0], [Y[0], X[1]])
    words = np.array([b"yes", b"no"], object)
    assert run("Where", [F[:2], words, words[::-1]])[0].tolist() == [b"yes", b"yes"]


@pytest.mark.parametrize(
    ("words", "shapes", "args"),
    [
        (r"one shape, found \[2, 3\] and \[3\]", [(2, 3), (2, 3), (3,)], {}),
        (r"must have the shape \[2, 3\], found \[2\]", [(2,), (2, 3), (2, 3)], {}),
        (r"the condition is \[3\], X \[2, 3\]", [(3,), (2, 3), (2, 3)], {"broadcast_on_rows": 1}),
    ],
)
def test_where_refuses(words, shapes, args):
    c, x, y = shapes
    refused("Where", [np.ones(c, bool), np.ones(x, "f"), np.ones(y, "f")], words, args)


@pytest.mark.parametrize("X", [A, A.astype("int32"), np.array([b"a", b"", b"b"], object), T])
def test_is_member_of(X):
    for chosen in (X.reshape(-1)[:1], X.reshape(-1)[:0]):
        value = [v if isinstance(v, bytes) else int(v) for v in chosen.tolist()]
        want = np.array([v in chosen.tolist() for v in X.reshape(-1).tolist()]).reshape(X.shape)
        np.testing.assert_array_equal(run("IsMemberOf", [X], {"value": value})[0], want, strict=True)


def test_is_member_of_another_type():
    refused("IsMemberOf", [A], "the values are int32, the input is int64", {"value": [1], "dtype": 2})
