"""Activation functions are their formulas, element by element."""

import math

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

from caffe2lite.ops.kit import registry

erf = np.vectorize(math.erf, otypes=["d"])
sigmoid = lambda x: 1 / (1 + np.exp(-x))

FORMULAS = {
    "Relu": (lambda x: np.maximum(x, 0), {}),
    "Sigmoid": (sigmoid, {}),
    "Softsign": (lambda x: x / (1 + abs(x)), {}),
    "Softplus": (lambda x: np.logaddexp(x, 0), {}),
    "Elu": (lambda x: np.where(x >= 0, x, 0.7 * np.expm1(np.minimum(x, 0))), {"alpha": 0.7}),
    "Gelu": (lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, {}),
    "HardSigmoid": (lambda x: np.clip(0.3 * x + 0.4, 0, 1), {"alpha": 0.3, "beta": 0.4}),
    "LeakyRelu": (lambda x: np.where(x >= 0, x, 0.05 * x), {"alpha": 0.05}),
    "Logit": (lambda x: np.log(np.clip(x, 0.2, 0.8)) - np.log(1 - np.clip(x, 0.2, 0.8)), {"eps": 0.2}),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(x, 0)), {}),
    "ReluN": (lambda x: np.clip(x, 0, 0.5), {"n": 0.5}),
    "Selu": (lambda x: 1.5 * np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0))), {"alpha": 2.0, "scale": 1.5}),
    "Swish": (lambda x: x * sigmoid(x), {}),
    "ThresholdedRelu": (lambda x: np.where(x > 0.3, x, 0), {"alpha": 0.3}),
}
SHAPES = [(3, 4), (), (0, 2), (2, 1, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", FORMULAS)
def test_formulas(kind, shape):
    formula, args = FORMULAS[kind]
    x = floats(*shape)
    check(kind, [x], [formula(x.astype("d"))], args, rtol=1e-4)


@pytest.mark.parametrize("kind", FORMULAS)
def test_places_and_further_runs(kind):
    args = FORMULAS[kind][1]
    check_places(kind, [floats(3, 4)], args)
    check_again(kind, [floats(3, 4)], [floats(5)], args)


@pytest.mark.parametrize("kind", FORMULAS)
def test_gradients(kind):
    """Points of X are further from each kink than the differences reach."""
    rough = {"step": 1e-2, "tolerance": 1e-3} if kind == "Gelu" else {}  # its error function is of single precision
    check_gradient(kind, [values(3, 4)], [0], **FORMULAS[kind][1], **rough)


def test_fast_gelu_is_close_to_gelu():
    x = floats(50)
    np.testing.assert_allclose(run("Gelu", [x], {"fast_gelu": 1})[0], run("Gelu", [x])[0], atol=1e-3)
    check_gradient("Gelu", [values(3, 4)], [0], fast_gelu=1)


def test_symmetries():
    x = floats(20)
    np.testing.assert_allclose(run("Sigmoid", [-x])[0], 1 - run("Sigmoid", [x])[0], rtol=1e-5)
    np.testing.assert_array_equal(run("Softsign", [-x])[0], -run("Softsign", [x])[0])
    np.testing.assert_allclose(run("Logit", run("Sigmoid", [x]))[0], x, rtol=1e-4, atol=1e-5)
    for kind in ("Relu", "ReluN", "ThresholdedRelu"):
        once = run(kind, [x])
        np.testing.assert_array_equal(run(kind, once)[0], once[0])


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_relu_of_small_and_large_tensors(size):
    """Two ways of NumPy's, by size; both keep NaN and infinities."""
    x = floats(size)
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    y = run("Relu", [x])[0]
    assert np.isnan(y[0]) and y[1] == np.inf and y[2] == 0 and y[3] == 0
    np.testing.assert_array_equal(y[4:], np.where(x[4:] > 0, x[4:], 0))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("one", [False, True])
def test_prelu(order, one):
    x = floats(2, 3, 4, 3)
    slope = floats(1 if one else 3, seed=1)
    by_channel = slope if one or order == "NHWC" else slope[:, None, None]
    check("PRelu", [x, slope], [np.where(x > 0, x, by_channel * x)], {"order": order})
    check_gradient("PRelu", [values(2, 3, 4, 3), slope.astype("d")], [0, 1], order=order)
    check_places("PRelu", [x, slope], {"order": order})


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu(dim):
    x = floats(4, 6, 2)
    a, b = np.split(x, 2, axis=dim)
    check("Glu", [x], [a * sigmoid(b)], {"dim": dim})


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("Relu", [np.zeros(2, "d")], {}, "'in0' is float64.*float32"),
    ("Logit", [floats(2)], {"eps": 0.5}, "eps .*must be < 0.5, found 0.5"),
    ("ReluN", [floats(2)], {"n": 0.0}, "n .*must be > 0, found 0"),
    ("Selu", [floats(2)], {"scale": 1.0}, "scale .*must be > 1, found 1"),
    ("PRelu", [floats(2, 3, 4), floats(4)], {}, r"axis 1 of \[2, 3, 4\].*found the shape \[4\]"),
    ("PRelu", [floats(2, 4), floats(3)], {}, r"one for each channel.*found the shape \[3\]"),
    ("PRelu", [floats(3), floats(3)], {}, "X has no channels"),
    ("Glu", [floats(4, 3)], {}, r"axis -1 of \[4, 3\] cannot be split into halves"),
    ("Glu", [floats(4, 2)], {"dim": 2}, r"axis 2 of \[4, 2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)


@pytest.mark.parametrize("kind", [k + "Gradient" for k in FORMULAS])
def test_gradients_of_another_shape_are_refused(kind):
    operands = [floats(2, 3) for _ in registry.find(kind).inputs]
    operands[registry.find(kind).inputs.index("dY")] = floats(2, 2)
    refused(kind, operands, "in0")


def test_softsign_has_no_gradient_in_place():
    from caffe2lite.python import core

    net = core.Net("softsign")
    net.Softsign("x", "x")
    with pytest.raises(Exception, match="Softsign has no gradient in place"):
        net.AddGradientOperators(["x"])
