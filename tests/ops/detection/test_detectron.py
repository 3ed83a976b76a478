"""Detectron's losses, samples and pools."""

import math

import numpy as np
import pytest
from derivatives import check, values
from running import check_places, refused, run

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype("f")


def smooth(d, beta):
    return np.where(abs(d) < beta, d * d / (2 * beta), abs(d) - beta / 2)


def test_smooth_l1():
    Y_hat, Y, inner, outer = floats(4, 3), floats(4, 3), floats(4, 3), floats(4, 3)
    (loss,) = run("SmoothL1Loss", [Y_hat, Y, inner, outer], {"beta": 0.5, "scale": 2.0})
    assert loss.shape == ()
    np.testing.assert_allclose(loss, 2 / 4 * (outer * smooth(inner * (Y_hat - Y), 0.5)).sum(), rtol=1e-5)
    check(
        "SmoothL1Loss", [values(4, 3), values(4, 3) + 0.4, values(4, 3) + 2, values(4, 3) + 3], [0], beta=0.5, scale=2.0
    )


PLACES = np.array([[0, 4, 1, 2], [1, 0, 0, 3]], "f")


def test_smooth_l1_at_chosen_places():
    Y_hat, Y, S = floats(2, 8, 2, 4), floats(2, 4), np.array([3], "f")
    picked = np.stack([Y_hat[int(n), int(c) : int(c) + 4, int(y), int(x)] for n, c, y, x in PLACES])
    (loss,) = run("SelectSmoothL1Loss", [Y_hat, Y, PLACES, S], {"beta": 0.5, "scale": 2.0})
    np.testing.assert_allclose(loss, 2 / 3 * smooth(picked - Y, 0.5).sum(), rtol=1e-5)
    assert run("SelectSmoothL1Loss", [Y_hat, Y[:0], PLACES[:0], S])[0] == 0
    check(
        "SelectSmoothL1Loss",
        [values(2, 8, 2, 4), values(2, 4) * 3, PLACES.astype(float), S.astype(float)],
        [0],
        beta=0.3,
    )


@pytest.mark.parametrize("normalize", [0, 1])
def test_sigmoid_cross_entropy(normalize):
    X, T = floats(4, 3), RNG.integers(-1, 2, (4, 3)).astype("int32")
    p, counted = 1 / (1 + np.exp(-X.astype(float))), T >= 0
    each = -(T * np.log(p) + (1 - T) * np.log(1 - p))[counted].sum()
    (loss,) = run("SigmoidCrossEntropyLoss", [X, T], {"normalize": normalize, "scale": 2.0})
    np.testing.assert_allclose(loss, 2 * each / (counted.sum() if normalize else 4), rtol=1e-4)
    np.testing.assert_array_equal(
        run("SigmoidCrossEntropyLoss", [X, T.reshape(12)], {"normalize": normalize, "scale": 2.0})[0], loss
    )
    check("SigmoidCrossEntropyLoss", [values(4, 3), T], [0], normalize=normalize, scale=2.0)


LABELS = np.array([[0, 2, -1, 1], [1, 0, 3, 0]], "int32").reshape(2, 1, 2, 2)
FOREGROUND = np.array([3], "f")


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_focal_loss_of_sigmoids(gamma):
    X = floats(2, 3, 2, 2)
    p = 1 / (1 + np.exp(-X.astype(float)))
    want = 0.0
    for n, c, y, x in np.ndindex(X.shape):
        label, q = LABELS[n, 0, y, x], p[n, c, y, x]
        if label == c + 1:
            want -= 0.25 * (1 - q) ** gamma * math.log(q)
        elif label >= 0:
            want -= 0.75 * q**gamma * math.log(1 - q)
    args = {"num_classes": 3, "gamma": gamma}
    np.testing.assert_allclose(run("SigmoidFocalLoss", [X, LABELS, FOREGROUND], args)[0], want / 3, rtol=1e-4)
    check("SigmoidFocalLoss", [values(2, 3, 2, 2), LABELS, FOREGROUND.astype(float)], [0], tolerance=1e-4, **args)


@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_focal_loss_of_softmaxes(gamma):
    X = floats(2, 4, 2, 2)
    want_P = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    want = 0.0
    for n, y, x in np.ndindex(2, 2, 2):
        label = LABELS[n, 0, y, x]
        if label >= 0:
            q = want_P[n, label, y, x]
            want -= (0.25 if label else 0.75) * (1 - q) ** gamma * math.log(q)
    args = {"num_classes": 4, "gamma": gamma}
    loss, P = run("SoftmaxFocalLoss", [X, LABELS, FOREGROUND], args, outputs=2)
    np.testing.assert_allclose(P, want_P, rtol=1e-5)
    np.testing.assert_allclose(loss, want / 3, rtol=1e-4)
    check(
        "SoftmaxFocalLoss",
        [values(2, 4, 2, 2), LABELS, FOREGROUND.astype(float)],
        [0],
        outputs=2,
        tolerance=1e-4,
        **args,
    )


def test_softmax_over_groups_of_channels():
    X = floats(2, 6, 2, 2)
    (P,) = run("GroupSpatialSoftmax", [X], {"num_classes": 3})
    np.testing.assert_allclose(P.reshape(2, 2, 3, 2, 2).sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_allclose(P[:, :3], np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(axis=1, keepdims=True), rtol=1e-5)
    check("GroupSpatialSoftmax", [values(2, 6, 2, 2)], [0], num_classes=3)


def test_samples_and_parts():
    X, L = floats(4, 3), np.array([1, -1, 0, 2], "int32")
    np.testing.assert_array_equal(run("SampleAs", [X, L])[0], X[[0, 3]], strict=True)
    check("SampleAs", [values(4, 3), L], [0])
    A, B = floats(2, 3, 5, 6), floats(2, 1, 3, 4)
    np.testing.assert_array_equal(run("SpatialNarrowAs", [A, B])[0], A[..., :3, :4], strict=True)
    np.testing.assert_array_equal(run("SpatialNarrowAs", [A[0], B])[0], A[0, :, :3, :4])
    check("SpatialNarrowAs", [values(2, 3, 5, 6), B], [0])


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 3, 4)])
def test_upsampling(shape, scale):
    X = floats(*shape)
    (Y,) = run("UpsampleNearest", [X], {"scale": scale})
    np.testing.assert_array_equal(Y, X.repeat(scale, -1).repeat(scale, -2), strict=True)
    check("UpsampleNearest", [values(*shape)], [0], scale=scale)


PS = {"group_size": 2, "output_dim": 3, "spatial_scale": 1.0}
ROIS = np.array([[0, 0, 0, 5, 3], [1, 1, 1, 4, 4], [1, 9, 9, 12, 12]], "f")


def test_position_sensitive_pools():
    X = floats(2, 12, 5, 6)
    Y, mapping = run("PSRoIPool", [X, ROIS], PS, outputs=2)
    np.testing.assert_array_equal(mapping[0], np.arange(12).reshape(3, 2, 2))
    np.testing.assert_allclose(Y[0, 1, 0, 1], X[0, 5, 0:2, 3:6].mean(), rtol=1e-5)
    np.testing.assert_allclose(Y[1, 2, 1, 0], X[1, 10, 3:5, 1:3].mean(), rtol=1e-5)
    assert (Y[2] == 0).all()  # beyond the image
    check("PSRoIPool", [values(2, 12, 5, 6), ROIS.astype(float)], [0], outputs=2, **PS)


def test_largest_values_and_their_gradient():
    X = RNG.permutation(360).reshape(2, 6, 5, 6).astype("f")
    args = {"pooled_h": 2, "pooled_w": 2}
    Y, at = run("RoIPoolF", [X, ROIS], args, outputs=2)
    for have, want in zip((Y, at), run("RoIPool", [X, ROIS], args, outputs=2)):
        np.testing.assert_array_equal(have, want, strict=True)
    dY = floats(*Y.shape)
    (dX,) = run("RoIPoolFGradient", [X, ROIS, at, dY], args)
    np.testing.assert_allclose((dX * X).sum(), (dY * Y).sum(), rtol=1e-4)


def test_affine():
    X, scale, bias = floats(2, 3, 4), floats(3), floats(3)
    (Y,) = run("AffineNd", [X, scale, bias])
    np.testing.assert_allclose(Y, X * scale[:, None] + bias[:, None], rtol=1e-5, atol=1e-6)
    check_places("AffineNd", [X, scale, bias])
    check_places("AffineNdGradient", [scale, X])
    check("AffineNd", [values(2, 3, 4), values(3), values(3)], [0])


X4, L2 = floats(2, 8, 2, 4), np.zeros((2, 1, 2, 4), "int32")


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        (r"must have the shape \[2, 4\], got \[4\]", "SmoothL1Loss", [PLACES, PLACES, PLACES, PLACES[0]], {}),
        (
            "the row of a place is 7; it must be from 0 to 1",
            "SelectSmoothL1Loss",
            [X4, PLACES, PLACES + np.array([0, 0, 6, 0], "f"), FOREGROUND],
            {},
        ),
        (
            "the first channel of a place is -1; it must be from 0 to 4",
            "SelectSmoothL1Loss",
            [X4, PLACES, PLACES - np.array([0, 5, 0, 0], "f") * [[1], [0]], FOREGROUND],
            {},
        ),
        (r"logits \[2, 4\] and targets \[2, 1, 2, 4\]", "SigmoidCrossEntropyLoss", [PLACES, L2], {}),
        (
            r"must be \[N, A \* 3, H, W\], got shape \[2, 8, 2, 4\]",
            "SigmoidFocalLoss",
            [X4, L2, FOREGROUND],
            {"num_classes": 3},
        ),
        (r"labels must be \[2, 2, 2, 4\]", "SoftmaxFocalLoss", [X4, L2, FOREGROUND], {"num_classes": 4}),
        ("a label is 8; it must be from 0 to 7", "SoftmaxFocalLoss", [X4, L2 + 8, FOREGROUND], {"num_classes": 8}),
        (r"must be \[N, A \* 3, H, W\]", "GroupSpatialSoftmax", [X4], {"num_classes": 3}),
        (r"each of 2 rows, got shape \[2, 1, 2, 4\]", "SampleAs", [PLACES, L2], {}),
        (
            r"must have its shape, \[1, 4\]; found \[2, 4\]",
            "SampleAsGradient",
            [PLACES, np.array([1, 0], "int32"), PLACES],
            {},
        ),
        (
            r"A \[2, 8, 2, 4\] must be at least as high and wide as B \[2, 8, 4, 2\]",
            "SpatialNarrowAs",
            [X4, X4.transpose(0, 1, 3, 2).copy()],
            {},
        ),
        ("scale must be positive, got 0", "UpsampleNearest", [X4], {"scale": 0}),
        (r"must have its shape, \[2, 8, 4, 8\]; found \[2, 8, 2, 4\]", "UpsampleNearestGradient", [X4, X4], {}),
        ("3 . 2², got 8", "PSRoIPool", [X4, ROIS], PS),
        (r"each channel of \[2, 8, 2, 4\], got shape \[1\]", "AffineNd", [X4, FOREGROUND, FOREGROUND], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    inputs = [x.astype("f") if x.dtype == "float64" else x for x in inputs]
    refused(kind, inputs, words, args, outputs=2 if kind in ("SoftmaxFocalLoss", "PSRoIPool") else 1)
