"""Bad input: a clear error, soon, and a workspace as it was."""

import resource
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from hypothesis import given, settings
from hypothesis import strategies as st

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def untouched():
    """A workspace with one blob, which the mistake must leave alone."""
    workspace.ResetWorkspace()
    workspace.FeedBlob("kept", np.arange(3.0))
    yield
    assert workspace.FetchBlob("kept").tolist() == [0, 1, 2]
    workspace.ResetWorkspace()


def run(kind, inputs, outputs, **args):
    return workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, outputs, **args))


def definition(*ops):
    return caffe2_pb2.NetDef(name="bad", op=ops)


def plain(kind, inputs=(), outputs=()):
    return caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)


@pytest.mark.parametrize(
    "op, words",
    [
        (plain("Convv", ["kept"], ["y"]), ["Convv", "Conv"]),
        (plain("softmax", ["kept"], ["y"]), ["softmax", "Softmax"]),
        (plain("Relu", ["kept", "kept"], ["y"]), ["Relu", "1 inputs", "got 2"]),
        (plain("Relu", ["kept"]), ["Relu", "1 outputs", "got 0"]),
        (plain("FC", ["kept"], ["y"]), ["FC", "3 inputs", "got 1"]),
        (plain("Relu", ["absent"], ["y"]), ["absent", "does not exist"]),
        (plain("Relu", ["text"], ["y"]), ["Relu", "text", "float32"]),
        (plain("FC", ["kept", "kept", "kept"], ["y"]), ["FC", "kept"]),
        (plain("MatMul", ["a", "a"], ["y"]), ["MatMul", "[2, 3]"]),
    ],
)
def test_operators(op, words):
    workspace.FeedBlob("text", np.array([b"x"], object))
    workspace.FeedBlob("a", np.zeros((2, 3), "f"))
    blobs = workspace.Blobs()
    with pytest.raises(RuntimeError) as caught:
        workspace.RunNetOnce(definition(op))
    for word in words:
        assert word in str(caught.value)
    assert set(blobs) <= set(workspace.Blobs())


def test_the_line_that_added_the_operator_is_named():
    net = core.Net("with_line")
    net.MatMul(["kept", "kept"], "y")
    line = sys._getframe().f_lineno - 1
    with pytest.raises(RuntimeError) as caught:
        workspace.RunNetOnce(net)
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert f'test_bad_input.py", line {line}, in' in told


@pytest.mark.parametrize(
    "args, word",
    [
        ({"shape": [-1]}, "-1"),
        ({"shape": [1 << 40, 1 << 40]}, r"shape \[1099511627776, 1099511627776\] takes"),
        ({"shape": [1 << 62]}, "LARGEST_RESULT"),
        ({"shape": 3}, "shape"),
        ({"shape": [2], "dtype": 99}, "99"),
        ({"shape": [2], "value": "x"}, "value"),
    ],
)
def test_arguments_of_a_filler(args, word):
    with pytest.raises((RuntimeError, MemoryError), match=word):
        run("ConstantFill", [], ["y"], **args)


@pytest.mark.parametrize("kind", ["GaussianFill", "UniformFill", "XavierFill", "MSRAFill", "GivenTensorFill"])
def test_absurd_sizes_allocate_nothing(kind):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((RuntimeError, MemoryError)):
        run(kind, [], ["y"], shape=[1 << 30, 1 << 30], **({"values": [1.0]} if kind == "GivenTensorFill" else {}))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 * MEGABYTE


@pytest.mark.parametrize(
    "call",
    [
        lambda: workspace.RunNet("no such net"),
        lambda: workspace.FetchBlob("no such blob"),
        lambda: workspace.RunPlan(core.Plan("empty").Proto().SerializeToString() + b"\xff"),
        lambda: workspace.CreateNet(b"\x0a\xff\xff"),
        lambda: workspace.RunNetOnce(b"no proto at all"),
        lambda: workspace.RunOperatorOnce(b"\x08"),
        lambda: workspace.DeserializeBlob("y", b"no proto at all"),
        lambda: workspace.CreateNet(caffe2_pb2.NetDef(name="n", type="no_such_type")),
        lambda: workspace.RunNetOnce(definition(plain("Load", [], ["y"]))),
    ],
)
def test_calls(call):
    with pytest.raises((RuntimeError, ValueError, KeyError)) as caught:
        call()
    assert len(str(caught.value)) > 10
    assert "y" not in workspace.Blobs() or workspace.FetchBlob("y") is not None


@pytest.mark.parametrize("dims", [[1 << 40], [1 << 31, 1 << 31], [-1], [1 << 62, 4]])
@pytest.mark.parametrize("kind", ["FLOAT", "INT32", "STRING", "DOUBLE", "FLOAT16"])
def test_a_blob_that_claims_more_than_it_holds(dims, kind):
    proto = caffe2_pb2.BlobProto(name="y", type="Tensor")
    proto.tensor.dims.extend(dims)
    proto.tensor.data_type = getattr(caffe2_pb2.TensorProto, kind)
    proto.tensor.float_data.extend([1.0, 2.0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RuntimeError, match="y"):
        workspace.DeserializeBlob("y", proto.SerializeToString())
    proto.tensor.segment.begin, proto.tensor.segment.end = 0, 2
    proto.tensor.data_type = caffe2_pb2.TensorProto.FLOAT
    if dims != [1 << 40]:  # a tensor of 4 TB may be meant; it is refused when it is not there in full
        with pytest.raises((RuntimeError, MemoryError)):
            workspace.DeserializeBlob("y", proto.SerializeToString())
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 * MEGABYTE


def good_net():
    net = core.Net("good")
    net.ConstantFill([], "a", shape=[2, 3], value=1.0)
    net.Relu("a", "b")
    net.Split("b", ["c", "d", "e"], axis=1)
    net.Concat(["c", "d"], ["f", "g"], axis=1)
    return net.Proto().SerializeToString()


def good_blob():
    workspace.FeedBlob("x", np.arange(6, dtype="f").reshape(2, 3))
    return workspace.SerializeBlob("x")


def mutations(content):
    """Truncations, and changes of some bytes."""
    cut = st.integers(0, len(content)).map(lambda n: content[:n])
    edits = st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), min_size=1, max_size=4)

    def edited(changes):
        changed = bytearray(content)
        for at, value in changes:
            changed[at] = value
        return bytes(changed)

    return st.one_of(cut, edits.map(edited), st.binary(max_size=200))


MUTATED_NETS = mutations(good_net())
MUTATED_BLOBS = mutations(good_blob())


@settings(max_examples=300, deadline=None)
@given(content=MUTATED_NETS)
def test_any_bytes_as_a_net(content):
    try:
        net = caffe2_pb2.NetDef.FromString(content)
    except Exception:
        net = None
    fill = {"shape"} if net is None else {a.name for op in net.op for a in op.arg}
    try:
        workspace.InferShapesAndTypes([core.Net(net)] if net is not None else [])
        if fill <= {"shape", "value", "axis"}:
            workspace.RunNetOnce(content)
    except (RuntimeError, ValueError, MemoryError, KeyError, AssertionError) as e:
        assert str(e) or isinstance(e, MemoryError)


@settings(max_examples=300, deadline=None)
@given(content=MUTATED_BLOBS)
def test_any_bytes_as_a_blob(content):
    try:
        workspace.DeserializeBlob("mutated", content)
    except (RuntimeError, MemoryError) as e:
        assert str(e)
    else:
        workspace.FetchBlob("mutated")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_bytes_as_a_minidb(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("db")
    workspace.FeedBlob("x", np.arange(6, dtype="f"))
    run("Save", ["x"], [], absolute_path=1, db=str(folder / "good"), db_type="minidb")
    content = data.draw(mutations((folder / "good").read_bytes()))
    (folder / "bad").write_bytes(content)
    try:
        run("Load", [], ["x"], absolute_path=1, db=str(folder / "bad"), db_type="minidb")
    except (RuntimeError, MemoryError) as e:
        assert str(e)
    assert workspace.FetchBlob("x").dtype is not None


@pytest.mark.parametrize("kind", ["ConstantFill", "UniformFill", "GaussianFill", "XavierFill"])
@pytest.mark.parametrize("shape", [[-1, 3], [-5], [0, -1], [-2, -3]])
def test_a_negative_size_is_refused_where_the_blob_has_memory_already(kind, shape):
    workspace.FeedBlob("y", np.ones(60, "f"))
    with pytest.raises(RuntimeError, match="cannot have the shape"):
        run(kind, [], ["y"], shape=shape)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_far_larger_than_the_image_takes_no_time(kind):
    workspace.FeedBlob("x", np.ones((1, 1, 4, 4), "f"))
    run(kind, ["x"], ["y"], kernel=1 << 29, pad=1 << 28)
    assert workspace.FetchBlob("y").shape == (1, 1, 5, 5)


def test_a_checkpoint_of_nothing_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="Save does not fit its schema"):
        run("Save", [], [], absolute_path=1, db=str(tmp_path / "db"), db_type="minidb")
    assert not list(tmp_path.iterdir())
