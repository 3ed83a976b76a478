"""Pools over regions, against loops, and their gradients against differences."""

import math

import numpy as np
import pytest
from derivatives import check, values
from running import refused, run

from caffe2lite.ops.kit import registry

X = np.random.default_rng(0).standard_normal((2, 3, 6, 8)).astype("f")
ROIS = np.array([[0, 0, 0, 7, 5], [1, 1.3, 0.7, 5.2, 4.9], [1, 3, 2, 3, 2], [0, -4, -4, 20, 20]], "f")
SIZE = {"pooled_h": 2, "pooled_w": 3}


def bilinear(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = min(int(y), max(height - 2, 0)), min(int(x), max(width - 2, 0))
    fy, fx = y - y0, x - x0
    return (1 - fy) * ((1 - fx) * plane[y0, x0] + fx * plane[y0, x0 + 1]) + fy * (
        (1 - fx) * plane[y0 + 1, x0] + fx * plane[y0 + 1, x0 + 1]
    )


def aligned_pool(roi, scale, ratio, aligned):
    image, shift = int(roi[0]), 0.5 if aligned else 0
    x1, y1, x2, y2 = (float(v) * scale - shift for v in roi[1:])
    w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
    Y = np.zeros((3, 2, 3))
    ny, nx = ratio if ratio > 0 else math.ceil(h / 2), ratio if ratio > 0 else math.ceil(w / 3)
    for c, i, j in np.ndindex(*Y.shape):
        at = [
            (y1 + (i + (a + 0.5) / ny) * h / 2, x1 + (j + (b + 0.5) / nx) * w / 3) for a in range(ny) for b in range(nx)
        ]
        Y[c, i, j] = np.mean([bilinear(X[image, c], *p) for p in at]) if at else 0
    return Y


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("ratio", [-1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_align(scale, ratio, aligned):
    args = {**SIZE, "spatial_scale": scale, "sampling_ratio": ratio, "aligned": aligned}
    want = np.stack([aligned_pool(r, scale, ratio, aligned) for r in ROIS])
    np.testing.assert_allclose(run("RoIAlign", [X, ROIS], args)[0], want, atol=1e-5)
    last = run("RoIAlign", [X.transpose(0, 2, 3, 1), ROIS], {**args, "order": "NHWC"})[0]
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), want, atol=1e-5)
    check("RoIAlign", [values(2, 3, 6, 8), ROIS.astype(float)], [0], tolerance=1e-4, **args)


def test_rois_without_an_image_are_of_the_first():
    np.testing.assert_array_equal(
        run("RoIAlign", [X[:1], ROIS[:1, 1:]], SIZE)[0], run("RoIAlign", [X[:1], ROIS[:1]], SIZE)[0]
    )
    assert run("RoIAlign", [X, ROIS[:0]], SIZE)[0].shape == (0, 3, 2, 3)
    assert run("RoIAlign", [X, ROIS], {"pooled_h": 0, "pooled_w": 2})[0].shape == (4, 3, 0, 2)


def test_a_roi_turned_by_nothing_is_aligned():
    box = np.array([[1, 3.5, 2.5, 5, 3, 0]], "f")  # image, middle, size, degrees
    straight = np.array([[1, 1, 1, 6, 4]], "f")
    args = {**SIZE, "sampling_ratio": 2}
    np.testing.assert_allclose(
        run("RoIAlignRotated", [X, box], args)[0], run("RoIAlign", [X, straight], args)[0], atol=1e-5
    )
    half = np.array([[1, 3.5, 2.5, 5, 3, 180]], "f")
    turned = run("RoIAlignRotated", [X, half], args)[0]
    np.testing.assert_allclose(turned, run("RoIAlign", [X, straight], args)[0][..., ::-1, ::-1], atol=1e-5)


@pytest.mark.parametrize("angle", [0.0, 30.0, -75.0])
def test_gradient_of_rotated_pools(angle):
    rois = np.array([[0, 3, 2, 4, 3, angle], [1, 5, 4, 6, 2, -angle]])
    check("RoIAlignRotated", [values(2, 2, 6, 8), rois], [0], tolerance=1e-4, **SIZE, sampling_ratio=2)


def test_roi_pool():
    Y, at = run("RoIPool", [X, ROIS], SIZE, outputs=2)
    for r, roi in enumerate(ROIS):
        x1, y1, x2, y2 = (math.floor(v + 0.5) for v in roi[1:])
        h, w = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for c, i, j in np.ndindex(3, 2, 3):
            rows = slice(max(math.floor(i * h / 2) + y1, 0), max(math.ceil((i + 1) * h / 2) + y1, 0))
            columns = slice(max(math.floor(j * w / 3) + x1, 0), max(math.ceil((j + 1) * w / 3) + x1, 0))
            part = X[int(roi[0]), c, rows, columns]
            assert Y[r, c, i, j] == (part.max() if part.size else 0)
            assert (
                at[r, c, i, j] == -1 if not part.size else X[int(roi[0]), c].reshape(-1)[at[r, c, i, j]] == part.max()
            )
    np.testing.assert_array_equal(run("RoIPool", [X, ROIS], {**SIZE, "is_test": 1})[0], Y)
    gradient = registry.find("RoIPoolGradient").kernels["", None]  # which on the CPU Caffe2 has not
    dY = np.random.default_rng(1).standard_normal(Y.shape).astype("f")
    dX = gradient(np, X, ROIS, at, dY, **SIZE, out=lambda shape, dtype: np.empty(shape, dtype))
    np.testing.assert_allclose((dX * X).sum(), (dY * Y).sum(), rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        (r"the image of a roi is 2; it must be from 0 to 1", "RoIAlign", [X, ROIS[:1] + [[2, 0, 0, 0, 0]]], SIZE, 1),
        (r"rois must be \[R, 4 or 5\], got shape \[4, 3\]", "RoIAlign", [X, ROIS[:, :3]], SIZE, 1),
        (r"four dimensions, got shape \[3, 6, 8\]", "RoIAlign", [X[0], ROIS], SIZE, 1),
        ("order must be NCHW or NHWC, got 'NCWH'", "RoIAlign", [X, ROIS], {"order": "NCWH"}, 1),
        (r"pooled_h.* >= 0", "RoIAlign", [X, ROIS], {"pooled_h": -1}, 1),
        (
            r"roi 1 is \[1.0, nan, .*must be below 2\^31",
            "RoIAlign",
            [X, ROIS + [[0] * 5, [0, np.nan, 0, 0, 0]] * 2],
            SIZE,
            1,
        ),
        ("times spatial_scale=inf, must be below", "RoIPool", [X, ROIS], {"spatial_scale": float("inf")}, 2),
        ("a negative size", "RoIAlign", [X, ROIS[:1, [0, 3, 4, 1, 2]]], {"aligned": 1}, 1),
        (
            r"the shape \[1, 3, 1, 1\]; expected \[4, 3, 2, 3\]",
            "RoIAlignGradient",
            [X, ROIS, X[:1, :, :1, :1]],
            SIZE,
            1,
        ),
        (
            r"the shape \[1, 3, 1, 1\]; expected \[1, 3, 2, 3\]",
            "RoIAlignRotatedGradient",
            [X, np.zeros((1, 6), "f"), X[:1, :, :1, :1]],
            SIZE,
            1,
        ),
        (r"rois must be \[R, 5 or 6\]", "RoIAlignRotated", [X, ROIS[:, :4]], SIZE, 1),
        (r"takes the order NCHW only, found 'NHWC'", "RoIPool", [X, ROIS], {"order": "NHWC"}, 2),
        ("is_test=0 there are two outputs, 1 are named", "RoIPool", [X, ROIS], {}, 1),
        (r"spatial_scale.* > 0", "RoIPool", [X, ROIS], {"spatial_scale": 0.0}, 2),
        (
            "no RoIPoolGradient for the CPU",
            "RoIPoolGradient",
            [X, ROIS, np.zeros((4, 3, 1, 1), "int32"), np.zeros((4, 3, 1, 1), "f")],
            {},
            1,
        ),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    inputs = [x.astype("f") if x.dtype == "float64" else x for x in inputs]
    refused(kind, inputs, words, args, outputs)
