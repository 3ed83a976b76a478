"""What recorded cases of dense operators do not show: randomness, duplicates, working in place, refusals in words."""

import numpy as np
import pytest

from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import set_argument
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace


def op(kind, inputs=(), outputs=(), seed=None, **args):
    made = caffe2_pb2.OperatorDef(type=kind, input=inputs, output=outputs)
    for name, value in args.items():
        set_argument(made.arg.add(name=name), value)
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


# ---- random fills ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("UniformFill", {"min": -1.0, "max": 3.0}),
        ("GaussianFill", {"mean": 1.0, "std": 2.0}),
        ("XavierFill", {}),
        ("MSRAFill", {}),
        ("UniformIntFill", {"min": 0, "max": 1000}),
    ],
)
def test_random_state_belongs_to_the_operator(kind, args):
    workspace = Workspace()
    definition = net(
        op(kind, (), ["a"], seed=5, shape=[40, 30], **args), op(kind, (), ["b"], seed=5, shape=[40, 30], **args)
    )
    runner = workspace.create_net(definition)
    runner.run()
    first = workspace.fetch("a")
    assert np.array_equal(first, workspace.fetch("b"))  # one seed, equal values
    runner.run()
    assert not np.array_equal(first, workspace.fetch("a"))  # a second run goes on
    workspace.create_net(definition, overwrite=True).run()
    assert np.array_equal(first, workspace.fetch("a"))  # a new net starts anew


def test_moments_of_random_fills():
    workspace = Workspace()
    fills = {
        "u": op("UniformFill", (), ["u"], shape=[300, 300], min=-1.0, max=3.0, seed=1),
        "g": op("GaussianFill", (), ["g"], shape=[300, 300], mean=1.0, std=2.0, seed=1),
        "x": op("XavierFill", (), ["x"], shape=[100, 50], seed=1),
        "m": op("MSRAFill", (), ["m"], shape=[100, 50], seed=1),
    }
    for fill in fills.values():
        workspace.run_operator(fill)
    u, g, x, m = (workspace.fetch(n) for n in "ugxm")
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.02
    assert abs(g.mean() - 1) < 0.03 and abs(g.std() - 2) < 0.03
    assert np.abs(x).max() <= (3 / 50) ** 0.5 and abs(x.std() - (1 / 50) ** 0.5) < 0.01  # fan in: numel / dim 0
    assert abs(m.std() - (2 / 100) ** 0.5) < 0.01  # fan out: numel / dim 1


def test_unique_integers_avoid_what_they_must():
    workspace = feed(shape=np.array([7]), avoid=np.array([3, 4], "int32"))
    workspace.run_operator(op("UniqueUniformFill", ["shape", "avoid"], ["y"], min=1, max=9, input_as_shape=1))
    assert sorted(workspace.fetch("y")) == [1, 2, 5, 6, 7, 8, 9]
    with pytest.raises(OperatorError, match="only 7 are allowed"):
        workspace.run_operator(
            op("UniqueUniformFill", ["shape", "avoid"], ["y"], min=1, max=9, input_as_shape=1, extra_shape=[2])
        )


def test_dropout_keeps_the_mean_and_tells_its_mask():
    workspace = feed(x=np.ones((200, 200), "float32"))
    runner = workspace.create_net(net(op("Dropout", ["x"], ["y", "mask"], seed=3, ratio=0.25, is_test=0)))
    runner.run()
    y, mask = workspace.fetch("y"), workspace.fetch("mask")
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)
    runner.run()
    assert not np.array_equal(mask, workspace.fetch("mask"))


def test_weighted_samples_follow_their_weights():
    weights = np.tile(f(1, 0, 3), (4000, 1))
    workspace = feed(w=weights, v=np.tile(f(10, 20, 30), (4000, 1)))
    workspace.run_operator(op("WeightedSample", ["w", "v"], ["i", "s"], seed=1))
    indices, chosen = workspace.fetch("i")[:, 0], workspace.fetch("s")[:, 0]
    assert set(indices) == {0, 2} and abs((indices == 2).mean() - 0.75) < 0.03
    assert np.array_equal(chosen, f(10, 20, 30)[indices])


# ---- optimizers --------------------------------------------------------------------------------------------------


def test_sparse_rows_are_stepped_one_by_one():
    workspace = feed(
        p=np.zeros((2, 1), "f"), h=np.zeros((2, 1), "f"), i=np.array([0, 0]), g=np.ones((2, 1), "f"), lr=f(-1)
    )
    workspace.run_operator(op("SparseAdagrad", ["p", "h", "i", "g", "lr"], ["p", "h"], epsilon=1e-9))
    np.testing.assert_allclose(workspace.fetch("p")[:, 0], [-1 - 0.5**0.5, 0], rtol=1e-5)
    np.testing.assert_allclose(workspace.fetch("h")[:, 0], [2, 0])


@pytest.mark.parametrize("size", [3, 70000])  # one block, and several with a rest
def test_adam_of_many_steps(size):
    rng = np.random.default_rng(0)
    p, m, v = rng.standard_normal(size).astype("f"), np.zeros(size, "f"), np.zeros(size, "f")
    workspace = feed(p=p, m=m, v=v, lr=f(-0.1), it=np.array([0]), g=p)
    runner = workspace.create_net(
        net(op("Adam", ["p", "m", "v", "g", "lr", "it"], ["p", "m", "v"]), op("Iter", ["it"], ["it"]))
    )
    for t in range(1, 5):
        g = rng.standard_normal(size).astype("f")
        workspace.feed("g", g)
        runner.run()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - 0.1 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-5)
        np.testing.assert_allclose(workspace.fetch("p"), p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum_in_place_and_beside(nesterov):
    rng = np.random.default_rng(0)
    g, m, p = (rng.standard_normal(40000).astype("f") for _ in "gmp")
    beside, inside = feed(g=g, m=m, p=p, lr=f(0.1)), feed(g=g, m=m, p=p, lr=f(0.1))
    args = {"momentum": 0.9, "nesterov": nesterov}
    beside.run_operator(op("MomentumSGDUpdate", ["g", "m", "lr", "p"], ["g2", "m2", "p2"], **args))
    inside.run_operator(op("MomentumSGDUpdate", ["g", "m", "lr", "p"], ["g", "m", "p"], **args))
    new = 0.9 * m + 0.1 * g
    step = 1.9 * new - 0.9 * m if nesterov else new
    for name, want in (("g", step), ("m", new), ("p", p - step)):
        np.testing.assert_allclose(beside.fetch(name + "2"), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(inside.fetch(name), beside.fetch(name + "2"))
    np.testing.assert_array_equal(beside.fetch("m"), m)


def test_composite_learning_rate():
    rates = []
    for i in range(10):
        workspace = feed(i=np.array([i]))
        workspace.run_operator(
            op("LearningRate", ["i"], ["lr"], policy="composite", base_lr=2.0, sub_policy_num_iters=[3, 3],
               sub_policy_0_policy="linearWarmup", sub_policy_0_start_multiplier=0.0, sub_policy_0_num_iter=4,
               sub_policy_1_policy="step", sub_policy_1_stepsize=5, sub_policy_1_gamma=0.1, sub_policy_1_lr_scale=0.5)
        )  # fmt: skip
        rates.append(float(workspace.fetch("lr")))
    np.testing.assert_allclose(rates, [0, 0.5, 1, 1.5, 1, 0.1, 0.1, 0.1, 0.1, 0.1], rtol=1e-5)


@pytest.mark.parametrize("args", [{"policy": "step"}, {"policy": "cyclical"}, {"policy": "nonsense"}, {}])
def test_learning_rates_that_cannot_be(args):
    with pytest.raises(OperatorError, match=r"stepsize|policy"):
        feed(i=np.array([1])).run_operator(op("LearningRate", ["i"], ["lr"], base_lr=0.1, **args))


# ---- in place, and beside ----------------------------------------------------------------------------------------


def test_legacy_broadcast_does_not_grow_its_first_operand():
    workspace = feed(a=f(1, 2), b=np.ones((2, 2), "f"))
    with pytest.raises(OperatorError, match="in place"):
        workspace.run_operator(op("Add", ["a", "b"], ["a"]))
    assert workspace.fetch("a").shape == (2,)


def test_a_gradient_in_the_place_of_dy_comes_last():
    a, b, d = f(1, 2, 3), f(4, 5, 6), f(1, 10, 100)
    for outputs in (["d", "db"], ["da", "d"], ["da", "db"]):
        workspace = feed(a=a, b=b, d=d)
        workspace.run_operator(op("MulGradient", ["d", "a", "b"], outputs))
        np.testing.assert_allclose(workspace.fetch(outputs[0]), d * b)
        np.testing.assert_allclose(workspace.fetch(outputs[1]), d * a)


def test_alias_shares_and_copies_do_not():
    workspace = feed(x=f(1, 2, 3))
    for kind in ("Alias", "Copy", "StopGradient", "EnsureDense", "FlattenToVec"):
        workspace.run_operator(op(kind, ["x"], [kind]))
    workspace.feed("x", f(7, 8, 9))
    assert workspace.fetch("Alias").tolist() == [7, 8, 9]
    for kind in ("Copy", "StopGradient", "EnsureDense", "FlattenToVec"):
        assert workspace.fetch(kind).tolist() == [1, 2, 3]


def test_coalesced_blobs_share_one_piece_of_memory():
    workspace = feed(a=f(1, 2), b=f(3))
    workspace.run_operator(op("UnsafeCoalesce", ["a", "b"], ["a", "b", "all"]))
    workspace.run_operator(op("Scale", ["all"], ["all"], scale=10.0))
    assert workspace.fetch("a").tolist() == [10, 20] and workspace.fetch("b").tolist() == [30]


def test_rows_of_zeros_do_not_become_the_result():
    """Relu compares with a shared vector of zeros, which must never be handed out or written."""
    workspace = feed(x=np.full(300000, -1, "f"))
    runner = workspace.create_net(
        net(op("Relu", ["x"], ["y"]), op("Scale", ["y"], ["y"], scale=2.0), op("Add", ["y", "x"], ["y"]))
    )
    for _ in range(4):
        runner.run()
        assert (workspace.fetch("y") == -1).all()


# ---- several blobs as one ----------------------------------------------------------------------------------------


def test_collectives_of_one_process():
    workspace = feed(a=f(1, 2), b=f(10, 20))
    workspace.run_operator(op("NCCLAllreduce", ["a", "b"], ["a", "b"]))
    assert workspace.fetch("a").tolist() == workspace.fetch("b").tolist() == [11, 22]
    workspace = feed(a=f(1, 2), b=f(10, 20))
    workspace.run_operator(op("NCCLBroadcast", ["a", "b"], ["a", "b"], root=1))
    assert workspace.fetch("a").tolist() == [10, 20]
    workspace = feed(a=f(1, 2), b=f(10, 20))
    workspace.run_operator(op("NCCLReduce", ["a", "b"], ["a"]))
    workspace.run_operator(op("NCCLAllGather", ["a", "b"], ["c", "d"]))
    workspace.run_operator(op("NCCLReduceScatter", ["c", "d"], ["e", "g"]))
    assert workspace.fetch("a").tolist() == [11, 22]
    assert workspace.fetch("c").tolist() == workspace.fetch("d").tolist() == [[11, 22], [10, 20]]
    assert workspace.fetch("e").tolist() == [22, 44] and workspace.fetch("g").tolist() == [20, 40]


# ---- state -------------------------------------------------------------------------------------------------------


def test_accumulation_reads_what_the_output_holds():
    workspace = feed(x=f(1), y=f(100))
    workspace.run_operator(op("Accumulate", ["x"], ["y"]))
    assert workspace.fetch("y").tolist() == [101]


def test_a_meter_remembers_until_its_net_is_made_again():
    definition = net(op("APMeter", ["p", "l"], ["ap"], buffer_size=4))
    workspace = feed(p=f(0.9, 0.8).reshape(2, 1), l=np.array([[1], [0]], "int32"))
    runner = workspace.create_net(definition)
    runner.run()
    assert workspace.fetch("ap").tolist() == [1]
    workspace.feed("p", f(0.95, 0.1).reshape(2, 1))
    workspace.feed("l", np.array([[0], [1]], "int32"))
    runner.run()
    np.testing.assert_allclose(workspace.fetch("ap"), [(1 / 2 + 2 / 4) / 2])
    workspace.create_net(definition, overwrite=True).run()
    np.testing.assert_allclose(workspace.fetch("ap"), [1 / 2])


def test_counters_count():
    workspace = Workspace()
    workspace.run_operator(op("CreateCounter", (), ["c"], init_count=1))
    done = []
    for _ in range(3):
        workspace.run_operator(op("CountDown", ["c"], ["d"]))
        done.append(bool(workspace.fetch("d")))
    workspace.run_operator(op("CountUp", ["c"], ["before"]))
    workspace.run_operator(op("RetrieveCount", ["c"], ["n"]))
    assert (done, int(workspace.fetch("before")), int(workspace.fetch("n"))) == ([False, True, True], -2, -1)
    with pytest.raises(OperatorError, match="counter is needed"):
        feed(x=f(1)).run_operator(op("CountUp", ["x"], ["y"]))


def test_statistics_are_exported_and_start_again():
    workspace = feed(x=np.array([2.5]))
    export = op("StatRegistryExport", (), ["k", "v", "t"])
    workspace.run_operator(export)
    workspace.run_operator(op("AveragePut", ["x"], (), stat_name="dense", magnitude_expand=100))
    workspace.run_operator(op("TimerBegin", (), ["timer"], counter_name="dense_timer"))
    workspace.run_operator(op("TimerGetAndEnd", ["timer"], ["ns"]))
    workspace.run_operator(export)
    found = dict(zip(workspace.fetch("k"), workspace.fetch("v")))
    assert found[b"dense/stat_value/sum"] == 250 and found[b"dense/stat_value/count"] == 1
    assert found[b"dense_timer/time_ns/sum"] == workspace.fetch("ns").item() > 0
    workspace.run_operator(export)
    assert not any(v for k, v in zip(workspace.fetch("k"), workspace.fetch("v")) if k.startswith(b"dense"))


def test_a_statistic_wraps_around_as_an_int64_does():
    workspace = feed(x=np.array([1e30]))
    for _ in range(2):
        workspace.run_operator(op("IncrementPut", ["x"], (), stat_name="large", bound=True))
    workspace.run_operator(op("StatRegistryExport", (), ["k", "v", "t"]))
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
        ("ConstantFill", [], {"shape": [1 << 40, 1 << 20], "value": 1.0}, "CAFFE2LITE_LARGEST_RESULT"),
    ],
)
def test_errors_say_what_is_wrong(kind, inputs, args, words):
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = {"ScatterAssign": ["x0"], "Concat": ["y", "s"], "Reshape": ["y", "s"], "SoftmaxWithLoss": ["y", "l"]}
    made = op(kind, names, outputs.get(kind, ["y"]), **args)
    with pytest.raises((OperatorError, MemoryError), match=words):
        feed(**dict(zip(names, inputs))).run_operator(made)


def test_every_operator_of_these_files_has_a_sentence():
    """A doc string, and types or a shape that a reader can look up."""
    bare = [n for n in registry.names() if len(registry.get(n).doc) < 5]
    assert not bare


def test_sizes_of_tensor_train_gradients_come_from_the_cores():
    shapes = {"c0": (10, 1, 4, 3), "c1": (11, 3, 2, 3), "c2": (12, 3, 5, 1)}
    rng = np.random.default_rng(0)
    for name, shape in shapes.items():
        workspace.FeedBlob(name, rng.standard_normal(shape, np.float32))
    workspace.FeedBlob("index", np.array([1, 500, 1319]))
    workspace.FeedBlob("lengths", np.array([2, 1], np.int32))
    args = {"factor_i": [10, 11, 12], "factor_j": [4, 2, 5], "ranks": [1, 3, 3, 1], "emb_size": 40}
    forward = core.CreateOperator(
        "TTSparseLengthsSum", [*shapes, "index", "lengths"], ["y", "o0", "o1", "indices"], **args
    )
    workspace.RunOperatorOnce(forward)
    workspace.FeedBlob("dy", rng.standard_normal((2, 40), np.float32))
    made = []
    for given in (args, {}):
        inputs = [*shapes, "lengths", "o0", "o1", "indices", "dy"]
        workspace.RunOperatorOnce(core.CreateOperator("TTSparseLengthsSumGradient", inputs, ["d0", "d1", "d2"], **given))
        made.append([workspace.FetchBlob(f"d{k}") for k in range(3)])
    for one, other in zip(*made):
        np.testing.assert_array_equal(one, other)
