"""Optimizers of rows step the rows that are named as dense ones step these rows, and leave the others."""

import numpy as np
import pytest
from running import check, floats, refused, run

from caffe2lite.ops.kit import registry

LR, ITER = np.array([0.1], "f"), np.array([4])
N, D = 6, 4
IDS = np.array([4, 1, 3])
P, M, V, G = floats(N, D), floats(N, D, seed=1), floats(N, D, seed=2, low=0.1), floats(3, D, seed=3)
ROWS = floats(N, seed=4, low=0.1)


def with_rows(whole, ids, rows):
    made = whole.copy()
    made[ids] = rows
    return made


# sparse operator, its inputs with rows to cut, the dense one, its inputs, {sparse output: dense output}
PAIRS = [
    ("SparseMomentumSGDUpdate", [G, M, LR, P, IDS], "MomentumSGDUpdate", [G, M[IDS], LR, P[IDS]], {"momentum": 0.9},
     {1: (M, 1), 2: (P, 2)}),
    ("SparseMomentumSGDUpdate", [G, M, LR, P, IDS], "MomentumSGDUpdate", [G, M[IDS], LR, P[IDS]], {"momentum": 0.9, "nesterov": 1},
     {1: (M, 1), 2: (P, 2)}),
    ("SparseAdam", [P, M, V, IDS, G, LR, ITER], "Adam", [P[IDS], M[IDS], V[IDS], G, LR, ITER], {"beta1": 0.8},
     {0: (P, 0), 1: (M, 1), 2: (V, 2)}),
    ("SparseAdagrad", [P, V, IDS, G, LR], "Adagrad", [P[IDS], V[IDS], G, LR], {"weight_decay": 0.2}, {0: (P, 0), 1: (V, 1)}),
    ("SparseAdadelta", [P, V, V, IDS, G, LR], "Adadelta", [P[IDS], V[IDS], V[IDS], G, LR], {"decay": 0.8},
     {0: (P, 0), 1: (V, 1), 2: (V, 2)}),
    ("SparseFtrl", [P, np.stack([V, M], axis=-1), IDS, G], "Ftrl", [P[IDS], np.stack([V, M], axis=-1)[IDS], G], {"lambda1": 0.5},
     {0: (P, 0), 1: (np.stack([V, M], axis=-1), 1)}),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize(
    ("sparse", "inputs", "dense", "rows", "args", "outputs"), PAIRS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_rows_as_dense_ones(sparse, inputs, dense, rows, args, outputs, kind):
    made = run(dense, rows, args, 1 + max(o for _, o in outputs.values()))
    inputs = [v.astype(kind) if v is IDS else v for v in inputs]
    found = run(sparse, inputs, args, 1 + max(outputs))
    for k, (whole, o) in outputs.items():
        np.testing.assert_allclose(found[k], with_rows(whole, IDS, made[o]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("sparse", "inputs", "dense", "rows", "args", "outputs"), PAIRS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_row_that_comes_twice_is_stepped_twice(sparse, inputs, dense, rows, args, outputs):
    twice = np.array([2, 2])
    count = 1 + max(outputs)
    two = [twice if v is IDS else v[:2] if v is G else v for v in inputs]
    together = run(sparse, two, args, count)
    state = list(inputs)
    places = {o: i for i, o in registry.find(sparse).enforced}
    for k in range(2):
        step = [twice[:1] if v is IDS else G[k : k + 1] if v is G else v for v in state]
        made = run(sparse, step, args, count)
        for o, i in places.items():
            state[i] = made[o]
    for o, i in places.items():
        np.testing.assert_allclose(together[o], state[i], rtol=1e-5, atol=1e-6)


def test_one_moment_a_row():
    g, p = G.astype("d"), P[IDS].astype("d")
    decayed = g + 0.3 * p
    moment = ROWS[IDS] + (decayed**2).mean(axis=1)
    step = 0.1 * decayed / (np.sqrt(moment) + 1e-3)[:, None]
    wanted = [with_rows(P.astype("d"), IDS, p + step), with_rows(ROWS.astype("d"), IDS, moment)]
    check("RowWiseSparseAdagrad", [P, ROWS, IDS, G, LR], wanted, {"epsilon": 1e-3, "weight_decay": 0.3})
    first = 0.9 * M[IDS] + 0.1 * g
    second = 0.99 * ROWS[IDS] + 0.01 * (g**2).mean(axis=1)
    step = np.sqrt(1 - 0.99**5) / (1 - 0.9**5) * first / (np.sqrt(second) + 1e-3)[:, None]
    wanted = [with_rows(P.astype("d"), IDS, p + 0.1 * step), with_rows(M.astype("d"), IDS, first),
              with_rows(ROWS.astype("d"), IDS, second), step]  # fmt: skip
    check("RowWiseSparseAdam", [P, M, ROWS, IDS, G, LR, ITER], wanted, {"beta2": 0.99, "epsilon": 1e-3})


def test_a_counter_scales_the_decay():
    counter = np.array([0, 4, 1, 2, 8, 1], "d")
    g, p = G.astype("d"), P[IDS].astype("d")
    decay = 0.3 * np.where(counter[IDS] > 0, 2 / np.maximum(counter[IDS], 1), 1)
    decayed = g + decay[:, None] * p
    moment = ROWS[IDS] + (decayed**2).mean(axis=1)
    wanted = with_rows(P.astype("d"), IDS, p + 0.1 * decayed / (np.sqrt(moment) + 1e-5)[:, None])
    found = run("RowWiseSparseAdagrad", [P, ROWS, IDS, G, LR, counter], {"weight_decay": 0.3, "counter_halflife": 2}, 2)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("t", [0, 3, 50])
def test_rectified_adam(t):
    """Liu et al.: without the second moment while its variance is not tractable."""
    beta1, beta2, step = 0.9, 0.99, t + 1
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    first = beta1 * M[IDS].astype("d") + (1 - beta1) * G
    second = beta2 * V[IDS].astype("d") + (1 - beta2) * G.astype("d") ** 2
    move = first / (1 - beta1**step)
    if length >= 5:
        r = np.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
        move = move * r * np.sqrt(1 - beta2**step) / (np.sqrt(second) + 1e-5)
    wanted = [with_rows(P.astype("d"), IDS, P[IDS] + 0.1 * move), None, None, move]
    check("SparseAdam", [P, M, V, IDS, G, LR, np.array([t])], wanted, {"beta2": beta2, "enableRAdam": 1})


def test_missed_steps_are_made_up_for():
    """As if each row had been given gradients of 0 since it was last seen."""
    args = {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3}
    seen = np.array([5, 3, 5, 4, 1, 5])
    found = run("SmartDecaySparseAdam", [P, M, V, seen, IDS, G, LR, np.array([5])], args, 4)
    p, m, v = (x.astype("d") for x in (P, M, V))
    for k, row in enumerate(IDS):
        missed = 6 - seen[row]
        late = m[row] * sum(0.8**j for j in range(1, missed))  # moments of the steps that were missed
        m[row] = 0.8**missed * m[row] + 0.2 * G[k]
        v[row] = 0.9**missed * v[row] + 0.1 * G[k] ** 2
        p[row] += 0.1 * (m[row] + late) / (np.sqrt(v[row]) + 1e-3)
    for have, want in zip(found, (p, m, v, with_rows(seen, IDS, 6))):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_storm_and_wngrad():
    total = 2 + (G.astype("d") ** 2).sum()
    rate = 0.1 * (0.5 + total) ** (-1 / 3)
    moment = G + (1 - 3 * rate**2) * (M[IDS].astype("d") - G)
    wanted = [
        with_rows(P.astype("d"), IDS, P[IDS] + rate * moment),
        with_rows(M.astype("d"), IDS, moment),
        np.array([total]),
    ]
    check("SparseStorm", [P, M, np.array([2], "f"), G, IDS, LR], wanted, {"momentum": 3.0, "beta": 0.5})
    rows = P[IDS] + 0.1 / (2 + 1e-3) * G.astype("d")
    growth = 2 + (G.astype("d") ** 2).sum() / 2
    check("SparseWngrad", [P, np.array([2], "f"), IDS, G, LR], [with_rows(P.astype("d"), IDS, rows), np.array([growth])],
          {"epsilon": 1e-3})  # fmt: skip


def test_half_precision_and_nothing():
    halves = [P.astype("float16"), V.astype("float16")]
    found = run("SparseAdagrad", [*halves, IDS, G, LR], outputs=2)
    assert [f.dtype.name for f in found] == ["float16", "float16"]
    np.testing.assert_allclose(found[0], run("SparseAdagrad", [P, V, IDS, G, LR], outputs=2)[0], rtol=1e-2, atol=1e-2)
    check("SparseAdagrad", [P, V, IDS[:0], G[:0], LR], [P, V])


@pytest.mark.parametrize(("kind", "inputs", "words"), [
    ("SparseAdagrad", [P, V, np.array([0, 6, 1]), G, LR], "index 6 is outside of the parameter, which has 6 rows"),
    ("SparseAdagrad", [P, V, np.array([0, -1, 1]), G, LR], "index -1 is outside"),
    ("SparseAdagrad", [P, V[:3], IDS, G, LR], r"moment \[3, 4\] .*parameter \[6, 4\]"),
    ("SparseAdagrad", [P, V, IDS, G[:2], LR], r"gradient \[2, 4\] must have a row of 4 values for each of 3 indices"),
    ("SparseAdagrad", [P, V, IDS, G, floats(2)], r"lr must be one value, found the shape \[2\]"),
    ("RowWiseSparseAdagrad", [P, V, IDS, G, LR], r"moment \[6, 4\] must have one value a row"),
    ("SparseFtrl", [P, V, IDS, G], "must hold two values"),
    ("SparseAdam", [P, M, V, IDS, G, LR, np.array([1, 2])], r"iter must be one value, found the shape \[2\]"),
    ("SparseWngrad", [P, floats(2), IDS, G, LR], r"seq_b must be one value, found the shape \[2\]"),
    ("SmartDecaySparseAdam", [P, M, V, np.arange(3), IDS, G, LR, ITER], r"\[3\] must have one value a row"),
])  # fmt: skip
def test_refusals(kind, inputs, words):
    refused(kind, inputs, words, outputs=4 if kind.startswith("Smart") else 3 if "Adam" in kind else 2)


def test_a_halflife_needs_a_counter():
    refused("RowWiseSparseAdagrad", [P, ROWS, IDS, G, LR], "counter_halflife=3 needs", {"counter_halflife": 3}, 2)
