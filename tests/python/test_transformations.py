"""Rewrites of nets keep what they compute."""

import numpy as np
import pytest

from caffe2lite.python import core, workspace
from caffe2lite.python.onnx import helper
from caffe2lite.python.onnx.backend_rep import Caffe2Rep
from caffe2lite.python.onnx.workspace import Workspace as OwnWorkspace
from caffe2lite.python.transformations import Transformer


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def feed(*names):
    rng = np.random.RandomState(0)
    shapes = {"X": (1, 2, 6, 6), "w": (3, 2, 3, 3)}
    for name in names:
        workspace.FeedBlob(name, (rng.rand(*shapes.get(name, (3,))) + 0.5).astype(np.float32))


@pytest.mark.parametrize("bias", [[], ["b"]])
def test_batch_normalization_goes_into_the_weights(bias):
    feed("X", "w", "scale", "shift", "mean", "var", *bias)
    net = core.Net("norm")
    net.Conv(["X", "w", *bias], ["Y"], kernel=3)
    net.SpatialBN(["Y", "scale", "shift", "mean", "var"], ["Z"], is_test=True, epsilon=0.01)
    workspace.RunNetOnce(net)
    before = workspace.FetchBlob("Z")
    Transformer().FuseConvBN(net)
    assert [op.type for op in net.Proto().op] == ["Conv"]
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("Z"), before, rtol=1e-4)


def test_statistics_of_the_batch_stay():
    feed("X", "w", "scale", "shift", "mean", "var")
    net = core.Net("training")
    net.Conv(["X", "w"], ["Y"], kernel=3)
    net.SpatialBN(["Y", "scale", "shift", "mean", "var"], ["Z", "mean", "var", "m", "v"], is_test=False)
    Transformer().FuseConvBN(net)
    assert [op.type for op in net.Proto().op] == ["Conv", "SpatialBN"]


@pytest.mark.parametrize(
    ("relu_output", "output"), [("Y2", "Y2"), ("Y", "Y"), ("X", "Y")], ids=["new", "in place", "over the input"]
)
def test_a_relu_goes_into_the_convolution(relu_output, output):
    net = core.Net("relu")
    net.Conv(["X", "w", "b"], ["Y"], kernel=3, order="NCHW")
    net.Relu(["Y"], [relu_output])
    net.Tanh([relu_output], ["end"])
    Transformer().AddNNPACK(net)
    Transformer().FuseNNPACKConvRelu(net)
    assert [(op.type, list(op.input), list(op.output)) for op in net.Proto().op] == [
        ("Conv", ["X", "w", "b"], [output]),
        ("Tanh", [output], ["end"]),
    ]
    assert {a.name: a.s for a in net.Proto().op[0].arg}["activation"] == b"Relu"


def test_what_others_read_is_not_fused():
    net = core.Net("read twice")
    net.Conv(["X", "w", "b"], ["Y"], kernel=3, order="NCHW")
    net.Relu(["Y"], ["A"])
    net.Tanh(["Y"], ["B"])
    Transformer().AddNNPACK(net)
    Transformer().FuseNNPACKConvRelu(net)
    assert len(net.Proto().op) == 3
    with pytest.raises(AttributeError, match="NoSuch"):
        Transformer().NoSuch(net)


def test_pairs_of_nets_run_in_workspaces_of_their_own(tmp_path):
    init, predict = core.Net("init"), core.Net("predict")
    init.ConstantFill([], "w", shape=[3], value=2.0)
    predict.AddExternalInput("x", "w")
    predict.AddExternalOutput(predict.Mul(["x", "w"], "y"))
    x = np.array([1, 2, 3], np.float32)
    ws, outputs = helper.c2_native_run_net(init.Proto(), predict.Proto(), [x])
    np.testing.assert_array_equal(outputs.y, [2, 4, 6])
    assert ws.HasBlob("w") and not workspace.HasBlob("w")
    with pytest.raises(AssertionError, match="1 inputs"):
        helper.c2_native_run_net(init.Proto(), predict.Proto(), [x, x, x])
    helper.save_caffe2_net(predict.Proto(), tmp_path / "net.pb", output_txt=True)
    assert helper.load_caffe2_net(tmp_path / "net.pb") == predict.Proto()
    assert "Mul" in (tmp_path / "net.pbtxt").read_text()
    rep = Caffe2Rep(init.Proto(), predict.Proto(), OwnWorkspace(), ["x"])
    for inputs in ([x], {"x": x}, x):
        np.testing.assert_array_equal(rep.run(inputs)["y"], [2, 4, 6])
    with pytest.raises(RuntimeError, match="got 2"):
        rep.run([x, x])
