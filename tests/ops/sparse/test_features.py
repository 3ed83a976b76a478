"""Features merged, against merging in a loop, and back."""

import numpy as np
import pytest
from running import refused, run

IDS = [11, 22]
PRESENT = [np.array([1, 0, 1], bool), np.array([1, 1, 0], bool)]
SCALARS = [np.array([1, 2, 3], "f"), np.array([4, 5, 6], "f")]
COUNTS = [np.array([2, 1, 0], "int32"), np.array([1, 2, 1], "int32")]
LISTS = [np.arange(3, dtype="f"), np.arange(4, dtype="f") + 10]
KEYS = [np.arange(3) + 100, np.arange(4) + 200]


def pieces(values, lengths):
    return np.split(values, np.cumsum(lengths)[:-1])


def chosen(*columns):
    """For each example, input by input: its number, and a piece of each of the columns."""
    return [(e, i) for e in range(3) for i in range(2) if PRESENT[i][e]], columns


def test_dense_features():
    X, there = np.stack(SCALARS, axis=1), np.stack(PRESENT, axis=1)
    lengths, keys, found = run("MergeDenseFeatureTensors", [X, there], {"feature_ids": IDS}, outputs=3)
    assert lengths.tolist() == [2, 1, 1] and keys.tolist() == [11, 22, 22, 11] and found.tolist() == [1, 4, 5, 3]


def test_scalars():
    inputs = [a for pair in zip(SCALARS, PRESENT) for a in pair]
    lengths, keys, found = run("MergeSingleScalarFeatureTensors", inputs, {"feature_ids": IDS}, outputs=3)
    assert lengths.tolist() == [2, 1, 1] and keys.tolist() == [11, 22, 22, 11] and found.tolist() == [1, 4, 5, 3]
    back = run("MergeSingleScalarFeatureTensorsGradient", [*PRESENT, found], outputs=2)
    np.testing.assert_array_equal(back, [np.where(p, x, 0) for x, p in zip(SCALARS, PRESENT)])


@pytest.mark.parametrize("kind", ["List", "Map"])
def test_lists_and_maps(kind):
    columns = [LISTS] if kind == "List" else [KEYS, LISTS]
    there = lambda column, i: column[i][np.repeat(PRESENT[i], COUNTS[i])]  # others have no values
    inputs = [a for i in range(2) for a in (COUNTS[i], *(there(c, i) for c in columns), PRESENT[i])]
    outputs = run(f"MergeSingle{kind}FeatureTensors", inputs, {"feature_ids": IDS}, outputs=3 + len(columns))
    order = [(e, i) for e in range(3) for i in range(2) if PRESENT[i][e]]
    assert outputs[0].tolist() == [2, 1, 1]
    assert outputs[1].tolist() == [IDS[i] for _, i in order]
    assert outputs[2].tolist() == [COUNTS[i][e] for e, i in order]
    for have, column in zip(outputs[3:], columns):
        want = np.concatenate([pieces(column[i], COUNTS[i])[e] for e, i in order])
        np.testing.assert_array_equal(have, want, strict=True)
    given = [a for i in range(2) for a in (COUNTS[i], PRESENT[i])]
    back = run(f"MergeSingle{kind}FeatureTensorsGradient", [*given, outputs[-1]], outputs=2)
    for i, have in enumerate(back):
        np.testing.assert_array_equal(have, there(LISTS, i), strict=True)


LENGTHS = [np.array([1, 0, 2], "int32"), np.array([0, 2, 1], "int32")]
NAMES = [np.array([1, 2, 3]), np.array([4, 5, 6])]
SIZES = [np.array([2, 0, 1], "int32"), np.array([1, 2, 1], "int32")]


@pytest.mark.parametrize("kind", ["Scalar", "List", "Map"])
def test_tensors_of_many_features(kind):
    columns = {"Scalar": [SCALARS], "List": [LISTS], "Map": [KEYS, LISTS]}[kind]
    sizes = [] if kind == "Scalar" else [SIZES]
    inputs = [a for i in range(2) for a in (LENGTHS[i], NAMES[i], *(c[i] for c in (*sizes, *columns)))]
    outputs = run(f"MergeMulti{kind}FeatureTensors", inputs, outputs=2 + len(sizes) + len(columns))
    items = [np.split(np.arange(3), np.cumsum(n)[:-1]) for n in LENGTHS]
    order = [(i, k) for e in range(3) for i in range(2) for k in items[i][e]]
    assert outputs[0].tolist() == (LENGTHS[0] + LENGTHS[1]).tolist()
    assert outputs[1].tolist() == [NAMES[i][k] for i, k in order]
    for have, column in zip(outputs[2 + len(sizes) :], columns):
        parts = [pieces(c, s) for c, s in zip(column, SIZES)] if sizes else [c[:, None] for c in column]
        np.testing.assert_array_equal(have, np.concatenate([parts[i][k] for i, k in order]), strict=True)
    given = [a for i in range(2) for a in ([LENGTHS[i], SIZES[i]] if sizes else [LENGTHS[i]])]
    back = run(f"MergeMulti{kind}FeatureTensorsGradient", [*given, outputs[-1]], outputs=2)
    for have, x in zip(back, columns[-1]):
        np.testing.assert_array_equal(have, x, strict=True)


def test_id_lists():
    inputs = [np.array([2, 1], "int32"), np.array([9, 7, 3]), np.array([1, 2], "int32"), np.array([7, 3, 1])]
    lengths, ids = run("MergeIdLists", inputs, outputs=2)
    assert lengths.tolist() == [2, 2] and ids.tolist() == [7, 9, 1, 3]


GROUP = [SCALARS[0], PRESENT[0]]


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "outputs"),
    [
        ("takes at least 2 inputs", "MergeSingleScalarFeatureTensors", GROUP[:1], 3),
        ("2 feature_ids are given for 1 features", "MergeSingleScalarFeatureTensors", GROUP, 3),
        (r"number of examples, got \[2, 3\]", "MergeSingleScalarFeatureTensors", [*GROUP, *(a[:2] for a in GROUP)], 3),
        ("must be bool, input 1 is float32", "MergeSingleScalarFeatureTensors", [SCALARS[0], *SCALARS, PRESENT[0]], 3),
        (r"\[examples, 2\], got \[3\] and \[3\]", "MergeDenseFeatureTensors", GROUP, 3),
        ("takes at least 2 inputs", "MergeSingleScalarFeatureTensorsGradient", [SCALARS[0]], 1),
        ("takes at least 2 inputs", "MergeMultiScalarFeatureTensorsGradient", [SCALARS[0]], 1),
        (
            "for each of 1 features is needed, found 2",
            "MergeMultiListFeatureTensorsGradient",
            [LENGTHS[0], SIZES[0], LISTS[0]],
            2,
        ),
        (
            "have 2 values, and the gradient the shape",
            "MergeSingleScalarFeatureTensorsGradient",
            [PRESENT[0], SCALARS[0]],
            1,
        ),
        ("the lengths of a list sum to 3, and there are 2 values", "MergeIdLists", [LENGTHS[0], NAMES[0][:2]], 2),
        ("a length of a list is negative: -2", "MergeIdLists", [-LENGTHS[0], NAMES[0]], 2),
    ],
)
def test_refusals(words, kind, inputs, outputs):
    refused(kind, inputs, words, {"feature_ids": IDS}, outputs)
