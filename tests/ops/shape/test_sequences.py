"""Sequences of different lengths, packed, masked, padded, reversed."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_places, refused, run

LENGTHS = np.array([2, 0, 3], "int32")
ROWS = np.arange(10, dtype="f").reshape(5, 2) + 1
PACKED = np.zeros((3, 3, 2), "f")
PACKED[0, :2], PACKED[2] = ROWS[:2], ROWS[2:]
STEPS = PACKED.swapaxes(0, 1).copy()
INT = lambda *v: np.array(v, "int32")


def test_pack_and_unpack_segments():
    Y, mask = run("PackSegments", [LENGTHS, ROWS], {"return_presence_mask": 1}, outputs=2)
    np.testing.assert_array_equal(Y, PACKED, strict=True)
    np.testing.assert_array_equal(mask, PACKED[..., 0] > 0, strict=True)
    np.testing.assert_array_equal(run("UnpackSegments", [LENGTHS, Y])[0], ROWS, strict=True)
    assert run("PackSegments", [LENGTHS, ROWS], {"pad_minf": 1})[0].min() == -np.inf
    np.testing.assert_array_equal(run("PackSegments", [LENGTHS, ROWS], {"max_length": 2})[0], PACKED[:, :2])
    words = np.array([b"a", b"b"], object)
    assert run("PackSegments", [INT(1, 0, 1), words])[0].tolist() == [[b"a"], [b""], [b"b"]]
    assert run("PackSegments", [LENGTHS[:0], ROWS[:0]])[0].shape == (0, 0, 2)
    check("PackSegments", [LENGTHS, values(5, 2)], [1])
    check("UnpackSegments", [LENGTHS, values(3, 3, 2)], [1])


def test_rnn_sequences():
    np.testing.assert_array_equal(run("PackRNNSequence", [ROWS, LENGTHS])[0], STEPS, strict=True)
    np.testing.assert_array_equal(run("UnpackRNNSequence", [STEPS, LENGTHS])[0], ROWS, strict=True)
    check("PackRNNSequence", [values(5, 2), LENGTHS], [0])
    check("UnpackRNNSequence", [values(3, 3, 2), LENGTHS], [0])


def test_reversal_is_its_own_inverse():
    (Y,) = run("ReversePackedSegs", [STEPS, LENGTHS])
    np.testing.assert_array_equal(Y[:2, 0], STEPS[1::-1, 0])
    np.testing.assert_array_equal(Y[:, 2], STEPS[::-1, 2])
    np.testing.assert_array_equal(run("ReversePackedSegs", [Y, LENGTHS])[0], STEPS, strict=True)
    check("ReversePackedSegs", [values(3, 3, 2), LENGTHS], [0])


def test_padding_of_variable_lengths():
    np.testing.assert_array_equal(
        run("VariableLengthSequencePadding", [np.where(STEPS == 0, np.float32(7), STEPS), LENGTHS])[0], STEPS
    )
    check_places("VariableLengthSequencePadding", [STEPS, LENGTHS])


ROW, COLUMN = np.indices((3, 4))
AT = INT(1, 4, 0)
MODES = {
    "sequence": AT[:, None] <= COLUMN,
    "window": abs(COLUMN - AT[:, None]) > 1,
    "upper": COLUMN > ROW, "lower": COLUMN < ROW, "upperdiag": COLUMN >= ROW, "lowerdiag": COLUMN <= ROW,
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_sequence_mask(mode):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("f")
    args, more = {"mode": mode, "radius": 1}, [AT] if mode in ("sequence", "window") else []
    want = np.where(MODES[mode], np.float32(-9), x)
    np.testing.assert_array_equal(run("SequenceMask", [x, *more], {**args, "fill_val": -9.0})[0], want, strict=True)
    assert np.isneginf(run("SequenceMask", [x, *more], args)[0][MODES[mode]]).all()
    np.testing.assert_array_equal(run("SequenceMask", [x, *more], {**args, "grad": 1})[0], np.where(MODES[mode], 0, x))
    batch = np.stack([x, -x])
    masked = run("SequenceMask", [batch, *more], {**args, "axis": 2, "batch": 0, "fill_val": 0.0})[0]
    np.testing.assert_array_equal(masked, np.where(MODES[mode], 0, batch))
    deep, more_args = np.stack([x, -x], axis=2), {**args, "repeat_from_axis": 2, "fill_val": 0.0}
    if mode == "sequence":
        masked = run("SequenceMask", [deep, *more], more_args)[0]
        np.testing.assert_array_equal(masked, np.where(MODES[mode][..., None], 0, deep))
    else:
        refused("SequenceMask", [deep, *more], "goes with the mode sequence alone", more_args)
    check("SequenceMask", [values(3, 4), *more], [0], mode=mode, radius=1, fill_val=0.0)


@pytest.mark.parametrize(("before", "after"), [(1, -1), (2, 1), (0, 2)])
def test_padding_around_ranges(before, after):
    end = before if after < 0 else after
    args, counts = {"padding_width": before, "end_padding_width": after}, INT(2, 3)
    first, last = np.array([-1, -2], "f"), np.array([-3, -4], "f")
    want = np.concatenate(
        [r for part in (ROWS[:2], ROWS[2:]) for r in ([first] * before, part, [last] * end) if len(r)]
    )
    Y, longer = run("AddPadding", [ROWS, counts, first, last], args, outputs=2)
    np.testing.assert_array_equal(Y, want, strict=True)
    np.testing.assert_array_equal(longer, counts + before + end)
    for have, x in zip(run("RemovePadding", [Y, longer], args, outputs=2), (ROWS, counts)):
        np.testing.assert_array_equal(have, x, strict=True)
    sums = run("GatherPadding", [Y, longer], args, outputs=2)
    np.testing.assert_allclose(sums, [2 * before * first, 2 * end * last])
    np.testing.assert_allclose(run("GatherPadding", [Y, longer], args)[0], sums[0] + sums[1])
    (alone,) = run("AddPadding", [ROWS], args)
    np.testing.assert_array_equal(alone, np.pad(ROWS, ((before, end), (0, 0))))
    check("AddPadding", [values(5, 2), counts, values(2), values(2)], [0, 2, 3], outputs=2, **args)
    check("RemovePadding", [values(9, 2), INT(4, 5)], [0], outputs=2, **args)


def test_empty_samples_get_a_row():
    lengths, rows, words = run("PadEmptySamples", [LENGTHS, ROWS, np.array([b"w"] * 5, object)], outputs=3)
    assert lengths.tolist() == [2, 1, 3]
    np.testing.assert_array_equal(rows, np.insert(ROWS, 2, 0, axis=0), strict=True)
    assert words.tolist() == [b"w", b"w", b"", b"w", b"w", b"w"]


MASK = {"mode": "sequence"}


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        ("the lengths sum to 5, and the tensor has 4 rows", "PackSegments", [LENGTHS, ROWS[:4]], {}, 1),
        ("a length is negative: -2", "PackSegments", [-LENGTHS[:1], ROWS[:0]], {}, 1),
        ("found a scalar", "PackSegments", [LENGTHS, ROWS[0, 0]], {}, 1),
        ("there are 3 lengths and 2 segments", "UnpackSegments", [LENGTHS, PACKED[:2]], {}, 1),
        ("a length is 3, and the segments have 2 places", "UnpackSegments", [LENGTHS, PACKED[:, :2]], {}, 1),
        ("max_length is 7, and the segments have 3 places", "UnpackSegments", [LENGTHS, PACKED], {"max_length": 7}, 1),
        (r"two dimensions at least, got shape \[5\]", "UnpackSegments", [LENGTHS, ROWS[:, 0]], {}, 1),
        ("the lengths sum to 5, and there are 4 values", "PackRNNSequence", [ROWS[:4], LENGTHS], {}, 1),
        (r"3 lengths are given for values of shape \[5, 2\]", "UnpackRNNSequence", [ROWS, LENGTHS], {}, 1),
        ("a length is 3, and there are 2 steps", "UnpackRNNSequence", [STEPS[:2], LENGTHS], {}, 1),
        (r"three dimensions, got shape \[5, 2\]", "ReversePackedSegs", [ROWS, LENGTHS], {}, 1),
        (r"each of 3 segments is needed, found \[2\]", "ReversePackedSegs", [STEPS, LENGTHS[:2]], {}, 1),
        ("a length is 3, and there are 2 steps", "ReversePackedSegs", [STEPS[:2], LENGTHS], {}, 1),
        (r"got \[5, 2\], \[3\]", "VariableLengthSequencePadding", [ROWS, LENGTHS], {}, 1),
        (
            "there is no mode 'diagonal'; there are sequence, window, upper",
            "SequenceMask",
            [ROWS],
            {"mode": "diagonal"},
            1,
        ),
        ("each of 5 rows as second input, found none", "SequenceMask", [ROWS], MASK, 1),
        (r"each of 5 rows as second input, found \[3\]", "SequenceMask", [ROWS, LENGTHS], MASK, 1),
        (r"batch \(1\) must be before axis \(1\)", "SequenceMask", [ROWS, LENGTHS], {**MASK, "batch": 1}, 1),
        ("axis 5 is out of range", "SequenceMask", [ROWS, LENGTHS], {**MASK, "axis": 5}, 1),
        ("the lengths sum to 5, and the data has 4 rows", "AddPadding", [ROWS[:4], LENGTHS], {}, 2),
        (r"the padding is float32\[3\]; a row is float32\[2\]", "AddPadding", [ROWS, LENGTHS, np.ones(3, "f")], {}, 2),
        ("padding_width.* >= 0", "AddPadding", [ROWS], {"padding_width": -1}, 1),
        ("a range has 0 rows, fewer than the padding of 1 and 1", "RemovePadding", [ROWS, LENGTHS], {}, 2),
        ("beyond the data's 5 rows", "GatherPadding", [ROWS, INT(5)], {"padding_width": 6}, 2),
        ("the lengths sum to 5, and feature 0 has the shape", "PadEmptySamples", [LENGTHS, ROWS[:4]], {}, 2),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    refused(kind, inputs, words, args, outputs)
