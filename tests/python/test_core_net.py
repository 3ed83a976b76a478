"""Nets as scripts build them: the names they count, what is external, clones, operators and their arguments."""

import numpy as np
import pytest

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, schema, scope, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()
    core.Net._net_names_used.clear()


def ops(net):
    return [(op.type, list(op.input), list(op.output)) for op in net.Proto().op]


def test_names_of_nets_and_blobs_are_counted():
    assert [core.Net(n).Name() for n in ("n", "n", "n", "m")] == ["n", "n_1", "n_2", "m"]
    net = core.Net("count")
    x = net.AddExternalInput("x")
    assert [str(net.Relu(x)) for _ in range(3)] == ["count/Relu", "count/Relu_2", "count/Relu_3"]
    assert [str(b) for b in net.Split(x, 2)] == ["count/Split:0", "count/Split:1"]
    with scope.NameScope("s"):
        assert str(net.Relu(x, "y")) == "s/y"
        assert str(net.NextScopedBlob("z")) == "s/z"
        assert str(net.NextScopedBlob("z")) == "s/z_auto_0"


def test_what_was_not_made_is_external():
    net = core.Net("external")
    y = net.FC(["x", "w", "b"], "y")
    net.Relu("y", "y")
    assert list(net.Proto().external_input) == ["x", "w", "b"]
    assert net.BlobIsDefined("y") and net.BlobIsDefined("x") and not net.BlobIsDefined("z")
    net.AddExternalOutput(y)
    assert [str(b) for b in net.external_outputs] == ["y"]
    with pytest.raises(AssertionError):
        net.AddExternalOutput("a name is no blob")


def test_a_blob_calls_operators_on_its_net():
    net = core.Net("refs")
    y = net.Relu("x", "y").FC(["w", "b"], "z")
    assert ops(net) == [("Relu", ["x"], ["y"]), ("FC", ["y", "w", "b"], ["z"])]
    assert str(y + "_grad") == "z_grad" and str("a/" + y) == "a/z"
    assert core.BlobReference("a/b/c").GetNameScope() == "a/b/"
    assert core.BlobReference("a/b/c").GetUnscopedName() == "c"


@pytest.mark.parametrize("target", ["net", "blob"])
def test_an_unknown_operator_is_told_with_similar_names(target):
    net = core.Net("unknown")
    with pytest.raises(AttributeError, match="Conv"):
        (net if target == "net" else net.Relu("x", "y")).Convv  # noqa: B018


@pytest.mark.parametrize(
    ("value", "field", "stored"),
    [
        (3, "i", 3),
        (True, "i", 1),
        (2.5, "f", 2.5),
        ("text", "s", b"text"),
        ([1, 2], "ints", [1, 2]),
        ([1.5, 2.0], "floats", [1.5, 2.0]),
        (["a", "b"], "strings", [b"a", b"b"]),
        (np.float32(0.5), "f", 0.5),
        (np.array([4, 5]), "ints", [4, 5]),
        (np.int64(7), "i", 7),
    ],
)
def test_arguments(value, field, stored):
    (arg,) = core.CreateOperator("Relu", "x", "y", an_argument=value).arg
    kept = getattr(arg, field)
    assert (list(kept) if isinstance(stored, list) else kept) == stored
    assert arg.name == "an_argument"


def test_an_operator_takes_the_device_of_its_scope_and_its_own_over_it():
    gpu = core.DeviceOption(caffe2_pb2.CUDA, 1)
    with core.DeviceScope(gpu):
        inner = core.CreateOperator("Relu", "x", "y")
        own = core.CreateOperator("Relu", "x", "y", device_option=core.DeviceOption(caffe2_pb2.CPU))
    assert inner.device_option == gpu
    assert own.device_option.device_type == caffe2_pb2.CPU
    assert not core.CreateOperator("Relu", "x", "y").HasField("device_option")


def test_run_all_on_gpu():
    net = core.Net("gpu")
    net.RunAllOnGPU(gpu_id=2)
    net.Relu("x", "y")
    assert (net.Proto().device_option.device_type, net.Proto().device_option.device_id) == (caffe2_pb2.CUDA, 2)


def test_clones_share_nothing_and_rename_what_is_told():
    net = core.Net("origin")
    x = net.AddExternalInput("x")
    y = net.Relu(x, "y")
    z = net.Tanh(y, "z")
    net.AddExternalOutput(z)
    clone = net.Clone("copy", {str(x): "x2", str(y): "y2"})
    assert ops(clone) == [("Relu", ["x2"], ["y2"]), ("Tanh", ["y2"], ["z"])]
    assert list(clone.Proto().external_input) == ["x2"]
    clone.Sigmoid("z", "w")
    assert len(net.Proto().op) == 2
    kept = net.Clone("kept", keep_schema=True, op_id_mask=[0])
    assert ops(kept) == [("Relu", ["x"], ["y"])]


def test_a_part_of_a_net_as_a_net():
    net = core.Net("whole")
    x, w = net.AddExternalInput("x", "w")
    y = net.Mul([x, w], "y")
    z = net.Relu(y, "z")
    net.Tanh(z, "never")
    part, renamed = net.ClonePartial("part", {str(y): "given"}, [z])
    assert ops(part) == [("Relu", ["given"], [str(renamed[str(z)] if isinstance(renamed, dict) else renamed[0])])]
    assert list(part.Proto().external_input) == ["given"]


def test_append_net_joins_operators_and_externals():
    first, second = core.Net("first"), core.Net("second")
    first.Relu("x", "y")
    second.AddExternalOutput(second.FC(["y", "w", "b"], "z"))
    first.AppendNet(second)
    assert [t for t, _, _ in ops(first)] == ["Relu", "FC"]
    assert list(first.Proto().external_input) == ["x", "w", "b"]
    assert list(first.Proto().external_output) == ["z"]


def test_records_follow_a_net():
    net = core.Net("records")
    record = schema.InitEmptyRecord(net, schema.Struct(("a", np.float32), ("b", schema.List(np.int64))))
    net.set_output_record(record)
    net.AppendOutputRecordField("c", schema.Scalar(np.float32, net.Relu(record.a(), "c")))
    assert net.output_record().field_names() == ["a", "b:lengths", "b:values", "c"]
    assert "c" in net.Proto().external_output
    with pytest.raises(AssertionError):
        net.set_output_record(record)


def test_python_functions_are_operators():
    def double(inputs, outputs):
        outputs[0].reshape(inputs[0].shape)
        outputs[0].data[...] = inputs[0].data * 2

    def back(inputs, outputs):
        outputs[0].reshape(inputs[0].shape)
        outputs[0].data[...] = inputs[-1].data * 2

    net = core.Net("python")
    y = net.Python(double, back)(["x"], ["y"])
    grads = net.AddGradientOperators([y])
    workspace.FeedBlob("x", np.array([1.0, 2.0], np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob(y), [2, 4])
    np.testing.assert_array_equal(workspace.FetchBlob(grads["x"]), [2, 2])


def test_const_is_a_fill_of_its_type():
    net = core.Net("const")
    for value in (3, 2.5, True, [1, 2, 3], np.array([[1.5]], np.float32)):
        blob = net.Const(value)
        workspace.ResetWorkspace()
        workspace.RunNetOnce(net)
        np.testing.assert_array_equal(workspace.FetchBlob(blob), value)
    assert workspace.FetchBlob(blob).dtype == np.float32


def test_operators_say_where_they_were_added():
    net = core.Net("lines")
    net.FC(["absent", "w", "b"], "y")
    for name in ("absent", "w", "b"):
        workspace.FeedBlob(name, np.zeros((2, 3), np.float32))
    with pytest.raises(RuntimeError) as raised:
        workspace.RunNetOnce(net)
    assert "FC" in str(raised.value)
    assert __file__ in "".join(raised.value.__notes__)
