"""Reductions by lengths are loops over the segments."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

LENGTHS = np.array([2, 0, 3, 1], "int32")
EVEN = np.array([2, 2, 2], "int32")  # of one length they are a product with ones
ENDS = np.cumsum(LENGTHS)
DATA, WEIGHTS = floats(6, 2, 3), floats(6)
TABLE, INDICES = floats(9, 2, 3), np.array([8, 1, 1, 0, 4, 2])
REDUCE = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "WeightedSum": np.sum}


def reduced(kind, rows, lengths, weights=None):
    rows = rows.astype("d") * (1 if weights is None else weights[:, None, None])
    parts = np.split(rows, np.cumsum(lengths)[:-1])
    return np.stack([REDUCE[kind](p, axis=0) if len(p) else np.zeros((2, 3)) for p in parts])


@pytest.mark.parametrize("lengths", [LENGTHS, EVEN], ids=["uneven", "even"])
@pytest.mark.parametrize("kind", REDUCE)
def test_segments(kind, lengths):
    weights = WEIGHTS if kind == "WeightedSum" else None
    extra = [WEIGHTS] if kind == "WeightedSum" else []
    check(f"Lengths{kind}", [DATA, *extra, lengths], [reduced(kind, DATA, lengths, weights)])
    rows = reduced(kind, TABLE[INDICES], lengths, weights)
    for dtype in ("int32", "int64"):
        check(f"SparseLengths{kind}", [TABLE, *extra, INDICES.astype(dtype), lengths], [rows])
    wide = [WEIGHTS.astype("d")] if extra else []
    check_gradient(f"Lengths{kind}", [values(6, 2, 3), *wide, lengths], [0])
    if kind != "Max":
        check_gradient(f"SparseLengths{kind}", [values(9, 2, 3), *wide, INDICES, lengths], [0])
        half = TABLE.astype("float16")
        found = run(f"SparseLengths{kind}", [half, *extra, INDICES, lengths])[0]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, rows, rtol=1e-2, atol=1e-2)
    check_places(f"Lengths{kind}", [DATA, *extra, lengths])
    check_again(f"Lengths{kind}", [DATA, *extra, lengths], [DATA[:2], *(e[:2] for e in extra), lengths[:1]])
    other = [TABLE[:3], *(e[:2] for e in extra), INDICES[1:3], lengths[:1]]
    check_again(f"SparseLengths{kind}", [TABLE, *extra, INDICES, lengths], other)


def test_weights_by_position():
    weights = floats(4)
    place = np.concatenate([np.arange(n) for n in LENGTHS])
    wanted = reduced("WeightedSum", TABLE[INDICES], LENGTHS, weights[place])
    check("SparseLengthsPositionalWeightedSum", [TABLE, weights, INDICES, LENGTHS], [wanted])


@pytest.mark.parametrize("sparse", ["", "Sparse"])
def test_gradients_of_weights(sparse):
    inputs = [values(6, 2, 3), WEIGHTS.astype("d"), *([INDICES % 6] if sparse else []), LENGTHS]
    check_gradient(f"{sparse}LengthsWeightedSum", inputs, [0, 1], grad_on_weights=1)


DY = floats(4, 2, 3)
EACH = DY[np.repeat(np.arange(4), LENGTHS)]
SHARES = EACH / LENGTHS[np.repeat(np.arange(4), LENGTHS)][:, None, None]


@pytest.mark.parametrize("name", ["LengthsSumGradient", "LengthsMeanGradient"])
@pytest.mark.parametrize("sparse", ["", "Sparse"])
def test_gradients_that_no_maker_names(name, sparse):
    check(sparse + name, [DY, LENGTHS], [EACH if "Sum" in name else SHARES])
    weighted = EACH * WEIGHTS[:, None, None]
    check(f"{sparse}LengthsWeightedSumGradient", [WEIGHTS, DY, LENGTHS], [weighted])


def test_of_nothing():
    assert run("LengthsSum", [DATA[:0], LENGTHS[:0]])[0].shape == (0, 2, 3)
    assert not run("LengthsMean", [DATA[:0], LENGTHS * 0])[0].any()
    assert run("SparseLengthsSum", [TABLE[:0], INDICES[:0], LENGTHS * 0])[0].shape == (4, 2, 3)


def test_nan_counts_where_it_comes_first():
    x = np.array([[np.nan], [1], [2], [np.nan]], "f")
    y = run("LengthsMax", [x, np.array([2, 2], "int32")])[0]
    assert np.isnan(y[0, 0]) and y[1, 0] == 2


@pytest.mark.parametrize(("kind", "inputs", "words"), [
    ("LengthsSum", [DATA, LENGTHS[:2]], "lengths sum to 2, and there are 6 rows"),
    ("LengthsSum", [DATA, np.array([7, -1], "int32")], "a length is negative: -1"),
    ("LengthsSum", [DATA, LENGTHS[:, None]], r"int32\[4, 1\]; it must have the shape \[K\]"),
    ("LengthsWeightedSum", [DATA, WEIGHTS[:2], LENGTHS], r"float32\[2\]; it must have the shape \[R\] with R = 6"),
    ("SparseLengthsSum", [TABLE, INDICES + 1, LENGTHS], "index 9 is outside of the data, which has 9 rows"),
    ("SparseLengthsSum", [TABLE, INDICES - 1, LENGTHS], "index -1 is outside of the data"),
    ("SparseLengthsMean", [TABLE, INDICES, LENGTHS.astype("int64")], "lengths must be int32, got int64"),
    ("SparseLengthsPositionalWeightedSum", [TABLE, WEIGHTS[:2], INDICES, LENGTHS], "3 indices, and there are 2 weights"),
    ("LengthsSumGradient", [DY[:2], LENGTHS], r"int32\[4\]; it must have the shape \[K\] with K = 2"),
    ("LengthsWeightedSumGradient", [WEIGHTS[:2], DY, LENGTHS], r"got shape \[2\]"),
    ("LengthsMaxWithMainInputAndForwardOutputGradient", [DY[:2], DY, LENGTHS, DATA], r"must have the shape of Y, \[2, 2, 3\]"),
])  # fmt: skip
def test_refusals(kind, inputs, words):
    refused(kind, inputs, words)
