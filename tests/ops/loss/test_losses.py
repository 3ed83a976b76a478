"""Losses are their formulas, row by row."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

LABELS = np.array([1, 0, 3], "int32")
P, T = floats(3, 4, low=0.1, high=0.9), floats(3, 4, seed=1, low=0.0)
sigmoid = lambda x: 1 / (1 + np.exp(-np.asarray(x, "d")))


def test_cross_entropy():
    check("CrossEntropy", [P, T], [-(T * np.log(P)).sum(axis=1)])
    check("LabelCrossEntropy", [P, LABELS], [-np.log(P[range(3), LABELS])])
    check("LabelCrossEntropy", [P, LABELS[:, None]], [-np.log(P[range(3), LABELS])])
    check("CrossEntropy", [floats(0, 4), floats(0, 4)], [np.zeros(0)])
    one_hot = np.eye(4, dtype="f")[LABELS]
    np.testing.assert_allclose(
        run("CrossEntropy", [P, one_hot])[0], run("LabelCrossEntropy", [P, LABELS])[0], rtol=1e-6
    )
    assert np.isfinite(run("LabelCrossEntropy", [np.zeros((1, 4), "f"), LABELS[:1]])[0]).all()
    check_gradient("CrossEntropy", [values(3, 4, low=0.2), values(3, 4, low=0.1)], [0])
    check_gradient("LabelCrossEntropy", [values(3, 4, low=0.2), LABELS], [0])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), ()])
def test_two_classes(shape):
    x = floats(*shape, low=0)
    check("MakeTwoClass", [x], [np.stack([1 - x, x], axis=-1)])
    if x.size:
        check_gradient("MakeTwoClass", [values(*shape, low=0.2) if shape else np.array(0.3)], [0])


LOGISTIC = [
    ({}, lambda x, t: -t * np.log(sigmoid(x)) - (1 - t) * np.log(1 - sigmoid(x))),
    ({"log_D_trick": 1}, lambda x, t: -(2 * t - 1) * np.log(sigmoid(x))),
    ({"unjoined_lr_loss": 1}, lambda x, t: -t * x + (1 - t) * np.logaddexp(x, 0)),
]


@pytest.mark.parametrize("shape", [(3, 4), (5,), (2, 3, 2), (0, 4)])
@pytest.mark.parametrize(("args", "formula"), LOGISTIC, ids=lambda a: str(a) if isinstance(a, dict) else "")
def test_logits(args, formula, shape):
    x, t, w = 3 * floats(*shape), floats(*shape, low=0.0), floats(*shape, seed=2, low=0.1)
    check("SigmoidCrossEntropyWithLogits", [x, t], [formula(x.astype("d"), t).mean(axis=-1)], args, rtol=1e-4)
    if x.size:
        check_gradient("SigmoidCrossEntropyWithLogits", [values(*shape), values(*shape, low=0.1)], [0], **args)
    if not args:
        wanted = (formula(x.astype("d"), t) * w).mean(axis=-1)
        check("WeightedSigmoidCrossEntropyWithLogits", [x, t, w], [wanted], rtol=1e-4)
        if x.size:
            wide = [values(*shape), values(*shape, low=0.1), values(*shape, low=0.3)]
            check_gradient("WeightedSigmoidCrossEntropyWithLogits", wide, [0])


def test_large_logits_are_finite():
    x, t = np.array([[1000, -1000]], "f"), np.array([[1, 0]], "f")
    assert run("SigmoidCrossEntropyWithLogits", [x, t])[0] == 0
    assert run("SigmoidCrossEntropyWithLogits", [-x, t])[0] == 1000


@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2), (2, 1, 3)])
def test_sums(shape):
    x = floats(*shape)
    n, total = max(x.size, 1), x.sum(dtype="d")
    check("SumElements", [x], [total], atol=1e-5)
    check("SumElements", [x], [total / n], {"average": 1})
    check("AveragedLoss", [x], [total / n])
    check("SumSqrElements", [x], [(x.astype("d") ** 2).sum()])
    check("SumSqrElements", [x.astype("d")], [(x.astype("d") ** 2).sum() / n], {"average": 1})
    whole = (10 * x).astype("int32")
    check("SumElementsInt", [whole], [whole.sum(dtype="int32")])
    if x.size > 1:
        check_gradient("SumElements", [values(*shape)], [0])
        check_gradient("SumElements", [values(*shape)], [0], average=1)
        check_gradient("AveragedLoss", [values(*shape)], [0])


def test_places_and_further_runs():
    for kind in ("SumElements", "MakeTwoClass"):
        check_places(kind, [floats(3, 4)])
        check_again(kind, [floats(3, 4)], [floats(5)])
    check_again("CrossEntropy", [P, T], [P[:1], T[:1]])
    check_again("SigmoidCrossEntropyWithLogits", [P, T], [P[0], T[0]])


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("LabelCrossEntropy", [P, LABELS + 1], {}, "from 0 to 3.*found 1 to 4"),
    ("LabelCrossEntropy", [P, LABELS[:2]], {}, r"one label for each of the 3 rows.*\[2\]"),
    ("LabelCrossEntropy", [floats(), LABELS[:1]], {}, "found a scalar"),
    ("LabelCrossEntropyGradient", [P, LABELS, floats(2)], {}, r"each of the 3 rows, found \[2\]"),
    ("CrossEntropy", [P, T[:, :2]], {}, r"one shape, found \[3, 4\] and \[3, 2\]"),
    ("CrossEntropy", [P, T * 3], {}, "from 0 to 1, found .* to 2"),
    ("CrossEntropyGradient", [P, T, floats(3, 1)], {}, r"found \[3, 1\]"),
    ("MakeTwoClassGradient", [P], {}, r"last dimension must be 2, found the shape \[3, 4\]"),
    ("SigmoidCrossEntropyWithLogits", [P, T[0]], {}, r"found \[3, 4\] and \[4\]"),
    ("SigmoidCrossEntropyWithLogits", [P, T], {"log_D_trick": 1, "unjoined_lr_loss": 1}, "exclude each other"),
    ("WeightedSigmoidCrossEntropyWithLogits", [P, T, T[:1]], {}, r"found \[3, 4\] and \[1, 4\]"),
    ("AveragedLossGradient", [P, floats(2)], {}, r"one value, found the shape \[2\]"),
    ("SumElementsGradient", [P, floats(0)], {}, r"one value, found the shape \[0\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)
