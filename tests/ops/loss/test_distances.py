"""Distances and products of rows, and criteria of pairs, are their formulas."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

flat = lambda x: np.asarray(x, "d").reshape(x.shape[0], -1)
MEASURES = {
    "L1Distance": lambda x, y: abs(x - y).sum(axis=1),
    "SquaredL2Distance": lambda x, y: ((x - y) ** 2).sum(axis=1) / 2,
    "CosineSimilarity": lambda x, y: (x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1),
    "DotProduct": lambda x, y: (x * y).sum(axis=1),
}


@pytest.mark.parametrize("shape", [(3, 4), (5,), (2, 3, 2)])
@pytest.mark.parametrize("kind", MEASURES)
def test_measures(kind, shape):
    x, y = floats(*shape), floats(*shape, seed=1)
    check(kind, [x, y], [MEASURES[kind](flat(x), flat(y))], rtol=1e-4)
    check(kind, [y, x], run(kind, [x, y]))  # all of them are symmetric
    if shape != (5,) or kind != "CosineSimilarity":  # of numbers it is a sign
        check_gradient(kind, [values(*shape), values(*shape, low=-0.83, high=1.21)], [0, 1])
    check_places(kind, [x, y])
    check_again(kind, [x, y], [x[:2], y[:2]])


@pytest.mark.parametrize("kind", MEASURES)
def test_measures_of_nothing(kind):
    assert run(kind, [floats(0, 3), floats(0, 3)])[0].shape == (0,)
    assert run(kind, [floats(), floats()])[0].shape == (1,)


def test_properties_of_measures():
    x = floats(4, 5)
    np.testing.assert_allclose(run("CosineSimilarity", [x, 3 * x])[0], 1, rtol=1e-5)
    assert not run("L1Distance", [x, x])[0].any() and not run("SquaredL2Distance", [x, x])[0].any()


@pytest.mark.parametrize(("a", "b"), [(6, 2), (2, 6), (3, 3)])
def test_padded_products(a, b):
    x, y = floats(4, a), floats(4, b, seed=1)
    width = max(a, b)
    pad = lambda v: np.pad(v, [(0, 0), (0, width - v.shape[1])], constant_values=0.5)
    check("DotProductWithPadding", [x, y], [(pad(x) * pad(y)).sum(axis=1)], {"pad_value": 0.5})
    repeat = lambda v: np.tile(v, (1, width // v.shape[1]))
    check("DotProductWithPadding", [x, y], [(repeat(x) * repeat(y)).sum(axis=1)], {"replicate": 1})
    for args in ({"pad_value": 0.5}, {"replicate": 1}):
        check_gradient("DotProductWithPadding", [values(4, a), values(4, b)], [0, 1], **args)


Y = np.array([1, -1, 1, -1, 1], "int32")


def test_criteria():
    s, other = floats(5), floats(5, seed=1)
    check("CosineEmbeddingCriterion", [s, Y], [np.where(Y == 1, 1 - s, np.maximum(s - 0.2, 0))], {"margin": 0.2})
    check("MarginRankingCriterion", [s, other, Y], [np.maximum(0.3 - Y * (s - other), 0)], {"margin": 0.3})
    check_gradient("CosineEmbeddingCriterion", [values(5), Y], [0], margin=0.2)
    check_gradient("MarginRankingCriterion", [values(5), values(5) + 0.1, Y], [0, 1], margin=0.33)
    check_again("MarginRankingCriterion", [s, other, Y], [s[:2], other[:2], Y[:2]])


def test_jensen_shannon_divergence():
    entropy = lambda p: -p * np.log(p) - (1 - p) * np.log(1 - p)
    x, t = floats(3, 4, low=0.1, high=0.9).astype("d"), floats(3, 4, seed=1, low=0.1, high=0.9).astype("d")
    wanted = entropy((x + t) / 2) - (entropy(x) + entropy(t)) / 2
    check("BernoulliJSD", [x.astype("f"), t.astype("f")], [wanted], atol=1e-6)
    check_gradient("BernoulliJSD", [x, t], [0])
    assert abs(run("BernoulliJSD", [x.astype("f"), x.astype("f")])[0]).max() < 1e-6
    np.testing.assert_allclose(run("BernoulliJSD", [np.zeros(1, "f"), np.ones(1, "f")])[0], np.log(2), rtol=1e-5)


def test_box_cox():
    x = floats(4, 3, low=0.5)
    first, second = np.array([0, 1, 2.5], "f"), np.array([0.1, 0, 0.2], "f")
    base = x + second
    wanted = np.stack([np.log(base[:, 0]), base[:, 1] - 1, (base[:, 2] ** 2.5 - 1) / 2.5], axis=1)
    check("BatchBoxCox", [x, first, second], [wanted])
    check_places("BatchBoxCox", [x, first, second])
    assert np.isfinite(run("BatchBoxCox", [-x, first, second])[0]).all()


X = floats(3, 4)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    *((kind, [X, X[:2]], {}, r"one shape, found \[3, 4\] and \[2, 4\]") for kind in MEASURES),
    *((kind + "Gradient", [X, X, floats(2)], {}, r"each of 3 rows, found \[2\]") for kind in MEASURES),
    ("DotProductWithPaddingGradient", [X, floats(3, 3), floats(3)], {"replicate": 1}, "rows of 4 must be a multiple of those of 3"),
    ("DotProductWithPadding", [X, floats(2, 3)], {}, r"\[3, 4\] and \[2, 3\]"),
    ("CosineEmbeddingCriterion", [X, Y], {}, r"Y \[5\] must have as many elements as S \[3, 4\]"),
    ("MarginRankingCriterion", [floats(5), floats(4), Y], {}, r"X2 \[4\] must have as many elements as X1 \[5\]"),
    ("BernoulliJSD", [X, X[0]], {}, r"T \[4\] must have as many elements as X \[3, 4\]"),
    ("BatchBoxCox", [X, floats(4), floats(3)], {}, r"each column of X \[3, 4\] .*found \[4\] and \[3\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if kind.endswith("Gradient") else 1)
