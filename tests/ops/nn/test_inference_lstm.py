"""InferenceLSTM against its equations, step by step."""

import itertools

import numpy as np
import pytest
from running import check, check_again, floats, refused

sigmoid = lambda x: 1 / (1 + np.exp(-x))
T, N, D, H = 4, 3, 5, 2


def parameters(layers, directions, biases):
    widths = [D] * directions + [H * directions] * (layers - 1) * directions
    made = []
    for k, width in enumerate(widths):
        made += [floats(4 * H, width, seed=k), floats(4 * H, H, seed=k)]
        made += [floats(4 * H, seed=k), floats(4 * H, seed=k + 50)] if biases else []
    return made


def layer(steps, h, c, weights):
    made = []
    for x in steps:
        gates = x @ weights[0].T + h @ weights[1].T + sum(weights[2:], 0)
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        made.append(h)
    return np.stack(made), h, c


@pytest.mark.parametrize(
    ("layers", "bidirectional", "biases", "first"), [*itertools.product((1, 2), (0, 1), (0, 1), (0, 1))]
)
def test_formula(layers, bidirectional, biases, first):
    directions, each = 1 + bidirectional, 4 if biases else 2
    weights = parameters(layers, directions, biases)
    x, h, c = floats(T, N, D), floats(layers * directions, N, H), floats(layers * directions, N, H, seed=1)
    steps, hs, cs = x.astype("d"), [], []
    for k in range(0, layers * directions, directions):
        sides = []
        for side in range(directions):
            own = weights[(k + side) * each : (k + side + 1) * each]
            made, last, cell = layer(steps[::-1] if side else steps, h[k + side], c[k + side], own)
            sides.append(made[::-1] if side else made)
            hs.append(last)
            cs.append(cell)
        steps = np.concatenate(sides, axis=2)
    args = {"num_layers": layers, "bidirectional": bidirectional, "has_biases": biases, "batch_first": first}
    turn = (lambda a: np.ascontiguousarray(a.swapaxes(0, 1))) if first else np.asarray
    check("InferenceLSTM", [turn(x), h, c, *weights], [turn(steps), np.stack(hs), np.stack(cs)], args)


def test_further_runs():
    weights = parameters(1, 1, 1)
    check_again(
        "InferenceLSTM",
        [floats(T, N, D), floats(1, N, H), floats(1, N, H), *weights],
        [floats(2, 1, D), floats(1, 1, H), floats(1, 1, H), *weights],
        outputs=3,
    )


STATE, WEIGHTS = floats(1, N, H), parameters(1, 1, 1)


@pytest.mark.parametrize(("inputs", "words"), [
    ([floats(T, N, D), STATE, STATE, WEIGHTS[0]], "take 7 inputs.*there are 4"),
    ([floats(T, N), STATE, STATE, *WEIGHTS], r"three dimensions; there are 7, the first \[4, 3\]"),
    ([floats(T, N, D), STATE, STATE, WEIGHTS[0], *WEIGHTS[2:], WEIGHTS[3]], r"input 4 has the shape \[8\]"),
    ([floats(T, N, D), floats(2, N, H), STATE, *WEIGHTS], r"\[1, 3, width\], they are \[2, 3, 2\] and \[1, 3, 2\]"),
])  # fmt: skip
def test_refusals(inputs, words):
    refused("InferenceLSTM", inputs, words, outputs=3)
