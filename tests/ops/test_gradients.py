"""Gradients of the plain operators, in double precision, against differences."""

import numpy as np
import pytest
from derivatives import check, values

X = values(3, 4)
POSITIVE = values(3, 4, low=0.2, high=0.8)
IMAGE = values(2, 4, 3, 3)

UNARY = [
    *((k, X) for k in (
        "Abs", "Atan", "Cos", "Cosh", "Cube", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "LeakyRelu", "Mish",
        "Negative",
        "Relu", "ReluN", "Selu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Swish", "Tan", "Tanh", "Softmax",
        "Normalize", "Scale", "Clip", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceL1",
        "ReduceFrontMax", "ReduceFrontMean", "ReduceFrontSum", "ReduceBackMax", "ReduceBackMean", "ReduceBackSum",
        "SumElements", "AveragedLoss", "LpNorm", "Transpose", "Flatten", "FlattenToVec",
    )),
    *((k, POSITIVE) for k in (
        "Acos", "Asin", "Log", "Log1p", "Logit", "Reciprocal", "Rsqrt", "Sqrt", "Cbrt", "MakeTwoClass",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x"), UNARY, ids=[k for k, _ in UNARY])
def test_of_one_input(kind, x):
    rough = kind in ("Erf", "Gelu")  # two formulas of single precision meet in the error function
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
    ("FC", [X, values(2, 4), values(2)], [0, 1, 2], {}),
    ("FCTransposed", [X, values(4, 2), values(2)], [0, 1, 2], {}),
    ("FC", [values(2, 3, 4), values(5, 4), values(5)], [0, 1, 2], {"axis": 2}),
    *(("MatMul", [values(*((4, 3) if a else (3, 4))), values(*((2, 4) if b else (4, 2)))], [0, 1],
       {"trans_a": a, "trans_b": b}) for a in (0, 1) for b in (0, 1)),
    *(("BatchMatMul", [values(2, *((4, 3) if a else (3, 4))), values(2, *((5, 4) if b else (4, 5)))], [0, 1],
       {"trans_a": a, "trans_b": b}) for a in (0, 1) for b in (0, 1)),
    ("ElementwiseLinear", [X, ROW, values(4)], [0, 1, 2], {}),
    ("PRelu", [IMAGE, values(4)], [0, 1], {}),
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
    ("AffineChannel", [IMAGE, values(4), values(4)], [0, 1, 2], {"is_learnable": 1}),
    ("LRN", [IMAGE], [0], {"size": 3, "alpha": 0.5, "beta": 0.75}),
    ("LRN", [IMAGE], [0], {"size": 3, "alpha": 0.5, "beta": 0.6, "order": "NHWC"}),
    ("InstanceNorm", [IMAGE, values(4), values(4)], [0, 1, 2], {"epsilon": 1e-3}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "wanted", "args"), SEVERAL)
def test_of_several_inputs(kind, inputs, wanted, args):
    check(kind, inputs, wanted, **args)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_batch_normalization(order):
    inputs = [IMAGE, values(4 if order == "NCHW" else 3), values(4 if order == "NCHW" else 3)]
    state = [np.zeros_like(inputs[1]), np.ones_like(inputs[1])]
    check("SpatialBN", [*inputs, *state], [0, 1, 2], outputs=5, is_test=0, order=order)


@pytest.mark.parametrize(
    ("kind", "inputs", "args"),
    [
        ("GroupNorm", [IMAGE, values(4), values(4)], {"group": 2}),
        ("GroupNorm", [IMAGE, values(3), values(3)], {"group": 3, "order": "NHWC"}),
        ("LayerNorm", [X, values(4), values(4)], {"elementwise_affine": 1}),
        ("LayerNorm", [X], {}),
    ],
)
def test_normalization_with_three_outputs(kind, inputs, args):
    check(kind, inputs, range(len(inputs)), outputs=3, **args)


def test_with_two_outputs():
    check("RMSNorm", [X, values(4), values(4)], [0, 1, 2], outputs=2)
    check("Moments", [IMAGE], [0], outputs=2, by=(0, 1), axes=[0, 2])
    check("BatchMoments", [IMAGE], [0], outputs=2, by=(0, 1))
    check("TopK", [X], [0], outputs=2, k=2)
    check("SoftmaxWithLoss", [X, LABELS], [0], outputs=2, by=(1,))
    check("SoftmaxWithLoss", [X, LABELS, POSITIVE[:, 0].copy()], [0], outputs=2, by=(1,), scale=2.0)
    check("SpatialSoftmaxWithLoss", [IMAGE, np.arange(18).reshape(2, 3, 3) % 4], [0], outputs=2, by=(1,))
    check("Concat", [X, POSITIVE], [0, 1], outputs=2, axis=1)
    check("Reshape", [X], [0], outputs=2, shape=[4, -1])
