"""Fills with given values hold these values, in the shape and the type that are asked for."""

import numpy as np
import pytest
from running import check, check_places, floats, refused, run

from caffe2lite.proto import caffe2_pb2

DataType = caffe2_pb2.TensorProto
LIKE, SHAPE = floats(2, 3), np.array([2, 3])


@pytest.mark.parametrize(("args", "wanted"), [
    ({"value": 2.5}, np.full((2, 3), 2.5, "f")),
    ({"value": 7}, np.full((2, 3), 7)),
    ({}, np.zeros((2, 3), "f")),
    ({"value": 7, "dtype": DataType.INT32}, np.full((2, 3), 7, "int32")),
    ({"value": 1, "dtype": DataType.BOOL}, np.ones((2, 3), bool)),
    ({"value": 200, "dtype": DataType.UINT8}, np.full((2, 3), 200, "uint8")),
    ({"value": 0.1, "dtype": DataType.DOUBLE}, np.full((2, 3), np.float32(0.1), "d")),
])  # fmt: skip
def test_constants(args, wanted):
    check("ConstantFill", [], [wanted], {**args, "shape": [2, 3]})
    check("ConstantFill", [LIKE], [wanted], args)
    check("ConstantFill", [SHAPE], [wanted], {**args, "input_as_shape": 1})
    assert run("ConstantFill", [LIKE], args)[0].dtype == wanted.dtype
    check("DiagonalFill", [], [np.where(np.eye(2, 3), wanted, 0).astype(wanted.dtype)], {**args, "shape": [2, 3]})


def test_shapes():
    for kind in ("ConstantFill", "RangeFill"):
        assert run(kind, [LIKE], {"extra_shape": [4, 1]})[0].shape == (2, 3, 4, 1)
        assert run(kind, [SHAPE], {"input_as_shape": 1, "extra_shape": [4]})[0].shape == (2, 3, 4)
        assert run(kind, [], {"shape": [0, 2]})[0].shape == (0, 2)
        assert run(kind, [])[0].shape == ()
        check_places(kind, [LIKE])


def test_a_constant_may_be_an_input():
    check("ConstantFill", [LIKE, np.array([3.5], "f")], [np.full((2, 3), 3.5, "f")])


def test_cubes_have_one_diagonal():
    wanted = np.zeros((3, 3, 3), "f")
    wanted[range(3), range(3), range(3)] = 2.5
    check("DiagonalFill", [], [wanted], {"value": 2.5, "shape": [3, 3, 3]})
    check("DiagonalFill", [], [2.5 * np.eye(5, 2, dtype="f")], {"value": 2.5, "shape": [5, 2]})


@pytest.mark.parametrize(("kind", "values", "dtype"), [
    ("GivenTensorFill", [0.5, -1.0, 2.0, 3.0, 4.0, 5.0], "float32"),
    ("GivenTensorDoubleFill", [0.5, -1.0, 2.0, 3.0, 4.0, 5.0], "float64"),
    ("GivenTensorIntFill", [1, 2, 3, 4, 5, -6], "int32"),
    ("GivenTensorInt64Fill", [1, 2, 3, 4, 5, -6], "int64"),
    ("GivenTensorInt16Fill", [1, 2, 3, 4, 5, -6], "int16"),
    ("GivenTensorBoolFill", [1, 0, 1, 1, 0, 0], "bool"),
    ("GivenTensorStringFill", [b"a", b"", b"\xff", b"d", b"e", b"f"], "object"),
])  # fmt: skip
def test_given_values(kind, values, dtype):
    found = run(kind, [], {"values": values, "shape": [2, 3]})[0]
    assert found.dtype == dtype and found.reshape(-1).tolist() == values
    assert run(kind, [LIKE], {"values": values})[0].tolist() == found.tolist()
    refused(
        kind, [], f"room for 6 values, but `values` holds {len(values) - 1}", {"values": values[1:], "shape": [2, 3]}
    )


def test_given_tensors_have_a_type():
    args = {"values": [1, 2], "shape": [2], "dtype": DataType.INT64}
    assert run("GivenTensorFill", [], args)[0].dtype == np.int64
    assert run("GivenTensorByteStringToUInt8Fill", [], {"values": [b"\x01\xff"], "shape": [2]})[0].tolist() == [1, 255]


def test_half_precision():
    found = run("Float16ConstantFill", [], {"value": 0.1, "shape": [2, 2]})[0]
    assert found.dtype == np.float16 and (found == np.float16(0.1)).all()


def test_ranges():
    check("RangeFill", [], [np.arange(6.0).reshape(2, 3)], {"shape": [2, 3]})
    for kind in ("float32", "float64", "int32", "int64"):
        start, stop, step = (np.array(v, kind) for v in (2, 11, 3))
        check("Range", [stop], [np.arange(11, dtype=kind)])
        check("Range", [start, stop], [np.arange(2, 11, dtype=kind)])
        check("Range", [start, stop, step], [np.arange(2, 11, 3, dtype=kind)])
        assert run("Range", [start, stop, step])[0].dtype == kind
        assert run("Range", [stop, start])[0].size == 0
    check("Range", [np.float32(1), np.float32(0), np.float32(-0.25)], [np.array([1, 0.75, 0.5, 0.25])])


def test_ranges_of_lengths():
    lengths = np.array([3, 0, 2, 1], "int32")
    check("LengthsRangeFill", [lengths], [np.concatenate([np.arange(n) for n in lengths])])
    assert run("LengthsRangeFill", [lengths[:0]])[0].size == 0


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("ConstantFill", [LIKE], {"shape": [2]}, "from the argument .* or from the input, not from both"),
    ("ConstantFill", [], {"extra_shape": [2]}, "extra_shape=.*there is no input"),
    ("ConstantFill", [], {"input_as_shape": 1}, "no input to read the shape from"),
    ("ConstantFill", [LIKE], {"input_as_shape": 1}, r"int64\[n\], found float32\[2, 3\]"),
    ("ConstantFill", [], {"value": 300, "dtype": DataType.UINT8, "shape": [1]}, "value=300 does not fit into uint8"),
    ("ConstantFill", [], {"value": 1.5, "dtype": DataType.INT32, "shape": [1]}, "field 'i' of Argument for a fill of int32"),
    ("ConstantFill", [], {"dtype": DataType.FLOAT16, "shape": [1]}, "Float16ConstantFill"),
    ("ConstantFill", [LIKE, floats(2)], {}, r"one float32, found float32\[2\]"),
    ("ConstantFill", [], {"shape": [1 << 40, 1 << 20], "value": 1.0}, "CAFFE2LITE_LARGEST_RESULT"),
    ("DiagonalFill", [], {"shape": [3]}, r"2 dimensions or more, found the shape \[3\]"),
    ("DiagonalFill", [], {"shape": [3, 3, 2]}, r"all must be equal, found the shape \[3, 3, 2\]"),
    ("GivenTensorByteStringToUInt8Fill", [], {"values": [b"a"], "shape": [2]}, "needs 2 bytes, .* has 1"),
    ("Range", [np.int32(0), np.int32(2), np.int32(0)], {}, "Step size cannot be 0"),
    ("Range", [np.array([1, 2])], {}, r"start must be a scalar, found the shape \[2\]"),
    ("Range", [np.float32(0), np.float32(np.inf)], {}, "from 0.0 to inf in steps of 1 has no length"),
    ("LengthsRangeFill", [np.array([1, -2], "int32")], {}, "not be negative, found -2"),
    ("LengthsRangeFill", [np.ones((1, 2), "int32")], {}, r"vector, found the shape \[1, 2\]"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)
