"""Random fills: seeds, bounds, moments."""

import numpy as np
import pytest
from running import definition, floats, refused, run

from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

SEEDED = caffe2_pb2.DeviceOption(random_seed=5)
FILLS = {
    "UniformFill": {"min": -1.0, "max": 3.0},
    "GaussianFill": {"mean": 1.0, "std": 2.0},
    "XavierFill": {},
    "MSRAFill": {},
    "UniformIntFill": {"min": 0, "max": 1000},
    "UniqueUniformFill": {"min": 0, "max": 10000},
    "Float16UniformFill": {},
}


@pytest.mark.parametrize("kind", FILLS)
def test_random_state_belongs_to_the_operator(kind):
    args = {**FILLS[kind], "shape": [40, 30]}
    workspace = Workspace()
    net = caffe2_pb2.NetDef(name="net", op=[definition(kind, [], [name], args, SEEDED) for name in "ab"])
    made = runner.create_net(workspace, net)
    made.run()
    first = workspace.fetch("a")
    assert np.array_equal(first, workspace.fetch("b"))  # one seed, equal values
    made.run()
    assert not np.array_equal(first, workspace.fetch("a"))  # a second run goes on
    runner.create_net(workspace, net, overwrite=True).run()
    assert np.array_equal(first, workspace.fetch("a"))  # a new net starts anew


def made(kind, shape, **args):
    return run(kind, [], {**args, "shape": list(shape)}, device=SEEDED)[0]


def test_moments():
    u, g = made("UniformFill", (300, 300), min=-1.0, max=3.0), made("GaussianFill", (300, 300), mean=1.0, std=2.0)
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.02 and abs(u.var() - 16 / 12) < 0.02
    assert abs(g.mean() - 1) < 0.03 and abs(g.std() - 2) < 0.03
    x, m = made("XavierFill", (100, 50)), made("MSRAFill", (100, 50))
    assert abs(x).max() <= (3 / 50) ** 0.5 and abs(x.std() - (1 / 50) ** 0.5) < 0.01  # fan in: numel / dim 0
    assert abs(m.std() - (2 / 100) ** 0.5) < 0.01  # fan out: numel / dim 1
    h = made("Float16UniformFill", (100, 100), min=2.0, max=4.0)
    assert h.dtype == np.float16 and h.min() >= 2 and h.max() <= 4 and abs(h.astype("d").mean() - 3) < 0.05


def test_integers_have_both_bounds():
    i = made("UniformIntFill", (1000,), min=3, max=6)
    assert set(i) == {3, 4, 5, 6} and i.dtype == np.int32


def test_unique_integers_avoid_what_they_must():
    shape, avoid = np.array([7]), np.array([3, 4], "int32")
    args = {"min": 1, "max": 9, "input_as_shape": 1}
    assert sorted(run("UniqueUniformFill", [shape, avoid], args)[0]) == [1, 2, 5, 6, 7, 8, 9]
    refused("UniqueUniformFill", [shape, avoid], "only 7 are allowed", {**args, "extra_shape": [2]})


@pytest.mark.parametrize("kind", [k for k in FILLS if not k.startswith("Float16")])
def test_shapes(kind):
    args = FILLS[kind]
    assert run(kind, [floats(4, 2)], args)[0].shape == (4, 2)
    assert run(kind, [np.array([4, 2])], {**args, "input_as_shape": 1, "extra_shape": [3]})[0].shape == (4, 2, 3)
    assert run(kind, [], {**args, "shape": [0, 2]})[0].shape == (0, 2)


def test_bounds_may_be_inputs():
    low, high = np.float32(5), np.float32(6)
    y = run("UniformFill", [floats(50), low, high])[0]
    assert y.min() >= 5 and y.max() < 6
    assert run("UniformFill", [floats(50), high, low])[0].shape == (0,)  # an empty range makes an empty tensor
    assert set(run("UniformIntFill", [floats(50), np.int32(7), np.int32(7)])[0]) == {7}


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("UniformFill", [], {"min": 1.0, "max": 1.0, "shape": [2]}, "max must be above min, found min=1.0, max=1.0"),
    ("UniformFill", [floats(2), floats(2), floats(1)], {}, r"min must be a scalar, found the shape \[2\]"),
    ("UniformIntFill", [], {"min": 4, "max": 3, "shape": [2]}, "min=4, max=3"),
    ("UniqueUniformFill", [], {"min": 4, "max": 3, "shape": [2]}, r"found \[4, 3\]"),
    ("UniqueUniformFill", [], {"min": 0, "max": 3, "shape": [5]}, "5 distinct integers of .* only 4"),
    ("UniqueUniformFill", [], {"dtype": 1, "shape": [1]}, "int32 or int64, found dtype=float32"),
    ("GaussianFill", [], {"std": -1.0, "shape": [2]}, "std must not be negative, found -1"),
    ("XavierFill", [], {}, r"1 dimensions or more are expected, found the shape \[\]"),
    ("MSRAFill", [], {"shape": [3]}, r"2 dimensions or more are expected, found the shape \[3\]"),
    ("Float16UniformFill", [], {"min": 2.0, "max": 1.0, "shape": [2]}, r"found \[2.0, 1.0\)"),
    ("XavierFill", [floats(2)], {"shape": [2]}, "not from both"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args)


def test_places():
    seeded = [run("GaussianFill", [floats(3, 2)], device=SEEDED, inplace=p)[0] for p in ({}, {0: 0})]
    np.testing.assert_array_equal(*seeded)
