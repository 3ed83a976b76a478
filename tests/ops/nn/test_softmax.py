"""Softmax sums to one; the losses with it are mean logarithms of the labels' probabilities."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

LABELS = np.array([1, 0, 3], "int32")


def softmax(x, axis=1):
    rows = np.asarray(x, "d").reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    e = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
    return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 4), 1), ((0, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), -1), ((5,), 0)]
)
def test_softmax(shape, axis):
    x = 5 * floats(*shape)
    check("Softmax", [x], [softmax(x, axis % len(shape))], {"axis": axis})
    check_gradient("Softmax", [values(*shape)] if x.size else [np.zeros(shape)], [0], axis=axis)


def test_properties_of_softmax():
    x = floats(6, 5)
    y = run("Softmax", [x])[0]
    np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(run("Softmax", [x + 1000])[0], y, rtol=1e-3)
    order = np.random.default_rng(0).permutation(5)
    np.testing.assert_allclose(run("Softmax", [x[:, order]])[0], y[:, order], rtol=1e-5)
    assert not run("SoftmaxGradient", [y, np.ones_like(y)])[0].max() > 1e-6  # an equal gradient changes nothing
    check_places("Softmax", [x])
    check_again("Softmax", [x], [floats(2, 9)])


def test_softmax_with_loss():
    x, weights = floats(3, 4), floats(3, low=0.5)
    p = softmax(x)
    each = -np.log(p[range(3), LABELS])
    check("SoftmaxWithLoss", [x, LABELS], [p, each.mean()])
    check("SoftmaxWithLoss", [x, LABELS], [p, 2.5 * each.mean()], {"scale": 2.5})
    check("SoftmaxWithLoss", [x, LABELS, weights], [p, (each * weights).sum() / weights.sum()])
    check("SoftmaxWithLoss", [x, LABELS[:, None]], [p, each.mean()])
    targets = softmax(floats(3, 4, seed=1)).astype("f")
    check("SoftmaxWithLoss", [x, targets], [p, -(targets * np.log(p)).sum(axis=1).mean()], {"label_prob": 1})
    check("SoftmaxWithLoss", [floats(0, 4), LABELS[:0]], [np.zeros((0, 4)), 0.0])
    check("SoftmaxWithLoss", [x, LABELS, np.zeros(3, "f")], [p, 0.0])


def test_a_probability_that_rounds_to_zero_has_its_loss():
    x = np.array([[0, 200]], "f")
    assert run("SoftmaxWithLoss", [x, np.array([0], "int32")], outputs=2)[1] == 200


def test_gradients_of_softmax_with_loss():
    x, weights = values(3, 4), values(3, low=0.5)
    targets = softmax(values(3, 4)[::-1])
    check_gradient("SoftmaxWithLoss", [x, LABELS], [0], outputs=2, by=(1,))
    check_gradient("SoftmaxWithLoss", [x, LABELS, weights], [0], outputs=2, by=(1,), scale=2.0)
    check_gradient("SoftmaxWithLoss", [x, targets], [0], outputs=2, by=(1,), label_prob=1)


@pytest.mark.parametrize("weighted", [False, True])
def test_spatial_softmax_with_loss(weighted):
    x = floats(2, 4, 3, 2)
    labels = np.random.default_rng(0).integers(-1, 4, (2, 3, 2)).astype("int32")
    w = floats(2, 3, 2, low=0.5) if weighted else np.ones((2, 3, 2), "f")
    p = np.moveaxis(softmax(np.moveaxis(x, 1, -1), 3), -1, 1)
    known = labels >= 0
    picked = np.take_along_axis(p, np.maximum(labels, 0)[:, None], 1)[:, 0]
    loss = -(np.log(picked) * w)[known].sum() / w[known].sum()
    inputs = [x, labels, *([w] if weighted else [])]
    check("SpatialSoftmaxWithLoss", inputs, [p, loss])
    wide = [values(2, 4, 3, 2), labels, *([w.astype("d")] if weighted else [])]
    check_gradient("SpatialSoftmaxWithLoss", wide, [0], outputs=2, by=(1,))


def test_the_scale_of_spatial_softmax_with_loss_is_for_its_gradient_alone():
    x, labels = floats(1, 3, 2, 2), np.zeros((1, 2, 2), "int32")
    p, loss = run("SpatialSoftmaxWithLoss", [x, labels], {"scale": 3.0}, 2)
    assert loss == run("SpatialSoftmaxWithLoss", [x, labels], outputs=2)[1]
    d = np.ones((), "f")
    plain, scaled = (run("SpatialSoftmaxWithLossGradient", [x, labels, p, d], {"scale": s})[0] for s in (1.0, 3.0))
    np.testing.assert_allclose(scaled, 3 * plain, rtol=1e-5)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("Softmax", [floats(2, 3)], {"axis": 2}, "axis 2"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS + 1], {}, "from 0 to 3.*found 1 to 4"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS - 1], {}, "from 0 to 3.*found -1 to 2"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS[:2]], {}, r"each of the 3 rows.*found \[2\]"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS.astype("int64")], {}, "int32, found int64"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS, floats(2)], {}, r"one weight for each of the 3 rows.*found \[2\]"),
    ("SoftmaxWithLoss", [floats(3, 4), np.full((3, 4), 0.5, "f")], {"label_prob": 1}, "sum to 1.*found sums from 2.0 to 2.0"),
    ("SoftmaxWithLoss", [floats(3, 4), LABELS], {"scale": -1.0}, "scale .*must be >= 0, found -1"),
    ("SpatialSoftmaxWithLoss", [floats(1, 3, 2, 2), np.full((1, 2, 2), 3, "int32")], {}, "from 0 to 2.*found 3 to 3"),
    ("SpatialSoftmaxWithLoss", [floats(1, 3, 2, 2), np.zeros((1, 2, 3), "int32")], {}, r"found \[1, 3, 2, 2\] and \[1, 2, 3\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=1 if kind == "Softmax" else 2)


def test_gradients_refuse_other_numbers_of_inputs():
    refused("SoftmaxWithLossGradient", [floats(2, 3), LABELS[:2], floats(2, 3)], "4 or 5 inputs .*got 3")
    refused(
        "SpatialSoftmaxWithLossGradient", [floats(1, 3, 2, 2), np.zeros((1, 2, 2), "int32")], "4 or 5 inputs .*got 2"
    )
