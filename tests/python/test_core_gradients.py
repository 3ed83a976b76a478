"""Gradients of nets: which operators are added, in which order, under which names."""

import numpy as np
import pytest

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace


def added(net, before):
    return [(op.type, list(op.input), list(op.output)) for op in net.Proto().op[before:]]


def test_the_gradient_of_a_loss_starts_with_ones():
    net = core.Net("loss")
    y = net.Tanh("x", "y")
    grads = net.AddGradientOperators([y])
    assert added(net, 1) == [
        ("ConstantFill", ["y"], ["y_autogen_grad"]),
        ("TanhGradient", ["y", "y_autogen_grad"], ["x_grad"]),
    ]
    assert {k: str(v) for k, v in grads.items()} == {"y": "y_autogen_grad", "x": "x_grad"}
    assert all(op.is_gradient_op for op in net.Proto().op[2:])


def test_a_blob_with_two_readers_sums_what_they_give():
    net = core.Net("fork")
    a = net.Tanh("x", "a")
    b = net.Sigmoid("x", "b")
    out = net.Mul([a, b], "out")
    grads = net.AddGradientOperators({out: "given"})
    assert added(net, 3) == [
        ("MulGradient", ["given", "a", "b"], ["a_grad", "b_grad"]),
        ("SigmoidGradient", ["b", "b_grad"], ["x_grad"]),
        ("TanhGradient", ["a", "a_grad"], ["_x_grad_autosplit_0"]),
        ("Sum", ["x_grad", "_x_grad_autosplit_0"], ["x_grad"]),
    ]
    assert str(grads["x"]) == "x_grad"


def test_sparse_gradients_are_concatenated():
    net = core.Net("sparse")
    a = net.Gather(["w", "i"], "a")
    b = net.Gather(["w", "j"], "b")
    loss = net.Add([a, b], "loss")
    grads = net.AddGradientOperators({loss: "g"})
    assert isinstance(grads["w"], core.GradientSlice)
    kinds = [t for t, _, _ in added(net, 3)]
    assert kinds.count("Concat") == 2
    assert [str(part) for part in (grads["w"].indices, grads["w"].values)] == [
        "w_grad_indices_concat",
        "w_grad_values_concat",
    ]


def test_gradients_stop_where_told():
    net = core.Net("stop")
    y = net.StopGradient(net.Tanh("x", "t"), "y")
    z = net.Mul([y, "w"], "z")
    grads = net.AddGradientOperators([z])
    assert "x" not in grads and "w" in grads
    orphan = core.Net("orphan")
    orphan.StopGradient(orphan.Tanh("x", "t"), "t2")
    with pytest.raises(ValueError, match="orphan"):
        orphan.AddGradientOperators({"t": "g"})


def test_an_overwritten_blob_has_the_gradient_of_its_last_version():
    net = core.Net("versions")
    net.Relu("x", "x")
    y = net.Tanh("x", "y")
    net.AddGradientOperators({y: "g"})
    assert added(net, 2) == [("TanhGradient", ["y", "g"], ["x_grad"]), ("ReluGradient", ["x", "x_grad"], ["x_grad"])]


def test_a_blob_that_its_gradient_needs_must_not_be_overwritten():
    net = core.Net("lost")
    y = net.Sqr("x", "y")
    net.Tanh("y", "x")
    with pytest.raises(RuntimeError, match="x"):
        net.AddGradientOperators({y: "g"})


def test_an_operator_without_gradient_is_refused():
    net = core.Net("refused")
    y = net.ArgMax("x", "y")
    with pytest.raises(Exception, match="ArgMax"):
        net.AddGradientOperators({y: "g"})


def test_gradients_of_ones_own_operator():
    @core.GradientRegistry.RegisterGradient("OurOwn")
    def back(op, g_output):
        return core.CreateOperator("OurOwnBack", [op.input[0], g_output[0]], [op.input[0] + "_g"]), [op.input[0] + "_g"]

    ops, grads = core.GradientRegistry.GetBackwardPass([core.CreateOperator("OurOwn", "x", "y")], {"y": "dy"})
    assert [op.type for op in ops] == ["OurOwnBack"]
    assert str(grads["x"]) == "x_g"


def test_sums_stand_on_the_device_of_their_generators():
    gpu = core.DeviceOption(caffe2_pb2.CUDA, 1)
    net = core.Net("devices")
    with core.DeviceScope(gpu):
        out = net.Mul([net.Tanh("x", "a"), net.Sigmoid("x", "b")], "out")
    net.AddGradientOperators({out: "g"})
    assert net.Proto().op[-1].type == "Sum"
    assert net.Proto().op[-1].device_option.device_id == 1


def test_a_step_down_the_gradient_lowers_the_loss():
    rng = np.random.RandomState(0)
    workspace.ResetWorkspace()
    for name, shape in (("x", (8, 3)), ("w", (2, 3)), ("b", (2,)), ("t", (8, 2))):
        workspace.FeedBlob(name, rng.randn(*shape).astype(np.float32))
    net = core.Net("step")
    loss = net.AveragedLoss(net.SquaredL2Distance([net.FC(["x", "w", "b"], "y"), "t"], "d"), "loss")
    grads = net.AddGradientOperators([loss])
    workspace.RunNetOnce(net)
    x, w, b, t = (workspace.FetchBlob(n).astype(np.float64) for n in "xwbt")
    error = x @ w.T + b - t
    np.testing.assert_allclose(workspace.FetchBlob(grads["w"]), error.T @ x / 8, rtol=1e-4)
    np.testing.assert_allclose(workspace.FetchBlob(grads["b"]), error.mean(0), rtol=1e-4)
