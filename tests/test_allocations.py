"""A warmed net allocates no tensors: outputs and working memory are kept from run to run."""

import tracemalloc

import numpy as np
import pytest
from caffe2.python import core, workspace

SHAPE = (2, 16, 64, 64)  # half a megabyte
LIMIT = 130_000  # bytes, a quarter of it: NumPy has buffers of 3 x 8192 elements of its own
CHANNELS = {"s": 16, "b": 16, "m": 16, "v": 16}

NETS = {
    "Conv": (["x", "filter", "b"], ["y"], {"kernel": 3, "pad": 1}),
    "ConvGradient": (["x", "filter", "x"], ["dw", "db", "dx"], {"kernel": 3, "pad": 1}),
    "MaxPool": (["x"], ["y"], {"kernel": 3, "stride": 2, "pad": 1}),
    "AveragePool": (["x"], ["y"], {"kernel": 3, "stride": 2, "pad": 1}),
    "AveragePoolGradient": (["x", "half", "half"], ["dx"], {"kernel": 2, "stride": 2}),
    "SpatialBN": (["x", "s", "b", "m", "v"], ["y", "m", "v", "sm", "sv"], {"is_test": 0}),
    "SpatialBNGradient": (["x", "s", "x", "m", "v"], ["dx", "ds", "db"], {}),
    "LRN": (["x"], ["y", "scale"], {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    "LRNGradient": (["x", "x", "x"], ["dx"], {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    "Relu": (["x"], ["y"], {}),
    "ReluGradient": (["x", "x"], ["dx"], {}),
    "Sigmoid": (["x"], ["y"], {}),
    "Tanh": (["x"], ["y"], {}),
    "Softmax": (["rows"], ["y"], {}),
    "SoftmaxGradient": (["rows", "rows"], ["y"], {}),
    "SoftmaxWithLoss": (["rows", "label"], ["p", "loss"], {}),
    "FC": (["rows", "weights", "bias"], ["y"], {}),
    "FCGradient": (["rows", "weights", "rows"], ["dw", "db", "dx"], {}),
    "MatMul": (["rows", "weights"], ["y"], {}),
    "Add": (["x", "x"], ["y"], {}),
    "Mul": (["x", "x"], ["y"], {}),
    "Sum": (["x", "x", "x"], ["y"], {}),
    "Concat": (["x", "x"], ["y", "split"], {"axis": 1}),
    "Copy": (["x"], ["y"], {}),
    "Scale": (["x"], ["y"], {"scale": 2.0}),
    "MomentumSGDUpdate": (["x", "moment", "lr", "param"], ["x", "moment", "param"], {"momentum": 0.9}),
    "Adam": (["param", "moment", "square", "x", "lr", "it"], ["param", "moment", "square"], {}),
    "Adagrad": (["param", "square", "x", "lr"], ["param", "square"], {}),
    "Gather": (["rows", "index"], ["y"], {}),
    "SparseLengthsSum": (["rows", "index", "lengths"], ["y"], {}),
}


@pytest.fixture(autouse=True)
def operands():
    workspace.ResetWorkspace()
    rng = np.random.RandomState(0)
    for name in ("x", "moment", "param"):
        workspace.FeedBlob(name, rng.rand(*SHAPE).astype("f"))
    workspace.FeedBlob("square", np.ones(SHAPE, "f"))
    workspace.FeedBlob("half", rng.rand(2, 16, 32, 32).astype("f"))
    workspace.FeedBlob("filter", rng.rand(16, 16, 3, 3).astype("f"))
    workspace.FeedBlob("rows", rng.rand(360, 360).astype("f"))
    workspace.FeedBlob("weights", rng.rand(360, 360).astype("f"))
    workspace.FeedBlob("bias", rng.rand(360).astype("f"))
    workspace.FeedBlob("label", np.arange(360, dtype="int32"))
    workspace.FeedBlob("index", np.arange(360))
    workspace.FeedBlob("lengths", np.full(36, 10, "int32"))
    workspace.FeedBlob("lr", np.array([0.1], "f"))
    workspace.FeedBlob("it", np.array([1]))
    for name, n in CHANNELS.items():
        workspace.FeedBlob(name, np.ones(n, "f"))


@pytest.mark.parametrize("kind", NETS)
def test_a_warm_operator_allocates_no_tensor(kind):
    inputs, outputs, args = NETS[kind]
    net = core.Net("warm")
    getattr(net, kind)(inputs, outputs, **args)
    workspace.CreateNet(net)
    workspace.RunNet(net, 4)
    tracemalloc.start()
    try:
        workspace.RunNet(net)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        workspace.RunNet(net)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < LIMIT
