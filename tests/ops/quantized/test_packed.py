"""Weights packed ahead, and quantization by the range of the data."""

import numpy as np
import pytest
from session import Int8Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.quantized import packed


def test_what_caffe2_packs_and_computes():
    rng = np.random.RandomState(0)
    do = Int8Session(
        **{name: rng.randn(*shape).astype("f") for name, shape in (("f", (3, 8)), ("w", (5, 8)), ("b", (5,)))}
    )
    do("Int8Quantize", "f", "q", Y_scale=0.05, Y_zero_point=128)
    do("Int8FCPackWeight", "w b", "wp bp", in_scale=0.05)
    assert do.bytes("bp").tolist() == [213, -482, -1956, 555, -1089]
    do("Int8FC", "q wp bp", "y", Y_scale=0.05, Y_zero_point=100)
    assert do.bytes("y").reshape(-1)[:10].tolist() == [193, 60, 37, 53, 30, 112, 97, 95, 112, 41]
    do("Int8FCRelu", "q wp bp", "y", Y_scale=0.05, Y_zero_point=100)
    assert do.workspace.fetch_int8("y").zero_point == 0
    assert do.bytes("y").reshape(-1)[:10].tolist() == [153, 0, 0, 0, 0, 20, 0, 0, 19, 0]


def test_a_packed_filter_gives_what_the_real_one_does():
    rng = np.random.default_rng(0)
    image, weights, bias = (rng.standard_normal(s).astype("f") for s in ((1, 5, 5, 3), (4, 3, 3, 3), (4,)))
    do = Int8Session(f=image, w=weights, b=bias)
    do("Int8Quantize", "f", "q", Y_scale=0.03, Y_zero_point=128)
    do("Int8ConvPackWeight", "w b", "wp", in_scale=0.03)
    do("Int8Conv", "q wp", "y", kernel=3, order="NHWC", Y_scale=0.2, Y_zero_point=128)
    (want,) = do("Conv", "f w b", "want", kernel=3, order="NHWC")
    np.testing.assert_allclose(do.real("y"), np.clip(want, -25.6, 25.4), atol=0.35)


@pytest.mark.parametrize("values", [[-1, 0.5, 3], [2, 3], [-5, -1], [0, 0], []])
def test_the_range_of_the_data_takes_in_zero(values):
    tensor = packed.by_range(np.array(values, "f"))
    low, high = min([0, *values]), max([0, *values])
    assert tensor.scale == pytest.approx((high - low) / 255 or 0.1)
    np.testing.assert_allclose(tensor.real(), np.array(values, "f"), atol=tensor.scale * 0.51)


def test_nan_has_no_range():
    with pytest.raises(ValueError, match=r"values with NaN or infinity have no range .* 1 of"):
        packed.by_range(np.array([1, np.nan], "f"))


def test_quantize_with_and_without_a_scale():
    do = Int8Session(f=np.array([-1, 0, 3], "f"))
    do("Quantize", "f", "q")
    np.testing.assert_allclose(do("Dequantize", "q", "y")[0], do["f"], atol=4 / 255 * 0.51)
    do("Quantize", "f", "q", Y_scale=0.5, Y_zero_point=10)
    assert do.bytes("q").tolist() == [8, 10, 16]


@pytest.mark.parametrize("kind", ["Int8FCPackWeight", "Int8ConvPackWeight"])
def test_refusals(kind):
    do = Int8Session(w=np.ones((2, 3), "f"), b=np.ones(2, "f"), d=np.ones((2, 3)))
    outputs = "wp bp" if kind == "Int8FCPackWeight" else "wp"
    with pytest.raises(OperatorError, match=r"in_scale, the scale of the layer's input, must be given"):
        do(kind, "w b", outputs)
    with pytest.raises(OperatorError, match=r"a matrix of float32, found float64\[2, 3\]"):
        do(kind, "d b", outputs, in_scale=1.0)
