"""Plans, steps, and copies between devices."""

import threading

import numpy as np
import pytest

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()


def counting(blob):
    net = core.Net("counting")
    net.Add([blob, "one"], blob)
    return net


def feed_counter(blob="n"):
    workspace.FeedBlob(blob, np.zeros(1, np.int32))
    workspace.FeedBlob("one", np.ones(1, np.int32))


def test_steps_repeat_and_nest():
    feed_counter()
    inner = core.execution_step("inner", counting("n"), num_iter=3)
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("outer", [inner, counting("n")], num_iter=2))
    assert workspace.RunPlan(plan)
    assert workspace.FetchBlob("n") == 8


def test_a_step_ends_when_its_blob_says_so():
    feed_counter()
    workspace.FeedBlob("limit", np.full(1, 5, np.int32))
    net = counting("n")
    stop = net.GE(["n", "limit"], "stop")
    plan = core.Plan("until")
    plan.AddStep(core.execution_step("loop", net, should_stop_blob=stop))
    workspace.RunPlan(plan)
    assert workspace.FetchBlob("n") == 5


def test_substeps_side_by_side():
    for blob in "abc":
        feed_counter(blob)
    steps = [core.execution_step(blob, counting(blob), num_iter=5) for blob in "abc"]
    plan = core.Plan("parallel")
    plan.AddStep(core.execution_step("together", steps, concurrent_substeps=True))
    workspace.RunPlan(plan)
    assert [int(workspace.FetchBlob(b)[0]) for b in "abc"] == [5, 5, 5]


def test_instances_of_a_step_run_its_substeps_side_by_side():
    meet = threading.Barrier(3, timeout=30)  # passed only by three at once

    def wait(inputs, outputs):
        meet.wait()

    net = core.Net("meeting")
    net.Python(wait)([], [])
    plan = core.Plan("instances")
    plan.AddStep(core.execution_step("all", core.execution_step("one", net, num_iter=2), num_concurrent_instances=3))
    assert workspace.RunPlan(plan)
    assert not meet.broken


def test_instances_keep_to_their_workspaces():
    net = core.Net("private")
    timer = net.TimerBegin([], counter_name="instance")
    net.TimerEnd(timer, [])
    plan = core.Plan("private")
    step = core.execution_step("one", net, num_iter=5, create_workspace=True)
    plan.AddStep(core.execution_step("all", step, num_concurrent_instances=4))
    assert workspace.RunPlan(plan)
    assert workspace.Blobs() == []


def test_an_iteration_count_and_a_stop_blob_exclude_each_other():
    with pytest.raises(AssertionError, match="num_iter"):
        core.execution_step("both", core.Net("n"), num_iter=2, should_stop_blob=core.BlobReference("s"))


def test_one_net_is_listed_once_in_a_plan():
    net = core.Net("shared")
    plan = core.Plan("two")
    plan.AddStep(core.execution_step("a", net))
    plan.AddStep(core.execution_step("b", net))
    assert [n.name for n in plan.Proto().network] == [net.Name()]
    assert [list(s.network) for s in plan.Proto().execution_step] == [[net.Name()]] * 2


def test_copies_are_put_where_the_device_changes():
    gpu, cpu = core.DeviceOption(caffe2_pb2.CUDA, 0), core.DeviceOption(caffe2_pb2.CPU)
    net = core.Net("crossing")
    with core.DeviceScope(cpu):
        net.Relu("x", "y")
    with core.DeviceScope(gpu):
        net.Tanh("y", "z")
        net.Tanh("y", "z2")
    with core.DeviceScope(cpu):
        net.Relu("z", "out")
    made, places = core.InjectCrossDeviceCopies(net, blob_to_device={"x": cpu})
    assert [(op.type, list(op.input), list(op.output)) for op in made.Proto().op] == [
        ("Relu", ["x"], ["y"]),
        ("CopyCPUToGPU", ["y"], ["y_gpu_0"]),
        ("Tanh", ["y_gpu_0"], ["z"]),
        ("Tanh", ["y_gpu_0"], ["z2"]),
        ("CopyGPUToCPU", ["z"], ["z_cpu"]),
        ("Relu", ["z_cpu"], ["out"]),
    ]
    assert core.device_option_equal(places["z"], gpu) and core.device_option_equal(places["z_cpu"], cpu)


def test_versions_of_blobs_and_who_makes_them():
    net = core.Net("versions")
    net.Relu("x", "y")
    net.Tanh("y", "y")
    ssa, versions = core.get_ssa(net)
    assert ssa == [([("x", 0)], [("y", 1)]), ([("y", 1)], [("y", 2)])]
    assert versions == {"x": 0, "y": 2}
    assert core.get_output_producers(ssa) == {("y", 1): 0, ("y", 2): 1}
    assert core.get_undefined_blobs(ssa) == {"x"}


def test_devices_compare_without_node_and_seed():
    a, b = core.DeviceOption(caffe2_pb2.CUDA, 1, random_seed=3), core.DeviceOption(caffe2_pb2.CUDA, 1, node_name="n")
    assert core.device_option_equal(a, b)
    assert not core.device_option_equal(a, b, ignore_node_name=False)
    assert not core.device_option_equal(a, core.DeviceOption(caffe2_pb2.CUDA, 2))
    assert core.device_option_equal(core.DeviceOption(caffe2_pb2.CPU, 0), core.DeviceOption(caffe2_pb2.CPU, 1))
