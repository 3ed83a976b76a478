"""Emulated GPUs: their arrays refuse what CuPy's refuse, and operators say which blob is on the wrong device."""

import contextlib
import threading
import types

import numpy as np
import pytest

from caffe2lite import db as databases
from caffe2lite import devices
from caffe2lite.db import Mode
from caffe2lite.devices import cuda, emulated
from caffe2lite.distributed import nccl
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
    with gpus[1].context():
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


# ---- what CuPy lacks, or does otherwise than NumPy ---------------------------------------------------------------


def test_ufuncs_have_only_the_methods_that_work(gpus):
    xp = gpus[0].xp
    a = xp.asarray([1.0, 3.0, 2.0])
    assert xp.add.accumulate(a).tolist() == [1, 4, 6] and float(xp.add.reduce(a)) == 6
    for mistake in (
        lambda: xp.maximum.accumulate(a),
        lambda: xp.maximum.reduceat(a, xp.asarray([0])),
        lambda: xp.maximum.reduce(a),
        lambda: xp.multiply.reduceat(a, xp.asarray([0])),
    ):
        with pytest.raises(NotImplementedError):
            mistake()


def test_methods_of_arrays_have_only_cupys_arguments(gpus):
    a = gpus[0].xp.asarray([1.0, 3.0])
    for mistake in (
        lambda: a.sum(where=a > 1),
        lambda: a.max(initial=0),
        lambda: a.item(1),
        lambda: a.take(a.astype("int64") - 1, mode="clip"),
        lambda: a.repeat(a.astype("int64")),
        lambda: gpus[0].xp.searchsorted(a, np.float32(2)),
    ):
        with pytest.raises((TypeError, NotImplementedError)):
            mistake()


def test_sums_of_segments_are_differences_of_prefix_sums(gpus):
    xp = gpus[0].xp
    rows = np.ones(1 << 16, "f")
    rows[0] = 1e9
    sums = xp.add.reduceat(xp.asarray(rows), xp.asarray([0, 1]))
    assert float(sums[1]) == 0.0  # not 65535
    rows[0] = np.inf
    assert np.isnan(float(xp.add.reduceat(xp.asarray(rows), xp.asarray([0, 1]))[1]))


def test_a_draw_is_an_array(gpus):
    drawn = gpus[0].random(1).random()
    assert gpus[0].owns(drawn) and drawn.shape == () and gpus[0].owns(gpus[0].random(1).integers(3))


def test_only_what_fits_is_set(gpus):
    a = gpus[0].xp.zeros((2, 1), "f")
    for wrong, error in ((np.zeros(2, "f"), ValueError), (np.zeros((2, 1)), TypeError), (3.0, TypeError)):
        with pytest.raises(error):
            a.set(wrong)


def test_indices_out_of_range_come_around(gpus):
    a = gpus[0].xp.asarray([1.0, 2.0, 3.0])
    assert a[gpus[0].xp.asarray([4, -4])].tolist() == [2, 3]
    assert a.take(gpus[0].xp.asarray([5])).tolist() == [3]


def test_two_values_for_one_element_are_refused(gpus):
    xp = gpus[0].xp
    a, twice = xp.zeros(3), xp.asarray([1, 1])
    a[twice] = xp.asarray([5.0, 5.0])
    with pytest.raises(TypeError, match="several values"):
        a[twice] = xp.asarray([5.0, 6.0])


def test_only_the_current_device_computes(gpus):
    a = gpus[1].xp.asarray([1.0])
    with pytest.raises(devices.DeviceError, match="current device is gpu_0"):
        a + 1
    with gpus[1].context():
        assert (a + 1).tolist() == [2]


def test_scalars_stay_scalars(gpus):
    workspace = Workspace()
    workspace.feed("x", np.float32(3), option(0))
    assert workspace.get_blob("x").value.shape == () and workspace.fetch("x") == 3


def test_real_gpus_are_given_scalars_as_scalars(gpus):
    nothing = contextlib.nullcontext()
    cupy = types.SimpleNamespace(
        cuda=types.SimpleNamespace(Device=lambda k: nothing, Stream=types.SimpleNamespace(null=nothing))
    )
    target = gpus[0].xp.zeros((), "f")
    cuda.Cuda(cupy, 0).copy(target, np.asarray(3, "f"))
    assert target.get() == 3


def test_operators_without_a_seed_share_a_generator():
    nothing, made = contextlib.nullcontext(), []
    cupy = types.SimpleNamespace(
        cuda=types.SimpleNamespace(Device=lambda k: nothing, Stream=types.SimpleNamespace(null=nothing)),
        random=types.SimpleNamespace(default_rng=lambda *seed: made.append(seed) or object()),
    )
    gpu = cuda.Cuda(cupy, 0)
    assert gpu.random(None) is gpu.random(None) and gpu.random(7) is not gpu.random(7)
    assert made == [(), (7,), (7,)]


def test_one_thread_at_a_time_uses_a_clique():
    """Two threads' groups of calls come one after the other, whichever cliques they are of."""
    open_groups, most = [], []

    class Communicator:
        def allReduce(self, *arguments):
            most.append(len(open_groups))
            threading.Event().wait(0.05)  # room for the other thread to come in between

    library = types.SimpleNamespace(
        NcclCommunicator=types.SimpleNamespace(initAll=lambda ids: [Communicator() for _ in ids]),
        groupStart=lambda: open_groups.append(1),
        groupEnd=lambda: open_groups.pop(),
    )
    emulated.use(2)
    gpus = emulated.devices()
    try:
        for gpu in gpus:
            gpu.nccl = library
        arrays = [gpu.xp.asarray(np.ones(2, "f")) for gpu in gpus]
        work = [threading.Thread(target=nccl.Clique(gpus).allreduce, args=(arrays, arrays)) for _ in range(2)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    finally:
        emulated.use(0)
    assert most == [1, 1, 1, 1]


# ---- work that another GPU may not have done yet -----------------------------------------------------------------


def test_what_a_peer_writes_is_read_after_an_event(gpus):
    with gpus[1].context():
        there = gpus[1].xp.ones(2) + 1
    here = gpus[0].xp.zeros(2)
    with pytest.raises(devices.DeviceError, match="gpu_0 reads what gpu_1 writes"):
        gpus[0].xp.add(here, there)
    gpus[0].after(gpus[1])
    assert gpus[0].xp.add(here, there).tolist() == [2, 2]


def test_what_a_peer_reads_is_overwritten_after_an_event(gpus):
    with gpus[1].context():
        there = gpus[1].xp.ones(2)
    gpus[0].after(gpus[1])
    gpus[0].xp.add(there, there)
    with gpus[1].context():
        with pytest.raises(devices.DeviceError, match="gpu_0 still reads"):
            there += 1
        gpus[1].after(gpus[0])
        there += 1
        assert there.tolist() == [2, 2]


def test_the_host_orders_what_it_waits_for(gpus):
    with gpus[1].context():
        there = gpus[1].xp.ones(2) + 1
        gpus[1].synchronize()
    assert gpus[0].xp.add(there, there).tolist() == [4, 4]


@pytest.mark.parametrize("kind", ["Sum", "Add", "Concat", "Copy", "NCCLAllreduce"])
def test_operators_that_read_peers_are_ordered(gpus, kind):
    """Three runs in which both operands are made anew, each on its GPU."""
    from caffe2.python import workspace as front

    net = caffe2_pb2.NetDef(name="peers")
    for gpu, name in enumerate("ab"):
        net.op.append(on_gpu("Relu", [f"{name}0"], [name], gpu))
    inputs = {"Copy": ["b"]}.get(kind, ["a", "b"])
    outputs = {"Concat": ["c", "sizes"], "NCCLAllreduce": ["c", "d"]}.get(kind, ["c"])
    net.op.append(on_gpu(kind, inputs, outputs))
    front.ResetWorkspace()
    for gpu, name in enumerate("ab"):
        front.FeedBlob(f"{name}0", np.full((1, 2), gpu + 1, "f"), option(gpu))
    front.CreateNet(net)
    for _ in range(3):
        front.RunNet("peers")
    expected = {"Concat": [1, 1, 2, 2], "Copy": [2, 2]}.get(kind, [3, 3])
    assert front.FetchBlob("c").ravel().tolist() == expected
    front.ResetWorkspace()


# ---- operators ---------------------------------------------------------------------------------------------------


def run(gpus, kind, inputs, outputs, **arguments):
    """Outputs of an operator on GPU 0 as a function of the inputs' arrays, an output that is an input's name in place."""
    workspace = Workspace()
    op = on_gpu(kind, [f"i{k}" for k in range(len(inputs))], outputs)
    for k, value in enumerate(inputs):
        workspace.feed(f"i{k}", value, option(0))
    op.arg.extend(utils.MakeArgument(name, value) for name, value in arguments.items())
    runner.run_operator(workspace, op)
    return [workspace.fetch(name) for name in outputs]


def test_an_infinite_row_stays_in_its_segment(gpus):
    rows = np.random.RandomState(0).rand(10_000, 2).astype("f")
    rows[0] = np.inf
    lengths = np.full(100, 100, "i")
    (sums,) = run(gpus, "LengthsSum", [rows, lengths], ["y"])
    expected = rows.astype("d").reshape(100, 100, 2).sum(1)
    np.testing.assert_allclose(sums, expected, rtol=1e-6)


def test_the_last_of_several_values_for_one_place_stays(gpus):
    updates = np.array([[1, 2, 3]], "f")
    (made,) = run(gpus, "Scatter", [np.zeros((1, 3), "f"), np.array([[1, 1, 0]], "i"), updates], ["y"], axis=1)
    assert made.tolist() == [[3, 2, 0]]
    three = [np.array([2], "i"), np.array([1, 1], "i"), np.array([5, 6], "f")]
    (made,) = run(gpus, "BatchSparseToDense", three, ["y"], dense_last_dim=2)
    assert made.tolist() == [[0, 6]]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("index", {}), ("index_select", {"dim": 0}), ("gather", {"dim": 0}), ("embedding", {}), ("index_put", {})],
)
def test_indices_of_aten_are_checked(gpus, function, arguments):
    inputs = [np.zeros(3, "f"), np.array([3])] + ([np.ones(1, "f")] if function == "index_put" else [])
    with pytest.raises(OperatorError, match="index 3 is outside"):
        run(gpus, "ATen", inputs, ["y"], operator=function, **arguments)


def test_a_queue_is_drawn_on_a_gpu(gpus):
    workspace = Workspace()
    runner.run_operator(
        workspace,
        caffe2_pb2.OperatorDef(type="CreateBlobsQueue", output=["q"], arg=[utils.MakeArgument("num_blobs", 1)]),
    )
    workspace.feed("x", np.ones(1, "f"))
    runner.run_operator(workspace, caffe2_pb2.OperatorDef(type="EnqueueBlobs", input=["q", "x"], output=["x"]))
    runner.run_operator(workspace, on_gpu("WeightedSampleDequeueBlobs", ["q"], ["y", "ended"]))
    assert workspace.fetch("y").tolist() == [1]
