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


<<<<<<< HEAD
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
    made = runner.create_net(workspace, definition)
    made.run()
    first = workspace.fetch("a")
    assert np.array_equal(first, workspace.fetch("b"))  # one seed, equal values
    made.run()
    assert not np.array_equal(first, workspace.fetch("a"))  # a second run goes on
    runner.create_net(workspace, definition, overwrite=True).run()
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
        runner.run_operator(workspace, fill)
    u, g, x, m = (workspace.fetch(n) for n in "ugxm")
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.02
    assert abs(g.mean() - 1) < 0.03 and abs(g.std() - 2) < 0.03
    assert np.abs(x).max() <= (3 / 50) ** 0.5 and abs(x.std() - (1 / 50) ** 0.5) < 0.01  # fan in: numel / dim 0
    assert abs(m.std() - (2 / 100) ** 0.5) < 0.01  # fan out: numel / dim 1


def test_unique_integers_avoid_what_they_must():
    workspace = feed(shape=np.array([7]), avoid=np.array([3, 4], "int32"))
    runner.run_operator(workspace, op("UniqueUniformFill", ["shape", "avoid"], ["y"], min=1, max=9, input_as_shape=1))
    assert sorted(workspace.fetch("y")) == [1, 2, 5, 6, 7, 8, 9]
    with pytest.raises(OperatorError, match="only 7 are allowed"):
        runner.run_operator(
            workspace,
            op("UniqueUniformFill", ["shape", "avoid"], ["y"], min=1, max=9, input_as_shape=1, extra_shape=[2]),
        )


def test_weighted_samples_follow_their_weights():
    weights = np.tile(f(1, 0, 3), (4000, 1))
    workspace = feed(w=weights, v=np.tile(f(10, 20, 30), (4000, 1)))
    runner.run_operator(workspace, op("WeightedSample", ["w", "v"], ["i", "s"], seed=1))
    indices, chosen = workspace.fetch("i")[:, 0], workspace.fetch("s")[:, 0]
    assert set(indices) == {0, 2} and abs((indices == 2).mean() - 0.75) < 0.03
    assert np.array_equal(chosen, f(10, 20, 30)[indices])


# ---- optimizers --------------------------------------------------------------------------------------------------


def test_sparse_rows_are_stepped_one_by_one():
    workspace = feed(
        p=np.zeros((2, 1), "f"), h=np.zeros((2, 1), "f"), i=np.array([0, 0]), g=np.ones((2, 1), "f"), lr=f(-1)
    )
    runner.run_operator(workspace, op("SparseAdagrad", ["p", "h", "i", "g", "lr"], ["p", "h"], epsilon=1e-9))
    np.testing.assert_allclose(workspace.fetch("p")[:, 0], [-1 - 0.5**0.5, 0], rtol=1e-5)
    np.testing.assert_allclose(workspace.fetch("h")[:, 0], [2, 0])


@pytest.mark.parametrize("size", [3, 70000])  # one block, and several with a rest
def test_adam_of_many_steps(size):
    rng = np.random.default_rng(0)
    p, m, v = rng.standard_normal(size).astype("f"), np.zeros(size, "f"), np.zeros(size, "f")
    workspace = feed(p=p, m=m, v=v, lr=f(-0.1), it=np.array([0]), g=p)
    made = runner.create_net(
        workspace, net(op("Adam", ["p", "m", "v", "g", "lr", "it"], ["p", "m", "v"]), op("Iter", ["it"], ["it"]))
    )
    for t in range(1, 5):
        g = rng.standard_normal(size).astype("f")
        workspace.feed("g", g)
        made.run()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - 0.1 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-5)
        np.testing.assert_allclose(workspace.fetch("p"), p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum_in_place_and_beside(nesterov):
    rng = np.random.default_rng(0)
    g, m, p = (rng.standard_normal(40000).astype("f") for _ in "gmp")
    beside, inside = feed(g=g, m=m, p=p, lr=f(0.1)), feed(g=g, m=m, p=p, lr=f(0.1))
    args = {"momentum": 0.9, "nesterov": nesterov}
    runner.run_operator(beside, op("MomentumSGDUpdate", ["g", "m", "lr", "p"], ["g2", "m2", "p2"], **args))
    runner.run_operator(inside, op("MomentumSGDUpdate", ["g", "m", "lr", "p"], ["g", "m", "p"], **args))
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
        runner.run_operator(workspace,
            op("LearningRate", ["i"], ["lr"], policy="composite", base_lr=2.0, sub_policy_num_iters=[3, 3],
               sub_policy_0_policy="linearWarmup", sub_policy_0_start_multiplier=0.0, sub_policy_0_num_iter=4,
               sub_policy_1_policy="step", sub_policy_1_stepsize=5, sub_policy_1_gamma=0.1, sub_policy_1_lr_scale=0.5)
        )  # fmt: skip
        rates.append(float(workspace.fetch("lr")))
    np.testing.assert_allclose(rates, [0, 0.5, 1, 1.5, 1, 0.1, 0.1, 0.1, 0.1, 0.1], rtol=1e-5)


@pytest.mark.parametrize("args", [{"policy": "step"}, {"policy": "cyclical"}, {"policy": "nonsense"}, {}])
def test_learning_rates_that_cannot_be(args):
    with pytest.raises(OperatorError, match=r"stepsize|policy"):
        runner.run_operator(feed(i=np.array([1])), op("LearningRate", ["i"], ["lr"], base_lr=0.1, **args))
=======
def test_dropout_keeps_the_mean_and_tells_its_mask():
    workspace = feed(x=np.ones((200, 200), "float32"))
    made = runner.create_net(workspace, net(op("Dropout", ["x"], ["y", "mask"], seed=3, ratio=0.25, is_test=0)))
    made.run()
    y, mask = workspace.fetch("y"), workspace.fetch("mask")
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y, mask / 0.75, rtol=1e-6)
    made.run()
    assert not np.array_equal(mask, workspace.fetch("mask"))
>>>>>>> opsa


# ---- in place, and beside ----------------------------------------------------------------------------------------


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


<<<<<<< HEAD
def test_a_meter_remembers_until_its_net_is_made_again():
    definition = net(op("APMeter", ["p", "l"], ["ap"], buffer_size=4))
    workspace = feed(p=f(0.9, 0.8).reshape(2, 1), l=np.array([[1], [0]], "int32"))
    made = runner.create_net(workspace, definition)
    made.run()
    assert workspace.fetch("ap").tolist() == [1]
    workspace.feed("p", f(0.95, 0.1).reshape(2, 1))
    workspace.feed("l", np.array([[0], [1]], "int32"))
    made.run()
    np.testing.assert_allclose(workspace.fetch("ap"), [(1 / 2 + 2 / 4) / 2])
    runner.create_net(workspace, definition, overwrite=True).run()
    np.testing.assert_allclose(workspace.fetch("ap"), [1 / 2])
=======
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
>>>>>>> opsa


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
