"""Behaviour of Caffe2 that is easily got wrong.  Every expected value was seen on the genuine engine."""

import pickle

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def run(kind, inputs, outputs, **args):
    workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, outputs, **args))


def compute(kind, *arrays, outputs=1, **args):
    """What an operator makes of arrays: one array, or a list."""
    for i, array in enumerate(arrays):
        workspace.FeedBlob(f"in{i}", array)
    names = [f"out{i}" for i in range(outputs)]
    run(kind, [f"in{i}" for i in range(len(arrays))], names, **args)
    values = [workspace.FetchBlob(n) for n in names]
    return values[0] if outputs == 1 else values


def f(*values):
    return np.array(values, np.float32)


# Blobs and memory


def test_feed_and_fetch_copy():
    fed = f(1, 2)
    workspace.FeedBlob("x", fed)
    fed[0] = 9
    fetched = workspace.FetchBlob("x")
    fetched[1] = 9
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [1, 2])


def test_data_of_a_tensor_is_a_live_view():
    workspace.FeedBlob("x", f(1, 2))
    live = workspace.C.Workspace.current.blobs["x"].tensor().data
    workspace.FeedBlob("x", f(3, 4))
    np.testing.assert_array_equal(live, [3, 4])


@pytest.fixture
def alias():
    workspace.FeedBlob("x", f(1, 2, 3, 4))
    run("Alias", ["x"], ["y"])


def test_alias_shares_storage(alias):
    workspace.FeedBlob("x", f(5, 6, 7, 8))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [5, 6, 7, 8])
    run("Scale", ["y"], ["y"], scale=2.0)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [10, 12, 14, 16])


def test_a_smaller_feed_writes_the_shared_storage(alias):
    workspace.FeedBlob("x", f(8, 9))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [8, 9, 3, 4])


def test_a_larger_feed_unlinks(alias):
    workspace.FeedBlob("x", f(0, 0, 0, 0, 0))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [1, 2, 3, 4])


def test_an_alias_keeps_its_own_shape():
    workspace.FeedBlob("x", np.ones((1, 3), np.float32))
    run("Alias", ["x"], ["y"])
    run("Squeeze", ["y"], ["y"], dims=[0])
    assert workspace.FetchBlob("x").shape == (1, 3) and workspace.FetchBlob("y").shape == (3,)


@pytest.mark.parametrize(
    "kind, outputs, args",
    [
        ("Reshape", ["y", "_"], {"shape": [4]}),
        ("Squeeze", ["y"], {"dims": [0]}),
        ("ExpandDims", ["y"], {"dims": [0]}),
        ("Flatten", ["y"], {}),
        ("FlattenToVec", ["y"], {}),
        ("StopGradient", ["y"], {}),
        ("EnsureCPUOutput", ["y"], {}),
        ("EnsureDense", ["y"], {}),
    ],
)
def test_what_only_looks_like_an_alias_copies(kind, outputs, args):
    workspace.FeedBlob("x", np.ones((1, 4), np.float32))
    run(kind, ["x"], outputs, **args)
    workspace.FeedBlob("x", np.zeros((1, 4), np.float32))
    assert (workspace.FetchBlob("y") == 1).all()


def test_given_values_are_restored_on_every_run():
    net = core.Net("given")
    net.GivenTensorFill([], "x", values=[1.0, 2.0], shape=[2])
    workspace.CreateNet(net)
    for _ in range(3):
        workspace.RunNet(net)
        np.testing.assert_array_equal(workspace.FetchBlob("x"), [1, 2])
        run("Scale", ["x"], ["x"], scale=3.0)


def test_enqueue_moves_the_content_away():
    run("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=1)
    workspace.FeedBlob("x", f(1))
    run("EnqueueBlobs", ["queue", "x"], ["x"])
    assert b"uninitialized" in workspace.FetchBlob("x")


def test_one_blob_takes_several_shapes_in_a_run():
    workspace.FeedBlob("a", f(1, 2, 3, 4))
    workspace.FeedBlob("b", np.ones((2, 2), np.float32))
    net = core.Net("shapes")
    for source, copy in (("a", "ca"), ("b", "cb")):
        net.Copy(source, "s")
        net.Copy("s", copy)
    workspace.CreateNet(net)
    for _ in range(4):
        workspace.RunNet(net)
        assert workspace.FetchBlob("ca").shape == (4,) and workspace.FetchBlob("cb").shape == (2, 2)


def test_fetching_nothing():
    workspace.CreateBlob("empty")
    assert b"uninitialized" in workspace.FetchBlob("empty")
    with pytest.raises(RuntimeError):
        workspace.FetchBlob("missing")


def test_a_net_goes_on_with_a_blob_that_was_reset():
    workspace.FeedBlob("x", f(1))
    net = core.Net("reset")
    net.Copy("x", "y")
    workspace.CreateNet(net)
    workspace.RunNet(net)
    workspace.ResetBlob("x")
    workspace.FeedBlob("x", f(7, 8))
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [7, 8])


def test_outputs_exist_after_create_net_even_a_failed_one():
    net = core.Net("half")
    net.ConstantFill([], "made", shape=[1])
    workspace.CreateNet(net)
    assert workspace.HasBlob("made")
    net = core.Net("failing")
    net.ConstantFill([], "made_too", shape=[1])
    net.Proto().op.add().CopyFrom(core.CreateOperator("Copy", ["missing"], ["z"]))
    with pytest.raises(RuntimeError):
        workspace.CreateNet(net)
    assert workspace.HasBlob("made_too")


# Nets and plans


def netdef(name, *ops, inputs=(), outputs=()):
    proto = caffe2_pb2.NetDef(name=name, external_input=inputs, external_output=outputs)
    proto.op.extend(ops)
    return proto


COPY = ("Copy", ["x"], ["y"])


@pytest.mark.parametrize(
    "exists, inputs, outputs, passes",
    [
        (False, [], [], False),  # a missing input fails
        (True, ["other"], [], False),  # an undeclared one too, where any is declared
        (True, [], [], True),
        (True, ["x"], ["nobody"], False),  # an output that nothing makes
        (True, ["x", "absent"], [], True),  # an absent input that nothing reads
    ],
)
def test_what_create_net_refuses(exists, inputs, outputs, passes):
    if exists:
        workspace.FeedBlob("x", f(1))
    proto = netdef("n", core.CreateOperator(*COPY), inputs=inputs, outputs=outputs)
    if passes:
        assert workspace.CreateNet(proto)
    else:
        with pytest.raises(RuntimeError):
            workspace.CreateNet(proto)


def test_a_net_of_that_name_exists():
    workspace.FeedBlob("x", f(1))
    proto = netdef("n", core.CreateOperator(*COPY))
    workspace.CreateNet(proto)
    with pytest.raises(RuntimeError):
        workspace.CreateNet(proto)
    assert workspace.CreateNet(proto, overwrite=True)


@pytest.mark.parametrize("kind, later", [("simple", False), ("dag", True)])
def test_nothing_is_rolled_back(kind, later):
    workspace.FeedBlob("x", f(1))
    workspace.FeedBlob("bad", np.array([1], np.int32))
    net = core.Net("n_" + kind)
    net.Copy("x", "before")
    net.Relu("bad", "failed")
    net.Copy("x", "after")
    net.Proto().type = kind
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError):
        workspace.RunNet(net)
    assert isinstance(workspace.FetchBlob("before"), np.ndarray)
    assert isinstance(workspace.FetchBlob("after"), np.ndarray) is later


def test_a_closed_queue_and_allow_fail():
    run("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=1)
    run("CloseBlobsQueue", ["queue"], [])
    net = core.Net("reader")
    net.DequeueBlobs("queue", "x")
    workspace.CreateNet(net)
    assert workspace.RunNet(net, allow_fail=True) is False
    with pytest.raises(RuntimeError):
        workspace.RunNet(net)


def test_allow_fail_does_not_swallow_errors():
    workspace.FeedBlob("bad", np.array([1], np.int32))
    net = core.Net("wrong")
    net.Relu("bad", "y")
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError):
        workspace.RunNet(net, allow_fail=True)


def test_an_exception_in_python_surfaces_as_itself():
    def fail(inputs, outputs):
        raise KeyError("from within")

    net = core.Net("python")
    net.Python(fail)([], ["y"])
    workspace.CreateNet(net)
    with pytest.raises(KeyError, match="from within"):
        workspace.RunNet(net)


def test_python_operators_see_old_outputs_and_may_write_inputs():
    seen = []

    def touch(inputs, outputs):
        seen.append(outputs[0].data.copy())
        inputs[0].data[...] = 5

    workspace.FeedBlob("x", f(1, 2))
    workspace.FeedBlob("y", f(3, 4))
    net = core.Net("touch")
    net.Python(touch)(["x"], ["y"])
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(seen[0], [3, 4])
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [5, 5])


def test_a_pickled_function_is_a_name_and_never_unpickled():
    """Caffe2's own files write pickles of a builder into the net."""
    from caffe2lite.engine import python_op

    def times(factor, seen):
        return lambda inputs, outputs: outputs[0].feed(inputs[-1].data * factor)

    harm = pickle.dumps(len)
    workspace.FeedBlob("x", f(1, 2))
    with pytest.raises(RuntimeError, match="no Python function is registered"):
        run("Python", ["x"], ["y"], pickled_builder=harm, pass_workspace=0)
    python_op.register_pickled(b"forward", (times, (3,), {"seen": 0}))
    python_op.register_pickled(b"backward", (times, (5,), {"seen": 0}))
    net = core.Net("pickled")
    pickled = {"pickled_builder": b"forward", "pickled_grad_builder": b"backward", "pass_workspace": 0}
    net.Proto().op.extend([core.CreateOperator("Python", ["x"], ["y"], **pickled)])
    net.AddGradientOperators(["y"])
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [3, 6])
    np.testing.assert_array_equal(workspace.FetchBlob("x_grad"), [5, 5])


def test_dag_keeps_the_order_of_reads_and_writes():
    net = core.Net("order")
    net.Proto().type, net.Proto().num_workers = "dag", 4
    net.ConstantFill([], "a", shape=[1000], value=1.0)
    net.Copy("a", "first")  # read after write
    net.ConstantFill([], "a", shape=[1000], value=2.0)  # write after read, write after write
    net.Copy("a", "second")
    workspace.CreateNet(net)
    for _ in range(50):
        workspace.RunNet(net)
        assert (workspace.FetchBlob("first") == 1).all() and (workspace.FetchBlob("second") == 2).all()


def test_device_options_merge_field_by_field():
    def values(device):
        net = core.Net("seeded")
        net.Proto().device_option.random_seed = 77
        net.UniformFill([], "x", shape=[4])
        if device:
            net.Proto().op[0].device_option.device_type = caffe2_pb2.CPU
        workspace.RunNetOnce(net)
        return workspace.FetchBlob("x")

    np.testing.assert_array_equal(values(False), values(True))


def test_a_private_workspace_writes_the_blobs_of_its_parent():
    workspace.FeedBlob("known", f(0))
    net = core.Net("inner")
    net.ConstantFill([], "known", shape=[1], value=4.0)
    net.ConstantFill([], "new", shape=[1], value=4.0)
    step = core.execution_step("step", net)
    step.SetCreateWorkspace(True)
    workspace.RunPlan(core.Plan(step))
    assert workspace.FetchBlob("known") == 4
    assert not workspace.HasBlob("new")


def test_nets_are_gone_after_a_reset():
    net = core.Net("gone")
    net.ConstantFill([], "x", shape=[1])
    workspace.CreateNet(net)
    workspace.ResetWorkspace()
    with pytest.raises(RuntimeError):
        workspace.RunNet(net)


def test_an_edited_operator_runs_as_edited():
    op = core.CreateOperator("ConstantFill", [], ["x"], shape=[1], value=1.0)
    workspace.RunOperatorOnce(op)
    next(a for a in op.arg if a.name == "value").f = 2.0
    workspace.RunOperatorOnce(op)
    assert workspace.FetchBlob("x") == 2


# State and randomness


def test_random_state_belongs_to_the_instance():
    net = core.Net("random")
    for name in ("a", "b"):
        net.Proto().op.add().CopyFrom(
            core.CreateOperator(
                "UniformFill",
                [],
                [name],
                shape=[4],
                device_option=core.DeviceOption(caffe2_pb2.CPU, random_seed=5),
            )
        )
    workspace.CreateNet(net)
    workspace.RunNet(net)
    first = workspace.FetchBlob("a")
    np.testing.assert_array_equal(first, workspace.FetchBlob("b"))
    workspace.RunNet(net)
    assert (workspace.FetchBlob("a") != first).any()
    workspace.CreateNet(net, overwrite=True)
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("a"), first)


def test_accumulate_reads_its_output():
    workspace.FeedBlob("x", f(1))
    workspace.FeedBlob("y", f(100))
    run("Accumulate", ["x"], ["y"])
    assert workspace.FetchBlob("y") == 101


def test_ap_meter_keeps_its_state_in_the_instance():
    workspace.FeedBlob("scores", f(0.9, 0.1).reshape(2, 1))
    net = core.Net("meter")
    net.APMeter(["scores", "labels"], "ap", buffer_size=10)
    workspace.FeedBlob("labels", i(1, 0).reshape(2, 1))
    workspace.CreateNet(net)
    workspace.RunNet(net)
    assert workspace.FetchBlob("ap")[0] == 1
    workspace.FeedBlob("labels", i(0, 1).reshape(2, 1))
    workspace.RunNet(net)
    assert workspace.FetchBlob("ap")[0] < 1  # of all four rows
    both = workspace.FetchBlob("ap")[0]
    workspace.CreateNet(net, overwrite=True)
    workspace.RunNet(net)
    assert workspace.FetchBlob("ap")[0] == 0.5 != both  # of the last two only


# Numbers


def i(*values):
    return np.array(values, np.int32)


def row(*values):
    return f(*values).reshape(1, -1)


NAN, BIG, LOWEST = np.nan, np.finfo(np.float32).max, -(2**31)
VALUES = [
    ("Div", [i(-7), i(2)], {}, [-3]),
    ("Mod", [i(-7)], {"divisor": 3}, [-1]),
    ("Gather", [f(1, 2, 3), i(-1)], {}, [3]),
    ("Max", [f(NAN), f(1)], {}, [NAN]),
    ("Max", [f(1), f(NAN)], {}, [1]),
    ("Min", [f(NAN), f(1)], {}, [NAN]),
    ("Min", [f(1), f(NAN)], {}, [1]),
    ("RowwiseMax", [f(NAN, 1).reshape(1, 1, 2)], {}, [[NAN]]),
    ("RowwiseMax", [f(1, NAN).reshape(1, 1, 2)], {}, [[1]]),
    ("ReduceMax", [f(NAN, 1)], {"axes": [0], "keepdims": 0}, NAN),
    ("ReduceMax", [f(1, NAN)], {"axes": [0], "keepdims": 0}, 1),
    ("LengthsMax", [f(NAN, 1), i(2)], {}, [NAN]),
    ("LengthsMax", [f(1, NAN), i(2)], {}, [1]),
    ("MaxPool", [f(NAN, 1, 1, 1).reshape(1, 1, 2, 2)], {"kernel": 2}, [[[[NAN]]]]),
    ("MaxPool", [f(1, NAN, 1, 1).reshape(1, 1, 2, 2)], {"kernel": 2}, [[[[1]]]]),
    ("ArgMax", [f(NAN, 1, 2)], {"axis": 0, "keepdims": 0}, 0),
    ("ArgMax", [f(1, NAN, 2)], {"axis": 0, "keepdims": 0}, 2),
    ("ArgMin", [f(1, NAN, 0)], {"axis": 0, "keepdims": 0}, 2),
    ("ReduceMax", [f()], {"axes": [0], "keepdims": 0}, -BIG),
    ("ReduceMin", [f()], {"axes": [0], "keepdims": 0}, BIG),
    ("ReduceSum", [f()], {"axes": [0], "keepdims": 0}, 0),
    ("ReduceMean", [f()], {"axes": [0], "keepdims": 0}, 0),
    ("AveragedLoss", [f()], {}, 0),
    ("ReduceSum", [np.ones((2, 3), np.float32)], {"axes": [], "keepdims": 0}, 6),
    ("LengthsMax", [f(5), i(1, 0)], {}, [5, 0]),
    ("LengthsMean", [f(5), i(1, 0)], {}, [5, 0]),
    ("UnsortedSegmentSum", [f(5, 6), i(0, 2)], {}, [5, 0, 6]),
    ("Slice", [f(1, 2, 3)], {"starts": [1], "ends": [-1]}, [2, 3]),
    ("Cast", [f(300, 3e9, NAN)], {"to": core.DataType.UINT8}, [44, 0, 0]),
    ("Cast", [f(NAN, 3e9)], {"to": core.DataType.INT32}, [LOWEST, LOWEST]),
    ("Cast", [f(2.7)], {"to": "InT32"}, [2]),
    ("LE", [np.array([True]), np.array([False])], {}, [False]),
]


@pytest.mark.parametrize("kind, arrays, args, expected", VALUES)
def test_values(kind, arrays, args, expected):
    np.testing.assert_array_equal(compute(kind, *arrays, **args), expected)


RAISES = [
    ("SparseLengthsSum", [f(1, 2), np.array([-1]), i(1)], {}),
    ("ScatterAssign", [f(1, 2), i(-1), f(9)], {}),
    ("Gather", [np.ones((2, 2), np.float32), i(-1)], {"axis": 1}),
    ("BatchGather", [np.ones((2, 2), np.float32), i(-1)], {}),
    ("Max", [f(1, 2), f(1)], {}),
    ("SortedSegmentSum", [f(1, 2), i(0, 2)], {}),
    ("SortedSegmentSum", [f(1, 2), i(1, 2)], {}),
    ("Cast", [f(1)], {"to": core.DataType.FLOAT16}),
    ("Cast", [np.ones(1, np.float16)], {"to": core.DataType.FLOAT}),
    ("ConstantFill", [], {"shape": [1], "value": 2.7, "dtype": core.DataType.INT32}),
    ("Dropout", [f(1)], {"ratio": 1.0, "is_test": 1}),
    ("Add", [np.ones((2, 2), np.float32), f(1, 1)], {"broadcast": 1, "axis": -2}),
    ("Add", [np.ones(2, np.float16), np.ones(2, np.float16)], {}),
    ("Add", [np.ones(2, np.uint8), np.ones(2, np.uint8)], {}),
    ("Sub", [np.ones(2, bool), np.ones(2, bool)], {}),
    ("ExpandDims", [f(1)], {"dims": [-1]}),
    ("Squeeze", [row(1)], {"dims": [-2]}),
    ("Softmax", [f(1, 2)], {}),
    ("LearningRate", [np.array([1], np.int32)], {"base_lr": 1.0, "policy": "fixed"}),
    ("LearningRate", [np.array([1])], {"base_lr": 1.0, "policy": "step"}),
    ("LearningRate", [np.array([1])], {"base_lr": 1.0, "policy": "cyclical", "max_lr": 2.0}),
    ("Relu", [np.ones(1)], {}),
    ("FC", [np.ones((1, 1)), np.ones((1, 1)), np.ones(1)], {}),
    ("Relu", [np.ones(1, np.float16)], {}),
    ("Sum", [np.ones(1, np.float16), np.ones(1, np.float16)], {}),
]


@pytest.mark.parametrize("kind, arrays, args", RAISES)
def test_refusals(kind, arrays, args):
    with pytest.raises(RuntimeError):
        compute(kind, *arrays, **args)


def test_dropout_without_a_mode_fails_its_schema():
    workspace.FeedBlob("x", f(1))
    with pytest.raises(RuntimeError):
        run("Dropout", ["x"], ["y"], ratio=0.5)
    run("Dropout", ["x"], ["y", "mask"], ratio=0.5, is_test=1)
    assert not isinstance(workspace.FetchBlob("mask"), np.ndarray)


def test_legacy_broadcast():
    a, b = np.ones((2, 3), np.float32), f(1, 2)
    assert compute("Add", a, f(1, 2, 3), broadcast=1).shape == (2, 3)
    np.testing.assert_array_equal(compute("Add", a, b, broadcast=1, axis=0), a + b[:, None])
    np.testing.assert_array_equal(compute("Add", a, f(1, 2, 3), axis=0), a + f(1, 2, 3))  # axis alone: NumPy's rules


def test_in_place_broadcast_is_for_the_first_operand():
    workspace.FeedBlob("a", f(1, 2))
    workspace.FeedBlob("b", np.ones((2, 2), np.float32))
    run("Add", ["b", "a"], ["b"])
    np.testing.assert_array_equal(workspace.FetchBlob("b"), [[2, 3], [2, 3]])
    with pytest.raises(RuntimeError):
        run("Add", ["a", "b"], ["a"])


@pytest.mark.parametrize("value, dtype", [(3, np.int64), (True, np.int64), (3.0, np.float32)])
def test_types_of_a_constant(value, dtype):
    made = compute("ConstantFill", shape=[2], value=value)
    assert made.dtype == dtype and (made == value).all()


def test_a_constant_without_shape_is_a_scalar():
    assert compute("ConstantFill", value=1.0).shape == ()


def test_is_nan_gives_bytes():
    assert compute("IsNaN", f(NAN)).dtype == np.uint8


def test_gradients_go_to_all_ties():
    one, two = f(1), f(2, 2)
    square = np.full((1, 1, 2, 2), 2, np.float32)
    cases = [
        ("MaxPoolGradient", [square, square[..., :1, :1], np.ones((1, 1, 1, 1), np.float32)], {"kernel": 2}),
        ("ReduceMaxGradient", [one, two, f(2)], {"axes": [0]}),
        ("RowwiseMaxGradient", [two.reshape(1, 1, 2), f(2).reshape(1, 1), one.reshape(1, 1)], {}),
    ]
    for kind, arrays, args in cases:
        assert (compute(kind, *arrays, **args) == 1).all(), kind
    for gradient in compute("MaxGradient", f(2), one, f(2), f(2), outputs=2):
        assert gradient == 1


def test_sparse_optimizers_go_row_by_row():
    blobs = {"w": f(0).reshape(1, 1), "m": f(0).reshape(1, 1), "rows": i(0, 0), "g": f(1, 1).reshape(2, 1), "lr": f(-1)}
    for name, value in blobs.items():
        workspace.FeedBlob(name, value)
    run("SparseAdagrad", ["w", "m", "rows", "g", "lr"], ["w", "m"], epsilon=0.0)
    np.testing.assert_allclose(workspace.FetchBlob("w"), [[-1 - 0.5**0.5]], rtol=1e-5)


@pytest.mark.parametrize("legacy_pad, size", [(3, 3), (2, 3), (0, 2)])
def test_legacy_padding_of_pools(legacy_pad, size):
    x = np.ones((1, 1, 6, 6), np.float32)
    args = {"legacy_pad": legacy_pad} if legacy_pad else {}
    assert compute("MaxPool", x, kernel=3, stride=2, **args).shape == (1, 1, size, size)


def test_older_name_of_the_device_id():
    assert core.DeviceOption(caffe2_pb2.CUDA, cuda_gpu_id=3).device_id == 3
    text = b'name: "n" op { type: "Copy" device_option { device_type: 1 cuda_gpu_id: 3 } }'
    assert utils.TryReadProtoWithClass(caffe2_pb2.NetDef, text).op[0].device_option.device_id == 3


def test_indices_of_several_dimensions_in_sparse_optimizers():
    """As the gradient of Gather by a matrix of indices gives them."""
    indices, grad = np.arange(12, dtype=np.int32).reshape(4, 3), np.ones((4, 3, 2), np.float32)
    for name in ("param", "moment"):
        workspace.FeedBlob(name, np.ones((20, 2), np.float32))
    workspace.FeedBlob("lr", f(-0.1))
    for name, array in (("indices", indices), ("grad", grad)):
        workspace.FeedBlob(name, array)
    run("SparseAdagrad", ["param", "moment", "indices", "grad", "lr"], ["param", "moment"])
    assert workspace.FetchBlob("moment").sum() == 64
