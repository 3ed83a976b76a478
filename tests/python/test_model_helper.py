"""Models: parameters, their initial values, tags and sharing; the functions of brew."""

import numpy as np
import pytest
from caffe2.python import brew, core, workspace
from caffe2.python.model_helper import ExtractPredictorNet, ModelHelper
from caffe2.python.modeling import initializers
from caffe2.python.modeling.parameter_sharing import ParameterSharing


def run(model, **feeds):
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)


def fetch(*blobs):
    return [workspace.FetchBlob(blob) for blob in blobs]


def test_a_layer_computes_and_keeps_its_parameters():
    model = ModelHelper(name="m")
    out = brew.relu(model, brew.fc(model, "x", "fc", 4, 3), "out")
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    run(model, x=x)
    w, b, y = fetch("fc_w", "fc_b", out)
    assert w.shape == (3, 4) and np.abs(w).max() <= np.sqrt(3 / 4)  # Xavier: uniform within sqrt(3 / fan in)
    assert not b.any()
    np.testing.assert_allclose(y, np.maximum(x @ w.T + b, 0), rtol=1e-5)
    assert [str(p) for p in model.GetParams()] == ["fc_w", "fc_b"]


def test_tags_say_weights_and_biases():
    model = ModelHelper(name="m")
    brew.conv(model, "x", "conv", 3, 8, kernel=3)
    brew.spatial_bn(model, "conv", "bn", 8, is_test=False)
    assert [str(p) for p in model.weights] == ["conv_w", "bn_s"]
    assert [str(p) for p in model.biases] == ["conv_b", "bn_b"]
    assert [str(p) for p in model.GetComputedParams()] == ["bn_rm", "bn_riv"]


def test_parameters_of_a_name_scope():
    model = ModelHelper(name="m")
    for name in ("a", "ab"):
        with core.NameScope(name):
            brew.fc(model, "x", "fc", 2, 2)
    assert [str(p) for p in model.GetParams("a")] == ["a/fc_w", "a/fc_b"]
    assert len(model.GetParams("")) == 4


def test_without_initial_values_parameters_come_from_outside():
    model = ModelHelper(name="m", init_params=False)
    brew.fc(model, "x", "fc", 2, 3)
    assert not model.param_init_net.Proto().op
    assert list(model.net.Proto().external_input) == ["x", "fc_w", "fc_b"]
    workspace.FeedBlob("fc_w", np.ones((3, 2), "f"))
    workspace.FeedBlob("fc_b", np.arange(3, dtype="f"))
    run(model, x=np.ones((1, 2), "f"))
    assert workspace.FetchBlob("fc").tolist() == [[2, 3, 4]]


@pytest.mark.parametrize("initializer", [initializers.PseudoFP16Initializer, initializers.ReversePseudoFP16Initializer])
def test_half_precision_parameters_have_a_float_copy(initializer):
    model = ModelHelper(name="m")
    brew.fc(model, "x", "fc", 4, 3, WeightInitializer=initializer, BiasInitializer=initializer)
    workspace.RunNetOnce(model.param_init_net)
    copies = model.get_param_info(core.BlobReference("fc_w")).blob_copy
    other = next(iter(copies.values()))
    both = fetch("fc_w", other)
    assert sorted(str(v.dtype) for v in both) == ["float16", "float32"]
    np.testing.assert_allclose(*[v.astype("f") for v in both], atol=1e-3)


def test_shared_parameters_are_one_blob():
    model = ModelHelper(name="m")
    with ParameterSharing({"decoder": "encoder"}):
        for name in ("encoder", "decoder"):
            with core.NameScope(name):
                brew.fc(model, "x", "fc", 3, 3)
    assert [str(p) for p in model.GetParams()] == ["encoder/fc_w", "encoder/fc_b"]
    run(model, **{"encoder/x": np.eye(3, dtype="f"), "decoder/x": np.eye(3, dtype="f")})
    np.testing.assert_array_equal(*fetch("encoder/fc", "decoder/fc"))


def test_sharing_refuses_circles_and_other_shapes():
    model = ModelHelper(name="m")
    with ParameterSharing({"a": "b", "b": "a"}), core.NameScope("a"), pytest.raises(RecursionError, match="circle"):
        brew.fc(model, "x", "fc", 3, 3)
    brew.fc(model, "x", "fc", 3, 3)
    with pytest.raises(AssertionError):
        model.create_param("fc_w", shape=[4, 4], initializer=initializers.Initializer("ConstantFill"))


def test_arguments_of_brew_come_from_scope_model_and_call():
    model = ModelHelper(name="m", arg_scope={"order": "NHWC"})
    with brew.arg_scope([brew.conv], stride=2, pad=1):
        brew.conv(model, "x", "a", 3, 8, kernel=3)
        brew.conv(model, "x", "b", 3, 8, kernel=3, stride=4)
    brew.conv(model, "x", "c", 3, 8, kernel=3)
    names = ("order", "stride", "pad")
    found = [{a.name: a.i or a.s for a in op.arg if a.name in names} for op in model.net.Proto().op]
    assert found == [
        {"order": b"NHWC", "stride": 2, "pad": 1},
        {"order": b"NHWC", "stride": 4, "pad": 1},
        {"order": b"NHWC"},
    ]


def test_functions_can_be_registered_with_brew():
    def double(model, blob_in, blob_out, **kwargs):
        return model.net.Scale(blob_in, blob_out, scale=2.0)

    brew.Register(double)
    model = ModelHelper(name="m")
    brew.double(model, "x", "y")
    run(model, x=np.ones(3, "f"))
    assert workspace.FetchBlob("y").tolist() == [2, 2, 2]
    with pytest.raises(AttributeError, match="already exists"):
        brew.Register(double)
    with pytest.raises(AttributeError):
        brew.no_such_function  # noqa: B018


def test_operators_that_no_helper_knows_are_refused():
    model = ModelHelper(name="m")
    with pytest.raises(AttributeError, match="NoSuchOperator"):
        model.NoSuchOperator("x", "y")


def test_gradients_are_known_by_parameter():
    model = ModelHelper(name="m")
    loss = model.AveragedLoss(brew.fc(model, "x", "fc", 3, 2), "loss")
    model.AddGradientOperators([loss])
    run(model, x=np.ones((2, 3), "f"))
    assert {str(p): str(g) for p, g in model.param_to_grad.items()} == {"fc_w": "fc_w_grad", "fc_b": "fc_b_grad"}
    np.testing.assert_allclose(workspace.FetchBlob("fc_w_grad"), np.full((2, 3), 0.5))


def test_the_predictor_net_holds_what_the_outputs_need():
    model = ModelHelper(name="m")
    h = brew.fc(model, "x", "fc1", 3, 4)
    out = brew.softmax(model, brew.fc(model, h, "fc2", 4, 2), "out")
    model.AddGradientOperators([model.AveragedLoss(out, "loss")])
    net, exports = ExtractPredictorNet(model.net.Proto(), ["x"], ["out"])
    assert [op.type for op in net.Proto().op] == ["FC", "FC", "Softmax"]
    assert {str(b) for b in exports} == {"fc1_w", "fc1_b", "fc2_w", "fc2_b"}
    run(model, x=np.ones((2, 3), "f"))
    expected = workspace.FetchBlob("out")
    workspace.FeedBlob("out", np.zeros(1, "f"))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("out"), expected)
