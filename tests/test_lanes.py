"""Graphs over several CPU devices: each device on a thread gives what one after the other does, bit by bit."""

import numpy as np
import pytest

from caffe2lite.engine import graph, runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

LANES = 3


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(graph, "_WORTH", -1.0)
    monkeypatch.setattr(graph, "several", lambda: True)


def operator(kind, inputs, outputs, lane):
    op = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    op.device_option.device_id = lane
    return op


def made(ops, kind="dag", **blobs):
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, value)
    net = runner.make_net(caffe2_pb2.NetDef(name="net", type=kind, op=ops), workspace)
    return workspace, net


def crossing(seed, count=60):
    """Operators of three lanes that read, and write over, what other lanes have."""
    draw = np.random.RandomState(seed)
    ops = []
    for _ in range(count):
        lane = draw.randint(LANES)
        a, b = (f"x{draw.randint(2)}_{draw.randint(LANES)}" for _ in range(2))
        kind = ("Add", "Sub", "Mul")[draw.randint(3)]
        ops.append(operator(kind, [a, b], [f"x{draw.randint(2)}_{lane}"], lane))
        if draw.rand() < 0.3:
            ops.append(operator("Tanh", [f"x0_{lane}"], [f"x0_{lane}"], lane))
    return [op for op in ops if op.type == "Tanh" or op.output[0] not in list(op.input)[1:]]


@pytest.mark.parametrize("seed", range(20))
def test_as_one_after_the_other(seed):
    blobs = {
        f"x{k}_{lane}": np.random.RandomState(k + 7 * lane).rand(50).astype("f")
        for k in (0, 1)
        for lane in range(LANES)
    }
    ops = crossing(seed)
    results = []
    for kind in ("simple", "dag"):
        workspace, net = made(ops, kind, **blobs)
        for _ in range(6):
            net.run()
        results.append({name: workspace.fetch(name) for name in blobs})
    assert net.lanes is not None
    for name in blobs:
        np.testing.assert_array_equal(*(r[name] for r in results))


def test_a_result_of_another_size_in_the_middle():
    ops = [
        operator("Copy", ["x"], ["y"], 1),
        operator("BooleanMask", ["x", "mask"], ["some"], 0),
        operator("Add", ["y", "y"], ["y2"], 1),
        operator("Negative", ["some"], ["minus"], 1),
        operator("Copy", ["minus"], ["last"], 0),
    ]
    x = np.arange(6, dtype="f")
    workspace, net = made(ops, x=x, mask=np.ones(6, bool))
    for _ in range(3):
        net.run()
    assert net.lanes is not None
    for mask in (x > 2, x > 4, x < 9, x < 1):
        workspace.feed("mask", mask)
        net.run()
        np.testing.assert_array_equal(workspace.fetch("last"), -x[mask])
        np.testing.assert_array_equal(workspace.fetch("y2"), 2 * x)


def test_an_operator_that_fails_is_named_and_all_lanes_end():
    ops = [
        operator("Copy", ["x"], ["y"], 0),
        operator("Gather", ["x", "indices"], ["found"], 1),
        operator("Add", ["y", "found"], ["z"], 0),
    ]
    workspace, net = made(ops, x=np.arange(3, dtype="f"), indices=np.array([0, 1, 2]))
    for _ in range(3):
        net.run()
    workspace.feed("indices", np.array([0, 1, 9]))
    with pytest.raises(OperatorError, match="Gather"):
        net.run()
    workspace.feed("indices", np.array([2, 1, 0]))
    net.run()
    np.testing.assert_array_equal(workspace.fetch("z"), [2, 2, 2])
