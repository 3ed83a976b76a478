"""Gradients of the plain operators, in double precision, against differences."""

import numpy as np
import pytest
from derivatives import check, values

X = values(3, 4)
POSITIVE = values(3, 4, low=0.2, high=0.8)
IMAGE = values(2, 4, 3, 3)

UNARY = [
    *((k, X) for k in (
        "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL1",
        "ReduceFrontMax", "ReduceFrontMean", "ReduceFrontSum", "ReduceBackMax", "ReduceBackMean", "ReduceBackSum",
        "SumElements", "AveragedLoss", "LpNorm",
    )),
    ("MakeTwoClass", POSITIVE),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x"), UNARY, ids=[k for k, _ in UNARY])
def test_of_one_input(kind, x):
    check(kind, [x], [0])


LABELS = np.array([1, 0, 3], "int32")

SEVERAL = [
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
    ("ReduceFrontSum", [X, np.array([3, 1, 2, 3], "int32")], [0], {}),
    ("ReduceBackMean", [X, np.array([4, 1, 2], "int32")], [0], {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "wanted", "args"), SEVERAL)
def test_of_several_inputs(kind, inputs, wanted, args):
    check(kind, inputs, wanted, **args)


def test_with_two_outputs():
    check("Moments", [IMAGE], [0], outputs=2, by=(0, 1), axes=[0, 2])
