"""What is normalized has mean 0 and variance 1 (or norm 1) before the scale and the bias."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, check_places, floats, refused, run


def groups_of(x, groups, order):
    """x as [N, groups, channels of a group, pixels], in double precision."""
    x = np.asarray(x, "d")
    x = x if order == "NCHW" else np.moveaxis(x, -1, 1)
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)


def group_norm(x, scale, bias, groups, epsilon, order):
    g = groups_of(x, groups, order)
    mean, variance = g.mean(axis=(2, 3)), g.var(axis=(2, 3))
    inv = 1 / np.sqrt(variance + epsilon)
    normal = (g - mean[..., None, None]) * inv[..., None, None]
    y = normal * scale.reshape(1, groups, -1, 1) + bias.reshape(1, groups, -1, 1)
    first = x.shape if order == "NCHW" else (x.shape[0], x.shape[-1], *x.shape[1:-1])
    y = y.reshape(first)
    return (y if order == "NCHW" else np.moveaxis(y, 1, -1)), mean, inv


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(2, 4, 3, 4), (3, 4, 2, 4), (2, 4, 3, 2, 4)])
def test_group_norm(order, shape):
    x, scale, bias = floats(*shape), floats(4), floats(4, seed=1)
    args = {"group": 2, "epsilon": 1e-3, "order": order}
    check("GroupNorm", [x, scale, bias], group_norm(x, scale, bias, 2, 1e-3, order), args, rtol=1e-4, atol=1e-5)
    args.pop("group")
    check("InstanceNorm", [x, scale, bias], group_norm(x, scale, bias, 4, 1e-3, order), args, rtol=1e-4, atol=1e-5)
    wide = [values(*shape), values(4), values(4, low=-0.9)]
    check_gradient("GroupNorm", wide, [0, 1, 2], outputs=3, group=2, epsilon=1e-3, order=order)
    check_gradient("InstanceNorm", wide, [0, 1, 2], epsilon=1e-3, order=order)
    check_gradient("InstanceNorm", wide, [0, 1, 2], outputs=3, epsilon=1e-3, order=order)


def test_group_norm_of_an_empty_batch():
    y, mean, inv = run("GroupNorm", [floats(0, 4, 2, 2), floats(4), floats(4)], {"group": 2}, 3)
    assert y.shape == (0, 4, 2, 2) and mean.shape == inv.shape == (0, 2)


def test_places_and_further_runs():
    operands = [floats(2, 4, 3, 3), floats(4), floats(4, seed=1)]
    check_places("InstanceNorm", operands)
    check_again("GroupNorm", operands, [floats(1, 4, 2, 2), *operands[1:]], {"group": 2})
    check_again("LayerNorm", [floats(3, 4)], [floats(2, 6)], outputs=3)
    check_again("LRN", [floats(2, 4, 3, 3)], [floats(1, 6, 2, 2)], {"size": 3, "alpha": 0.1, "beta": 0.75}, outputs=2)
    check_again("Normalize", [floats(3, 4)], [floats(5, 2, 2)])


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm(axis, affine):
    x = floats(2, 3, 4)
    rows = x.astype("d").reshape(int(np.prod(x.shape[: axis % 3])), -1)
    width = rows.shape[1]
    gamma, beta = floats(width), floats(width, seed=1)
    mean, std = rows.mean(axis=1, keepdims=True), np.sqrt(rows.var(axis=1, keepdims=True) + 1e-3)
    y = (rows - mean) / std
    args = {"axis": axis, "epsilon": 1e-3, "elementwise_affine": int(affine)}
    if affine:
        y = y * gamma + beta
    inputs = [x, gamma, beta] if affine else [x]
    shape = (*x.shape[: axis % 3], 1)
    wanted = [y.reshape(x.shape), mean.reshape(shape), std.reshape(shape)]
    check("LayerNorm", inputs, wanted, args, rtol=1e-4, atol=1e-5)
    check("C10LayerNorm_DontUseThisOpYet", inputs, wanted, args, rtol=1e-4, atol=1e-5)
    wide = [values(2, 3, 4), *((values(width), values(width)) if affine else ())]
    check_gradient("LayerNorm", wide, range(len(wide)), outputs=3, **args)


@pytest.mark.parametrize("axis", [1, 2])
def test_rms_norm(axis):
    x = floats(2, 3, 4)
    width = int(np.prod(x.shape[axis:]))
    rows, gamma, beta = x.astype("d").reshape(-1, width), floats(width), floats(width, seed=1)
    r = 1 / np.sqrt((rows**2).mean(axis=1) + 0.01)
    wanted = [(rows * r[:, None] * gamma + beta).reshape(x.shape), r.reshape(x.shape[:axis])]
    check("RMSNorm", [x, gamma, beta], wanted, {"axis": axis, "eps": 0.01})
    wide = [values(2, 3, 4), values(width), values(width)]
    check_gradient("RMSNorm", wide, [0, 1, 2], outputs=2, axis=axis, eps=0.01)
    assert (
        run("RMSNorm", [x.astype("d"), gamma.astype("d"), beta.astype("d")], {"axis": axis}, 2)[0].dtype == np.float64
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_norms_along_an_axis(axis):
    x = floats(3, 4, 2)
    check("Normalize", [x], [x / np.linalg.norm(x.astype("d"), axis=axis, keepdims=True)], {"axis": axis})
    check("NormalizeL1", [x], [x / abs(x.astype("d")).sum(axis=axis, keepdims=True)], {"axis": axis})
    check_gradient("Normalize", [values(3, 4, 2)], [0], axis=axis)
    once = run("Normalize", [x], {"axis": axis})
    np.testing.assert_allclose(run("Normalize", once, {"axis": axis})[0], once[0], rtol=1e-5)


def test_norms_of_nothing():
    assert not run("Normalize", [np.zeros((2, 3), "f")])[0].any()
    assert not run("NormalizeL1", [np.zeros((2, 3), "f")])[0].any()


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("size", "beta"), [(1, 0.75), (3, 0.75), (4, 0.5), (5, 0.6), (30, 0.75)])
def test_lrn(order, size, beta):
    x = floats(2, 6, 3, 2) if order == "NCHW" else floats(2, 3, 2, 6)
    axis = 1 if order == "NCHW" else 3
    square = np.moveaxis(x.astype("d") ** 2, axis, 0)
    scale = 2 + 0.3 / size * np.stack(
        [square[max(c - (size - 1) // 2, 0) : c + size // 2 + 1].sum(axis=0) for c in range(6)]
    )
    scale = np.moveaxis(scale, 0, axis)
    args = {"size": size, "alpha": 0.3, "beta": beta, "bias": 2.0, "order": order}
    check("LRN", [x], [x * scale**-beta, scale], args, rtol=1e-4)
    if size % 2:  # for an even size Caffe2's gradient is no derivative in both orders
        check_gradient("LRN", [values(*x.shape)], [0], **args)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("GroupNorm", [floats(2, 4, 3), floats(4), floats(4)], {"group": 3}, "4 channels cannot be put into 3 groups"),
    ("GroupNorm", [floats(2, 4, 3), floats(3), floats(4)], {"group": 2}, r"scale .*4 channels, found \[3\]"),
    ("InstanceNorm", [floats(2, 4, 3), floats(4), floats(5)], {}, r"bias .*4 channels, found \[5\]"),
    ("InstanceNorm", [floats(2, 4, 3), floats(4), floats(4)], {"epsilon": -1.0}, "epsilon .*must be >= 0, found -1"),
    ("InstanceNorm", [floats(2, 4, 3), floats(4), floats(4)], {"order": "CNHW"}, "NCHW or NHWC, found 'CNHW'"),
    ("LayerNorm", [floats(2, 4)], {"axis": 2}, "axis 2"),
    ("LayerNorm", [floats(2, 4)], {"elementwise_affine": 1}, "needs the inputs gamma and beta"),
    ("LayerNorm", [floats(2, 4), floats(3), floats(4)], {"elementwise_affine": 1}, r"gamma .*4 columns, found \[3\]"),
    ("RMSNorm", [floats(2, 4), floats(4), floats(3)], {}, r"beta .*4 columns, found \[3\]"),
    ("Normalize", [floats(2, 4)], {"axis": 2}, "axis 2"),
    ("NormalizeL1", [floats(2, 4)], {"axis": -3}, "axis -3"),
    ("LRN", [floats(2, 4, 3)], {"size": 3}, r"4 dimensions .*found the shape \[2, 4, 3\]"),
    ("LRN", [floats(2, 4, 3, 3)], {"size": 0}, "size must be above 0, found 0"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=3 if kind == "LayerNorm" else 2 if kind == "RMSNorm" else 1)
