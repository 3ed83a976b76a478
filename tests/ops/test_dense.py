"""What recorded cases of dense operators do not show: randomness, duplicates, working in place, refusals in words."""

import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments
from caffe2lite.proto import caffe2_pb2


def op(kind, inputs=(), outputs=(), seed=None, **args):
    made = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        arguments.write(made.arg.add(), name, value)
    if seed is not None:
        made.device_option.random_seed = seed
    return made


def net(*ops):
    return caffe2_pb2.NetDef(name="net", op=ops)


def feed(**blobs):
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, np.asarray(value))
    return workspace


def f(*values):
    return np.array(values, "float32")


def test_dropout_keeps_the_mean_and_tells_its_mask():
    workspace = feed(x=np.ones((200, 200), "float32"))
    made = runner.create_net(workspace, net(op("Dropout", ["x"], ["y", "mask"], seed=3, ratio=0.25, is_test=0)))
    made.run()
    y, mask = workspace.fetch("y"), workspace.fetch("mask")
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)
    made.run()
    assert not np.array_equal(mask, workspace.fetch("mask"))


# ---- in place, and beside ----------------------------------------------------------------------------------------


def test_legacy_broadcast_does_not_grow_its_first_operand():
    workspace = feed(a=f(1, 2), b=np.ones((2, 2), "f"))
    with pytest.raises(OperatorError, match="in place"):
        runner.run_operator(workspace, op("Add", ["a", "b"], ["a"]))
    assert workspace.fetch("a").shape == (2,)


def test_a_gradient_in_the_place_of_dy_comes_last():
    a, b, d = f(1, 2, 3), f(4, 5, 6), f(1, 10, 100)
    for outputs in (["d", "db"], ["da", "d"], ["da", "db"]):
        workspace = feed(a=a, b=b, d=d)
        runner.run_operator(workspace, op("MulGradient", ["d", "a", "b"], outputs))
        np.testing.assert_allclose(workspace.fetch(outputs[0]), d * b)
        np.testing.assert_allclose(workspace.fetch(outputs[1]), d * a)


def test_alias_shares_and_copies_do_not():
    workspace = feed(x=f(1, 2, 3))
    for kind in ("Alias", "Copy", "StopGradient", "EnsureDense", "FlattenToVec"):
        runner.run_operator(workspace, op(kind, ["x"], [kind]))
    workspace.feed("x", f(7, 8, 9))
    assert workspace.fetch("Alias").tolist() == [7, 8, 9]
    for kind in ("Copy", "StopGradient", "EnsureDense", "FlattenToVec"):
        assert workspace.fetch(kind).tolist() == [1, 2, 3]


def test_coalesced_blobs_share_one_piece_of_memory():
    workspace = feed(a=f(1, 2), b=f(3))
    runner.run_operator(workspace, op("UnsafeCoalesce", ["a", "b"], ["a", "b", "all"]))
    runner.run_operator(workspace, op("Scale", ["all"], ["all"], scale=10.0))
    assert workspace.fetch("a").tolist() == [10, 20] and workspace.fetch("b").tolist() == [30]


def test_rows_of_zeros_do_not_become_the_result():
    """Relu compares with a shared vector of zeros, which must never be handed out or written."""
    workspace = feed(x=np.full(300000, -1, "f"))
    made = runner.create_net(
        workspace, net(op("Relu", ["x"], ["y"]), op("Scale", ["y"], ["y"], scale=2.0), op("Add", ["y", "x"], ["y"]))
    )
    for _ in range(4):
        made.run()
        assert (workspace.fetch("y") == -1).all()


# ---- state -------------------------------------------------------------------------------------------------------


def test_accumulation_reads_what_the_output_holds():
    workspace = feed(x=f(1), y=f(100))
    runner.run_operator(workspace, op("Accumulate", ["x"], ["y"]))
    assert workspace.fetch("y").tolist() == [101]


def test_counters_count():
    workspace = Workspace()
    runner.run_operator(workspace, op("CreateCounter", (), ["c"], init_count=1))
    done = []
    for _ in range(3):
        runner.run_operator(workspace, op("CountDown", ["c"], ["d"]))
        done.append(bool(workspace.fetch("d")))
    runner.run_operator(workspace, op("CountUp", ["c"], ["before"]))
    runner.run_operator(workspace, op("RetrieveCount", ["c"], ["n"]))
    assert (done, int(workspace.fetch("before")), int(workspace.fetch("n"))) == ([False, True, True], -2, -1)
    with pytest.raises(OperatorError, match="counter is needed"):
        runner.run_operator(feed(x=f(1)), op("CountUp", ["x"], ["y"]))


def test_statistics_are_exported_and_start_again():
    workspace = feed(x=np.array([2.5]))
    export = op("StatRegistryExport", (), ["k", "v", "t"])
    runner.run_operator(workspace, export)
    runner.run_operator(workspace, op("AveragePut", ["x"], (), stat_name="dense", magnitude_expand=100))
    runner.run_operator(workspace, op("TimerBegin", (), ["timer"], counter_name="dense_timer"))
    runner.run_operator(workspace, op("TimerGetAndEnd", ["timer"], ["ns"]))
    runner.run_operator(workspace, export)
    found = dict(zip(workspace.fetch("k"), workspace.fetch("v")))
    assert found[b"dense/stat_value/sum"] == 250 and found[b"dense/stat_value/count"] == 1
    assert found[b"dense_timer/time_ns/sum"] == workspace.fetch("ns").item() > 0
    runner.run_operator(workspace, export)
    assert not any(v for k, v in zip(workspace.fetch("k"), workspace.fetch("v")) if k.startswith(b"dense"))


def test_a_statistic_wraps_around_as_an_int64_does():
    workspace = feed(x=np.array([1e30]))
    for _ in range(2):
        runner.run_operator(workspace, op("IncrementPut", ["x"], (), stat_name="large", bound=True))
    runner.run_operator(workspace, op("StatRegistryExport", (), ["k", "v", "t"]))
    found = dict(zip(workspace.fetch("k"), workspace.fetch("v")))
    assert found[b"large/stat_value"] == -2


# ---- refusals ----------------------------------------------------------------------------------------------------


X23, I2 = np.ones((2, 3), "f"), np.array([2])


@pytest.mark.parametrize(
    ("kind", "inputs", "args", "words"),
    [
        ("FC", [X23, np.ones((4, 5), "f"), np.ones(4, "f")], {}, r"W must be \[4, 3\]"),
        ("Reshape", [np.ones(6, "f")], {"shape": [4, -1]}, "does not divide the 6 elements"),
        ("Concat", [X23, np.ones((2, 4), "f")], {"axis": 0}, "must agree"),
        ("SoftmaxWithLoss", [X23, np.array([0, 3], "int32")], {}, "from 0 to 2"),
        ("Gather", [X23, I2], {}, "index 2 is outside"),
        ("ScatterAssign", [X23, 1 - I2, np.ones((1, 3), "f")], {}, "index -1 is outside"),
        ("Div", [np.array([1]), np.array([0])], {}, "division by zero"),
        ("Max", [f(1, 2), f(1)], {}, "one shape"),
        ("ConstantFill", [], {"shape": [1 << 40, 1 << 20], "value": 1.0}, "no memory"),
    ],
)
def test_errors_say_what_is_wrong(kind, inputs, args, words):
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = {"ScatterAssign": ["x0"], "Concat": ["y", "s"], "Reshape": ["y", "s"], "SoftmaxWithLoss": ["y", "l"]}
    made = op(kind, names, outputs.get(kind, ["y"]), **args)
    with pytest.raises((OperatorError, MemoryError), match=words):
        runner.run_operator(feed(**dict(zip(names, inputs))), made)
