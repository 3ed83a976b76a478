"""Sums over inputs."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

XS = [np.random.default_rng(i).integers(-9, 9, (2, 3)) for i in range(3)]
W = [np.array([w], "f") for w in (0.5, -2, 3)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("kind", ["Sum", "SumInt"])
def test_sum(kind, dtype):
    Xs = [X.astype(dtype) for X in XS]
    for count in (1, 2, 3):
        np.testing.assert_array_equal(run(kind, Xs[:count])[0], sum(Xs[:count]), strict=True)
    check_places(kind, Xs)
    check_again(kind, Xs[:2], [X[0] for X in Xs[:2]])
    refused(kind, [Xs[0], Xs[1][0]], "must have one shape and type")


def test_gradient_of_sum_is_the_one_it_gets():
    check("Sum", [values(3, 4), values(3, 4)], [0, 1])


def weighted(Xs, ws):
    return [operand.astype("f") for pair in zip(Xs, ws) for operand in pair]


def test_weighted_sum():
    np.testing.assert_allclose(run("WeightedSum", weighted(XS, W))[0], 0.5 * XS[0] - 2 * XS[1] + 3 * XS[2])
    check_places("WeightedSum", weighted(XS, W))
    check("WeightedSum", [values(3, 4), values(1), values(3, 4), values(1) + 1], [0, 1, 2, 3], grad_on_w=1)
    check("WeightedSum", [values(3, 4), values(1), values(3, 4), values(1) + 1], [0, 2])


@pytest.mark.parametrize(
    ("words", "inputs"),
    [
        ("3 inputs and 1 outputs do not go together", weighted(XS[:2], W[:2])[:3]),
        (r"weight 0 must be one value, found the shape \[3\]", [XS[0].astype("f"), np.ones(3, "f")]),
        (r"input 0 is float32\[2, 3\], input 1 float32\[3\]", weighted([XS[0], XS[1][0]], W[:2])),
    ],
)
def test_weighted_sum_refuses(words, inputs):
    refused("WeightedSum", inputs, words)


def test_gradient_of_weighted_sum_has_as_many_outputs_as_it_should():
    refused("WeightedSumGradient", [XS[0].astype("f"), *weighted(XS[:2], W[:2])], "2 outputs are expected")
