"""Copies, and second names."""

import numpy as np
import pytest
from running import check_places, definition, run

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import Forward

X = np.array([1, 2, 3], "f")
COPIES = ["Copy", "StopGradient", "EnsureDense", "CopyGPUToCPU", "CopyCPUToGPU", "CopyFromCPUInput", "EnsureCPUOutput"]


def after(kind, value, *more):
    """What y holds when x has been copied to it by the operator, and then fed anew."""
    workspace = Workspace()
    workspace.feed("x", X)
    runner.run_operator(workspace, definition(kind, ["x", *more], ["y"]))
    workspace.feed("x", value)
    return workspace.fetch("y").tolist()


@pytest.mark.parametrize("kind", COPIES)
def test_copies_are_copies(kind):
    for x in (X, X[:0], X[:1], X.astype("float64"), np.array([b"a"], object)):
        np.testing.assert_array_equal(run(kind, [x])[0], x, strict=True)
    assert after(kind, -X) == X.tolist()


def test_copy_to_where_another_blob_is():
    np.testing.assert_array_equal(run("CopyOnDeviceLike", [X, X[:1]])[0], X)
    assert after("CopyOnDeviceLike", -X, "x") == X.tolist()


@pytest.mark.parametrize("kind", ["Alias", "AliasWithName"])
def test_an_alias_is_the_same_storage(kind):
    assert after(kind, -X) == (-X).tolist()
    np.testing.assert_array_equal(run(kind, [X])[0], X)


def test_stop_gradient_in_place():
    check_places("StopGradient", [X])


def test_free_empties_its_blobs():
    workspace = Workspace()
    workspace.feed("x", X)
    runner.run_operator(workspace, definition("Free", ["x"], ["x"]))
    assert workspace.blobs["x"].value is None
    with pytest.raises(OperatorError, match=r"found \['x'\] -> \['y'\]"):
        runner.run_operator(workspace, definition("Free", ["x"], ["y"]))


@pytest.mark.parametrize(
    ("kind", "gradient", "makes"),
    [
        ("Copy", "dy", ["CopyOnDeviceLike"]),
        ("StopGradient", "dy", []),
        ("EnsureDense", "dy", []),
        ("EnsureDense", ("i", "v"), ["SparseToDense"]),
        ("CopyGPUToCPU", "dy", ["CopyCPUToGPU"]),
        ("CopyCPUToGPU", ("i", "v"), ["CopyGPUToCPU", "CopyGPUToCPU"]),
        ("Alias", "dy", []),
    ],
)
def test_gradients(kind, gradient, makes):
    forward = Forward(definition(kind, ["x"], ["y"]), [gradient])
    assert [op.type for op in registry.find(kind).gradient(forward)] == makes
    passed_on = {"Alias": "dy", "StopGradient": None}
    if kind in passed_on:
        assert forward.g_input == [passed_on[kind]]


def test_a_counter_cannot_be_copied():
    workspace = Workspace()
    runner.run_operator(workspace, definition("CreateCounter", [], ["c"]))
    with pytest.raises(OperatorError, match="input blob 'c' holds a Counter; a tensor is needed"):
        runner.run_operator(workspace, definition("Copy", ["c"], ["y"]))
