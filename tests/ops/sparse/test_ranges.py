"""Lengths, segment ids and ranges."""

import numpy as np
import pytest
from derivatives import check, values
from running import refused, run

LENGTHS = np.array([2, 0, 3, 1], "int32")
IDS = np.repeat(range(4), LENGTHS)
STARTS = np.cumsum(LENGTHS) - LENGTHS
DATA = np.random.default_rng(0).permutation(12).reshape(6, 2).astype("f")
INT = lambda *v: np.array(v, "int32")


def pieces(data=DATA, lengths=LENGTHS):
    return np.split(data, np.cumsum(lengths)[:-1])


def test_forms_of_lengths():
    assert run("LengthsToSegmentIds", [LENGTHS])[0].tolist() == IDS.tolist()
    assert run("LengthsToRanges", [LENGTHS])[0].tolist() == [list(r) for r in zip(STARTS, LENGTHS)]
    assert run("LengthsToOffsets", [LENGTHS])[0].tolist() == STARTS.tolist()
    assert run("LengthsToOffsets", [LENGTHS], {"include_last_offset": 1})[0].tolist() == [*STARTS, 6]
    assert run("LengthsToShape", [INT(4, 4, 4)])[0].tolist() == [3, 4]
    np.testing.assert_allclose(run("LengthsToWeights", [LENGTHS], {"power": 0.5})[0], LENGTHS[IDS] ** -0.5, rtol=1e-6)
    for kind in ("LengthsToSegmentIds", "LengthsToWeights", "LengthsToOffsets"):
        assert run(kind, [LENGTHS[:0]])[0].shape == (0,)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_forms_of_segment_ids(dtype):
    ids = IDS.astype(dtype)
    np.testing.assert_array_equal(run("SegmentIdsToLengths", [ids])[0], LENGTHS, strict=True)
    assert run("SegmentIdsToLengths", [ids, np.zeros(6)])[0].tolist() == [*LENGTHS, 0, 0]
    assert run("SegmentIdsToRanges", [ids])[0].tolist() == run("LengthsToRanges", [LENGTHS])[0].tolist()


def test_one_hot_of_segments():
    hot = np.zeros((4, 5), "f")
    at = np.array([4, 0, 1, 1, 3, 2])
    hot[IDS, at] = 1
    np.testing.assert_array_equal(run("SegmentOneHot", [LENGTHS, at, np.array([5])])[0], hot, strict=True)


def test_segments_chosen_padded_tiled_split():
    want = np.concatenate([pieces()[i] for i in (2, 0, 1, 2)])
    np.testing.assert_array_equal(run("LengthsGather", [DATA, LENGTHS, np.array([2, 0, 1, 2])])[0], want, strict=True)
    (padded,) = run("LengthsPad", [DATA, LENGTHS], {"target_length": 3, "padding_value": -7.0})
    np.testing.assert_array_equal(
        padded, np.concatenate([np.pad(p, ((0, 3 - len(p)), (0, 0)), constant_values=-7) for p in pieces()])
    )
    np.testing.assert_array_equal(run("LengthsTile", [DATA[:4], LENGTHS])[0], DATA[IDS], strict=True)
    check("LengthsTile", [values(4, 2), LENGTHS], [0])
    (split,) = run("LengthsSplit", [LENGTHS], {"n_split": 2})
    assert split.tolist() == [1, 1, 0, 0, 2, 1, 1, 0]
    assert run("LengthsSplit", [LENGTHS, INT(3)])[0].reshape(4, 3).sum(axis=1).tolist() == LENGTHS.tolist()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_best_of_segments(k):
    data = DATA[:, 0].copy()
    found, at = run("LengthsTopK", [data, LENGTHS], {"k": k}, outputs=2)
    for segment, have, where in zip(pieces(data), found, at):
        want = np.sort(segment)[::-1][:k]
        np.testing.assert_array_equal(have, np.pad(want, (0, k - len(want))))
        np.testing.assert_array_equal(segment[where[: len(want)]], want)
        assert (where[len(want) :] == -1).all()
    check("LengthsTopK", [values(6), LENGTHS], [0], outputs=2, k=k)


RANGES = np.array([[[0, 2], [4, 1]], [[3, 0], [1, 1]], [[4, 2], [0, 1]]])


@pytest.mark.parametrize("data", [DATA[:, 0].copy(), np.arange(6), np.array([b"%d" % i for i in range(6)], object)])
def test_elements_of_ranges(data):
    found, counts = run("GatherRanges", [data, RANGES], outputs=2)
    np.testing.assert_array_equal(
        found, np.concatenate([data[a : a + n] for a, n in RANGES.reshape(-1, 2)]), strict=True
    )
    assert counts.tolist() == RANGES[..., 1].sum(axis=1).tolist()
    first, second = run("GatherRangesToDense", [data, RANGES], {"lengths": [2, 1]}, outputs=2)
    nothing = b"" if data.dtype == object else 0
    np.testing.assert_array_equal(first, np.array([data[0:2], [nothing] * 2, data[4:6]]))
    np.testing.assert_array_equal(second, data[[4, 1, 0]].reshape(3, 1), strict=True)


def test_elements_of_ranges_by_key():
    keys = np.array([5, 4, 3, 2, 1, 0])
    (first, _) = run("GatherRangesToDense", [np.arange(6), RANGES, keys], {"lengths": [2, 1]}, outputs=2)
    assert first.tolist() == [[1, 0], [0, 0], [5, 4]]


def test_mask_of_segments():
    mask = np.array([1, 0, 1, 1, 0, 1], bool)
    for lengths in (LENGTHS, LENGTHS.astype("int64")):
        (Y,) = run("BooleanMaskLengths", [lengths, mask])
        np.testing.assert_array_equal(Y, np.array([p.sum() for p in pieces(mask)], lengths.dtype), strict=True)


def test_n_grams_number_all_combinations():
    grid = np.stack(np.meshgrid([10, 20], [7, 8, 9], indexing="ij"), axis=-1).reshape(-1, 2)
    args = {"col_ids": [0, 1], "categorical_limits": [2, 3], "vals": [10, 20, 7, 8, 9]}
    assert run("NGramFromCategorical", [grid.astype("f")], args)[0].tolist() == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("pack", [0, 1])
def test_partitions(pack, dtype):
    keys = np.array([5, 2, 9, 4, 6, 1], dtype)
    outputs = run("Partition", [keys, DATA], {"pack_first_input": pack}, outputs=6)
    for p in range(3):
        mine = keys[keys % 3 == p]
        np.testing.assert_array_equal(outputs[2 * p], mine // 3 if pack else mine, strict=True)
        np.testing.assert_array_equal(outputs[2 * p + 1], DATA[keys % 3 == p], strict=True)
    outputs = run("LengthsPartition", [LENGTHS, keys, DATA], {"pack_first_input": pack}, outputs=6)
    for p in range(2):
        mine = keys % 2 == p
        assert outputs[3 * p].tolist() == [m.sum() for m in pieces(mine)]
        np.testing.assert_array_equal(outputs[3 * p + 1], keys[mine] // 2 if pack else keys[mine], strict=True)
        np.testing.assert_array_equal(outputs[3 * p + 2], DATA[mine], strict=True)


ROW = DATA[:, 0].copy()


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        ("lengths must not be negative, got -3", "LengthsToSegmentIds", [-LENGTHS], {}, 1),
        (r"got shape \[1, 4\]", "LengthsToRanges", [LENGTHS[None]], {}, 1),
        (r"found \[2, 0, 3, 1\]", "LengthsToShape", [LENGTHS], {}, 1),
        ("found 0 at 2, after 1", "SegmentIdsToLengths", [np.array([0, 1, 0])], {}, 1),
        ("found -1 at 0", "SegmentIdsToRanges", [np.array([-1, 0])], {}, 1),
        (
            r"the last segment id is 3, and the second input has the shape \[2\]",
            "SegmentIdsToLengths",
            [IDS, np.zeros(2)],
            {},
            1,
        ),
        (
            "the lengths sum to 6, and there are 2 indices",
            "SegmentOneHot",
            [LENGTHS, np.arange(2), np.array([5])],
            {},
            1,
        ),
        (
            "index 5 is outside of the data, which has 5 rows",
            "SegmentOneHot",
            [LENGTHS, np.arange(6), np.array([5])],
            {},
            1,
        ),
        (r"one value, found the shape \[2\]", "SegmentOneHot", [LENGTHS, np.arange(6), np.array([5, 5])], {}, 1),
        ("the lengths sum to 6, and there are 5 rows", "LengthsGather", [DATA[:5], LENGTHS, np.array([0])], {}, 1),
        ("index 4 is outside of the data, which has 4 rows", "LengthsGather", [DATA, LENGTHS, np.array([4])], {}, 1),
        ("a segment has 3 rows, more than target_length = 2", "LengthsPad", [DATA, LENGTHS], {"target_length": 2}, 1),
        ("target_length.* >= 1", "LengthsPad", [DATA, LENGTHS], {}, 1),
        ("n_split must be positive, got -1", "LengthsSplit", [LENGTHS], {}, 1),
        (r"got \[6, 2\] and \[4\]", "LengthsTile", [DATA, LENGTHS], {}, 1),
        (r"float32\[6, 2\]; it must have the shape \[N\]", "LengthsTopK", [DATA, LENGTHS], {"k": 1}, 2),
        ("k.* >= 1", "LengthsTopK", [ROW, LENGTHS], {"k": 0}, 2),
        (r"must be \[4, 1\], found \[4\] and \[4\]", "LengthsTopKGradient", [LENGTHS, LENGTHS, ROW[:4]], {"k": 1}, 1),
        ("range 4, 2 elements from 4 on, reaches beyond the 5 elements", "GatherRanges", [ROW[:5], RANGES], {}, 2),
        (r"got \[6, 2\] and \[3, 2, 2\]", "GatherRanges", [DATA, RANGES], {}, 2),
        ("1 lengths are given for 2 features", "GatherRangesToDense", [ROW, RANGES], {"lengths": [2]}, 2),
        (
            "2 ranges of feature 0 have another length than 3; max_mismatched_ratio",
            "GatherRangesToDense",
            [ROW, RANGES],
            {"lengths": [3, 1], "min_observation": 1},
            2,
        ),
        (
            "1 of 3 ranges of feature 0 are empty; max_empty_ratio",
            "GatherRangesToDense",
            [ROW, RANGES],
            {"lengths": [2, 1], "min_observation": 1, "max_empty_ratio": 0.1},
            2,
        ),
        ("lengths must be positive, got 0", "GatherRangesToDense", [ROW, RANGES], {"lengths": [0, 1]}, 2),
        ("the lengths sum to 6, and there are 2 rows", "BooleanMaskLengths", [LENGTHS, np.ones(2, bool)], {}, 1),
        (
            "2 columns, 1 limits with the sum 2, and 3 vals",
            "NGramFromCategorical",
            [DATA],
            {"col_ids": [0, 1], "categorical_limits": [2], "vals": [1, 2, 3]},
            1,
        ),
        (
            r"the columns \[2\] are not within the shape \[6, 2\]",
            "NGramFromCategorical",
            [DATA],
            {"col_ids": [2], "categorical_limits": [1], "vals": [1]},
            1,
        ),
        ("2 inputs and 3 outputs do not go together", "Partition", [IDS, DATA], {}, 3),
        ("must hold integers, got float32", "Partition", [ROW], {}, 2),
        (r"input 1 has the shape \[5, 2\]; it must begin with \[6\]", "Partition", [IDS, DATA[:5]], {}, 2),
        ("takes at least 2 inputs", "LengthsPartition", [LENGTHS], {}, 1),
        (r"found int64\[4\] and int64\[6\]", "LengthsPartition", [LENGTHS.astype(int), IDS], {}, 2),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    refused(kind, inputs, words, args, outputs)
