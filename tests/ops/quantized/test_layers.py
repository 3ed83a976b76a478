"""Int8 layers, against the plain ones on the numbers that the bytes stand for."""

import numpy as np
import pytest
from running import run
from session import Int8Session

from caffe2lite.engine.errors import OperatorError

RNG = np.random.default_rng(0)


def some(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


IMAGE = some(2, 6, 5, 4)


@pytest.fixture
def do():
    session = Int8Session()
    session.quantized(x=(IMAGE, 0.03, 120))
    return session


def like_plain(do, kind, args, step, low, high, *more):
    """Compare with the plain operator, whose result is cut to what the bytes can tell; to half a step."""
    (want,) = run(kind, [do.real("x").astype("f"), *more], args)
    np.testing.assert_allclose(do.real("y"), np.clip(want, low, high), atol=step * 0.502)


WINDOW = {"kernel_h": 3, "kernel_w": 2, "stride": 2, "order": "NHWC"}


@pytest.mark.parametrize("relu", ["", "Relu"])
def test_pools(do, relu):
    do("Int8AveragePool" + relu, "x", "y", Y_scale=0.02, Y_zero_point=100, **WINDOW)
    like_plain(do, "AveragePool", WINDOW, 0.02, 0 if relu else -2, 3.1)
    do("Int8MaxPool" + relu, "x", "y", Y_scale=0.03, Y_zero_point=120, **WINDOW)
    like_plain(do, "MaxPool", WINDOW, 1e-3, 0 if relu else -9, 9)


@pytest.mark.parametrize("relu", ["", "Relu"])
def test_a_convolution(do, relu):
    w, b = some(6, 3, 2, 2), np.arange(6, dtype="int32")
    do.quantized(w=(w, 0.01, 130), b=(b, 0.0003, 0))
    args = {"kernel_h": 3, "kernel_w": 2, "pad": 1, "stride": 2, "group": 2, "order": "NHWC"}
    do("Int8Conv" + relu, "x w b", "y", Y_scale=0.2, Y_zero_point=128, **args)
    real = do.real("w").astype("f"), do.real("b").astype("f")
    like_plain(do, "Conv", args, 0.2, 0 if relu else -25.6, 25.4, *real)


def test_a_transposed_convolution(do):
    w, b = some(4, 3, 2, 3), np.arange(3, dtype="int32")
    do.quantized(w=(w, 0.01, 130), b=(b, 0.0003, 0))
    args = {"kernel_h": 3, "kernel_w": 2, "stride": 2, "pad": 1, "order": "NHWC"}
    do("Int8ConvTranspose", "x w b", "y", Y_scale=0.2, Y_zero_point=128, **args)
    real = do.real("w").astype("f"), do.real("b").astype("f")
    like_plain(do, "ConvTranspose", args, 0.2, -25.6, 25.4, *real)


@pytest.mark.parametrize("relu", ["", "Relu"])
def test_a_fully_connected_layer(do, relu):
    do.quantized(w=(some(7, 120), 0.01, 130), b=(np.arange(7, dtype="int32") * 100, 0.0003, 0))
    do("Int8FC" + relu, "x w b", "y", Y_scale=0.2, Y_zero_point=128)
    real = do.real("w").astype("f"), do.real("b").astype("f")
    like_plain(do, "FC", {}, 0.2, 0 if relu else -25.6, 25.4, *real)


def test_regions(do):
    rois = np.array([[0, 0, 0, 4, 5], [1, 1, 1, 3, 4]], "f")
    args = {"pooled_h": 2, "pooled_w": 2, "sampling_ratio": 2, "order": "NHWC"}
    do.feed(rois=rois)
    do("Int8RoIAlign", "x rois", "y", Y_scale=0.05, Y_zero_point=110, **args)
    (want,) = run("RoIAlign", [do.real("x").astype("f"), rois], args)
    np.testing.assert_allclose(do.real("y"), want, atol=0.05)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        (r"Int8 images are \[N, H, W, C\], order NHWC", "Int8MaxPool", "x", {"kernel": 2}),
        ("Y_scale and Y_zero_point must be those of the input", "Int8MaxPool", "x", WINDOW),
        ("need a bias: give a third input", "Int8Conv", "x w", {"kernel": 3, "order": "NHWC"}),
        (r"for 4 channels in 1 groups it must be \[M, 2, 2, 4\]", "Int8Conv", "x w b", {"kernel": 2, "order": "NHWC"}),
        (r"rows of 120 values, and W \[5, 3, 3, 4\] takes 36", "Int8FC", "x w b", {}),
        ("the bias must have 5 values, its shape is", "Int8Conv", "x w short", {"kernel": 3, "order": "NHWC"}),
        (
            "that must be below 1: use a larger Y_scale",
            "Int8Conv",
            "x w b",
            {"kernel": 3, "order": "NHWC", "Y_scale": 1e-6},
        ),
        ("input 2 must be an Int8 tensor of int32", "Int8Conv", "x w x", {"kernel": 3, "order": "NHWC"}),
        ("Int8 images have the order NHWC, got NCHW", "Int8RoIAlign", "x rois", {}),
        ("the image of a roi is 7; it must be from 0 to 1", "Int8RoIAlign", "x rois", {"order": "NHWC"}),
    ],
)
def test_refusals(do, words, kind, inputs, args):
    do.quantized(
        w=(some(5, 3, 3, 4), 0.01, 130), b=(np.zeros(5, "int32"), 0.0003, 0), short=(np.zeros(4, "int32"), 0.0003, 0)
    )
    do.feed(rois=np.array([[7, 0, 0, 4, 4]], "f"))
    with pytest.raises(OperatorError, match=words):
        do(kind, inputs, "y", **args)
