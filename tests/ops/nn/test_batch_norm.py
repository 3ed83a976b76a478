"""Normalization over batches, channel by channel."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run

ORDERS = ["NCHW", "NHWC"]
SHAPES = [(4, 3, 2, 3), (5, 3), (2, 3, 4, 2, 3)]


def channels(x, order):
    """x as [elements, C], in double precision."""
    return (np.moveaxis(np.asarray(x, "d"), 1, -1) if order == "NCHW" else np.asarray(x, "d")).reshape(-1, 3)


def along(vector, x, order):
    """A vector over channels, to broadcast against x."""
    return vector.reshape(-1, *(1,) * (x.ndim - 2)) if order == "NCHW" else vector


def operands(seed=0):
    return [floats(3, seed=seed), floats(3, seed=seed + 1), floats(3, seed=seed + 2), floats(3, low=0.5)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_training(order, shape):
    x, (scale, bias, mean, var) = floats(*shape), operands()
    rows = channels(x, order)
    centre, spread, n = rows.mean(axis=0), rows.var(axis=0), len(rows)
    inv = 1 / np.sqrt(spread + 1e-3)
    wanted = [
        (x - along(centre, x, order)) * along(scale * inv, x, order) + along(bias, x, order),
        0.8 * mean + 0.2 * centre,
        0.8 * var + 0.2 * spread * n / (n - 1),
        centre,
        inv,
    ]
    args = {"is_test": 0, "order": order, "epsilon": 1e-3, "momentum": 0.8}
    check("SpatialBN", [x, scale, bias, mean, var], wanted, args, rtol=1e-4, atol=1e-5)
    wide = [values(*shape), values(3), values(3), np.zeros(3), np.ones(3)]
    check_gradient("SpatialBN", wide, [0, 1, 2], outputs=5, is_test=0, order=order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_in_a_test_the_running_statistics_count(order, shape):
    x, (scale, bias, mean, var) = floats(*shape), operands()
    a = scale / np.sqrt(var + 1e-5)
    wanted = x * along(a, x, order) + along(bias - mean * a, x, order)
    args = {"is_test": 1, "order": order}
    check("SpatialBN", [x, scale, bias, mean, var], [wanted], args, rtol=1e-4, atol=1e-5)
    check_places("SpatialBN", [x, scale, bias, mean, var], args)
    check_again("SpatialBN", [x, scale, bias, mean, var], [floats(*shape[:1], *shape[1:], seed=1), *operands(5)], args)


@pytest.mark.parametrize("order", ORDERS)
def test_several_batches_are_normalized_as_one(order):
    """Statistics of two halves, added up, give the halves of what the whole batch gives; gradients alike."""
    x, dy, (scale, bias, mean, var) = floats(4, 3, 2, 3), floats(4, 3, 2, 3, seed=3), operands()
    args = {"is_test": 0, "order": order}
    whole = run("SpatialBN", [x, scale, bias, mean, var], args, 5)
    half = [run("ChannelStats", [part], {"order": order}, 2) for part in (x[:2], x[2:])]
    sums = [a + b for a, b in zip(*half)]
    parts = [
        run("SpatialBN", [part, scale, bias, mean, var, *sums], {**args, "num_batches": 2}, 5)
        for part in (x[:2], x[2:])
    ]
    np.testing.assert_allclose(np.concatenate([p[0] for p in parts]), whole[0], rtol=1e-4, atol=1e-5)
    for k in range(1, 5):
        np.testing.assert_allclose(parts[0][k], whole[k], rtol=1e-4, atol=1e-5)
    saved = whole[3:]
    wanted = run("SpatialBNGradient", [x, scale, dy, *saved], {"order": order}, 3)
    back = [run("ChannelBackpropStats", [x[at], *saved, dy[at]], {"order": order}, 2) for at in (slice(2), slice(2, 4))]
    totals = [a + b for a, b in zip(*back)]
    made = [
        run("SpatialBNGradient", [x[at], scale, dy[at], *saved, *totals], {"order": order, "num_batches": 2}, 3)
        for at in (slice(2), slice(2, 4))
    ]
    np.testing.assert_allclose(np.concatenate([m[0] for m in made]), wanted[0], rtol=1e-3, atol=1e-5)
    for k in (1, 2):
        np.testing.assert_allclose(2 * made[0][k], wanted[k], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order, shape", [("NCHW", (0, 3, 2, 2)), ("NHWC", (0, 2, 2, 3))])
@pytest.mark.parametrize("num_batches", [1, 2])
def test_an_empty_batch(order, shape, num_batches):
    """The numbers are Caffe2's."""
    x, vectors = np.zeros(shape, "f"), [np.full(3, k + 2.0, "f") for k in range(6)]
    args = {"order": order, "num_batches": num_batches}
    _, *statistics = run("SpatialBN", [x, *vectors], {**args, "is_test": 0}, 5)
    assert [s.tolist() for s in statistics] == [[4.0] * 3, [5.0] * 3, [0.0] * 3, [0.0] * 3]
    dx, dscale, dbias = run("SpatialBNGradient", [x, vectors[0], x, *statistics[2:], *vectors[4:]], args, 3)
    assert dx.shape == shape and not dscale.any() and not dbias.any()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_of_channels(order, shape):
    x = floats(*shape)
    rows = channels(x, order)
    check("ChannelStats", [x], [rows.sum(axis=0), (rows**2).sum(axis=0)], {"order": order}, atol=1e-5)
    check("BatchMoments", [x], [rows.mean(axis=0), (rows**2).mean(axis=0)], {"order": order})
    check_gradient("BatchMoments", [values(*shape)], [0], outputs=2, by=(0, 1), order=order)
    mean, inv, dy = floats(3), floats(3, low=0.5), floats(*shape, seed=1)
    d = channels(dy, order)
    wanted = [(d * (rows - mean) * inv).sum(axis=0), d.sum(axis=0)]
    check("ChannelBackpropStats", [x, mean, inv, dy], wanted, {"order": order}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_affine_channel(order):
    x, scale, bias = floats(2, 3, 4, 3), floats(3), floats(3, seed=1)
    check("AffineChannel", [x, scale, bias], [x * along(scale, x, order) + along(bias, x, order)], {"order": order})
    check_places("AffineChannel", [x, scale, bias], {"order": order})
    wide = [values(2, 3, 4, 3), values(3), values(3)]
    check_gradient("AffineChannel", wide, [0, 1, 2], order=order, is_learnable=1)
    check_gradient("AffineChannel", wide, [0], order=order)


X, V = floats(2, 3, 2, 2), floats(3)


@pytest.mark.parametrize(("kind", "inputs", "args", "outputs", "words"), [
    ("SpatialBN", [X, V, V, V, floats(2)], {"is_test": 1}, 1, r"var .*3 channels, found \[2\]"),
    ("SpatialBN", [X, V, V, V, V], {"is_test": 0}, 1, "is_test=0 there are 5 outputs, 1 are named"),
    ("SpatialBN", [X, V, V, V, V], {"is_test": 1, "epsilon": 0.0}, 1, "epsilon .*must be > 0, found 0"),
    ("SpatialBN", [X, V, V, V, V], {"is_test": 1, "momentum": 2.0}, 1, "momentum .*must be <= 1, found 2"),
    ("SpatialBN", [X, V, V, V, V], {}, 1, "needs the argument 'is_test'"),
    ("SpatialBN", [V, V, V, V, V], {"is_test": 1}, 1, r"batch with channels is needed, found the shape \[3\]"),
    ("SpatialBNGradient", [X, V, X, V, V], {"num_batches": 2}, 3, "num_batches=2 needs the sums"),
    ("SpatialBNGradient", [X, V, floats(1, 3, 2, 2), V, V], {}, 3, "shape of"),
    ("ChannelBackpropStats", [X, V, floats(4), X], {}, 2, r"inv_std .*3 channels, found \[4\]"),
    ("BatchMoments", [V], {}, 2, r"found the shape \[3\]"),
    ("BatchMomentsGradient", [V, floats(2), X], {}, 1, r"dsquare .*3 channels, found \[2\]"),
    ("AffineChannel", [X, V, floats(4)], {}, 1, r"bias .*3 channels, found \[4\]"),
    ("AffineChannelGradient", [X, V], {"is_learnable": 1}, 3, "is_learnable"),
])  # fmt: skip
def test_refusals(kind, inputs, args, outputs, words):
    refused(kind, inputs, words, args, outputs)


def test_a_learnable_scale_needs_its_input():
    with pytest.raises(Exception, match="must not be overwritten"):
        run("AffineChannel", [X, V, V], {"is_learnable": 1}, inplace={0: 0})
