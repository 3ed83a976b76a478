"""Functions of one tensor."""

import math

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

from caffe2lite.ops.kit import registry

WIDE = np.array([-3.5, -2, -1, -0.25, 0, 0.25, 1, 2, 3.5], "f")
UNIT = np.linspace(-0.9, 0.9, 7, dtype="f")
POSITIVE = np.array([1e-3, 0.5, 1, 2, 30], "f")

FORMULAS = {
    "Abs": (np.abs, WIDE), "Acos": (np.arccos, UNIT), "Asin": (np.arcsin, UNIT), "Atan": (np.arctan, WIDE),
    "Cbrt": (np.cbrt, WIDE), "Ceil": (np.ceil, WIDE), "Cos": (np.cos, WIDE), "Cosh": (np.cosh, WIDE),
    "Cube": (lambda x: x**3, WIDE), "Erf": (np.vectorize(math.erf), WIDE), "Exp": (np.exp, WIDE),
    "Floor": (np.floor, WIDE), "Log": (np.log, POSITIVE), "Log1p": (np.log1p, POSITIVE),
    "Negative": (lambda x: -x, WIDE), "Reciprocal": (lambda x: 1 / x, POSITIVE),
    "Rsqrt": (lambda x: x**-0.5, POSITIVE), "Sign": (np.sign, WIDE), "Sin": (np.sin, WIDE), "Sinh": (np.sinh, WIDE),
    "Sqr": (lambda x: x * x, WIDE), "Sqrt": (lambda x: x**0.5, POSITIVE), "Tan": (np.tan, UNIT), "Tanh": (np.tanh, WIDE),
}  # fmt: skip
KINDS = sorted(FORMULAS)
IN_PLACE = [k for k in KINDS if registry.find(k).inplace]
ROUND = {"Ceil", "Floor", "Sign"}  # without gradient
DIFFERENTIABLE = sorted(set(KINDS) - ROUND)


@pytest.mark.parametrize("kind", KINDS)
def test_formula(kind):
    function, x = FORMULAS[kind]
    for X in (x, np.stack([x, x[::-1]]).T, x[3], x[:0]):
        (Y,) = run(kind, [X])
        assert (Y.shape, Y.dtype) == (X.shape, np.dtype("f"))
        if X.size:
            np.testing.assert_allclose(Y, function(X.astype(float)), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_again_on_other_shapes(kind):
    x = FORMULAS[kind][1]
    check_again(kind, [x], [np.stack([x, x])])


@pytest.mark.parametrize("kind", IN_PLACE)
def test_in_place(kind):
    check_places(kind, [FORMULAS[kind][1]])


@pytest.mark.parametrize("kind", DIFFERENTIABLE)
def test_gradient(kind):
    rough = kind == "Erf"  # its double precision is single here
    x = values(3, 4, low=0.2, high=0.8) if FORMULAS[kind][1] is not WIDE else values(3, 4)
    check(kind, [x], [0], step=1e-2 if rough else 1e-6, tolerance=1e-3 if rough else 1e-5)


@pytest.mark.parametrize("kind", [k + "Gradient" for k in KINDS if registry.get(k + "Gradient")])
def test_gradients_in_place_and_of_one_shape(kind):
    V, dY = np.array([0.25, 0.5], "f"), np.array([3, -1], "f")
    if registry.find(kind).inplace:
        check_places(kind, [V, dY])
    refused(kind, [V, np.ones(3, "f")], r"must have the shape of")


@pytest.mark.parametrize(("kind", "back"), [("Sqr", "Sqrt"), ("Exp", "Log"), ("Tan", "Atan"), ("Cube", "Cbrt")])
def test_pairs_that_undo_each_other(kind, back):
    x = np.array([0.1, 0.5, 1.5], "f")
    np.testing.assert_allclose(run(back, run(kind, [x]))[0], x, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
@pytest.mark.parametrize("kind", ["Cube", "Negative", "Sign"])
def test_other_numbers(kind, dtype):
    x = np.array([-3, 0, 2], dtype)
    (Y,) = run(kind, [x])
    assert Y.dtype == dtype
    np.testing.assert_array_equal(Y, FORMULAS[kind][0](x))


def test_sign_of_nan_and_not():
    assert run("Sign", [np.array([np.nan, -0.0], "f")])[0].tolist() == [0, 0]
    assert run("Not", [np.array([True, False])])[0].tolist() == [False, True]


@pytest.mark.parametrize("kind", [*KINDS, "Not"])
def test_other_types_are_refused(kind):
    refused(kind, [np.array([b"a"], object)], rf"input blob 'in0' is string\[1\]; {kind} takes .* there")
