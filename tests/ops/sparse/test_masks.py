"""Features laid out by identifiers; partitions brought back together."""

import numpy as np
import pytest
from running import definition, refused, run

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace

IDS = np.array([5, 2, 9, 5, 2])
ROWS = np.arange(10, dtype="f").reshape(5, 2) + 1
DEFAULT = np.array([-1, -2], "f")
LENGTHS = np.array([3, 0, 2], "int32")
MASK = {"mask": [2, 5, 7], "return_presence_mask": 1}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sparse_to_dense_mask_and_its_gradient(dtype):
    ids = IDS.astype(dtype)
    want, seen = np.tile(DEFAULT, (3, 3, 1)), np.zeros((3, 3), bool)
    row = np.repeat(range(3), LENGTHS)
    for r, i, v in zip(row, ids, ROWS):
        if i in MASK["mask"]:
            want[r, MASK["mask"].index(i)], seen[r, MASK["mask"].index(i)] = v, True
    Y, presence = run("SparseToDenseMask", [ids, ROWS, DEFAULT, LENGTHS], MASK, outputs=2)
    np.testing.assert_array_equal(Y, want, strict=True)
    np.testing.assert_array_equal(presence, seen, strict=True)
    (dX,) = run("SparseToDenseMaskGradient", [ids, Y, LENGTHS], MASK)
    np.testing.assert_array_equal(dX, np.where(np.isin(ids, MASK["mask"])[:, None], ROWS, 0), strict=True)


def test_without_lengths_the_last_of_equal_indices_stays():
    (Y,) = run("SparseToDenseMask", [IDS, ROWS, DEFAULT], {"mask": [2, 5, 7]})
    np.testing.assert_array_equal(Y, [ROWS[4], ROWS[3], DEFAULT])
    (dX,) = run("SparseToDenseMaskGradient", [IDS, Y], {"mask": [2, 5, 7]})
    np.testing.assert_array_equal(dX, [[0, 0]] * 3 + [*ROWS[3:]])


@pytest.mark.parametrize(("limit", "runs"), [(0, 0), (1, 0), (2, 0), (3, 1), (5, 2), (-1, 9)])
def test_rows_with_indices_that_cannot_be_are_counted_over_all_runs(limit, runs):
    ids = np.array(
        [-1, np.iinfo("int32").max, 2, 2**31 - 2, -5], "int32"
    )  # two rows of three: [-1, max, 2], [], [..., -5]
    workspace = Workspace()
    for name, value in {"ids": ids, "rows": ROWS, "default": DEFAULT, "lengths": LENGTHS}.items():
        workspace.feed(name, value)
    args = {"mask": [2, 5, 7], "max_skipped_indices": limit}
    op = definition("SparseToDenseMask", ["ids", "rows", "default", "lengths"], ["Y"], args)
    runner.run_operator(workspace, op, runs)
    if limit >= 0:
        with pytest.raises(OperatorError, match=f"{2 * (runs + 1)} rows had indices below 0"):
            runner.run_operator(workspace, op, runs + 1)
    runner.run_operator(workspace, op, 0)  # made, not run


@pytest.mark.parametrize("parts", [2, 3])
def test_gather_by_key_undoes_a_partition(parts):
    found = run("Partition", [IDS, ROWS], outputs=2 * parts)
    np.testing.assert_array_equal(run("GatherByKey", [IDS, *found[1::2]])[0], ROWS, strict=True)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        (r"each of 5 indices is needed, found \[4, 2\]", "SparseToDenseMask", [IDS, ROWS[:4], DEFAULT], MASK),
        (r"the shape of a value, \[2\], found \[1\]", "SparseToDenseMask", [IDS, ROWS, DEFAULT[:1]], MASK),
        (
            "the lengths add up to 3, and there are 5",
            "SparseToDenseMask",
            [IDS, ROWS, DEFAULT, LENGTHS[:2]],
            {"mask": [2]},
        ),
        ("mask must be 0 or more, found -2", "SparseToDenseMask", [IDS, ROWS, DEFAULT], {"mask": [-2]}),
        ("found none", "SparseToDenseMask", [IDS, ROWS, DEFAULT], {"mask": []}),
        (
            r"must begin with the shape \[3, 3\], found \[5, 2\]",
            "SparseToDenseMaskGradient",
            [IDS, ROWS, LENGTHS],
            MASK,
        ),
        ("part 1 has 2 rows, and 3 keys belong there", "GatherByKey", [IDS, ROWS[:2], ROWS[:2]], {}),
        (r"part 1 must have rows like part 0, float32\[2\]", "GatherByKey", [IDS, ROWS[:2], ROWS[:3, 0]], {}),
        (r"must be a vector, found \[1, 5\]", "GatherByKey", [IDS[None], ROWS], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args)
