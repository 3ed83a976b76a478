"""Datasets of nested fields, against Python lists."""

import contextlib
import itertools

import numpy as np
import pytest
from session import Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.data.shuffle import shuffled

EXAMPLES = [
    {"a": 5, "b": [[1, 2], [3]]},
    {"a": 3, "b": []},
    {"a": 9, "b": [[], [4]]},
    {"a": 1, "b": [[5, 6, 7]]},
    {"a": 7, "b": [[]]},
]
FIELDS = ["a", "b:lengths", "b:values:lengths", "b:values:values"]
NAMES = "f0 f1 f2 f3"


def columns(examples):
    """The four fields of some examples."""
    lists = [inner for e in examples for inner in e["b"]]
    return [
        np.array([e["a"] for e in examples], "int64"),
        np.array([len(e["b"]) for e in examples], "int32"),
        np.array([len(inner) for inner in lists], "int32"),
        np.array([v for inner in lists for v in inner], "f"),
    ]


def same(have, examples):
    for h, want in zip(have, columns(examples)):
        np.testing.assert_array_equal(h, want, strict=True)


@pytest.fixture
def do():
    session = Session(**dict(zip(NAMES.split(), columns(EXAMPLES))))
    session("CreateTreeCursor", "", "cursor", fields=FIELDS)
    return session


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_batches_follow_each_other(do, size):
    read = lambda: do("ReadNextBatch", f"cursor {NAMES}", "g0 g1 g2 g3", batch_size=size)
    for begin in range(0, 5, size):
        same(read(), EXAMPLES[begin : begin + size])
    same(read(), [])
    do("ResetCursor", "cursor")
    same(read(), EXAMPLES[:size])


def test_only_whole_batches(do):
    read = lambda: do("ReadNextBatch", f"cursor {NAMES}", "g0 g1 g2 g3", batch_size=3, enforce_batch_size=1)
    same(read(), EXAMPLES[:3])
    same(read(), [])


def test_offsets_of_examples(do):
    lists = [0, *itertools.accumulate(len(e["b"]) for e in EXAMPLES)]
    leaves = [0, *itertools.accumulate(sum(map(len, e["b"])) for e in EXAMPLES)]
    np.testing.assert_array_equal(
        do("ComputeOffset", f"cursor {NAMES}", "o")[0], np.stack([range(6), lists, leaves], 1)
    )
    do("ReadNextBatch", f"cursor {NAMES}", "g0 g1 g2 g3", batch_size=3)
    assert do("GetCursorOffset", "cursor", "at")[0].tolist() == [3, lists[3], leaves[3]]


@pytest.mark.parametrize("loop", [0, 1])
def test_batches_in_another_order(do, loop):
    do("ComputeOffset", f"cursor {NAMES}", "offsets")
    do.feed(idx=[4, 2, 0])
    read = lambda: do("ReadRandomBatch", f"cursor idx offsets {NAMES}", "g0 g1 g2 g3", batch_size=2, loop_over=loop)
    same(read(), [EXAMPLES[4], EXAMPLES[2]])
    same(read(), [EXAMPLES[0]])
    same(read(), [EXAMPLES[4], EXAMPLES[2]] if loop else [])


def test_sorted_and_shuffled(do):
    (order,) = do("SortAndShuffle", f"cursor {NAMES}", "order", sort_by_field_idx=0, batch_size=1, shuffle_size=9)
    assert sorted(order) == list(range(5))
    values = np.arange(40)[::-1]
    do.feed(x=values)
    do("CreateTreeCursor", "", "flat", fields=["x"])
    (order,) = do("SortAndShuffle", "flat x", "order", sort_by_field_idx=0, batch_size=4, shuffle_size=1)
    assert sorted(order) == list(range(40))
    for batch in values[order].reshape(10, 4):
        assert sorted(batch) == list(range(min(batch), min(batch) + 4))  # neighbours stay in one batch


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_a_shuffle_is_a_permutation(count):
    assert sorted(shuffled(count)) == list(range(count))


def test_trimmed(do):
    do("TrimDataset", NAMES, NAMES, fields=FIELDS, multiple_of=2)
    same([do[n] for n in NAMES.split()], EXAMPLES[:4])


@pytest.mark.parametrize("single", [0, 1])
def test_packed_and_unpacked(do, single):
    # Packed one by one they are a tensor that, as in Caffe2, has no NumPy form.
    refused = contextlib.nullcontext() if single else pytest.raises(RuntimeError, match="packed records")
    with refused:
        do("PackRecords", NAMES, "packed", fields=FIELDS, pack_to_single_shared_ptr=single)
    if not single:
        assert do.workspace.blobs["packed"].value.shape == (5,)
    same(do("UnPackRecords", "packed", "g0 g1 g2 g3", fields=FIELDS), EXAMPLES)


def test_nothing_unpacked_is_like_the_prototypes(do):
    do.feed(packed=np.empty(0, object))
    same(do("UnPackRecords", f"packed {NAMES}", "g0 g1 g2 g3", fields=FIELDS), [])
    with pytest.raises(OperatorError, match="no prototypes"):
        do("UnPackRecords", "packed", "g0 g1 g2 g3", fields=FIELDS)
    with pytest.raises(OperatorError, match="4 fields are given for 1 outputs"):
        do("UnPackRecords", "packed", "g0", fields=FIELDS)


def test_blocks_removed():
    do = Session(x=np.arange(10).reshape(5, 2), i=np.array([3, 0, 3], "int32"), j=[5], k=[1.0])
    assert do("RemoveDataBlocks", "x i", "y")[0].tolist() == [[2, 3], [4, 5], [8, 9]]
    with pytest.raises(OperatorError, match="an index is 5; it must be from 0 to 4"):
        do("RemoveDataBlocks", "x j", "y")
    with pytest.raises(OperatorError, match="int32 or int64, got float64"):
        do("RemoveDataBlocks", "x k", "y")


def test_what_is_no_dataset(do):
    do("CheckDatasetConsistency", NAMES, fields=FIELDS)
    with pytest.raises(OperatorError, match="4 fields, and 1 tensors"):
        do("CheckDatasetConsistency", "f0", fields=FIELDS)
    do.feed(short=[1.0], wide=[[1]])
    with pytest.raises(OperatorError, match="'b:values:values' has 1 rows, and 'b:values:lengths' asks for 7"):
        do("CheckDatasetConsistency", "f0 f1 f2 short", fields=FIELDS)
    with pytest.raises(OperatorError, match=r"'b:lengths' must be int32 with one dimension, found int64\[1, 1\]"):
        do("CheckDatasetConsistency", "f0 wide f2 f3", fields=FIELDS)
    with pytest.raises(OperatorError, match=r"has 1 rows, and row \d is asked for"):
        do("ReadNextBatch", "cursor f0 f1 f2 short", "g0 g1 g2 g3")


def test_refusals(do):
    do("ComputeOffset", f"cursor {NAMES}", "offsets")
    do.feed(idx=[5])
    for words, kind, inputs, outputs, args in (
        ("the cursor has 4 fields, and 1 tensors", "ReadNextBatch", "cursor f0", "g", {}),
        (r"a cursor .* is needed, found a tensor", "ReadNextBatch", "f0 f0", "g", {}),
        (r"a cursor .* is needed, found a tensor", "ResetCursor", "f0", "", {}),
        (
            "an element of idx is 5; it must be from 0 to 4",
            "ReadRandomBatch",
            f"cursor idx offsets {NAMES}",
            "a b c d",
            {},
        ),
        ("within 0 to 3, got 4", "SortAndShuffle", f"cursor {NAMES}", "g", {"sort_by_field_idx": 4}),
        ("must be positive, got 0 and 1", "SortAndShuffle", f"cursor {NAMES}", "g", {"batch_size": 0}),
        (r"multiple_of.* >= 1", "TrimDataset", NAMES, NAMES, {"fields": FIELDS, "multiple_of": 0}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)
