"""The workspace module: blobs in and out, several workspaces, nets and operators run, shapes inferred."""

import logging

import numpy as np
import pytest

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "f2", "f4", "f8"])
def test_arrays_come_back_as_they_went_in(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    assert workspace.FeedBlob("a", array)
    back = workspace.FetchBlob("a")
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    array[:] = 0
    np.testing.assert_array_equal(workspace.FetchBlob("a"), back)


def test_strings_and_messages():
    workspace.FeedBlob("s", "text")
    assert workspace.FetchBlob("s") == b"text"
    workspace.FeedBlob("many", np.array([b"ab", b"cde"], dtype=object))
    assert list(workspace.FetchBlob("many")) == [b"ab", b"cde"]
    proto = caffe2_pb2.TensorProto(dims=[2], data_type=caffe2_pb2.TensorProto.FLOAT, float_data=[1, 2])
    workspace.FeedBlob("p", proto)
    np.testing.assert_array_equal(workspace.FetchBlob("p"), [1, 2])


def test_blobs_by_name():
    workspace.FeedBlob("x", np.zeros(3, np.float32))
    assert workspace.HasBlob("x") and workspace.HasBlob(core.BlobReference("x")) and not workspace.HasBlob("y")
    assert workspace.blobs["x"].shape == (3,)
    workspace.blobs["y"] = np.ones(2, np.float32)
    assert sorted(workspace.blobs) == ["x", "y"]
    np.testing.assert_array_equal(workspace.FetchBlobs(["y"])[0], [1, 1])
    assert workspace.ResetBlob("x") is None
    with pytest.raises(RuntimeError, match="absent"):
        workspace.FetchBlob("absent")


def test_a_workspace_of_ones_own_sees_only_its_blobs():
    workspace.FeedBlob("outer", np.zeros(1))
    with workspace.WorkspaceGuard("inner"):
        assert workspace.Blobs() == []
        workspace.FeedBlob("x", np.zeros(1))
        assert workspace.CurrentWorkspace() == "inner"
    assert workspace.CurrentWorkspace() == "default"
    assert workspace.Blobs() == ["outer"]
    with pytest.raises(RuntimeError):
        workspace.SwitchWorkspace("never made")
    workspace.SwitchWorkspace("made", True)
    workspace.SwitchWorkspace("default")


def test_what_runs_is_named_or_given():
    workspace.FeedBlob("x", np.array([-1, 2], np.float32))
    assert workspace.RunOperatorOnce(core.CreateOperator("Relu", "x", "y"))
    workspace.RunOperatorsOnce([core.CreateOperator("Relu", "y", "z"), core.CreateOperator("Negative", "z", "z")])
    np.testing.assert_array_equal(workspace.FetchBlob("z"), [0, -2])
    net = core.Net("double")
    net.Add(["x", "x"], "x")
    with pytest.raises(RuntimeError, match=net.Name()):
        workspace.RunNet(net)
    workspace.CreateNet(net)
    workspace.RunNet(net, 3)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [-8, 16])
    with pytest.raises(RuntimeError, match=net.Name()):
        workspace.CreateNet(net)
    workspace.CreateNet(net, overwrite=True)


def test_shapes_and_types_are_inferred():
    net = core.Net("infer")
    net.FC(["x", "w", "b"], "y")
    net.Cast("y", "i", to=core.DataType.INT32)
    shapes, types = workspace.InferShapesAndTypes([net], blob_dimensions={"x": [4, 3], "w": [2, 3], "b": [2]})
    assert shapes["y"] == [4, 2] and shapes["i"] == [4, 2]
    assert (types["y"], types["i"]) == (core.DataType.FLOAT, core.DataType.INT32)


def test_a_predictor_takes_a_list_or_names():
    init, predict = core.Net("init"), core.Net("predict")
    init.GivenTensorFill([], "w", shape=[2], values=[2.0, 3.0])
    predict.AddExternalInput("x", "w")
    predict.AddExternalOutput(predict.Mul(["x", "w"], "y"))
    predictor = workspace.Predictor(init.Proto().SerializeToString(), predict.Proto().SerializeToString())
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(predictor.run([x])[0], [2, 6])
    np.testing.assert_array_equal(predictor.run({"x": x})[0], [2, 6])


def test_blobs_pass_through_bytes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    workspace.FeedBlob("x", x)
    raw = workspace.SerializeBlob("x")
    workspace.DeserializeBlob("copy", raw)
    np.testing.assert_array_equal(workspace.FetchBlob("copy"), x)
    saved = caffe2_pb2.BlobProto.FromString(raw)
    assert (saved.name, saved.type, list(saved.tensor.dims)) == ("x", "Tensor", [2, 3])


def test_immediate_mode_runs_as_it_builds():
    workspace.StartImmediate(i_know=True)
    try:
        assert workspace.IsImmediate()
        workspace.FeedImmediate("x", np.array([-1, 1], np.float32))
        core.Net("now").Relu("x", "y")
        np.testing.assert_array_equal(workspace.FetchImmediate("y"), [0, 1])
    finally:
        workspace.StopImmediate()
    assert not workspace.IsImmediate() and not workspace.HasBlob("y")


def test_a_benchmark_times_the_net_and_each_operator():
    workspace.FeedBlob("x", np.zeros(4, np.float32))
    net = core.Net("timed")
    net.Relu("x", "y")
    net.Tanh("y", "z")
    workspace.CreateNet(net)
    times = workspace.BenchmarkNet(net.Name(), 1, 2, True)
    assert len(times) == 3 and all(t >= 0 for t in times)


def test_workspaces_as_objects():
    ws = workspace.C.Workspace()
    ws.create_blob("x").feed(np.array([1.0, -2.0], np.float32))
    ws.run(core.CreateOperator("Abs", "x", "y"))
    np.testing.assert_array_equal(ws.blobs["y"].fetch(), [1, 2])
    with pytest.raises(TypeError):
        ws.create_net("no net")


def test_free_takes_blobs_that_hold_nothing():
    workspace.CreateBlob("empty")
    workspace.FeedBlob("full", np.ones(3))
    workspace.RunOperatorOnce(core.CreateOperator("Free", ["empty", "full"], ["empty", "full"]))
    assert workspace.FetchBlob("full") == workspace.FetchBlob("empty").replace(b"empty", b"full")


def test_random_inputs_of_a_net():
    net = core.Net("random_inputs")
    net.SparseLengthsSum(["data", "indices", "lengths"], "pooled")
    net.Relu("pooled", "y")
    net.Add(["y", "z"], "sum")
    dims = [[(30, 4), (12,), (5,)], [(5, 4)]]
    workspace.FillRandomNetworkInputs(net, dims, [["float", "long", "int"], ["float"]])
    assert workspace.FetchBlob("lengths").sum() == 12
    assert workspace.FetchBlob("indices").max() < 30
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("sum").shape == (5, 4)
    for wrong in (
        (dims[:1], [["float", "long", "int"]]),
        (dims, [["float"], ["float"]]),
        (dims, [["half"] * 3, ["float"]]),
    ):
        with pytest.raises(RuntimeError):
            workspace.FillRandomNetworkInputs(net, *wrong)


def test_floating_point_errors_are_told_when_asked_for():
    workspace.FeedBlob("one", np.ones(1, np.float32))
    workspace.FeedBlob("zero", np.zeros(1, np.float32))
    net = core.Net("division")
    net.Div(["one", "zero"], "out")
    try:
        core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=1"])
        with pytest.raises(RuntimeError, match="divide by zero"):
            workspace.RunNetOnce(net)
    finally:
        core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=0"])
    workspace.RunNetOnce(net)
    assert np.isinf(workspace.FetchBlob("out"))


def test_an_operator_that_stops_is_an_error_when_it_runs_alone():
    workspace.RunOperatorOnce(core.CreateOperator("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=1))
    workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", ["queue"], []))
    read = core.CreateOperator("DequeueBlobs", ["queue"], ["x"])
    for run in (workspace.RunOperatorOnce, lambda op: workspace.RunOperatorsOnce([op])):
        with pytest.raises(RuntimeError, match="DequeueBlobs stopped"):
            run(read)


@pytest.mark.parametrize(
    "flags", [["--bogus=1"], ["--caffe2_log_level=high"], ["--caffe2_operator_throw_if_fp_exceptions=maybe"]]
)
def test_a_flag_that_caffe2_does_not_have_is_refused(flags):
    with pytest.raises(RuntimeError, match=flags[0]):
        core.GlobalInit(["caffe2", *flags])


def test_flags_are_read_as_one_word_or_two():
    log = logging.getLogger("caffe2lite")
    before = log.level
    try:
        core.GlobalInit(["caffe2", "--caffe2_gpu_memory_tracking", "--caffe2_log_level", "1", "--logtostderr", "word"])
        assert log.level == logging.WARNING
        core.GlobalInit(["caffe2", "--caffe2_log_level=0"])
        assert log.level == logging.INFO
    finally:
        log.setLevel(before)
