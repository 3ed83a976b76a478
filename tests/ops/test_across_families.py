"""Across families: memory that operators share, and refusals in words."""

import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments
from caffe2lite.proto import caffe2_pb2


def op(kind, inputs=(), outputs=(), seed=None, **args):
    made = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        arguments.write(made.arg.add(), name, value)
    if seed is not None:
        made.device_option.random_seed = seed
    return made


def net(*ops):
    return caffe2_pb2.NetDef(name="net", op=ops)


def feed(**blobs):
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, np.asarray(value))
    return workspace


def f(*values):
    return np.array(values, "float32")


def test_rows_of_zeros_do_not_become_the_result():
    """Relu compares with a shared vector of zeros, which must never be handed out or written."""
    workspace = feed(x=np.full(300000, -1, "f"))
    made = runner.create_net(
        workspace, net(op("Relu", ["x"], ["y"]), op("Scale", ["y"], ["y"], scale=2.0), op("Add", ["y", "x"], ["y"]))
    )
    for _ in range(4):
        made.run()
        assert (workspace.fetch("y") == -1).all()


X23, I2 = np.ones((2, 3), "f"), np.array([2])


@pytest.mark.parametrize(
    ("kind", "inputs", "args", "words"),
    [
        ("FC", [X23, np.ones((4, 5), "f"), np.ones(4, "f")], {}, r"W must be \[4, 3\]"),
        ("Reshape", [np.ones(6, "f")], {"shape": [4, -1]}, "does not divide the 6 elements"),
        ("Concat", [X23, np.ones((2, 4), "f")], {"axis": 0}, "must agree"),
        ("SoftmaxWithLoss", [X23, np.array([0, 3], "int32")], {}, "from 0 to 2"),
        ("Gather", [X23, I2], {}, "index 2 is outside"),
        ("ScatterAssign", [X23, 1 - I2, np.ones((1, 3), "f")], {}, "index -1 is outside"),
        ("Div", [np.array([1]), np.array([0])], {}, "division by zero"),
        ("Max", [f(1, 2), f(1)], {}, "one shape"),
        ("ConstantFill", [], {"shape": [1 << 40, 1 << 20], "value": 1.0}, "CAFFE2LITE_LARGEST_RESULT"),
    ],
)
def test_errors_say_what_is_wrong(kind, inputs, args, words):
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = {"ScatterAssign": ["x0"], "Concat": ["y", "s"], "Reshape": ["y", "s"], "SoftmaxWithLoss": ["y", "l"]}
    made = op(kind, names, outputs.get(kind, ["y"]), **args)
    with pytest.raises((OperatorError, MemoryError), match=words):
        runner.run_operator(feed(**dict(zip(names, inputs))), made)
