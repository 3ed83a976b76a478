"""Int8 operators, element by element or by shape, against the numbers that the bytes stand for."""

import numpy as np
import pytest
from running import definition, refused, run
from session import Int8Session

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.proto import caffe2_pb2

RNG = np.random.default_rng(0)
DATA = RNG.integers(0, 256, (2, 3, 4), dtype=np.uint8)
SCALE = {"Y_scale": 0.05, "Y_zero_point": 120}  # those of x, where they must stay


@pytest.fixture
def do():
    session = Int8Session()
    session.quantized(x=(DATA, 0.05, 120), other=(DATA[::-1].copy(), 0.03, 100))
    return session


def test_numbers_become_the_nearest_bytes_and_come_back():
    X = np.array([-3, -0.26, 0, 0.24, 0.25, 1.3, 99], "f")
    do = Int8Session(f=X)
    do("Int8Quantize", "f", "q", Y_scale=0.5, Y_zero_point=4)
    assert do.bytes("q").tolist() == np.clip(np.rint(X / 0.5) + 4, 0, 255).tolist()
    np.testing.assert_array_equal(do("Int8Dequantize", "q", "y")[0], (do.bytes("q").astype("f") - 4) / 2)
    do.feed(f=np.array([np.nan, np.inf, -np.inf], "f"))
    do("Int8Quantize", "f", "q")
    assert do.bytes("q").tolist() == [0, 0, 0]  # no int32 can hold them


@pytest.mark.parametrize("kind", ["Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu"])
def test_sums(do, kind):
    do(kind, "x other", "y", Y_scale=0.1, Y_zero_point=90)
    want = np.clip(do.real("x") + do.real("other"), 0 if "Relu" in kind else -9, 16.5)
    np.testing.assert_allclose(do.real("y"), want, atol=0.0501)


def test_relu(do):
    do("Int8Relu", "x", "y", **SCALE)
    np.testing.assert_array_equal(do.real("y"), np.maximum(do.real("x"), 0))
    do("Int8LeakyRelu", "x", "y", alpha=0.1, Y_scale=0.04, Y_zero_point=50)
    x = do.real("x")
    np.testing.assert_allclose(do.real("y"), np.clip(np.where(x < 0, 0.1 * x, x), -2, 8.2), atol=0.0201)


def test_sigmoid_and_softmax(do):
    unit = {"Y_scale": 1 / 256, "Y_zero_point": 0}
    do("Int8Sigmoid", "x", "y", **unit)
    x = do.real("x")
    np.testing.assert_allclose(do.real("y"), np.minimum(1 / (1 + np.exp(-x)), 255 / 256), atol=0.501 / 256)
    do("Int8Softmax", "x", "y", **unit)
    e = np.exp(x - x.max((1, 2), keepdims=True))
    np.testing.assert_allclose(do.real("y"), e / e.sum((1, 2), keepdims=True), atol=0.51 / 256)


@pytest.mark.parametrize(
    ("kind", "args", "want"),
    [
        ("Int8Flatten", {"axis": 2}, DATA.reshape(6, 4)),
        ("Int8Transpose", {"axes": [2, 0, 1]}, DATA.transpose(2, 0, 1)),
        ("Int8Transpose", {}, DATA.transpose()),
        ("Int8Slice", {"starts": [0, 1, 0], "ends": [-1, 3, -1]}, DATA[:, 1:3]),
        ("Int8Slice", {"dim": 1, "start_idx": 1, "end_idx": -1}, DATA[:, 1:]),
        ("Int8Slice", {"dim": 1, "start_idx": 2, "starts": [0, 1], "ends": [-1, 2]}, DATA[:, 1:2]),  # no end_idx
    ],
)
def test_bytes_in_another_order(do, kind, args, want):
    do(kind, "x", "y", **args, **SCALE)
    np.testing.assert_array_equal(do.bytes("y"), want, strict=True)


def test_another_shape_and_back(do):
    do("Int8Reshape", "x", "y old", shape=[0, -1], **SCALE)
    np.testing.assert_array_equal(do.bytes("y"), DATA.reshape(2, 12))
    assert do["old"].tolist() == [2, 3, 4]
    do("Int8Reshape", "y old", "z gone", **SCALE)
    np.testing.assert_array_equal(do.bytes("z"), DATA)


def test_behind_each_other(do):
    do("Int8Concat", "x x", "y", axis=1, **SCALE)
    np.testing.assert_array_equal(do.bytes("y"), np.concatenate([DATA, DATA], 1))


def test_nearest_pixels():
    do = Int8Session()
    image = RNG.integers(0, 256, (1, 4, 6, 2), dtype=np.uint8)
    do.quantized(x=(image, 0.05, 120))
    do("Int8ResizeNearest", "x", "y", height_scale=2.0, width_scale=0.5, **SCALE)
    np.testing.assert_array_equal(do.bytes("y"), image.repeat(2, 1)[:, :, ::2])


def test_a_net_in_place_gives_the_same_again():
    ops = [
        definition("Int8Quantize", ["f"], ["q"], {"Y_scale": 0.1, "Y_zero_point": 10}),
        definition("Int8Relu", ["q"], ["q"], {"Y_scale": 0.1, "Y_zero_point": 10}),
        definition("Int8Dequantize", ["q"], ["y"]),
    ]
    do = Int8Session(f=np.array([-1, 0, 2], "f"))
    net = runner.create_net(do.workspace, caffe2_pb2.NetDef(name="net", op=ops))
    for factor in (1, 1, 3):
        do.feed(f=np.array([-1, 0, 2 * factor], "f"))
        net.run()
        np.testing.assert_allclose(do["y"], [0, 0, 2 * factor], rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args"),
    [
        ("must be those of the input, 0.05 and 120; got 1 and 0", "Int8Relu", "x", {}),
        ("must be those of the input", "Int8Flatten", "x", {}),
        (r"one shape, got \[2, 3, 4\] and \[3, 4\]", "Int8Add", "x small", {}),
        ("it adds two tensors, got 3", "Int8Sum", "x x x", {}),
        ("scale of the input over Y_scale is 5000; it must be from", "Int8Add", "x x", {"Y_scale": 1e-5}),
        (r"alpha.* < 1", "Int8LeakyRelu", "x", {"alpha": 1.0}),
        ("Y_scale must be 1/256 and Y_zero_point 0, got 1 and 0", "Int8Sigmoid", "x", {}),
        ("axis 3 must be from 0 to 2", "Int8Concat", "x x", {"axis": 3, **SCALE}),
        ("axis 4 must be from 0 to 3", "Int8Flatten", "x", {"axis": 4, **SCALE}),
        ("is no permutation of the 3 dimensions", "Int8Transpose", "x", {"axes": [0, 0, 1], **SCALE}),
        (r"\(N, H, W, C\), got the shape \[2, 3, 4\]", "Int8ChannelShuffle", "x", {"group": 2, "kernel": 1, **SCALE}),
        (r"X must be \[N, H, W, C\], got the shape \[2, 3, 4\]", "Int8ResizeNearest", "x", SCALE),
        ("input 0 must be an Int8 tensor, and it is a tensor of float64; Int8Quantize makes one", "Int8Relu", "f", {}),
        ("input 0 must be an Int8 tensor of uint8, and it holds int32", "Int8Relu", "wide", {}),
    ],
)
def test_refusals(do, words, kind, inputs, args):
    do.quantized(small=(DATA[0], 0.05, 120), wide=(np.arange(3, dtype="int32"), 0.05, 0))
    do.feed(f=np.zeros(3))
    with pytest.raises(OperatorError, match=words):
        do(kind, inputs, "y", **args)


def test_fills_of_another_size():
    refused("Int8GivenTensorFill", [], r"3 values are given for the shape \[4\]", {"values": b"abc", "shape": [4]})
    assert run("Int8GivenTensorFill", [], {"values": b"abc", "shape": [2]})[0][0].tolist() == [97, 98]
    assert run("Int8GivenIntTensorFill", [], {"values": [7, -7], "shape": [2]})[0][0].tolist() == [7, -7]
