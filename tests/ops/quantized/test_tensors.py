"""Int8 tensors: serialisation, and the fixed-point arithmetic of their operators."""

import fractions

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite.ops.quantized import tensors


def test_a_tensor_survives_serialisation_and_is_told_as_real_numbers():
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    args = {"values": values.tobytes(), "shape": values.shape, "Y_scale": 0.5, "Y_zero_point": 2}
    workspace.RunOperatorOnce(core.CreateOperator("Int8GivenTensorFill", [], ["q"], **args))
    workspace.C.deserialize_blob("again", workspace.SerializeBlob("q"))
    data, scale, zero_point = workspace.FetchInt8Blob("again")
    np.testing.assert_array_equal(data, values)
    assert (scale, zero_point) == (0.5, 2)
    np.testing.assert_array_equal(workspace.FetchInt8BlobRealVal("again"), (values.astype("f") - 2) * 0.5)


@pytest.mark.parametrize(("dims", "kind"), [([2, 2], 6), ([-1], 6), ([1 << 40, 1 << 40], 6), ([1], 1)])
def test_bytes_that_are_no_tensor_are_refused(dims, kind):
    proto = caffe2_pb2.BlobProto(name="x", type="Int8TensorCPU")
    proto.qtensor.MergeFrom(
        caffe2_pb2.QTensorProto(dims=dims, data=[1], data_type=kind, precision=8, scale=1, bias=0, is_signed=False)
    )
    with pytest.raises(RuntimeError, match="blob 'x' of type 'Int8TensorCPU' cannot be read"):
        workspace.C.deserialize_blob("x", proto.SerializeToString())


@pytest.mark.parametrize("bits", [0, 1, 3, 8])
def test_shifts_round_halves_away_from_zero(bits):
    values = np.arange(-600, 600, 7)
    have = tensors.shift_right(values, bits)
    for value, found in zip(values.tolist(), have.tolist()):
        exact = fractions.Fraction(value, 1 << bits)
        half = fractions.Fraction(1, 2)
        assert found == (int(exact + half) if exact >= 0 else -int(-exact + half))


@pytest.mark.parametrize("scale", [0.9, 0.01, 1e-6])
def test_requantized_sums_are_their_products_to_a_half(scale):
    sums = np.random.default_rng(0).integers(-(10**6), 10**6, 200)
    have = tensors.requantize(sums, np.float32(scale))
    assert np.abs(have - sums * float(np.float32(scale))).max() <= 0.5 + 1e-3
    with pytest.raises(ValueError, match=r"over Y_scale are 1\.5; that must be below 1"):
        tensors.requantize(sums, np.float32(1.5))


def test_saturation():
    values = np.array([-300, -5, 0, 5, 300])
    assert tensors.saturate(values, 10).tolist() == [0, 5, 10, 15, 255]
    assert tensors.saturate(values, 10, relu=True).tolist() == [10, 10, 10, 15, 255]
