"""Tensors of torch and blobs that are one another's memory (runs where torch is installed)."""

import gc

import numpy as np
import pytest
from caffe2.python import core, workspace

torch = pytest.importorskip("torch", reason="torch is not a dependency: FetchTorch and feeding its tensors need it")


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def run(*args, **kwargs):
    workspace.RunOperatorOnce(core.CreateOperator(*args, **kwargs))


def test_writes_go_both_ways():
    workspace.FeedBlob("x", np.zeros(3, np.float32))
    t = workspace.FetchTorch("x")
    t[1] = 5
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [0, 5, 0])
    run("ConstantFill", [], "x", shape=[3], value=2.0)
    np.testing.assert_array_equal(t.numpy(), [2, 2, 2])


@pytest.mark.parametrize("shape", [(6,), (2,), (3, 4), ()])
def test_resize_of_a_fetched_tensor_resizes_the_blob(shape):
    workspace.FeedBlob("x", np.arange(4))
    t = workspace.FetchTorch("x")
    t.resize_(shape)
    t.fill_(7)
    assert workspace.FetchBlob("x").shape == shape == tuple(t.shape)
    assert (workspace.FetchBlob("x") == 7).all()


def test_resize_keeps_what_was_there():
    workspace.FeedBlob("x", np.arange(4))
    t = workspace.FetchTorch("x")
    t.resize_(2, 3)
    np.testing.assert_array_equal(workspace.FetchBlob("x").reshape(-1)[:4], np.arange(4))


def test_a_fed_tensor_follows_the_blob():
    z = torch.ones(4, dtype=torch.int64)
    workspace.FeedBlob("z", z)
    run("Reshape", ["z"], ["z", "_"], shape=[2, 2])
    z[0, 1] = 3
    np.testing.assert_array_equal(workspace.FetchBlob("z"), [[1, 3], [1, 1]])
    run("ConstantFill", [], "z", shape=[5, 5], value=2, dtype=core.DataType.INT64)
    assert z.shape == (5, 5) and (z == 2).all()


def test_a_net_that_replays_is_followed():
    workspace.FeedBlob("y", torch.zeros(2))
    y = workspace.FetchTorch("y")
    net = core.Net("follow")
    net.Copy("x", "y")
    workspace.FeedBlob("x", np.zeros(2, np.float32))
    workspace.CreateNet(net)
    for n in (2, 2, 3, 3, 3, 2, 2):
        workspace.FeedBlob("x", np.full(n, n, np.float32))
        workspace.RunNet("follow")
        np.testing.assert_array_equal(y.numpy(), workspace.FetchBlob("x"))


def test_tensors_that_are_not_plain_memory_are_copied():
    z = torch.arange(6.0).reshape(2, 3)
    for tensor in (z.t(), z.clone().requires_grad_()):
        workspace.FeedBlob("z", tensor)
        np.testing.assert_array_equal(workspace.FetchBlob("z"), tensor.detach().numpy())
        run("Scale", ["z"], ["z"], scale=2.0)
    np.testing.assert_array_equal(z.numpy(), np.arange(6.0).reshape(2, 3))


def test_memory_outlives_either_side():
    workspace.FeedBlob("z", torch.full((1000,), 3.0))
    gc.collect()
    assert (workspace.FetchBlob("z") == 3).all()
    t = workspace.FetchTorch("z")
    workspace.ResetWorkspace()
    gc.collect()
    assert (t == 3).all()


@pytest.mark.parametrize("shape, dtype", [((2, 3), "float32"), ((4,), "float32"), ((2, 3), "int32")])
def test_a_tensor_fed_anew_leaves_the_one_before(shape, dtype):
    first = torch.full((2, 3), 7.0)
    fetched = []
    workspace.FeedBlob("t", first)
    fetched.append(workspace.FetchTorch("t"))
    second = torch.zeros(shape, dtype=getattr(torch, dtype))
    workspace.FeedBlob("t", second)
    workspace.FeedBlob("t", np.ones((5,), np.int64))  # an array is written into the tensor that the blob has
    for kept in (first, *fetched):
        assert kept.shape == (2, 3) and (kept == 7).all()
    assert second.tolist() == [1] * 5 and second.dtype == torch.int64
