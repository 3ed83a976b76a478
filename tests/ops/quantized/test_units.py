"""Int8 units, and the choice of scale and zero point."""

import numpy as np
import pytest
from session import Int8Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.kit import registry

RNG = np.random.default_rng(0)


def test_tanh_and_rows():
    do = Int8Session()
    do.quantized(x=(np.arange(256, dtype=np.uint8), 0.03, 120))
    do("Int8Tanh", "x", "y")
    np.testing.assert_allclose(do.real("y"), np.tanh(do.real("x")), atol=0.5 / 127 + 1e-6)
    np.testing.assert_allclose(do("Int8DequantizeRowWise", "x", "f")[0], do.real("x"), rtol=1e-6)


def test_group_norm_is_that_of_the_real_numbers():
    do = Int8Session(gamma=RNG.random(8, dtype=np.float32), beta=RNG.random(8, dtype=np.float32))
    do.quantized(x=(RNG.integers(0, 256, (2, 5, 4, 8), dtype=np.uint8), 0.02, 60))
    do("Int8GroupNorm", "x gamma beta", "y", group=4, order="NHWC", Y_scale=0.03, Y_zero_point=100)
    x = do.real("x").reshape(2, 20, 4, 2)
    normal = (x - x.mean((1, 3), keepdims=True)) / np.sqrt(x.var((1, 3), keepdims=True) + 1e-5)
    want = normal.reshape(2, 5, 4, 8) * do["gamma"] + do["beta"]
    np.testing.assert_allclose(do.real("y"), np.clip(want, -3, 4.65), atol=0.0153)


def test_an_lstm_unit_is_that_of_the_real_numbers_and_keeps_finished_sequences():
    do = Int8Session(lengths=np.array([5, 2, 1], "int32"), t=np.array([1], "int32"))
    for name, width in (("h", 4), ("c", 4), ("gates", 16)):
        do.quantized(**{name: (RNG.integers(0, 256, (1, 3, width), dtype=np.uint8), 4 / 255, 128)})
        do("Int8Dequantize", name, name + "_real")
    do("Int8LSTMUnit", "h c gates lengths t", "h2 c2", Y_scale=0.01, Y_zero_point=100)
    want_h, want_c = do("LSTMUnit", "h_real c_real gates_real lengths t", "h3 c3")
    np.testing.assert_allclose(do.real("h2"), np.clip(want_h, -1, 1.55), atol=0.0051)
    np.testing.assert_allclose(do.real("c2"), want_c, atol=0.51 * do.workspace.fetch_int8("c2").scale)
    np.testing.assert_allclose(do.real("c2")[0, 2], do.real("c")[0, 2], atol=0.51 * do.workspace.fetch_int8("c2").scale)


@pytest.mark.parametrize(("sparse", "scale", "zero_point"), [(False, 4 / 255, 64), (True, 6 / 255, 128)])
def test_scale_and_zero_point_by_the_data(sparse, scale, zero_point):
    scheme = registry.find("Int8QuantSchemeBlobFill")(np, preserve_sparsity=sparse)
    params = registry.find("Int8GenQuantParams")(np, np.array([-1, 0, 0.5, 3], "f"), scheme)
    assert (params.scale, params.zero_point) == (pytest.approx(scale), zero_point)


def test_few_large_values_may_be_left_out():
    scheme = registry.find("Int8QuantSchemeBlobFill")(np, quantization_kind="P99_QUANTIZATION")
    values = np.append(np.linspace(0, 1, 2000), 1000).astype("f")
    assert registry.find("Int8GenQuantParams")(np, values, scheme).scale < 1.1 / 255


def test_refusals():
    do = Int8Session(x=np.ones(2, "f"))
    with pytest.raises(OperatorError, match="got 'L2_QUANTIZATION'"):
        do("Int8QuantSchemeBlobFill", "", "scheme", quantization_kind="L2_QUANTIZATION")
    with pytest.raises(OperatorError, match=r"a scheme of quantization .* is needed, found a tensor"):
        do("Int8GenQuantParams", "x x", "params")
