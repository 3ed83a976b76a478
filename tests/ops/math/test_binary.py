"""Arithmetic with broadcasting."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

RNG = np.random.default_rng(1)


def floats(*shape):
    return (RNG.random(shape) + 0.5).astype("f")


def agrees(have, want):
    assert (have.shape, have.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(have, want, rtol=1e-6)


FUNCTIONS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
SHAPES = [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((0, 3), (3,)), ((), ())]
OLDER = [((2, 3, 4), (3, 4), {}), ((2, 3, 4), (3,), {"axis": 1}), ((2, 3, 4), (2,), {"axis": 0}), ((2, 3), (1,), {}),
         ((2, 5, 4, 3), (5,), {"axis_str": "C"}), ((2, 4, 3, 5), (5,), {"axis_str": "C", "order": "NHWC"})]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_numpy_rules(kind, shapes):
    A, B = (floats(*s) for s in shapes)
    agrees(run(kind, [A, B])[0], np.asarray(FUNCTIONS[kind](A, B)))


@pytest.mark.parametrize(("a", "b", "args"), OLDER)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_older_rules(kind, a, b, args):
    A, B = floats(*a), floats(*b)
    axis = args.get("axis", len(a) - len(b))
    if "axis_str" in args:
        axis = args.get("order", "NCHW").index("C")
    wide = B.reshape((1,) * axis + b + (1,) * (len(a) - axis - len(b))) if B.size > 1 else B
    (C,) = run(kind, [A, B], {"broadcast": 1, **args})
    agrees(C, FUNCTIONS[kind](A, wide))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_in_place_and_again(kind):
    check_places(kind, [floats(2, 3), floats(2, 3)])
    check_again(kind, [floats(2, 3), floats(3)], [floats(4, 1), floats(4, 5)])


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_an_operand_that_grows_cannot_be_overwritten(kind):
    with pytest.raises(RuntimeError, match="in place"):
        run(kind, [floats(2), floats(2, 2)], inplace={0: 0})


def test_integers_are_divided_towards_zero():
    a, b = np.array([-7, 7, -7, 7]), np.array([2, 2, -2, -2])
    assert run("Div", [a, b])[0].tolist() == [-3, 3, 3, -3]
    refused("Div", [a[:2], np.array([1, 0])], "division by zero: .* has a 0 at 1")


@pytest.mark.parametrize("args", [{}, {"broadcast": 1, "axis": 0}])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_gradients(kind, args):
    B = values(3, low=1.0, high=2.0) if args else values(4, low=1.0, high=2.0)
    check(kind, [values(3, 4), B], [0, 1], **args)


@pytest.mark.parametrize("kind", ["AddGradient", "SubGradient", "MulGradient"])
def test_gradients_in_the_place_of_dc(kind):
    check_places(kind, [floats(2, 3), floats(2, 3), floats(2, 3)], outputs=2)


@pytest.mark.parametrize("kind", [k + "Gradient" for k in FUNCTIONS])
@pytest.mark.parametrize("args", [{}, {"broadcast": 1}])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 1, 2)])
def test_gradients_of_another_size(kind, args, shape):
    dC = np.ones(shape, "f")
    inputs = [dC, floats(2, 3), floats(3), *([dC] if kind == "DivGradient" else [])]
    refused(kind, inputs, r"of A and B broadcast, \[2, 3\], found", args, outputs=2)


def test_gradient_of_div_in_its_two_forms():
    A, B, dC = floats(2, 3), floats(2, 3), floats(2, 3)
    want = [dC / B, -dC * A / B**2]
    for have in (run("DivGradient", [dC, A, B, A / B], outputs=2), run("DivGradient", [B, A / B, dC], outputs=2)):
        np.testing.assert_allclose(have, want, rtol=1e-5)


def test_power():
    X, E = floats(2, 3), floats(3)
    np.testing.assert_allclose(run("Pow", [X, X])[0], X**X, rtol=1e-6)
    np.testing.assert_allclose(run("Pow", [X, E], {"broadcast": 1})[0], X**E, rtol=1e-6)
    refused("Pow", [X, E], r"\[2, 3\] and the exponents \[3\] must have one shape")
    np.testing.assert_allclose(run("Pow", [X], {"exponent": 1.5})[0], X**1.5, rtol=1e-6)
    assert run("Pow", [np.array([-np.inf, 4], "f")], {"exponent": 0.5})[0].tolist() == [np.inf, 2]
    check_places("Pow", [X, X])
    refused("Pow", [X], "the exponent is missing")
    check("Pow", [values(3, 4, low=0.2)], [0], exponent=2.5)
    check("Pow", [values(3, 4, low=0.2), values(3, 4) + 2], [0, 1])
    check("Pow", [values(3, 4, low=0.2), values(3) + 2], [0, 1], broadcast=1, axis=0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_remainder(dtype):
    X = np.arange(-5, 6, dtype=dtype)
    np.testing.assert_array_equal(run("Mod", [X], {"divisor": 3})[0], np.fmod(X, 3), strict=True)
    np.testing.assert_array_equal(run("Mod", [X], {"divisor": -3, "sign_follow_divisor": 1})[0], X % -3)
    check_places("Mod", [X], {"divisor": 3})
    refused("Mod", [X], "divisor=0", {"divisor": 0})


def test_sum_reduce_like_is_the_adjoint_of_broadcasting():
    A, B = floats(2, 3, 4), floats(3)
    (C,) = run("SumReduceLike", [A, B], {"axis": 1})
    np.testing.assert_allclose(C, A.sum((0, 2)), rtol=1e-5)
    np.testing.assert_array_equal(run("SumReduceLike", [A, A])[0], A)
    refused("SumReduceLike", [A, floats(5)], r"shape \[5\] does not fit|mismatch")


def test_rows():
    X, w = floats(3, 2, 2), floats(3)
    np.testing.assert_allclose(run("RowMul", [X, w])[0], X * w[:, None, None], rtol=1e-6)
    np.testing.assert_allclose(run("ReduceTailSum", [X])[0], X.sum((1, 2)), rtol=1e-6)
    check("RowMul", [values(3, 4), values(3)], [0, 1])
    refused("RowMul", [X, w[:2]], r"X is \[3, 2, 2\], w \[2\]")


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_square_root_divide(dtype):
    X, scale = floats(3, 2), np.array([4, 0, 9], dtype)
    np.testing.assert_allclose(run("SquareRootDivide", [X, scale])[0], X / [[2], [1], [3]], rtol=1e-6)
    check_places("SquareRootDivide", [X, scale])
    check("SquareRootDivide", [values(3, 2), scale.astype("float64")], [0])
    refused("SquareRootDivide", [X, -scale], "found -9")
    refused("SquareRootDivide", [X, scale[:2]], r"scale \[2\]")


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_refusals(kind):
    A, B = floats(2, 3), floats(2)
    refused(kind, [A, B], r"\[2, 3\] and \[2\] cannot be broadcast")
    refused(kind, [A, B], r"does not fit on axis 5 of \[2, 3\]", {"broadcast": 1, "axis": 5})
    refused(kind, [A, B], "not both", {"broadcast": 1, "axis": 0, "axis_str": "N"})
    refused(kind, [A, B], r"one letter of order='NCHW'", {"broadcast": 1, "axis_str": "X"})
    refused(kind, [A, B.astype("float64")], r"must have the type of 'in0'")
    refused(kind, [A > 0, A > 0], "takes float32 or float64")
