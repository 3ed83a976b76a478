"""Emulated GPUs: their arrays refuse what CuPy's refuse, and operators say which blob is on the wrong device."""

import numpy as np
import pytest

from caffe2lite import db as databases
from caffe2lite import devices
from caffe2lite.db import Mode
from caffe2lite.devices import emulated
from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import utils


@pytest.fixture
def gpus():
    emulated.use(2)
    yield emulated.devices()
    emulated.use(0)


def on_gpu(kind, inputs, outputs, gpu=0):
    op = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    op.device_option.device_type, op.device_option.device_id = caffe2_pb2.CUDA, gpu
    return op


def option(gpu):
    return caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA, device_id=gpu)


def test_arrays_do_not_mix_with_host_arrays(gpus):
    xp = gpus[0].xp
    a = xp.asarray(np.arange(3.0))
    for mistake in (
        lambda: a + np.ones(3),
        lambda: np.ones(3) + a,
        lambda: np.asarray(a),
        lambda: np.add(a, 1),
        lambda: xp.add(a, np.ones(3)),
        lambda: a[np.array([0])],
        lambda: xp.asarray(np.array(["x"], object)),
    ):
        with pytest.raises(TypeError):
            mistake()
    assert (a + 1).get().tolist() == [1, 2, 3]


def test_only_names_and_arguments_of_cupy(gpus):
    xp = gpus[0].xp
    with pytest.raises(AttributeError):
        xp.char  # noqa: B018
    with pytest.raises(TypeError, match="where"):
        xp.sum(xp.zeros(3), where=True)
    with pytest.raises(AttributeError):
        xp.zeros(3).itemset(0)


def test_results_are_arrays_of_the_device(gpus):
    total = gpus[1].xp.asarray([1.0, 2.0]).sum()
    assert gpus[1].owns(total) and total.shape == () and float(total) == 3.0


def test_in_place_writes_through_views(gpus):
    a = gpus[0].xp.zeros((2, 3))
    view = a[1]
    view += 2
    assert a.get().tolist() == [[0, 0, 0], [2, 2, 2]]


def test_operand_in_host_memory_is_named(gpus):
    workspace = Workspace()
    workspace.feed("x", np.ones(2, "f"))
    with pytest.raises(OperatorError, match=r"'x' is on cpu.*Relu runs on gpu_0"):
        runner.run_operator(workspace, on_gpu("Relu", ["x"], ["y"]))


def test_peer_is_read_only_where_it_can_be(gpus):
    workspace = Workspace()
    workspace.feed("a", np.ones(2, "f"), option(0))
    workspace.feed("b", np.ones(2, "f"), option(1))
    with pytest.raises(OperatorError, match=r"'b' is on gpu_1"):
        runner.run_operator(workspace, on_gpu("Mul", ["a", "b"], ["c"]))
    runner.run_operator(workspace, on_gpu("Sum", ["a", "b"], ["c"]))
    assert workspace.fetch("c").tolist() == [2, 2]


def test_without_peer_access_sums_are_refused_and_copies_pass():
    emulated.use(2, peers=False)
    try:
        workspace = Workspace()
        workspace.feed("a", np.ones(2, "f"), option(0))
        workspace.feed("b", np.full(2, 5, "f"), option(1))
        with pytest.raises(OperatorError, match=r"'b' is on gpu_1"):
            runner.run_operator(workspace, on_gpu("Sum", ["a", "b"], ["c"]))
        runner.run_operator(workspace, on_gpu("Copy", ["b"], ["a"]))
        assert workspace.fetch("a").tolist() == [5, 5]
    finally:
        emulated.use(0)


def test_without_any_gpu_the_net_says_what_to_do():
    assert devices.gpu_count() == 0
    workspace = Workspace()
    workspace.feed("x", np.ones(2, "f"))
    net = caffe2_pb2.NetDef(name="n", op=[on_gpu("Relu", ["x"], ["y"])])
    with pytest.raises(OperatorError, match="CAFFE2LITE_EMULATED_GPUS"):
        runner.create_net(workspace, net)


def test_python_operators_see_the_host_and_leave_their_outputs_on_the_gpu(gpus):
    from caffe2.python import core
    from caffe2.python import workspace as front

    front.ResetWorkspace()
    net = core.Net("python")
    with core.DeviceScope(option(1)):
        net.Python(lambda ins, outs: outs[0].feed(ins[0].data + 1))(["x"], ["y"])
        net.Relu("y", "z")
    front.FeedBlob("x", np.array([-3.0, 2.0], "f"), option(1))
    front.RunNetOnce(net)
    assert front.FetchBlob("z").tolist() == [0.0, 3.0]
    front.ResetWorkspace()


def test_what_is_read_on_the_host_goes_to_the_operators_gpu(gpus, tmp_path):
    path = str(tmp_path / "db")
    db = databases.open_db("minidb", path, Mode.new)
    record = caffe2_pb2.TensorProtos(protos=[utils.NumpyArrayToCaffe2Tensor(np.arange(4, dtype=np.float32))])
    transaction = db.new_transaction()
    transaction.put(b"a", record.SerializeToString())
    transaction.commit()
    db.close()
    workspace = Workspace()
    runner.run_operator(
        workspace,
        caffe2_pb2.OperatorDef(
            type="CreateDB",
            output=["reader"],
            arg=[utils.MakeArgument("db", path), utils.MakeArgument("db_type", "minidb")],
        ),
    )
    read = on_gpu("TensorProtosDBInput", ["reader"], ["x"], 1)
    read.arg.append(utils.MakeArgument("batch_size", 2))
    for _ in range(3):
        runner.run_operator(workspace, read)
        runner.run_operator(workspace, on_gpu("Relu", ["x"], ["y"], 1))
    np.testing.assert_array_equal(workspace.fetch("y"), [[0, 1, 2, 3]] * 2)
