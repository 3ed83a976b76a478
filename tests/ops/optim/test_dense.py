"""Optimizers of dense parameters are their formulas, element by element."""

import numpy as np
import pytest
from running import check, check_again, check_places, floats, refused, run

SHAPES = [(3, 4), (7,), (0, 3), (2, 3, 2)]
LR, ITER = np.array([0.1], "f"), np.array([4])
CORRECTION = np.sqrt(1 - 0.99**5) / (1 - 0.8**5)


def operands(shape):
    """(parameter, gradient, moment, positive moment), and all of them in double precision."""
    made = floats(*shape), floats(*shape, seed=1), floats(*shape, seed=2), floats(*shape, seed=3, low=0.1)
    return made, [v.astype("d") for v in made]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum(shape, nesterov):
    (p, g, m, _), (P, G, M, _) = operands(shape)
    new = 0.9 * M + 0.1 * G
    step = 1.9 * new - 0.9 * M if nesterov else new
    args = {"momentum": 0.9, "nesterov": nesterov}
    check("MomentumSGD", [g, m, LR], [step, new], args)
    check("MomentumSGDUpdate", [g, m, LR, p], [step, new, P - step], args)
    decayed = G + 0.2 * P
    new = 0.9 * M + 0.1 * decayed
    step = 1.9 * new - 0.9 * M if nesterov else new
    check("FP32MomentumSGDUpdate", [g, m, LR, p], [step, new, P - step], {**args, "weight_decay": 0.2})
    halves = [v.astype("float16") for v in (g, m)]
    check(
        "FP16MomentumSGDUpdate",
        [*halves, LR, p.astype("float16")],
        [step, new, P - step],
        {**args, "weight_decay": 0.2},
        rtol=1e-2,
        atol=1e-2,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_adam(shape):
    (p, g, m, v), (P, G, M, V) = operands(shape)
    first, second = 0.8 * M + 0.2 * G, 0.99 * V + 0.01 * G**2
    step = CORRECTION * first / (np.sqrt(second) + 1e-3)
    args = {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}
    check("Adam", [p, m, v, g, LR, ITER], [P + 0.1 * step, first, second, step], args)
    check("Adam", [p, m, v, g, LR, ITER], [P + 0.1 * step, first, second], args)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_adagrad(shape, weight_decay):
    (p, g, _, v), (P, G, _, V) = operands(shape)
    G = G + weight_decay * P
    moment = 0.9 * V + G**2
    rate = 0.1 / (np.sqrt(moment) + 1e-3)
    args = {"epsilon": 1e-3, "decay": 0.9, "weight_decay": weight_decay}
    check("Adagrad", [p, v, g, LR], [P + rate * G, moment, rate, rate * G], args)
    check("Adagrad", [p, v, g, LR], [P + rate * G, moment], args)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("corrected", [0, 1])
def test_decay_adagrad(shape, corrected):
    (p, g, m, v), (P, G, M, V) = operands(shape)
    first, second = 0.8 * M + 0.2 * G, V + G**2
    step = first / (1 - 0.8**5 if corrected else 1) / (np.sqrt(second) + 1e-3) + 0.3 * P
    args = {"beta1": 0.8, "epsilon": 1e-3, "weight_decay": 0.3, "bias_correction_first": corrected}
    check("DecayAdagrad", [p, m, v, g, LR, ITER], [P + 0.1 * step, first, second], args)


@pytest.mark.parametrize("shape", SHAPES)
def test_adadelta(shape):
    (p, g, d, m), (P, G, D, M) = operands(shape)
    d, D = abs(d), abs(D)
    moment = 0.9 * M + 0.1 * G**2
    step = np.sqrt(D + 1e-3) / np.sqrt(moment + 1e-3) * G
    wanted = [P + 0.1 * step, moment, 0.9 * D + 0.1 * step**2]
    check("Adadelta", [p, m, d, g, LR], wanted, {"epsilon": 1e-3, "decay": 0.9})


@pytest.mark.parametrize("shape", SHAPES)
def test_rmsprop(shape):
    (_, g, m, s), (_, G, M, S) = operands(shape)
    square = 0.8 * S + 0.2 * G**2
    moment = 0.7 * M + 0.1 * G / np.sqrt(1e-3 + square)
    check("RmsProp", [g, s, m, LR], [moment, square, moment], {"decay": 0.8, "momentum": 0.7, "epsilon": 1e-3})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", [False, True])
def test_ftrl(shape, given):
    (p, g, z, n), (P, G, Z, N) = operands(shape)
    squares = N + G**2
    new = Z + G - (np.sqrt(squares) - np.sqrt(N)) / 0.2 * P
    param = np.where(abs(new) > 0.5, (np.sign(new) * 0.5 - new) / ((1.5 + np.sqrt(squares)) / 0.2 + 0.3), 0)
    args = {"beta": 1.5, "lambda1": 0.5, "lambda2": 0.3, **({} if given else {"alpha": 0.2})}
    inputs = [p, np.stack([n, z], axis=-1), g, *([np.array([0.2], "f")] if given else [])]
    check("Ftrl", inputs, [param, np.stack([squares, new], axis=-1)], args, rtol=1e-4, atol=1e-5)


def test_group_ftrl():
    """Weights of one input are 0 together."""
    (p, g, z, n), (P, G, Z, N) = operands((3, 4))
    squares = N + G**2
    new = Z + G - (np.sqrt(squares) - np.sqrt(N)) / 0.2 * P
    norm, limit = np.sqrt((new**2).sum(axis=0)), 0.8 * np.sqrt(3)
    param = np.where(norm > limit, new * (limit / norm - 1) / ((1.5 + np.sqrt(squares)) / 0.2 + 0.3), 0)
    args = {"alpha": 0.2, "beta": 1.5, "lambda1": 0.8, "lambda2": 0.3}
    check(
        "GFtrl",
        [p, np.stack([n, z], axis=-1), g],
        [param, np.stack([squares, new], axis=-1)],
        args,
        rtol=1e-4,
        atol=1e-5,
    )
    assert 0 < (param == 0).all(axis=0).sum() < 4


P, G, M, V = operands((3, 4))[0]
EVERY = {
    "MomentumSGD": [G, M, LR],
    "MomentumSGDUpdate": [G, M, LR, P],
    "FP32MomentumSGDUpdate": [G, M, LR, P],
    "Adam": [P, M, V, G, LR, ITER],
    "Adagrad": [P, V, G, LR],
    "DecayAdagrad": [P, M, V, G, LR, ITER],
    "Adadelta": [P, V, V, G, LR],
    "RmsProp": [G, V, M, LR],
    "Ftrl": [P, np.stack([V, M], axis=-1), G],
    "GFtrl": [P, np.stack([V, M], axis=-1), G],
}
OUTPUTS = {"MomentumSGD": 2, "Adagrad": 2, "Ftrl": 2, "GFtrl": 2}


@pytest.mark.parametrize("kind", EVERY)
def test_places_and_further_runs(kind):
    outputs = OUTPUTS.get(kind, 3)
    check_places(kind, EVERY[kind], outputs=outputs)
    shorter = [v[:2] if v.ndim > 1 else v for v in EVERY[kind]]
    check_again(kind, EVERY[kind], shorter, outputs=outputs)


@pytest.mark.parametrize("kind", EVERY)
def test_operands_of_another_size_are_refused(kind):
    inputs, outputs = EVERY[kind], OUTPUTS.get(kind, 3)
    for k, value in enumerate(inputs):
        if value.size == 1:
            words, other = r"one value, found the shape \[2\]", np.repeat(value, 2)
        else:
            words, other = r"\[4, 4", np.concatenate([value, value[:1]])
        if k:
            refused(kind, [*inputs[:k], other, *inputs[k + 1 :]], words, outputs=outputs)


@pytest.mark.parametrize(("args", "words"), [
    ({"decay": 1.0}, "decay .*must be < 1, found 1"),
    ({"decay": 0.0}, "decay .*must be > 0, found 0"),
    ({"epsilon": -1.0}, "epsilon .*must be >= 0, found -1"),
])  # fmt: skip
def test_limits_of_adadelta(args, words):
    refused("Adadelta", EVERY["Adadelta"], words, args, 3)


def test_alpha_comes_once():
    refused("Ftrl", [*EVERY["Ftrl"], LR], r"argument \(0.5\) or as input, not as both", {"alpha": 0.5}, 2)


def test_a_quadratic_bowl_is_descended():
    """100 steps of each lead closer to the minimum, the parameter 0; rates are negative where the step is added."""
    for kind, sign in (("Adam", -1), ("Adagrad", -1), ("MomentumSGDUpdate", 1), ("DecayAdagrad", -1)):
        param, moments = floats(5), [np.zeros(5, "f")] * 2
        start = abs(param).sum()
        for t in range(100):
            rate = np.array([sign * 0.05], "f")
            if kind == "MomentumSGDUpdate":
                _, moments[0], param = run(kind, [param, moments[0], rate, param], {"momentum": 0.5}, 3)
            elif kind == "Adagrad":
                param, moments[0] = run(kind, [param, moments[0], param, rate], outputs=2)
            else:
                param, *moments = run(kind, [param, *moments, param, rate, np.array([t])], outputs=3)
        assert abs(param).sum() < start / 2, kind


@pytest.mark.parametrize("kind", ["Adam", "MomentumSGDUpdate", "RmsProp"])
def test_more_than_a_block(kind):
    """Large parameters are gone through block by block, the last of them shorter."""
    inputs = [np.resize(v, 70001) if v.size > 1 else v for v in EVERY[kind]]
    whole = run(kind, inputs, outputs=3)
    for first, last in ((0, 5000), (5000, 70001)):
        part = run(kind, [v[first:last] if v.size > 1 else v for v in inputs], outputs=3)
        for have, want in zip(part, whole):
            np.testing.assert_array_equal(have, want[first:last])
