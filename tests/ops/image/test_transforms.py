"""Images resized, padded, summed up, cut into blocks; channels shuffled."""

import numpy as np
import pytest
from derivatives import check, values
from running import check_places, refused, run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4, 5)).astype("f")
LAST = X.transpose(0, 2, 3, 1).copy()
SCALES = {"height_scale": 1.5, "width_scale": 2.0}


def nearest(size, scale):
    return [min(int(i / scale), size - 1) for i in range(int(size * scale))]


@pytest.mark.parametrize("scales", [(1.5, 2.0), (0.5, 0.4), (1.0, 3.0)])
def test_nearest_pixels(scales):
    args = dict(zip(("height_scale", "width_scale"), scales))
    want = X[:, :, nearest(4, scales[0])][..., nearest(5, scales[1])]
    np.testing.assert_array_equal(run("ResizeNearest", [X], args)[0], want, strict=True)
    np.testing.assert_array_equal(run("ResizeNearest", [X, np.array(scales, "f")])[0], want)
    last = run("ResizeNearest", [LAST], {**args, "order": "NHWC"})[0]
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), want)
    check("ResizeNearest", [values(2, 3, 4, 5)], [0], **args)
    check("ResizeNearest", [values(2, 4, 5, 3)], [0], order="NHWC", **args)


@pytest.mark.parametrize("frames", [1, 2])
def test_nearest_pixels_of_videos(frames):
    video = RNG.standard_normal((1, 2, 2, 3, 4)).astype("f")
    args = {"temporal_scale": float(frames), "height_scale": 2.0, "width_scale": 2.0}
    want = video.repeat(frames, 2).repeat(2, 3).repeat(2, 4)
    np.testing.assert_array_equal(run("ResizeNearest3D", [video], args)[0], want, strict=True)
    check("ResizeNearest3D", [values(1, 2, 2, 3, 4)], [0], **args)


def test_bilinear_interpolation():
    y, x = np.mgrid[:4, :5]
    plane = (2 * x - 3 * y + 1).astype("f")[None, None]  # which it gives back exactly
    (Y,) = run("UpsampleBilinear", [plane], SCALES)
    y, x = np.meshgrid(np.linspace(0, 3, 6), np.linspace(0, 4, 10), indexing="ij")
    np.testing.assert_allclose(Y[0, 0], 2 * x - 3 * y + 1, atol=1e-4)
    np.testing.assert_array_equal(run("UpsampleBilinear", [X], {})[0], X)
    np.testing.assert_array_equal(run("UpsampleBilinear", [plane, np.array([1.5, 2], "f")])[0], Y)
    check("UpsampleBilinear", [values(2, 3, 4, 5)], [0], tolerance=1e-4, **SCALES)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pads", [(1, 2, 3, 0), (0, 0, 0, 0)])
def test_padding(mode, pads):
    top, left, bottom, right = pads
    args = {"mode": mode, "pad_t": top, "pad_l": left, "pad_b": bottom, "pad_r": right}
    widths = ((0, 0), (0, 0), (top, bottom), (left, right))
    more = {"constant_values": 7} if mode == "constant" else {}
    value = {"value": 7.0} if more else {}
    want = np.pad(X, widths, mode=mode, **more)
    np.testing.assert_array_equal(run("PadImage", [X], {**args, **value})[0], want, strict=True)
    last = run("PadImage", [LAST], {**args, **value, "order": "NHWC"})[0]
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), want)
    check("PadImage", [values(2, 3, 4, 5)], [0], **args)


def test_integral():
    (Y,) = run("IntegralImage", [X])
    for i, j in np.ndindex(5, 6):
        np.testing.assert_allclose(Y[..., i, j], X[..., :i, :j].sum((2, 3)), atol=1e-5)
    dY = RNG.standard_normal(Y.shape).astype("f")
    (dX,) = run("IntegralImageGradient", [X, dY])
    for i, j in np.ndindex(4, 5):
        np.testing.assert_allclose(dX[..., i, j], dY[..., : i + 1, : j + 1].sum((2, 3)), atol=1e-5)


@pytest.mark.parametrize(("block", "pad"), [(2, 0), (2, 1), (3, 1), (1, 2)])
def test_blocks_go_to_the_batch_and_come_back(block, pad):
    size = 6 * block - 2 * pad
    images = RNG.standard_normal((2, 3, size, size)).astype("f")
    args = {"block_size": block, "pad": pad}
    (Y,) = run("SpaceToBatch", [images], args)
    padded = np.pad(images, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    for i, j in np.ndindex(block, block):
        part = Y[(i * block + j) * 2 : (i * block + j + 1) * 2]
        np.testing.assert_array_equal(part, padded[:, :, i::block, j::block])
    np.testing.assert_array_equal(run("BatchToSpace", [Y], args)[0], images, strict=True)
    check("SpaceToBatch", [values(*images.shape)], [0], **args)


@pytest.mark.parametrize("group", [1, 2, 3])
def test_shuffled_channels(group):
    images = np.arange(2 * 6 * 2 * 2, dtype="f").reshape(2, 6, 2, 2)
    order = np.arange(6).reshape(group, -1).T.reshape(-1)
    for x, args in ((images, {}), (images.transpose(0, 2, 3, 1).copy(), {"order": "NHWC"})):
        (Y,) = run("ChannelShuffle", [x], {"group": group, **args})
        np.testing.assert_array_equal(Y, x.take(order, -1 if args else 1), strict=True)
        np.testing.assert_array_equal(run("ChannelShuffleGradient", [Y], {"group": group, **args})[0], x, strict=True)


def test_normalized_planes():
    mean, deviation = np.array([[1, 2, 3], [9, 9, 9]], "f"), np.array([[2, 4, 8]], "f")
    want = (X - mean[0, :, None, None]) / deviation[0, :, None, None]
    np.testing.assert_allclose(run("NormalizePlanarYUV", [X, mean, deviation])[0], want, rtol=1e-6)
    check_places("NormalizePlanarYUV", [X, mean, deviation])


@pytest.mark.parametrize(
    ("height", "width", "scales", "regions"),
    [
        (1, 1, 2, [[0, 0, 0, 0]]),  # too small for a second scale
        (1, 2, 2, [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]]),
        (5, 9, 1, [[0, 0, 4, 4], [4, 0, 8, 4]]),  # two grids are as good in single precision: the coarser one
    ],
)
def test_regions_at_sizes_where_caffe2_was_asked(height, width, scales, regions):
    images = np.zeros((2, 1, height, width), "f")
    (Y,) = run("RMACRegions", [images], {"scales": scales, "overlap": 0.4})
    np.testing.assert_array_equal(Y[:, 0], np.repeat([0, 1], len(regions)))
    np.testing.assert_array_equal(Y[:, 1:], regions * 2)


@pytest.mark.parametrize("size", [(20, 30), (31, 17), (16, 16)])
def test_regions_are_squares_within_the_image(size):
    (Y,) = run("RMACRegions", [np.zeros((1, 1, *size), "f")], {"scales": 3})
    x1, y1, x2, y2 = Y[:, 1:].T
    np.testing.assert_array_equal(x2 - x1, y2 - y1)
    assert min(x1.min(), y1.min()) >= 0 and x2.max() < size[1] and y2.max() < size[0]


def test_packed_images_of_style_transfer():
    packed = RNG.integers(0, 256, (1, 2, 3, 4), dtype=np.uint8)
    mean = np.array([10, 20, 30], "f")
    (Y,) = run("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", [packed, mean], {"noise_std": 0.0})
    np.testing.assert_array_equal(Y, (packed[..., :3] - mean).transpose(0, 3, 1, 2))
    (back,) = run("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", [Y, mean])
    np.testing.assert_array_equal(back[..., :3], packed[..., :3])
    assert (back[..., 3] == 255).all()
    (noisy,) = run("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", [packed, mean], {"noise_std": 5.0})
    assert 1 < (noisy - Y).std() < 12


VIDEO = np.zeros((1, 2, 2, 3, 4), "f")
DOUBLE = {"height_scale": 2.0, "width_scale": 2.0}


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        (r"four dimensions, got shape \[3, 4, 5\]", "ResizeNearest", [X[0]], {}),
        ("order must be NCHW or NHWC, got 'NCWH'", "ResizeNearest", [X], {"order": "NCWH"}),
        (r"height_scale.* > 0", "ResizeNearest", [X], {"height_scale": 0.0}),
        (
            "4 pixels times the scale inf are inf; a side must be below",
            "UpsampleBilinear",
            [X],
            {"height_scale": float("inf")},
        ),
        ("scales must be positive, got -1", "ResizeNearest", [X, np.array([1, -1], "f")], {}),
        (r"\[height_scale, width_scale\], got shape \[3\]", "UpsampleBilinear", [X, np.ones(3, "f")], {}),
        (r"the gradient has the shape \[1, 3, 4, 5\], X has \[2, 3, 4, 5\]", "ResizeNearestGradient", [X[:1], X], {}),
        (
            r"the gradient has the shape \[2, 3, 4, 5\]; the result is \[6, 10\]",
            "UpsampleBilinearGradient",
            [X, X],
            SCALES,
        ),
        ("the order NCHW only, found 'NHWC'", "ResizeNearest3D", [VIDEO], {"order": "NHWC", **DOUBLE}),
        ("temporal_scale must be 1 or 2, found 3.0", "ResizeNearest3D", [VIDEO], {"temporal_scale": 3.0, **DOUBLE}),
        ("must be 2, found 1.0 and 2.0", "ResizeNearest3D", [VIDEO], {**DOUBLE, "height_scale": 1.0}),
        (r"got shape \[2, 3, 4, 5\]", "ResizeNearest3D", [X], DOUBLE),
        ("no padding mode 'wrap'; there are constant", "PadImage", [X], {"mode": "wrap"}),
        ("4 and 4 pixels cannot be reflected from a side of 4", "PadImage", [X], {"mode": "reflect", "pad": 4}),
        ("no larger than its padding of 4 rows and 4 columns", "PadImageGradient", [X], {"pad": 2}),
        (r"one row and column more, found \[2, 3, 4, 5\]", "IntegralImageGradient", [X, X], {}),
        ("the padded width 5 is no multiple of block_size 2", "SpaceToBatch", [X], {}),
        (r"block_size.* > 0", "SpaceToBatch", [X], {"block_size": 0}),
        ("the order must be NCHW, found 'NHWC'", "SpaceToBatch", [X], {"order": "NHWC"}),
        ("a batch of 2 cannot be divided among blocks of 2 by 2", "BatchToSpace", [X], {}),
        ("images of 8 by 10 are smaller than the border", "BatchToSpace", [X.repeat(2, 0)], {"pad": 4}),
        ("3 channels cannot be divided among 2 groups", "ChannelShuffle", [X], {"group": 2}),
        (r"each of 3 channels, got shape \[2, 2\]", "NormalizePlanarYUV", [X, X[0, 0, :2, :3], X[0, 0, :2, :2]], {}),
        (r"got \[2, 3, 4, 5\] and \[5\]", "BRGNCHWCToPackedInt8BGRAStylizerDeprocess", [X, X[0, 0, 0]], {}),
    ],
)
def test_refusals(words, kind, inputs, args):
    refused(kind, inputs, words, args)
