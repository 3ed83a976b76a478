"""Gradients of the plain operators, in double precision, against differences."""

import numpy as np
import pytest
from derivatives import check, values

X = values(3, 4)
POSITIVE = values(3, 4, low=0.2, high=0.8)
IMAGE = values(2, 4, 3, 3)

UNARY = [
    *((k, X) for k in (
        "Abs", "Atan", "Cos", "Cosh", "Cube", "Erf", "Exp", "Negative",
        "Sin", "Sinh", "Tan", "Tanh", "Scale", "Clip", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL1",
        "ReduceFrontMax", "ReduceFrontMean", "ReduceFrontSum", "ReduceBackMax", "ReduceBackMean", "ReduceBackSum",
        "SumElements", "AveragedLoss", "LpNorm", "Transpose", "Flatten", "FlattenToVec",
    )),
    *((k, POSITIVE) for k in (
        "Acos", "Asin", "Log", "Log1p", "Reciprocal", "Rsqrt", "Sqrt", "Cbrt", "MakeTwoClass",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x"), UNARY, ids=[k for k, _ in UNARY])
def test_of_one_input(kind, x):
    rough = kind == "Erf"  # two formulas of single precision meet in the error function
    check(kind, [x], [0], step=1e-2 if rough else 1e-6, tolerance=1e-3 if rough else 1e-5)


def test_sqr_overwrites_the_gradient_that_it_gets():
    check("Sqr", [X], [0])


ROW, COLUMN = values(4), values(3)
LABELS = np.array([1, 0, 3], "int32")

SEVERAL = [
    ("Add", [X, ROW], [0, 1], {}),
    ("Sub", [X, ROW], [0, 1], {}),
    ("Mul", [X, ROW], [0, 1], {}),
    ("Div", [X, POSITIVE], [0, 1], {}),
    ("Mul", [X, COLUMN], [0, 1], {"broadcast": 1, "axis": 0}),
    ("Div", [X, values(3, low=1.0, high=2.0)], [0, 1], {"broadcast": 1, "axis": 0}),
    ("Pow", [POSITIVE], [0], {"exponent": 2.5}),
    ("Pow", [POSITIVE, X + 2], [0, 1], {}),
    ("Max", [X, values(3, 4, low=-0.9)], [0, 1], {}),
    ("Min", [X, values(3, 4, low=-0.9)], [0, 1], {}),
    ("Mean", [X, POSITIVE], [0, 1], {}),
    ("RowMul", [X, COLUMN], [0, 1], {}),
    ("WeightedSum", [X, values(1), POSITIVE, values(1) + 1], [0, 1, 2, 3], {"grad_on_w": 1}),
    ("CrossEntropy", [POSITIVE, POSITIVE[::-1].copy()], [0], {}),
    ("LabelCrossEntropy", [POSITIVE, LABELS], [0], {}),
    ("SigmoidCrossEntropyWithLogits", [X, POSITIVE], [0], {}),
    ("SigmoidCrossEntropyWithLogits", [X, POSITIVE], [0], {"log_D_trick": 1}),
    ("SigmoidCrossEntropyWithLogits", [X, POSITIVE], [0], {"unjoined_lr_loss": 1}),
    ("WeightedSigmoidCrossEntropyWithLogits", [X, POSITIVE, POSITIVE[::-1].copy()], [0], {}),
    ("DotProduct", [X, POSITIVE], [0, 1], {}),
    ("L1Distance", [X, POSITIVE], [0, 1], {}),
    ("SquaredL2Distance", [X, POSITIVE], [0, 1], {}),
    ("CosineSimilarity", [X, POSITIVE], [0, 1], {}),
    ("DotProductWithPadding", [values(3, 6), values(3, 2)], [0, 1], {"replicate": 1}),
    ("DotProductWithPadding", [values(3, 2), values(3, 5)], [0, 1], {"pad_value": 0.5}),
    ("BernoulliJSD", [POSITIVE, POSITIVE[::-1].copy()], [0], {}),
    ("PairWiseLoss", [values(6), np.array([2.0, 1, 3, 1, 2, 2]), np.array([4, 2], "int32")], [0], {}),
    ("MarginRankingCriterion", [values(4), values(4) + 0.1, np.array([1, -1, 1, -1], "int32")], [0, 1],
     {"margin": 0.3}),
    ("BatchGather", [values(2, 4, 3), np.array([1, 3, 1])], [0], {}),
    ("Gather", [values(2, 4, 3), np.array([1, 3, 1])], [0], {"axis": 1}),
    ("Gather", [X, np.array([1, 2, 1])], [0], {"dense_gradient": 1}),
    ("SparseToDense", [np.array([1, 3, 1], "int32"), X], [1], {}),
    ("Tile", [X], [0], {"tiles": 3, "axis": 1}),
    ("Expand", [values(3, 1), np.array([3, 4])], [0], {}),
    ("Slice", [X], [0], {"starts": [0, 1], "ends": [-1, 3]}),
    ("ReduceFrontSum", [X, np.array([3, 1, 2, 3], "int32")], [0], {}),
    ("ReduceBackMean", [X, np.array([4, 1, 2], "int32")], [0], {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "wanted", "args"), SEVERAL)
def test_of_several_inputs(kind, inputs, wanted, args):
    check(kind, inputs, wanted, **args)


def test_with_two_outputs():
    check("Moments", [IMAGE], [0], outputs=2, by=(0, 1), axes=[0, 2])
    check("TopK", [X], [0], outputs=2, k=2)
    check("Concat", [X, POSITIVE], [0, 1], outputs=2, axis=1)
    check("Reshape", [X], [0], outputs=2, shape=[4, -1])
