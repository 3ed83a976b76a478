"""Adagrad from the gradient of sums of rows is Adagrad after that gradient has gone to the rows."""

import numpy as np
import pytest
from running import check, floats, refused, run

LR = np.array([0.1], "f")
N, D = 6, 4
IDS, LENGTHS = np.array([4, 1, 3, 0, 5]), np.array([2, 0, 3], "int32")
SEGMENTS = np.repeat(np.arange(3), LENGTHS)
P, V, G, W = floats(N, D), floats(N, D, seed=1, low=0.1), floats(3, D, seed=2), floats(5, seed=3)
ROWS = floats(N, seed=4, low=0.1)
ARGS = {"epsilon": 1e-3, "weight_decay": 0.2}


@pytest.mark.parametrize("kind", ["int64", "int32"])
@pytest.mark.parametrize("approx", ["", "Approx"])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("row_wise", [False, True])
def test_sums_and_means(row_wise, mean, approx, kind):
    name = f"{'RowWise' if row_wise else ''}SparseAdagrad"
    each = G / np.maximum(LENGTHS, 1)[:, None].astype("f") if mean else G
    moment = ROWS if row_wise else V
    wanted = run(name, [P, moment, IDS, each[SEGMENTS], LR], ARGS, 2)
    fused = f"{name}FusedWithSparseLengths{'Mean' if mean else 'Sum'}Gradient{approx}"
    check(fused, [P, moment, IDS.astype(kind), G, LR, LENGTHS], wanted, ARGS)


@pytest.mark.parametrize("row_wise", [False, True])
def test_weighted_sums(row_wise):
    """As in Caffe2 each segment begins with the first weight again."""
    name = f"{'RowWise' if row_wise else ''}SparseAdagrad"
    moment = ROWS if row_wise else V
    weights = W[np.concatenate([np.arange(n) for n in LENGTHS])]
    wanted = run(name, [P, moment, IDS, G[SEGMENTS] * weights[:, None], LR], ARGS, 2)
    to_weights = (P[IDS].astype("d") * G[SEGMENTS]).sum(axis=1)
    fused = f"{name}FusedWithSparseLengthsWeightedSumGradient"
    check(fused, [P, moment, W, IDS, G, LR, LENGTHS], [*wanted, to_weights], ARGS)
    check(fused + "Approx", [P, moment, W, IDS, G, LR, LENGTHS], [*wanted, to_weights], ARGS)  # no row comes twice


def test_a_counter_of_rows():
    last, count = np.array([0, 3, 5, 5, 1, 2]), floats(N, low=0.5).astype("d")
    passed = 7 - last[IDS]
    new = count.copy()
    new[IDS] = 1 + 0.5 ** (passed / 4) * count[IDS]
    seen = last.copy()
    seen[IDS] = 7
    check("RowWiseCounter", [last, count, IDS, np.array([7])], [seen, new], {"counter_halflife": 4})
    check("RowWiseCounter", [last, count, IDS, np.array([7])], [last, count])


SUM = "SparseAdagradFusedWithSparseLengthsSumGradient"


@pytest.mark.parametrize(("kind", "inputs", "words"), [
    (SUM, [P, V, IDS + 1, G, LR, LENGTHS], "index 6 is outside of the parameter, which has 6 rows"),
    (SUM, [P, V, IDS, G, LR, LENGTHS[::-1].copy() + 1], "lengths add up to 8, and there are 5 indices"),
    (SUM, [P, V, IDS, G[:2], LR, LENGTHS], r"each of the 3 lengths is needed, found \[2, 4\]"),
    (SUM, [P, V, IDS, G[:, :3], LR, LENGTHS], "gradient have 3 values, those of the parameter 4"),
    (SUM, [P, ROWS, IDS, G, LR, LENGTHS], r"moment \[6\] must have one value for each element"),
    ("RowWise" + SUM, [P, V, IDS, G, LR, LENGTHS], r"moment \[6, 4\] must have one value for each row"),
    ("RowWiseCounter", [np.zeros(5, int), np.zeros(6), IDS, np.array([7])], r"prev_iter \[5\] and counter \[6\]"),
    ("RowWiseCounter", [np.zeros(4, int), np.zeros(4), IDS, np.array([7])], "index 5 is outside of the counter"),
])  # fmt: skip
def test_refusals(kind, inputs, words):
    refused(kind, inputs, words, outputs=2)


def test_a_weight_for_each_index():
    refused(
        "SparseAdagradFusedWithSparseLengthsWeightedSumGradient",
        [P, V, W[:2], IDS, G, LR, LENGTHS],
        r"each of 5 indices is needed, found \[2\]",
        outputs=3,
    )
