"""Rows are normalized or shrunk, the others stay."""

import numpy as np
import pytest
from running import check, floats, refused, run

P, IDS = floats(6, 4), np.array([4, 1, 4])
GRAD = floats(3, 4)


def changed(rows):
    made = P.astype("d")
    made[[4, 1]] = rows
    return made


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_normalized_rows(kind, always):
    rows = P[[4, 1]].astype("d")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = changed(rows * 1.5 / length if always else rows * np.where(length > 1.5, 1.5 / length, 1))
    args = {"norm": 1.5, "use_max_norm": 0 if always else 1}
    check("SparseNormalize", [P, IDS.astype(kind)], [wanted], args)
    check("SparseNormalize", [P, IDS.astype(kind), GRAD], [wanted], args)
    check("Float16SparseNormalize", [P.astype("float16"), IDS.astype(kind)], [wanted], args, rtol=1e-2, atol=1e-2)


def test_once_normalized_rows_stay():
    once = run("SparseNormalize", [P, IDS], {"norm": 0.5})
    np.testing.assert_allclose(run("SparseNormalize", [*once, IDS], {"norm": 0.5})[0], once[0], rtol=1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_shrunk_rows(p):
    """The row that comes twice is shrunk twice."""
    shrink = lambda v: np.sign(v) * np.maximum(abs(v) - 0.1, 0) if p == 1 else 0.9 * v
    rows = P[[4, 1]].astype("d")
    wanted = changed(np.stack([shrink(shrink(rows[0])), shrink(rows[1])]))
    check("SparseLpRegularizer", [P, IDS], [wanted], {"p": p, "reg_lambda": 0.1})
    check(
        "SparseLpRegularizer", [P.astype("float16"), IDS], [wanted], {"p": p, "reg_lambda": 0.1}, rtol=1e-2, atol=1e-2
    )


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("SparseNormalize", [P, IDS + 2], {}, "index 6 is outside of the parameter, which has 6 rows"),
    ("SparseNormalize", [P, IDS], {"norm": -1.0}, "norm .*must be >= 0, found -1"),
    ("SparseNormalize", [np.float32(3), IDS], {}, "found a scalar"),
    ("SparseLpRegularizer", [P, IDS], {"p": 3.0, "reg_lambda": 0.1}, "p must be 1.0 or 2.0, found 3.0"),
    ("SparseLpRegularizer", [P, IDS], {"p": 1.0, "reg_lambda": 1.0}, "reg_lambda .*must be < 1, found 1"),
    ("SparseLpRegularizer", [P, -IDS], {"p": 1.0, "reg_lambda": 0.1}, "index -4 is outside"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)
