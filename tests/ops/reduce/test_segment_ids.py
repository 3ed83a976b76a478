"""Reductions by segment ids are loops over the segments."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

SORTED = np.array([0, 0, 1, 2, 2, 2], "int32")
UNSORTED = np.array([3, 0, 3, 1, 0, 3], "int32")  # nothing has the id 2
DATA, WEIGHTS = floats(6, 2, 3), floats(6)
TABLE, INDICES = floats(9, 2, 3), np.array([8, 1, 1, 0, 4, 2])
REDUCE = {"Sum": np.sum, "Mean": np.mean, "WeightedSum": np.sum}


def reduced(kind, rows, ids, count, weights=None):
    rows = rows.astype("d") * (1 if weights is None else weights[:, None, None])
    return np.stack(
        [REDUCE[kind](rows[ids == k], axis=0) if (ids == k).any() else np.zeros((2, 3)) for k in range(count)]
    )


@pytest.mark.parametrize("order", ["Sorted", "Unsorted"])
@pytest.mark.parametrize("kind", REDUCE)
def test_segments(kind, order):
    ids, count = (SORTED, 3) if order == "Sorted" else (UNSORTED, 4)
    weights = WEIGHTS if kind == "WeightedSum" else None
    extra, name = [WEIGHTS] if kind == "WeightedSum" else [], f"{order}Segment{kind}"
    wide = [WEIGHTS.astype("d")] if extra else []
    check(name, [DATA, *extra, ids], [reduced(kind, DATA, ids, count, weights)])
    check_gradient(name, [values(6, 2, 3), *wide, ids], [0])
    rows = reduced(kind, TABLE[INDICES], ids, count, weights)
    for dtype in ("int32", "int64"):
        check(f"Sparse{name}", [TABLE, *extra, INDICES.astype(dtype), ids], [rows])
    check_gradient(f"Sparse{name}", [values(9, 2, 3), *wide, INDICES, ids], [0])
    check_places(name, [DATA, *extra, ids])
    check_again(name, [DATA, *extra, ids], [DATA[:2], *(e[:2] for e in extra), ids[:2] * 0])
    if order == "Unsorted":
        more = np.concatenate([reduced(kind, DATA, ids, count, weights), np.zeros((2, 2, 3))])
        check(name, [DATA, *extra, ids], [more], {"num_segments": 6})


def test_the_order_of_unsorted_segments_is_theirs():
    order = np.random.default_rng(0).permutation(6)
    once, other = (run("UnsortedSegmentSum", [DATA[o], UNSORTED[o]])[0] for o in (np.arange(6), order))
    np.testing.assert_allclose(once, other, rtol=1e-5, atol=1e-6)


log_sum = lambda x, axis: np.log(np.exp(x.astype("d")).sum(axis=axis))
RANGES = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "LogSumExp": log_sum,
          "LogMeanExp": lambda x, axis: log_sum(x, axis) - np.log(x.shape[axis])}  # fmt: skip


@pytest.mark.parametrize("kind", RANGES)
def test_ranges(kind):
    wanted = np.stack([RANGES[kind](DATA[k == SORTED], axis=0) for k in range(3)])
    check(f"SortedSegmentRange{kind}", [DATA, SORTED], [wanted])
    check_gradient(f"SortedSegmentRange{kind}", [values(6, 2, 3), SORTED], [0])
    check_again(f"SortedSegmentRange{kind}", [DATA, SORTED], [DATA[:3], SORTED[:3]])


def test_large_logarithms_are_finite():
    x = np.array([[1000], [1001]], "f")
    np.testing.assert_allclose(
        run("SortedSegmentRangeLogSumExp", [x, np.zeros(2, "int32")])[0], [[1001.3133]], rtol=1e-6
    )


@pytest.mark.parametrize("name", ["SortedSegmentSum", "UnsortedSegmentMean", "SortedSegmentRangeMax"])
def test_of_nothing(name):
    assert run(name, [DATA[:0], SORTED[:0]])[0].shape == (0, 2, 3)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("SortedSegmentSum", [DATA, SORTED + 1], {}, "begin with 0, found 1"),
    ("SortedSegmentSum", [DATA, SORTED * 2], {}, "rise by 0 or 1, found 0 before 2, at 1"),
    ("SortedSegmentMean", [DATA, SORTED[::-1] - 0], {}, "begin with 0, found 2"),
    ("SortedSegmentSum", [DATA, SORTED[:4]], {}, r"each of 6 rows, got shape \[4\]"),
    ("SortedSegmentWeightedSum", [DATA, WEIGHTS[:2], SORTED], {}, r"each of 6 rows, got shape \[2\]"),
    ("SparseSortedSegmentSum", [TABLE, INDICES + 1, SORTED], {}, "index 9 is outside of the data, which has 9 rows"),
    ("UnsortedSegmentSum", [DATA, -UNSORTED], {}, "segment id -3 is negative"),
    ("UnsortedSegmentSum", [DATA, UNSORTED], {"num_segments": 3}, "segment id 3 is not within num_segments = 3"),
    ("UnsortedSegmentSum", [DATA, UNSORTED], {"num_segments": -2}, "found -2"),
    ("SortedSegmentSumGradient", [DATA[:2], SORTED], {}, "3 segments and 2 gradients"),
    ("UnsortedSegmentSumGradient", [DATA[:3], UNSORTED], {}, "index 3 is outside of the data, which has 3 rows"),
    ("SortedSegmentRangeMean", [DATA, SORTED * 3], {}, "rise by 0 or 1"),
    ("SortedSegmentSum", [np.float32(1), SORTED], {}, "at least one dimension"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)
