"""What lint says of orders that a graph does not keep, and of gradients that are missing."""

import threading

import numpy as np
import pytest
from caffe2.python import brew, core, model_helper, optimizer, workspace

from caffe2lite import inspect
from caffe2lite.engine.dependencies import dependencies


def graph(kind="dag"):
    net = core.Net("graph")
    net.Proto().type = kind
    return net


def codes(net):
    return [p.code for p in inspect.lint(net.Proto())]


def test_a_control_input_is_a_blob_that_is_waited_for():
    """As in Caffe2, where the names of operators mean nothing here.  The queue makes the net run on threads."""
    order, other = [], threading.Event()

    def waits(inputs, outputs):
        other.wait(0.2)  # in vain, as the other operator waits for this one
        order.append("first")

    def follows(inputs, outputs):
        order.append("second")
        other.set()

    net = graph()
    queue = net.CreateBlobsQueue([], "queue", capacity=1, num_blobs=1)
    net.Python(waits)([], "a")
    net.Python(follows)([], "c")
    net.Proto().op[1].name = "operator"
    net.Proto().op[2].control_input.append("a")
    net.EnqueueBlobs([queue, "b"], ["b"])
    workspace.FeedBlob("b", np.ones(1))
    workspace.RunNetOnce(net)
    assert order == ["first", "second"]
    net.Proto().op[2].control_input[:] = ["operator"]
    assert dependencies(net.Proto())[2] == set()


def collectives(net):
    net.Allreduce(["world", "a"], ["a"])
    net.Allreduce(["world", "b"], ["b"])


def producers(net):
    net.EnqueueBlobs(["queue", "a"], ["a"])
    net.EnqueueBlobs(["queue", "b"], ["b"])


def consumers(net):
    net.DequeueBlobs(["queue"], ["a"])
    net.SafeDequeueBlobs(["queue"], ["b", "status"])


def waiting(net):
    net.DequeueBlobs(["queue"], ["a"])
    net.EnqueueBlobs(["queue", "b"], ["b"])


@pytest.mark.parametrize(
    "kind, ordered, found", [("async_scheduling", False, ["C014"]), ("dag", True, []), ("simple", False, [])]
)
@pytest.mark.parametrize("build", [collectives, producers, consumers, waiting])
def test_an_order_that_no_graph_keeps(build, kind, ordered, found):
    net = graph(kind)
    build(net)
    if ordered:
        net.Proto().op[1].control_input.append("a")
    assert codes(net) == found


def test_what_may_share_a_queue_or_a_common_world():
    net = graph()
    net.EnqueueBlobs(["queue", "a"], ["a"])
    net.DequeueBlobs(["queue"], ["b"])  # waits for the other, as it should
    net.Allreduce(["world", "a"], ["a"])
    net.Allreduce(["another", "c"], ["c"])
    assert codes(net) == []


def plan(first, second):
    made = core.Plan("plan")
    steps = []
    for build in (first, second):
        net = core.Net(build.__name__)
        build(net)
        steps.append(core.execution_step(build.__name__, [net]))
    made.AddStep(core.execution_step("both", steps, concurrent_substeps=True))
    return made.Proto()


def guarded(net):
    net.AtomicIter(["mutex", "iter"], ["iter"])


def guarded_otherwise(net):
    net.AtomicIter(["other_mutex", "iter"], ["iter"])


def unguarded(net):
    net.Iter("iter", "iter")


def reader(net):
    net.LearningRate("iter", "lr", base_lr=0.1, policy="fixed")


@pytest.mark.parametrize("first, second, found", [
    (collectives, waiting, []),
    (collectives, collectives, ["C014"]),
    (guarded, guarded, []),
    (guarded, reader, []),
    (guarded, guarded_otherwise, ["C012"]),
    (guarded, unguarded, ["C012"]),
])  # fmt: skip
def test_mutexes_and_common_worlds_of_steps_side_by_side(first, second, found):
    assert [p.code for p in inspect.lint_plan(plan(first, second))] == found


def trained(between=None):
    """A net of two layers that is trained, perhaps with an operator between the layers."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="trained")
    hidden = brew.relu(model, brew.fc(model, "data", "fc1", 4, 3), "relu1")
    if between:
        hidden = getattr(model.net, between)(hidden, "between")
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, hidden, "fc2", 3, 2), "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.1)
    return model.net


@pytest.mark.parametrize("gone", ["FCGradient", "ReluGradient", "SoftmaxWithLossGradient"])
def test_an_operator_without_its_gradient(gone):
    net = trained()
    assert codes(net) == []
    ops = net.Proto().op
    del ops[next(i for i, op in enumerate(ops) if op.type == gone)]
    (problem,) = [p for p in inspect.lint(net.Proto()) if p.code == "C015"]
    assert problem.message.startswith(
        f"{gone.removesuffix('Gradient')} is on the way to a loss, and there is no {gone} of it"
    )


def test_labels_that_a_net_makes_itself():
    """StopGradient in place: what made its blob before needs no gradient, though the blob of that name has one."""
    net = core.Net("regression")
    net.FC(["x", "w_true", "b_true"], "y")
    net.StopGradient("y", "y")
    net.FC(["x", "w", "b"], "guess")
    loss = net.AveragedLoss(net.SquaredL2Distance(["y", "guess"], "distance"), "loss")
    net.AddGradientOperators([loss])
    assert codes(net) == []


def test_a_gradient_that_nothing_makes():
    net = trained()
    update = next(op for op in net.Proto().op if "fc1_w_grad" in op.input)
    for op in net.Proto().op:
        op.output[:] = ["elsewhere" if name == "fc1_w_grad" else name for name in op.output]
    (problem,) = inspect.lint(net.Proto())
    assert problem.code == "C015" and problem.blob == "fc1_w_grad" and update.type in problem.message


@pytest.mark.parametrize("kind, found", [("StopGradient", []), ("EnsureCPUOutput", ["C015"])])
def test_weights_that_an_operator_cuts_off(kind, found):
    net = trained(kind)
    problems = [p for p in inspect.lint(net.Proto()) if p.code == "C015"]
    assert [p.code for p in problems] == found
    assert all("'fc1_b', 'fc1_w'" in p.message for p in problems)
