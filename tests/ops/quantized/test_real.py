"""Int8 operators that compute with real numbers."""

import numpy as np
import pytest
from session import Int8Session

from caffe2lite.engine.errors import OperatorError

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (2, 3, 4), dtype=np.uint8)
RANGE = {"Y_scale": 0.2, "Y_zero_point": 100}


def near(have, want, scale=0.2, zero_point=100):
    np.testing.assert_allclose(have, np.clip(want, -zero_point * scale, (255 - zero_point) * scale), atol=scale * 0.501)


@pytest.fixture
def do():
    session = Int8Session()
    session.quantized(x=(X, 0.03, 120), other=(X[::-1].copy(), 0.02, 90))
    return session


def test_products_and_rows(do):
    do("Int8Mul", "x other", "y", **RANGE)
    near(do.real("y"), do.real("x") * do.real("other"))
    w, b = RNG.standard_normal((2, 3, 4)).astype("f")
    do.feed(w=w, b=b)
    do("Int8ElementwiseLinear", "x w b", "y", **RANGE)
    near(do.real("y"), do.real("x") * w + b)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1)])
def test_products_of_matrices(trans_a, trans_b):
    do = Int8Session()
    shapes = (4, 3) if trans_a else (3, 4), (5, 4) if trans_b else (4, 5)
    a, b = (RNG.integers(0, 256, (2, *s), dtype=np.uint8) for s in shapes)
    do.quantized(a=(a, 0.03, 120), b=(b, 0.03, 130))
    do("Int8BatchMatMul", "a b", "y", trans_a=trans_a, trans_b=trans_b, **RANGE)
    turn = lambda m, t: m.swapaxes(1, 2) if t else m
    near(do.real("y"), turn(do.real("a"), trans_a) @ turn(do.real("b"), trans_b))


def test_rows_by_index(do):
    do.feed(i=np.array([[1, 0], [1, 1]]))
    do("Int8Gather", "x i", "y")
    np.testing.assert_array_equal(do.bytes("y"), X[[[1, 0], [1, 1]]])


@pytest.mark.parametrize("relu", ["", "Relu"])
@pytest.mark.parametrize(("order", "axis"), [("NHWC", -1), ("NCHW", 1)])
def test_batch_normalization(do, relu, order, axis):
    scale, bias, mean, var = RNG.random((4, X.shape[axis])).astype("f") + np.float32(0.2)
    do.feed(s=scale, b=bias, m=mean, v=var)
    do("Int8SpatialBN" + relu, "x s b m v", "y", order=order, Y_scale=0.05, Y_zero_point=90)
    wide = lambda p: p if axis == -1 else p[:, None]
    want = (do.real("x") - wide(mean)) / np.sqrt(wide(var) + 1e-5) * wide(scale) + wide(bias)
    if relu:
        near(do.real("y"), np.maximum(want, 0), 0.05 * 165 / 255, 0)
    else:
        near(do.real("y"), want, 0.05, 90)


def test_refusals(do):
    do.quantized(small=(X[0], 0.03, 120))
    do.feed(w=np.ones(3, "f"), i=[2])
    for words, kind, inputs in (
        (r"one shape, got \[2, 3, 4\] and \[3, 4\]", "Int8Mul", "x small"),
        (r"from axis 1 on; found \[3\] and \[3\]", "Int8ElementwiseLinear", "x w w"),
        ("index 2 is outside of the data, which has 2 rows", "Int8Gather", "x i"),
        (r"each of 4 channels, found \[\[3\], \[3\], \[3\], \[3\]\]", "Int8SpatialBN", "x w w w w"),
        ("must be an Int8 tensor, and it is a tensor of float32", "Int8Mul", "x w"),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, "y", **({"order": "NHWC"} if "BN" in kind else {}))
