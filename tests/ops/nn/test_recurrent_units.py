"""One step of an LSTM or GRU; past its end a sequence keeps its state, or loses it."""

import numpy as np
import pytest
from running import check, check_again, floats, refused, run

sigmoid = lambda x: 1 / (1 + np.exp(-np.asarray(x, "d")))
N, D = 3, 2
STEP, LENGTHS = np.array([1], "int32"), np.array([3, 1, 2], "int32")  # the second sequence is over
OVER = np.array([False, True, False])[:, None]
CASES = [(given, drop) for given in (False, True) for drop in (0, 1)]


def operands(gates):
    return floats(1, N, D), floats(1, N, D, seed=1), floats(1, N, gates * D)


def end(state, before, given, drop):
    """The state, where sequences that are over keep the one before, or lose it."""
    return np.where(OVER, 0 if drop else before, state) if given else state


@pytest.mark.parametrize(("given", "drop"), CASES)
def test_lstm(given, drop):
    h, c, x = operands(4)
    i, f, o, g = np.split(np.asarray(x, "d"), 4, axis=2)
    cell = sigmoid(f + 0.5) * c + sigmoid(i) * np.tanh(g)
    wanted = [end(sigmoid(o) * np.tanh(cell), h, given, drop), end(cell, c, given, drop)]
    args = {"forget_bias": 0.5, "sequence_lengths": int(given), "drop_states": drop}
    inputs = [h, c, x, *([LENGTHS] if given else []), STEP]
    check("LSTMUnit", inputs, wanted, args)


@pytest.mark.parametrize(("given", "drop"), CASES)
def test_gru(given, drop):
    h, _, x = operands(3)
    _, u, o = np.split(np.asarray(x, "d"), 3, axis=2)
    state = sigmoid(u) * h + (1 - sigmoid(u)) * np.tanh(o)
    args = {"sequence_lengths": int(given), "drop_states": drop}
    check("GRUUnit", [h, x, *([LENGTHS] if given else []), STEP], [end(state, h, given, drop)], args)


@pytest.mark.parametrize("given", [False, True])
def test_gradients(given):
    """Kernels look at dtypes of results, and there are none of double precision: differences are of single ones."""
    rest = [*([LENGTHS] if given else []), STEP]
    args = {"sequence_lengths": int(given), "drop_states": 1}
    rng = np.random.default_rng(0)
    for kind, gates in (("LSTMUnit", 4), ("GRUUnit", 3)):
        states = operands(gates)[: 2 if gates == 4 else 1]
        inputs = [*states, operands(gates)[2]]
        count = len(states)
        made = run(kind, [*inputs, *rest], args, count)
        weights = [floats(1, N, D, seed=7 + k) for k in range(count)]
        found = run(kind + "Gradient", [*inputs, *rest, *made, *weights], args, count + 1)
        for k, value in enumerate(inputs):
            along = rng.standard_normal(value.shape).astype("f")
            sides = []
            for step in (1e-2, -1e-2):
                moved = [*inputs[:k], value + np.float32(step) * along, *inputs[k + 1 :]]
                sides.append(
                    sum((y.astype("d") * w).sum() for y, w in zip(run(kind, [*moved, *rest], args, count), weights))
                )
            assert (found[k] * along).sum() == pytest.approx((sides[0] - sides[1]) / 2e-2, rel=1e-2, abs=1e-3), (
                kind,
                k,
            )


def test_further_runs():
    h, c, x = operands(4)
    other = [floats(1, 5, D), floats(1, 5, D), floats(1, 5, 4 * D), np.full(5, 2, "int32"), STEP]
    check_again("LSTMUnit", [h, c, x, LENGTHS, STEP], other, outputs=2)
    check_again("GRUUnit", [h, operands(3)[2], LENGTHS, STEP], [other[0], floats(1, 5, 3 * D), *other[3:]])


def test_an_open_update_gate_keeps_the_state():
    h = floats(1, N, D)
    x = np.concatenate([np.zeros((1, N, D)), np.full((1, N, D), 50.0), floats(1, N, D)], axis=2).astype("f")
    np.testing.assert_allclose(run("GRUUnit", [h, x, STEP], {"sequence_lengths": 0})[0], h, rtol=1e-6)


H, C, X4 = operands(4)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("LSTMUnit", [H, C, X4, STEP], {}, "sequence_lengths=1 there must be 2 inputs after the gates, got 1"),
    ("LSTMUnit", [H, C, X4[:, :, 1:], LENGTHS, STEP], {}, r"the gates \[1, 3, 7\]; expected \[1, N, D\] and \[1, N, 4 \* D\]"),
    ("LSTMUnit", [H, C, X4, LENGTHS[:2], STEP], {}, r"each of 3 sequences is needed, found \[2\]"),
    ("LSTMUnit", [H, C, X4, LENGTHS.astype("int64"), STEP], {}, "lengths must be int32, found int64"),
    ("GRUUnit", [H, X4, LENGTHS, STEP], {}, r"\[1, N, 3 \* D\]"),
    ("GRUUnit", [H, X4[:, :, :6], LENGTHS, STEP.astype("f")], {}, "timestep must be int32, found float32"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if kind == "LSTMUnit" else 1)
