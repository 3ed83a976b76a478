"""The first promise: FinalizeAfterCheckpoint brings a loaded checkpoint to every device, bit for bit."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

from caffe2lite.devices import emulated

NAMES = ["fc1_w", "fc1_b", "fc2_w", "fc2_b"]


@pytest.fixture
def fresh():
    emulated.use(16)
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()
    emulated.use(0)


def build(kind, count):
    def forward(model, scale):
        h = brew.relu(model, brew.fc(model, "data", "fc1", 8, 16), "h")
        _, loss = model.net.SoftmaxWithLoss([brew.fc(model, h, "fc2", 16, 5), "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=scale)]

    model = model_helper.ModelHelper(name="seed")
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
        devices=list(range(count)),
        cpu_device=kind == "cpu",
    )
    workspace.RunNetOnce(model.param_init_net)
    return model


def option(kind, device):
    return core.DeviceOption(caffe2_pb2.CPU if kind == "cpu" else caffe2_pb2.CUDA, device)


def spoil(kind, count, names):
    """Other values on every device; what device 0 has is the checkpoint."""
    for device in range(count):
        for name in names:
            shape = workspace.FetchBlob(f"{kind}_{device}/{name}").shape
            value = np.random.RandomState(device).rand(*shape).astype("f")
            workspace.FeedBlob(f"{kind}_{device}/{name}", value, option(kind, device))


def all_equal(kind, count, names):
    return all(
        workspace.FetchBlob(f"{kind}_{d}/{n}").tobytes() == workspace.FetchBlob(f"{kind}_0/{n}").tobytes()
        for n in names
        for d in range(count)
    )


@pytest.mark.parametrize("kind, count", [("cpu", 1), ("cpu", 8), ("gpu", 1), ("gpu", 4), ("gpu", 16)])
def test_every_device_gets_the_checkpoint(fresh, kind, count):
    model = build(kind, count)
    spoil(kind, count, NAMES)
    first = [workspace.FetchBlob(f"{kind}_0/{n}") for n in NAMES]
    data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=kind == "cpu")
    assert all_equal(kind, count, NAMES)
    for name, value in zip(NAMES, first):
        np.testing.assert_array_equal(workspace.FetchBlob(f"{kind}_0/{name}"), value)


def test_called_again_it_reuses_its_net(fresh):
    model = build("gpu", 4)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    net = model._checkpoint_net
    spoil("gpu", 4, NAMES)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    assert model._checkpoint_net is net and all_equal("gpu", 4, NAMES)


def test_a_list_with_momentum_blobs(fresh):
    model = build("gpu", 3)
    names = [*NAMES, "fc1_w_momentum"]
    spoil("gpu", 3, names)
    data_parallel_model.FinalizeAfterCheckpoint(model, [f"gpu_0/{n}" for n in names])
    assert all_equal("gpu", 3, names)


def test_other_blobs_the_second_time_are_warned_of(fresh):
    model = build("cpu", 2)
    data_parallel_model.FinalizeAfterCheckpoint(model, ["cpu_0/fc1_w"], cpu_mode=True)
    spoil("cpu", 2, NAMES)
    with pytest.warns(RuntimeWarning, match="other blobs"):
        data_parallel_model.FinalizeAfterCheckpoint(model, ["cpu_0/fc2_w"], cpu_mode=True)
    assert all_equal("cpu", 2, ["fc1_w"]) and not all_equal("cpu", 2, ["fc2_w"])


def test_after_reset_workspace_the_net_is_made_again(fresh):
    model = build("cpu", 2)
    data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=True)
    workspace.ResetWorkspace()
    workspace.RunNetOnce(model.param_init_net)
    spoil("cpu", 2, NAMES)
    with pytest.warns(RuntimeWarning, match="is gone"):
        data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=True)
    assert all_equal("cpu", 2, NAMES)
