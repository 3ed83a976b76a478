"""Layer models: records, names, the nets of training, evaluation and prediction, and a training that learns."""

import numpy as np
import pytest

from caffe2lite.python import layer_model_instantiator as instantiator
from caffe2lite.python import schema, scope, workspace
from caffe2lite.python.layer_model_helper import LayerModelHelper
from caffe2lite.python.layers.layers import InstantiationContext
from caffe2lite.python.layers.tags import Tags
from caffe2lite.python.modeling.parameter_sharing import ParameterSharing
from caffe2lite.python.optimizer import SgdOptimizer


@pytest.fixture
def model():
    workspace.ResetWorkspace()
    features = schema.Struct(
        ("dense", schema.Scalar((np.float32, (4,)))),
        ("ids", schema.List(schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=10)))),
    )
    made = LayerModelHelper("model", features, schema.Struct(("label", schema.Scalar((np.float32, (1,))))))
    made.default_optimizer = SgdOptimizer(0.1)
    return made


def kinds(net):
    return [op.type for op in net.Proto().op]


def test_names_and_types_of_records(model):
    inputs = model.input_feature_schema
    out = model.FC(inputs.dense, 3)
    assert (str(out()), out.field_type()) == ("fc/output", np.dtype((np.float32, (3,))))
    assert str(model.FC(out, 2)()) == "fc_auto_0/output"
    assert model.Softsign(out, 1).field_type().shape == (3,)
    with scope.NameScope("tower"):
        assert str(model.FC(out, 2, name="top")()) == "tower/top/output"
    looked_up = model.SparseLookup(inputs.ids, [5], "Sum")
    assert looked_up.field_type().shape == (5,)
    assert [str(p) for p in model.params[-2:]] == ["sparse_lookup/w", "sparse_lookup/scale_bias"]
    with pytest.raises(AttributeError, match="NoSuchLayer"):
        model.NoSuchLayer  # noqa: B018
    with pytest.raises(AssertionError, match="PositionWeighted"):
        model.SparseLookup(inputs.ids, [5], "PositionWeighted")


def test_tags_and_contexts_decide_what_is_in_a_net(model):
    dense = model.input_feature_schema.dense
    with Tags(Tags.EXCLUDE_FROM_PREDICTION):
        logged = model.Log(dense, 1)
    dropped = model.Dropout(dense)
    chosen = model.SelectRecordByContext(
        schema.Struct(
            (InstantiationContext.PREDICTION, dense),
            (InstantiationContext.TRAINING, logged),
            (InstantiationContext.EVAL, logged),
        )
    )
    model.output_schema = schema.Struct(("chosen", chosen), ("dropped", dropped))
    assert kinds(instantiator.generate_predict_net(model)) == ["Dropout", "Alias"]
    assert kinds(instantiator.generate_eval_net(model)) == ["Log", "Dropout", "Alias"]
    training = instantiator.generate_training_nets_forward_only(model)[1]
    assert [op.arg[1].i for net in (training,) for op in net.Proto().op if op.type == "Dropout"] == [0]
    assert training.output_record().field_names() == ["chosen", "dropped"]


def test_shared_parameters(model):
    dense = model.input_feature_schema.dense
    with ParameterSharing({"fc_auto_0": "fc"}):
        model.FC(dense, 2)
        model.FC(dense, 2)
        assert [str(layer.w) for layer in model.layers] == ["fc/w", "fc/w"]
    with ParameterSharing({"other": "fc"}), pytest.raises(ValueError, match="inconsistent shapes"):
        model.FC(dense, 3, name="other")


def test_a_training_learns(model):
    inputs = model.input_feature_schema
    both = model.Concat(schema.Struct(("a", inputs.dense), ("b", model.SparseLookup(inputs.ids, [4], "Mean"))))
    logit = model.FC(both, 1)
    loss = model.BatchMSELoss(schema.Struct(("label", model.trainer_extra_schema.label), ("prediction", logit)))
    model.add_loss(loss)
    model.add_metric_field("score", logit)
    model.output_schema = schema.Struct(("logit", logit))
    init, net = instantiator.generate_training_nets(model)
    rng = np.random.RandomState(1)
    dense = rng.randn(32, 4).astype(np.float32)
    schema.FeedRecord(inputs, [dense, np.ones(32, np.int32), np.arange(32) % 10])
    workspace.FeedBlob(model.trainer_extra_schema.label(), dense @ np.float32([1, -1, 2, 0]))
    workspace.RunNetOnce(init)
    workspace.CreateNet(net)
    losses = []
    for _ in range(30):
        workspace.RunNet(net)
        losses.append(float(workspace.FetchBlob(loss())))
    assert losses[-1] < losses[0] / 20
    assert workspace.FetchBlob(logit()).shape == (32, 1)


def test_constants_are_made_by_every_init_net(model):
    blob = model.add_global_constant("three", 3.0)
    assert model.maybe_add_global_constant("three", 3.0) == blob
    with pytest.raises(AssertionError, match="three"):
        model.maybe_add_global_constant("three", 4.0)
    workspace.RunNetOnce(model.create_init_net("constants"))
    assert workspace.FetchBlob(blob) == 3 and np.isnan(workspace.FetchBlob("NAN"))


def test_a_homotopy_weight_is_half_way_after_its_half_life(model):
    record = schema.NewRecord(model.net, schema.RawTuple(2))
    schema.FeedRecord(record, [np.array(1, np.float32), np.array(0, np.float32)])
    weight = model.HomotopyWeight(record, half_life=50, quad_life=5000)
    model.output_schema = schema.Struct()
    init, net = instantiator.generate_training_nets_forward_only(model)
    workspace.RunNetOnce(init)
    workspace.CreateNet(net)
    workspace.RunNet(net, 50)
    np.testing.assert_allclose(workspace.FetchBlob(weight()), 0.5, atol=0.01)
    workspace.RunNet(net, 4950)
    np.testing.assert_allclose(workspace.FetchBlob(weight()), 0.25, atol=0.01)
