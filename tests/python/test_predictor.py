"""Models saved for prediction and loaded again."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2, metanet_pb2
from caffe2.python import brew, workspace
from caffe2.python.model_helper import ModelHelper
from caffe2.python.predictor import mobile_exporter, predictor_exporter, predictor_py_utils, serde
from caffe2.python.predictor_constants import predictor_constants


def trained():
    model = ModelHelper(name="net")
    brew.softmax(model, brew.fc(model, "x", "fc", 4, 3), "y")
    workspace.RunNetOnce(model.param_init_net)
    x = np.random.RandomState(0).randn(2, 4).astype("f")
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(model.net)
    return model, x, workspace.FetchBlob("y")


def meta(model, **kwargs):
    return predictor_exporter.PredictorExportMeta(
        predict_net=model.net.Proto(),
        parameters=["fc_w", "fc_b"],
        inputs=["x"],
        outputs=["y"],
        shapes={"x": (2, 4), "y": (2, 3)},
        **kwargs,
    )


def test_saved_and_loaded_a_model_predicts_the_same(tmp_path):
    model, x, y = trained()
    path = str(tmp_path / "model.minidb")
    predictor_exporter.save_to_db("minidb", path, meta(model))
    workspace.ResetWorkspace()
    net = predictor_exporter.prepare_prediction_net(path, "minidb")
    assert {"fc_w", "fc_b", "x", "y"} <= set(workspace.Blobs())
    assert not workspace.FetchBlob("x").any()  # inputs begin as zeros
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), y)


def test_the_file_tells_what_is_in_it(tmp_path):
    model, _, _ = trained()
    path = str(tmp_path / "model.minidb")
    predictor_exporter.save_to_db("minidb", path, meta(model, num_workers=2, net_type="dag"))
    workspace.ResetWorkspace()
    loaded = predictor_exporter.load_from_db(path, "minidb")
    assert list(predictor_py_utils.GetBlobs(loaded, predictor_constants.PARAMETERS_BLOB_TYPE)) == ["fc_w", "fc_b"]
    assert list(predictor_py_utils.GetBlobs(loaded, predictor_constants.INPUTS_BLOB_TYPE)) == ["x"]
    assert list(predictor_py_utils.GetBlobs(loaded, predictor_constants.OUTPUTS_BLOB_TYPE)) == ["y"]
    predict = predictor_py_utils.GetNet(loaded, predictor_constants.PREDICT_NET_TYPE)
    assert (predict.type, predict.num_workers) == ("dag", 2)


def test_mistakes_are_told_when_exporting(tmp_path):
    model, _, _ = trained()
    workspace.ResetWorkspace()
    with pytest.raises(RuntimeError, match="fc_"):
        predictor_exporter.save_to_db("minidb", str(tmp_path / "m"), meta(model))
    with pytest.raises(AssertionError):
        predictor_exporter.PredictorExportMeta(
            predict_net=model.net.Proto(), parameters=["x"], inputs=["x"], outputs=["y"]
        )
    assert predictor_py_utils.GetNet(metanet_pb2.MetaNetDef(), "no such net") is None


def test_a_message_survives_as_an_array():
    message = caffe2_pb2.NetDef(name="n", external_input=["a", "b"])
    array = serde.serialize_protobuf_struct(message)
    assert serde.deserialize_protobuf_struct(array, caffe2_pb2.NetDef) == message


def test_mobile_nets_carry_their_parameters():
    model, x, y = trained()
    init, predict = mobile_exporter.Export(workspace, model.net, model.params)
    workspace.ResetWorkspace()
    workspace.RunNetOnce(init)
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(predict)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), y)
