"""Int8 operators: what recorded cases do not show."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite.ops.kit import registry


def run(kind, inputs, outputs, **args):
    workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, outputs, **args))


def quantized(name, values, scale, zero_point):
    run("Int8GivenTensorFill", [], [name], values=values.tobytes(), shape=values.shape, Y_scale=scale,
        Y_zero_point=zero_point)  # fmt: skip


def test_a_tensor_survives_serialisation_and_is_told_as_real_numbers():
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    quantized("q", values, 0.5, 2)
    workspace.C.deserialize_blob("again", workspace.SerializeBlob("q"))
    data, scale, zero_point = workspace.FetchInt8Blob("again")
    np.testing.assert_array_equal(data, values)
    assert (scale, zero_point) == (0.5, 2)
    np.testing.assert_array_equal(workspace.FetchInt8BlobRealVal("again"), (values.astype("f") - 2) * 0.5)


def test_a_convolution_is_that_of_the_real_numbers_to_half_a_step():
    rng = np.random.default_rng(0)
    quantized("x", rng.integers(0, 256, (2, 6, 5, 4), dtype=np.uint8), 0.03, 120)
    quantized("w", rng.integers(0, 256, (6, 3, 2, 2), dtype=np.uint8), 0.01, 130)
    run("Int8GivenIntTensorFill", [], ["b"], values=range(6), shape=[6], Y_scale=0.0003)
    args = {"kernel_h": 3, "kernel_w": 2, "pad": 1, "stride": 2, "group": 2, "order": "NHWC"}
    run("Int8Conv", ["x", "w", "b"], ["y"], Y_scale=0.2, Y_zero_point=128, **args)
    for name in "xw":
        workspace.FeedBlob(f"{name}_real", workspace.FetchInt8BlobRealVal(name))
    workspace.FeedBlob("b_real", workspace.FetchInt8Blob("b").data.astype("f") * np.float32(0.0003))
    run("Conv", ["x_real", "w_real", "b_real"], ["y_real"], **args)
    real = np.clip(workspace.FetchBlob("y_real"), -128 * 0.2, 127 * 0.2)
    np.testing.assert_allclose(workspace.FetchInt8BlobRealVal("y"), real, atol=0.1001)


def test_a_net_in_place_gives_the_same_again():
    net = core.Net("net")
    net.Proto().op.extend(
        [
            core.CreateOperator("Int8Quantize", ["f"], ["q"], Y_scale=0.1, Y_zero_point=10),
            core.CreateOperator("Int8Relu", ["q"], ["q"], Y_scale=0.1, Y_zero_point=10),
            core.CreateOperator("Int8Dequantize", ["q"], ["y"]),
        ]
    )
    workspace.FeedBlob("f", np.array([-1, 0, 2], "f"))
    workspace.CreateNet(net)
    for factor in (1, 1, 3):
        workspace.FeedBlob("f", np.array([-1, 0, 2 * factor], "f"))
        workspace.RunNet(net)
        np.testing.assert_allclose(workspace.FetchBlob("y"), [0, 0, 2 * factor], rtol=1e-6)


def test_what_does_not_fit_is_told():
    quantized("x", np.zeros((1, 2), np.uint8), 0.5, 3)
    with pytest.raises(RuntimeError, match="must be those of the input"):
        run("Int8Relu", ["x"], ["y"])
    workspace.FeedBlob("f", np.zeros((1, 2), "f"))
    with pytest.raises(RuntimeError, match="must be an Int8 tensor"):
        run("Int8Dequantize", ["f"], ["y"])


def test_packed_weights_give_what_genuine_gives():
    rng = np.random.RandomState(0)
    for name, shape in (("f", (3, 8)), ("w", (5, 8)), ("b", (5,))):
        workspace.FeedBlob(name, rng.randn(*shape).astype("f"))
    run("Int8Quantize", ["f"], ["q"], Y_scale=0.05, Y_zero_point=128)
    run("Int8FCPackWeight", ["w", "b"], ["wp", "bp"], engine="DNNLOWP", in_scale=0.05)
    assert workspace.FetchInt8Blob("bp").data.tolist() == [213, -482, -1956, 555, -1089]
    run("Int8FC", ["q", "wp", "bp"], ["y"], engine="DNNLOWP", Y_scale=0.05, Y_zero_point=100)
    assert workspace.FetchInt8Blob("y").data.reshape(-1)[:10].tolist() == [193, 60, 37, 53, 30, 112, 97, 95, 112, 41]
    run("Int8FCRelu", ["q", "wp", "bp"], ["y"], engine="DNNLOWP", Y_scale=0.05, Y_zero_point=100)
    assert workspace.FetchInt8Blob("y").zero_point == 0
    assert workspace.FetchInt8Blob("y").data.reshape(-1)[:10].tolist() == [153, 0, 0, 0, 0, 20, 0, 0, 19, 0]


def test_a_batch_normalisation_and_a_product_are_those_of_the_real_numbers():
    rng = np.random.default_rng(0)
    quantized("x", rng.integers(0, 256, (2, 3, 4), dtype=np.uint8), 0.03, 120)
    quantized("w", rng.integers(0, 256, (2, 4, 5), dtype=np.uint8), 0.03, 130)
    x, w = (workspace.FetchInt8BlobRealVal(n) for n in "xw")
    run("Int8BatchMatMul", ["x", "w"], ["y"], engine="DNNLOWP", Y_scale=0.5, Y_zero_point=100)
    real = np.clip(x @ w, -100 * 0.5, 155 * 0.5)
    np.testing.assert_allclose(workspace.FetchInt8BlobRealVal("y"), real, atol=0.2501)
    parameters = rng.random((4, 4)).astype("f") + np.float32(0.2)
    for name, values in zip("sbmv", parameters):
        workspace.FeedBlob(name, values)
    args = {"engine": "DNNLOWP", "order": "NHWC", "Y_scale": 0.05, "Y_zero_point": 90}
    run("Int8SpatialBNRelu", ["x", "s", "b", "m", "v"], ["y"], **args)
    s, b, m, v = parameters
    real = np.clip((x - m) / np.sqrt(v + 1e-5) * s + b, 0, 165 * 0.05)
    np.testing.assert_allclose(workspace.FetchInt8BlobRealVal("y"), real, atol=0.0163)


@pytest.mark.parametrize(("dims", "kind"), [([2, 2], 6), ([-1], 6), ([1 << 40, 1 << 40], 6), ([1], 1)])
def test_bytes_that_are_no_tensor_are_refused(dims, kind):
    proto = caffe2_pb2.BlobProto(name="x", type="Int8TensorCPU")
    proto.qtensor.MergeFrom(
        caffe2_pb2.QTensorProto(dims=dims, data=[1], data_type=kind, precision=8, scale=1, bias=0, is_signed=False)
    )
    with pytest.raises(RuntimeError, match="blob 'x' of type 'Int8TensorCPU' cannot be read"):
        workspace.C.deserialize_blob("x", proto.SerializeToString())


def test_group_norm_is_that_of_the_real_numbers_to_a_step():
    rng = np.random.default_rng(1)
    quantized("x", rng.integers(0, 256, (2, 5, 4, 8), dtype=np.uint8), 0.02, 60)
    for name in ("gamma", "beta"):
        workspace.FeedBlob(name, rng.random(8, dtype=np.float32))
    run("Int8GroupNorm", ["x", "gamma", "beta"], ["y"], group=4, order="NHWC", Y_scale=0.03, Y_zero_point=100)
    run("Int8Dequantize", ["x"], ["real"])
    run("GroupNorm", ["real", "gamma", "beta"], ["expected", "m", "s"], group=4, order="NHWC")
    expected = np.clip(workspace.FetchBlob("expected") / 0.03 + 100, 0, 255)
    assert abs(workspace.FetchInt8Blob("y").data - expected).max() <= 0.51


def test_an_lstm_unit_is_that_of_the_real_numbers_and_keeps_finished_sequences():
    rng = np.random.default_rng(2)
    for name, width in (("h", 4), ("c", 4), ("gates", 16)):
        quantized(name, rng.integers(0, 256, (1, 3, width), dtype=np.uint8), 4 / 255, 128)
        run("Int8Dequantize", [name], [name + "_real"])
    workspace.FeedBlob("lengths", np.array([5, 2, 1], "int32"))
    workspace.FeedBlob("t", np.array([1], "int32"))
    run("Int8LSTMUnit", ["h", "c", "gates", "lengths", "t"], ["h2", "c2"], Y_scale=0.01, Y_zero_point=100)
    run("LSTMUnit", ["h_real", "c_real", "gates_real", "lengths", "t"], ["h3", "c3"])
    for name, scale in (("h", 0.01), ("c", workspace.FetchInt8Blob("c2").scale)):
        run("Int8Dequantize", [name + "2"], ["made"])
        expected = workspace.FetchBlob(name + "3")
        if name == "h":
            expected = np.clip(expected, -1, 1.55)
        assert abs(workspace.FetchBlob("made") - expected).max() <= 0.51 * scale


def test_scale_and_zero_point_by_the_data():
    workspace.FeedBlob("x", np.array([-1, 0, 0.5, 3], "f"))
    for sparse, expected in ((0, (4 / 255, 64)), (1, (6 / 255, 128))):
        scheme = registry.find("Int8QuantSchemeBlobFill")(np, preserve_sparsity=bool(sparse))
        params = registry.find("Int8GenQuantParams")(np, workspace.FetchBlob("x"), scheme)
        assert (params.scale, params.zero_point) == (pytest.approx(expected[0]), expected[1])
