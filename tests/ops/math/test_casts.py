"""Changes of type."""

import numpy as np
import pytest
from running import definition, refused, run

from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import Forward

NUMBERS = {"FLOAT": 1, "INT32": 2, "BOOL": 5, "UINT8": 6, "INT8": 7, "UINT16": 8, "INT16": 9, "INT64": 10, "DOUBLE": 13}
DTYPES = dict(zip(NUMBERS, ["float32", "int32", "bool", "uint8", "int8", "uint16", "int16", "int64", "float64"]))


@pytest.mark.parametrize("source", DTYPES.values())
@pytest.mark.parametrize("target", NUMBERS)
def test_casts(source, target):
    X = np.array([[0, 1], [100, 7]]).astype(source)
    for to in (NUMBERS[target], target, target.lower()):
        np.testing.assert_array_equal(run("Cast", [X], {"to": to})[0], X.astype(DTYPES[target]), strict=True)


def test_floats_go_through_int32_as_in_c():
    X = np.array([300, -1, 1.9, -1.9], "f")
    assert run("Cast", [X], {"to": "UINT8"})[0].tolist() == [44, 255, 1, 255]
    assert run("Cast", [X], {"to": "INT8"})[0].tolist() == [44, -1, 1, -1]


def test_text():
    assert run("Cast", [np.array([1.5, -2], "f")], {"to": "STRING"})[0].tolist() == [b"1.500000", b"-2.000000"]
    assert run("Cast", [np.array([7, -2])], {"to": "STRING"})[0].tolist() == [b"7", b"-2"]


def test_the_gradient_casts_back():
    forward = Forward(definition("Cast", ["x"], ["y"], {"to": 13, "from_type": 1}), ["dy"])
    (op,) = registry.find("Cast").gradient(forward)
    assert {a.name: a.i for a in op.arg} == {"to": 1, "from_type": 13}
    with pytest.raises(ValueError, match="needs the argument from_type"):
        registry.find("Cast").gradient(Forward(definition("Cast", ["x"], ["y"], {"to": 13}), ["dy"]))


@pytest.mark.parametrize(("to", "words"), [("FLOAT16", "FloatToHalf"), ("HALF", "no data type 'HALF'"), (99, "99")])
def test_refusals(to, words):
    refused("Cast", [np.ones(2, "f")], words, {"to": to})


def test_half_precision_and_back():
    X = np.array([[1, -0.5], [1e-3, 7e4]], "f")
    (half,) = run("FloatToHalf", [X], {"clip": 1})
    np.testing.assert_array_equal(half, np.clip(X, -65504, 65504).astype("float16"), strict=True)
    np.testing.assert_array_equal(run("HalfToFloat", [half])[0], half.astype("f"), strict=True)
    refused("FloatToHalf", [half], "takes float32")
