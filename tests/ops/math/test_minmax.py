"""Maximum, minimum, mean over inputs."""

import functools

import numpy as np
import pytest
from derivatives import check, values
from running import check_again, check_places, refused, run

XS = [np.random.default_rng(i).standard_normal((2, 3)).astype("f") for i in range(3)]
FORMULAS = {
    "Max": lambda Xs: functools.reduce(np.maximum, Xs),
    "Min": lambda Xs: functools.reduce(np.minimum, Xs),
    "Mean": lambda Xs: sum(Xs) / len(Xs),
    "SumRelu": lambda Xs: np.maximum(sum(Xs), 0),
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_formula(kind):
    for count in (1, 2, 3):
        np.testing.assert_allclose(run(kind, XS[:count])[0], FORMULAS[kind](XS[:count]), rtol=1e-5, atol=1e-6)
    assert run(kind, [XS[0][:0]])[0].shape == (0, 3)
    check_places(kind, XS)
    check_again(kind, XS, [X[0] for X in XS])
    refused(kind, [XS[0], XS[1][0]], r"input 0 is float32\[2, 3\], input 1 float32\[3\]")


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_nan_stays_in_the_first_input_only(kind):
    nan, one = np.array([np.nan], "f"), np.array([1], "f")
    assert np.isnan(run(kind, [nan, one])[0])
    assert run(kind, [one, nan])[0] == 1


@pytest.mark.parametrize("kind", ["Max", "Min", "Mean"])
def test_gradient(kind):
    check(kind, [values(3, 4), values(3, 4, low=-0.9), values(3, 4, high=0.9)], [0, 1, 2])


@pytest.mark.parametrize("kind", ["MaxGradient", "MinGradient"])
def test_all_that_tie_get_the_gradient(kind):
    X, dY = XS[0], XS[1]
    for dX in run(kind, [X, dY, X, X], outputs=2):
        np.testing.assert_array_equal(dX, dY)
    refused(kind, [X, dY, X, X], "2 outputs are expected")


def test_gradient_of_mean_shares_out():
    shares = run("MeanGradient", [XS[0]], outputs=3)
    np.testing.assert_allclose(sum(shares), XS[0], rtol=1e-6)
    check_places("MeanGradient", [XS[0]], outputs=2)
