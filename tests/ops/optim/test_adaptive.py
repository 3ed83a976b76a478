"""Optimizers with one step size for all of a parameter, and what changes the step size, are their formulas."""

import numpy as np
import pytest
from running import check, check_again, check_places, floats, refused

LR = np.array([0.1], "f")
P, M, G = floats(3, 4), floats(3, 4, seed=1), floats(3, 4, seed=2)
norm = lambda v: np.sqrt((np.asarray(v, "d") ** 2).sum())


def test_storm():
    total = 2 + norm(G) ** 2
    rate = 0.1 * (0.5 + total) ** (-1 / 3)
    moment = G + (1 - 3 * rate**2) * (M.astype("d") - G)
    inputs, args = [P, M, np.array([2], "f"), G, LR], {"momentum": 3.0, "beta": 0.5}
    check("Storm", inputs, [P + rate * moment, moment, np.array([total])], args)
    check_places("Storm", inputs, args, 3)


def test_wngrad():
    rate, growth = 0.1 / (2 + 1e-3), norm(G) ** 2 / (2 + 1e-3)
    inputs, args = [P, np.array([2], "f"), G, LR], {"epsilon": 1e-3}
    wanted = [P + rate * G.astype("d"), np.array([2 + growth]), np.array([rate]), rate * G.astype("d")]
    check("Wngrad", inputs, wanted, args)
    check_places("Wngrad", inputs, args, 4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (0.5, 0.6), (0.0, 0.01)])
def test_lars(low, high):
    wd, trust = np.array([0.1], "f"), np.array([0.7], "f")
    rate = np.clip(0.7 / (norm(G) / norm(P) + 0.1 + 0.2), low, high)
    check("Lars", [P, G, wd, trust, np.array([high], "f")], [np.array([rate])], {"offset": 0.2, "lr_min": low})
    check("Lars", [np.zeros_like(P), G, wd, trust, np.array([9], "f")], [np.array([1.0])])


@pytest.mark.parametrize("normalized", [0, 1])
def test_adaption_of_learning_rates(normalized):
    agree = (G.astype("d") * M).sum()
    change = 0.1 * agree / (norm(G) * norm(M)) if normalized else agree
    args = {"lr_alpha": 0.2, "normalized_lr_adaption": normalized}
    check("LearningRateAdaption", [LR, G, M], [np.array([0.1 - 0.2 * change])], args)
    check_places("LearningRateAdaption", [LR, G, M], args)


@pytest.mark.parametrize(("turn", "due"), [(0, False), (1, True), (2, False), (3, True), (5, False), (7, False)])
def test_weights_are_scaled_now_and_then(turn, due):
    args = {"stepsize": 2, "upper_bound_iter": 6, "scale": 0.5}
    check("WeightScale", [P, np.array([turn])], [P * (0.5 if due else 1)], args)
    check_places("WeightScale", [P, np.array([turn])], args)
    check_again("WeightScale", [P, np.array([turn])], [P[0], np.array([turn + 1])], args)


ONE = np.array([1], "f")


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("Storm", [P, M[:2], ONE, G, LR], {}, r"moment \[2, 4\] must have as many elements as param \[3, 4\]"),
    ("Storm", [P, M, floats(2), G, LR], {}, r"grad_sq_sum must be one value, found the shape \[2\]"),
    ("Wngrad", [P, ONE, G[:1], LR], {}, r"grad \[1, 4\]"),
    ("Wngrad", [P, floats(3), G, LR], {}, r"seq_b must be one value, found the shape \[3\]"),
    ("Lars", [P, G[0], ONE, ONE, ONE], {}, r"dX \[4\] must have as many elements as X \[3, 4\]"),
    ("Lars", [P, G, ONE, floats(2), ONE], {}, r"trust must be one value, found the shape \[2\]"),
    ("Lars", [P, G, ONE, ONE, ONE], {"offset": -1.0}, "offset .*must be >= 0, found -1"),
    ("LearningRateAdaption", [LR, G, M[0]], {}, r"effgrad \[4\]"),
    ("WeightScale", [P, np.array([1])], {"stepsize": 0, "upper_bound_iter": 2}, "stepsize must not be 0"),
    ("WeightScale", [P, np.array([1, 2])], {"stepsize": 1, "upper_bound_iter": 2}, r"iter must be one value, found the shape \[2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, {"Storm": 3, "Wngrad": 2}.get(kind, 1))
