"""What looks at nets: shared memory, printing, drawing, gradient and device checks, control gradients."""

import numpy as np
import pytest

from caffe2lite.python import (
    core,
    device_checker,
    gradient_checker,
    memonger,
    net_drawer,
    net_printer,
    workspace,
)
from caffe2lite.python.net_builder import NetBuilder, ops


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def chain(length):
    net = core.Net("chain")
    blob = "x"
    for i in range(length):
        blob = net.Tanh(blob, f"h{i}")
    net.AddExternalOutput(blob)
    return net, blob


def values_after(proto, fetch):
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.linspace(-1, 1, 12).astype(np.float32))
    workspace.RunNetOnce(proto)
    return workspace.FetchBlob(fetch)


def test_shared_memory_changes_no_result_and_needs_fewer_blobs():
    net, last = chain(6)
    shared = memonger.optimize_inference_for_dag(net, ["x"])
    before = {b for op in net.Proto().op for b in op.output}
    after = {b for op in shared.op for b in op.output}
    assert len(after) < len(before)
    np.testing.assert_array_equal(values_after(shared, str(last)), values_after(net.Proto(), str(last)))


def test_shared_gradients_are_those_of_the_plain_net():
    net, last = chain(5)
    loss = net.AveragedLoss(last, "loss")
    grads = net.AddGradientOperators([loss])
    wanted = str(grads["x"])
    shared = memonger.share_grad_blobs(net, [loss], {wanted}, "", dont_share_blobs={wanted})
    assert len({b for op in shared.op for b in op.output}) < len({b for op in net.Proto().op for b in op.output})
    np.testing.assert_array_equal(values_after(shared, wanted), values_after(net.Proto(), wanted))


def test_an_undefined_blob_is_found_before_anything_runs():
    net = core.Net("net")
    net.ConstantFill([], "made", shape=[1])
    net_printer.analyze(net)
    net.Proto().op.extend([core.CreateOperator("Add", ["made", "never_made"], "sum")])
    with pytest.raises(AssertionError, match="never_made"):
        net_printer.analyze(net)


def test_nets_and_steps_as_text():
    net = core.Net("shown")
    net.FC(["x", "w", "b"], "y", axis=2)
    step = core.execution_step("twice", net, num_iter=2)
    assert net_printer.to_string(step).splitlines() == [
        "with loop(2):",
        "    shown = core.Net('shown')",
        "    shown.FC(['x', 'w', 'b'], ['y'], axis=2)",
    ]


def test_a_drawing_has_a_node_for_each_operator():
    net, _ = chain(3)
    graph = net_drawer.GetPydotGraph(net.Proto().op, "drawn", rankdir="LR")
    assert sum("Tanh" in node.get_name() for node in graph.get_nodes()) == 3
    assert graph.get_rankdir() == "LR"


def test_the_gradient_checker_accepts_right_and_refuses_wrong_gradients():
    checker = gradient_checker.GradientChecker(1e-2, 1e-2)
    x = np.linspace(0.2, 1, 6).astype(np.float32)
    good, *_ = checker.CheckSimple(core.CreateOperator("Sqr", "x", "y"), [x], 0, [0])
    assert good

    def forward(inputs, outputs):
        outputs[0].feed(inputs[0].data ** 2)

    def wrong(inputs, outputs):
        outputs[0].feed(inputs[-1].data * 3)

    bad = core.CreatePythonOperator(forward, "x", "y", grad_f=wrong)
    result, *_ = checker.CheckSimple(bad, [x], 0, [0])
    assert not result


def test_the_device_checker_compares_devices():
    cpu = core.DeviceOption(0)
    checker = device_checker.DeviceChecker(1e-6, [cpu, cpu])
    assert checker.CheckSimple(core.CreateOperator("Tanh", "x", "y"), [np.ones(3, np.float32)], [0])


@pytest.mark.parametrize(("x", "gradient"), [(2.0, 4.0), (-2.0, 3.0)])
def test_gradients_pass_through_the_branch_that_ran(x, gradient):
    workspace.FeedBlob("x", np.array([x], np.float32))
    with NetBuilder(_use_control_ops=True) as nb:
        zero = ops.ConstantFill([], "zero", shape=[1], value=0.0)
        y = ops.ConstantFill([], "y", shape=[1], value=0.0)
        with ops.IfNet(ops.GT([core.BlobReference("x"), zero])):
            ops.Sqr(core.BlobReference("x"), y)
        with ops.Else():
            ops.Scale(core.BlobReference("x"), y, scale=3.0)
    (net,) = nb.get()
    grads = net.AddGradientOperators({"y": net.ConstantFill([], "one", shape=[1], value=1.0)})
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob(grads["x"]) == gradient
