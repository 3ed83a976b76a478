"""Reductions are NumPy's."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

OVER_AXES = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL1": lambda x, **k: abs(x).sum(**k),
    "ReduceL2": lambda x, **k: np.sqrt((x**2).sum(**k)),
}
AXES = [((), (3, 4)), ((0,), (3, 4)), ((-1,), (3, 4)), ((0, 2), (2, 3, 4)), ((2, 1), (2, 3, 4)), ((0,), (5,)), ((), ())]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("axes", "shape"), AXES)
@pytest.mark.parametrize("kind", OVER_AXES)
def test_over_axes(kind, axes, shape, keepdims):
    x = floats(*shape)
    over = tuple(a % len(shape) for a in axes) or tuple(range(len(shape)))
    args = {"keepdims": keepdims, **({"axes": list(axes)} if axes else {})}
    check(kind, [x], [OVER_AXES[kind](x.astype("d"), axis=over, keepdims=bool(keepdims))], args)
    if shape:
        check_gradient(kind, [values(*shape)], [0], **args)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_of_other_dtypes(dtype):
    x = (10 * floats(3, 4)).astype(dtype)
    for kind in ("ReduceSum", "ReduceMax", "ReduceMin"):
        y = OVER_AXES[kind](x, axis=1, keepdims=True)
        check(kind, [x], [y], {"axes": [1]})
        assert run(kind, [x], {"axes": [1]})[0].dtype == dtype


def test_nan_counts_where_it_comes_first():
    """As in Caffe2: of several only the first, in steps of four lanes along the last dimensions."""
    x = np.array([[np.nan, 1, 2], [1, np.nan, 2]], "f")
    assert np.isnan(run("ReduceMax", [x], {"axes": [1], "keepdims": 0})[0]).tolist() == [True, False]
    assert run("ArgMax", [x], {"keepdims": 0})[0].tolist() == [0, 2]


SIDED = {"Sum": np.sum, "Mean": np.mean, "Max": np.max}


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("side", ["Front", "Back"])
@pytest.mark.parametrize("kind", SIDED)
def test_of_one_side(kind, side, n):
    x = floats(2, 3, 4)
    over = tuple(range(n)) if side == "Front" else tuple(range(3 - n, 3))
    check(f"Reduce{side}{kind}", [x], [SIDED[kind](x.astype("d"), axis=over) if n else x], {"num_reduce_dim": n})
    check_gradient(f"Reduce{side}{kind}", [values(2, 3, 4)], [0], num_reduce_dim=n)


@pytest.mark.parametrize("side", ["Front", "Back"])
@pytest.mark.parametrize("kind", SIDED)
def test_of_lengths(kind, side):
    """The first elements count, so many as each result's length says."""
    x = floats(5, 4) if side == "Front" else floats(4, 5)
    lengths = np.array([5, 1, 3, 2], "int32")
    rows = x.T if side == "Front" else x
    wanted = np.array([SIDED[kind](row[:n].astype("d")) for row, n in zip(rows, lengths)])
    check(f"Reduce{side}{kind}", [x, lengths], [wanted])
    check_gradient(f"Reduce{side}{kind}", [values(*x.shape), lengths], [0])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("average", [0, 1])
def test_norms(p, average):
    x = floats(3, 4)
    total = (abs(x.astype("d")) ** p).sum()
    check("LpNorm", [x], [np.array([total / (12 if average else 1)])], {"p": p, "average": average})
    check_gradient("LpNorm", [values(3, 4)], [0], p=p, average=average)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("axes", "shape"), [a for a in AXES if a[1] and min(a[0], default=0) >= 0])
def test_moments(axes, shape, keepdims):
    x = floats(*shape)
    over = tuple(a % len(shape) for a in axes) or tuple(range(len(shape)))
    args = {"keepdims": keepdims, **({"axes": list(axes)} if axes else {})}
    wanted = [f(x.astype("d"), axis=over, keepdims=bool(keepdims)) for f in (np.mean, np.var)]
    check("Moments", [x], wanted, args)
    check_gradient("Moments", [values(*shape)], [0], outputs=2, by=(0, 1), **args)


def test_matrices_of_a_batch():
    x = floats(2, 3, 4)
    check("RowwiseMax", [x], [x.max(axis=2)])
    check("ColwiseMax", [x], [x.max(axis=1)])
    check_gradient("RowwiseMax", [values(2, 3, 4)], [0])
    check_gradient("ColwiseMax", [values(2, 3, 4)], [0])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_places_of_extremes(axis):
    x = (5 * floats(3, 4, 5)).astype("int32")  # with equal ones: the first of them counts
    for keepdims in (0, 1):
        args = {"axis": axis, "keepdims": keepdims}
        check("ArgMax", [x], [np.argmax(x, axis=axis, keepdims=bool(keepdims))], args)
        check("ArgMin", [x.astype("f")], [np.argmin(x, axis=axis, keepdims=bool(keepdims))], args)


def test_weighted_sum_of_rows():
    x, w = floats(3, 4, 2), floats(3)
    check("ReduceFrontWeightedSum", [x, w], [np.einsum("i,ijk->jk", w.astype("d"), x)])
    dy = floats(4, 2)
    check("ReduceFrontWeightedSumGradient", [w, dy, np.array([3, 4, 2])], [w[:, None, None] * dy])


def test_places_and_further_runs():
    for kind in ("ReduceSum", "ReduceL2", "ReduceFrontMean", "ReduceBackMax", "ArgMax", "LpNorm"):
        check_places(kind, [floats(3, 4)])
        check_again(kind, [floats(3, 4)], [floats(2, 5)])


def test_of_nothing():
    assert not run("ReduceSum", [floats(0, 3)], {"axes": [0]})[0].any()
    assert not run("ReduceMean", [floats(0, 3)], {"axes": [0]})[0].any()
    assert run("ReduceFrontSum", [floats(0, 3)])[0].tolist() == [0, 0, 0]
    assert run("ReduceBackMax", [floats(2, 0)])[0].tolist() == [0, 0]
    assert run("ArgMax", [floats(2, 0)])[0].tolist() == [[0], [0]]


X = floats(3, 4)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("ReduceSum", [X], {"axes": [2]}, r"axes=\[2\] must be from -2 to 1, for 2 dimensions"),
    ("ReduceMeanGradient", [floats(2), X, floats(3, 1)], {"axes": [1]}, r"dY must be \[3, 1\].*found \[2\]"),
    ("ReduceMean", [X.astype("int32")], {}, "'in0' is int32"),
    ("ReduceFrontSum", [X], {"num_reduce_dim": 3}, "num_reduce_dim=3 must be from 0 to 2"),
    ("ReduceBackSum", [X, np.array([1, 2], "int32")], {}, r"each of the 3 results is needed, found \[2\]"),
    ("ReduceBackSum", [X, np.array([1, 2, 5], "int32")], {}, "from 0 to 4, found 1 to 5"),
    ("ReduceFrontSumGradient", [floats(3), X], {}, r"dY must have the shape \[4\], found \[3\]"),
    ("LpNorm", [X], {"p": 3}, "p must be 1 or 2, found 3"),
    ("LpNorm", [floats(0)], {"average": 1}, r"no elements: \[0\]"),
    ("LpNormGradient", [X, floats(2)], {}, r"found \[2\]"),
    ("Moments", [X], {"axes": [-3]}, r"axes=\[-3\]"),
    ("RowwiseMax", [X], {}, r"found the shape \[3, 4\]"),
    ("ArgMax", [X], {"axis": 2}, "axis 2 is none of 2 dimensions"),
    ("ReduceFrontWeightedSum", [X, floats(2)], {}, r"each row of X \[3, 4\] .*found \[2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if kind == "Moments" else 1)
