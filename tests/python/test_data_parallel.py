"""Data parallel training equals training on one device with the whole batch, and what is synchronized is equal."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, optimizer, workspace
from caffe2.python import data_parallel_model as dpm
from caffe2.python.model_helper import ModelHelper

BATCH, IN, OUT = 12, 6, 3
PARAMS = ["fc1_w", "fc1_b", "fc2_w", "fc2_b"]


def device(kind, i):
    return core.DeviceOption(caffe2_pb2.CPU if kind == "cpu" else caffe2_pb2.CUDA, i)


def forward(model, scale):
    h = brew.tanh(model, brew.fc(model, "data", "fc1", IN, 8), "h")
    _, loss = model.SoftmaxWithLoss([brew.fc(model, h, "fc2", 8, OUT), "label"], ["softmax", "loss"])
    return [model.Scale(loss, scale=scale)]


def parallel(kind, devices, name="train", forward=forward, build=None, **kwargs):
    model = ModelHelper(name=name)
    dpm.Parallelize(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=build or (lambda m: optimizer.build_sgd(m, 0.5, momentum=0.9, nesterov=False)),
        devices=list(range(devices)),
        cpu_device=kind == "cpu",
        **kwargs,
    )
    return model


def feed(kind, devices, data, label):
    for i, (x, y) in enumerate(zip(np.split(data, devices), np.split(label, devices))):
        workspace.FeedBlob(f"{kind}_{i}/data", x, device(kind, i))
        workspace.FeedBlob(f"{kind}_{i}/label", y, device(kind, i))


def trained(kind, devices, steps=3, **kwargs):
    """{blob: value on each device} after some steps from fixed parameters on fixed data."""
    workspace.ResetWorkspace()
    rng = np.random.RandomState(0)
    model = parallel(kind, devices, **kwargs)
    workspace.RunNetOnce(model.param_init_net)
    for name in PARAMS:
        value = rng.uniform(-0.5, 0.5, workspace.FetchBlob(f"{kind}_0/{name}").shape).astype("f")
        for i in range(1 if kwargs.get("shared_model") else devices):
            workspace.FeedBlob(f"{kind}_{i}/{name}", value, device(kind, i))
    batches = [(rng.randn(BATCH, IN).astype("f"), rng.randint(OUT, size=BATCH).astype("i")) for _ in range(steps)]
    feed(kind, devices, *batches[0])
    workspace.CreateNet(model.net)
    for batch in batches:
        feed(kind, devices, *batch)
        workspace.RunNet(model.net)
    shown = [0] if kwargs.get("shared_model") else range(devices)
    return {name: [workspace.FetchBlob(f"{kind}_{i}/{name}") for i in shown] for name in PARAMS}


@pytest.mark.parametrize(
    "kind, devices, more",
    [
        ("cpu", 2, {}),
        ("cpu", 4, {"optimize_gradient_memory": False}),
        ("cpu", 3, {"shared_model": True}),
        ("cpu", 2, {"dynamic_memory_management": True}),
        ("gpu", 2, {}),
        ("gpu", 4, {}),
        ("gpu", 3, {"use_nccl": True}),
    ],
)
def test_devices_share_a_batch(gpus, kind, devices, more):
    one, several = trained("cpu", 1), trained(kind, devices, **more)
    for name in PARAMS:
        for value in several[name]:
            np.testing.assert_allclose(value, one[name][0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_batch_normalization_over_all_devices(gpus, kind):
    """With combined statistics two devices normalize as one with the whole batch."""

    def normalized(model, scale):
        x = brew.spatial_bn(model, "data", "bn", 2, epsilon=1e-3, is_test=False)
        loss = model.AveragedLoss(model.net.Mul([x, "weight"], "weighted"), "loss")
        return [model.Scale(loss, scale=scale)]

    rng = np.random.RandomState(0)
    data, weight = rng.randn(4, 2, 3, 3).astype("f"), rng.randn(4, 2, 3, 3).astype("f")
    results = []
    for devices in (1, 2):
        workspace.ResetWorkspace()
        model = parallel(
            kind,
            devices,
            forward=normalized,
            combine_spatial_bn=devices > 1,
            build=lambda m: optimizer.build_sgd(m, 0.5),
        )
        for i, (x, w) in enumerate(zip(np.split(data, devices), np.split(weight, devices))):
            workspace.FeedBlob(f"{kind}_{i}/data", x, device(kind, i))
            workspace.FeedBlob(f"{kind}_{i}/weight", w, device(kind, i))
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        workspace.RunNet(model.net)
        whole = np.concatenate([workspace.FetchBlob(f"{kind}_{i}/bn") for i in range(devices)])
        results.append([whole, *(workspace.FetchBlob(f"{kind}_0/bn_{p}") for p in ("s", "b", "rm"))])
    mean, var = data.mean(axis=(0, 2, 3), keepdims=True), data.var(axis=(0, 2, 3), keepdims=True)
    np.testing.assert_allclose(results[1][0], (data - mean) / np.sqrt(var + 1e-3), rtol=1e-3, atol=1e-4)
    for one, two in zip(*results):
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-5)


def test_sparse_gradients_reach_every_device(gpus):
    def lookup(model, scale):
        w = model.param_init_net.ConstantFill([], "table", shape=[6, 2], value=1.0)
        model.AddParameter(w)
        loss = model.SumElements(model.net.Gather([w, "ids"], "rows"), "loss")
        return [model.Scale(loss, scale=scale)]

    model = parallel("gpu", 2, forward=lookup, build=lambda m: optimizer.build_sgd(m, 1.0))
    for i, ids in enumerate(([0, 1], [1, 5])):
        workspace.FeedBlob(f"gpu_{i}/ids", np.array(ids, "i"), device("gpu", i))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net)
    expected = np.ones((6, 2)) - 0.5 * np.array([1, 2, 0, 0, 0, 1])[:, None]
    for i in range(2):
        np.testing.assert_allclose(workspace.FetchBlob(f"gpu_{i}/table"), expected)


def test_blockwise_momentum():
    """Devices train alone, then the momentum of their mean moves the parameters of all."""

    def line(model, scale):
        out = brew.fc(model, "data", "fc", 1, 1, weight_init=("ConstantFill", {"value": 1.0}))
        return [model.Scale(model.AveragedLoss(out, "loss"), scale=scale)]

    def update(model):
        lr = model.param_init_net.ConstantFill([], "lr", shape=[1], value=-0.1)
        one = model.param_init_net.ConstantFill([], "one", shape=[1], value=1.0)
        for param in model.GetParams():
            model.WeightedSum([param, one, model.param_to_grad[param], lr], param)

    model = ModelHelper(name="bmuf")
    dpm.Parallelize_BMUF(
        model,
        lambda m: None,
        line,
        update,
        block_learning_rate=1.0,
        devices=[0, 1],
        cpu_device=True,
    )
    workspace.RunNetOnce(model.param_init_net)
    for i in range(2):
        workspace.FeedBlob(f"cpu_{i}/data", np.full((1, 1), i + 1.0, "f"))
    dpm.RunInitNet(model)
    start = workspace.FetchBlob("cpu_0/fc_w")
    moved = 0.0
    momentum = 0.0
    for _ in range(3):
        dpm.RunNet(model, 1)
        # A step of -0.05 here and of -0.1 there (losses are scaled by the number of devices); of the
        # block's momentum a half stays.
        momentum = 0.5 * momentum - 0.075
        moved += momentum
        for i in range(2):
            np.testing.assert_allclose(workspace.FetchBlob(f"cpu_{i}/fc_w") - start, moved, rtol=1e-4)
    with pytest.raises(RuntimeError, match="warmup_iterations"):
        dpm.RunWarmup(model)


def test_what_a_checkpoint_holds():
    model = parallel("cpu", 2)
    names, unique = dpm._ComputeBlobsToSync(model)
    momenta = {f"{p}_momentum" for p in PARAMS}
    assert set(PARAMS) | momenta <= set(unique)
    assert {f"cpu_0/{p}" for p in PARAMS} <= {str(b) for b in dpm.GetCheckpointParams(model)}
    assert not any(str(b).startswith("cpu_1/") for b in dpm.GetCheckpointParams(model))
    assert dpm.GetLearningRateBlobNames(model)
    assert len(names) >= len(unique)
    net, exported = dpm.ExtractPredictorNet(model, ["data"], ["softmax"], core.DeviceOption(caffe2_pb2.CPU))
    assert {op.type for op in net.Proto().op} == {"FC", "Tanh", "SoftmaxWithLoss"}
    assert {str(b) for b in exported} == {f"cpu_0/{name}" for name in [*PARAMS, "label"]}


def test_two_ways_to_update_are_refused():
    with pytest.raises(AssertionError):
        parallel("cpu", 2, name="a", build=lambda m: None, param_update_builder_fun=lambda m: None)


def test_parameters_outside_of_devices_stay_alone():
    model = ModelHelper(name="m")
    brew.fc(model, "x", "host_fc", 2, 2)
    dpm.Parallelize(
        model,
        lambda m: None,
        forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1),
        devices=[0, 1],
        cpu_device=True,
    )
    synced = {name for name, group in model._device_grouped_blobs.items() if len(group) == 2}
    assert set(PARAMS) <= synced and not {"host_fc_w", "host_fc_b"} & synced


SHARD = """
    import sys
    import numpy as np
    from caffe2.python import brew, core, dyndep, optimizer, workspace, data_parallel_model as dpm
    from caffe2.python.model_helper import ModelHelper

    folder, shard = sys.argv[1], int(sys.argv[2])
    workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=folder))

    def forward(model, scale):
        _, loss = model.SoftmaxWithLoss([brew.fc(model, "data", "fc", 4, 3), "label"], ["softmax", "loss"])
        return [model.Scale(loss, scale=scale)]

    model = ModelHelper(name="shards")
    dpm.Parallelize(
        model, lambda m: None, forward, optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1),
        devices=[0, 1], cpu_device=True,
        rendezvous=dict(kv_handler="store", num_shards=2, shard_id=shard, engine="GLOO", exit_nets=None),
    )
    workspace.RunNetOnce(model.param_init_net)
    rng = np.random.RandomState(shard)
    for i in range(2):
        workspace.FeedBlob(f"cpu_{i}/data", rng.rand(2, 4).astype("f"))
        workspace.FeedBlob(f"cpu_{i}/label", np.zeros(2, "i"))
    for i in range(2):
        workspace.FeedBlob(f"cpu_{i}/fc_w", np.full((3, 4), 10 * shard + i, "f"))
    workspace.CreateNet(model.net)
    dpm.FinalizeAfterCheckpoint(model, cpu_mode=True)
    for i in range(2):
        assert (workspace.FetchBlob(f"cpu_{i}/fc_w") == 0).all(), (shard, i)
    workspace.RunNet(model.net)
    dpm.Synchronize(model)
    print(workspace.FetchBlob("cpu_1/fc_w").tobytes().hex())
"""


def test_two_hosts_agree(tmp_path):
    script = tmp_path / "shard.py"
    script.write_text(textwrap.dedent(SHARD))
    (tmp_path / "store").mkdir()
    shards = [
        subprocess.Popen(
            [sys.executable, script, tmp_path / "store", str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    outputs = [shard.communicate(timeout=120)[0] for shard in shards]
    assert [shard.returncode for shard in shards] == [0, 0], outputs
    first, second = (output.split()[-1] for output in outputs)
    assert first == second and len(first) == 3 * 4 * 8


@pytest.mark.parametrize(
    "change, words",
    [({"engine": None}, "lacks engine"), ({"engine": "GLO"}, "GLOO, MPI and NCCL"), ({"shard_id": 2}, "count from 0")],
)
def test_a_rendezvous_that_cannot_be(change, words):
    rendezvous = {"kv_handler": None, "num_shards": 2, "shard_id": 0, "engine": "GLOO", **change}
    with pytest.raises(ValueError, match=words):
        dpm.Parallelize_CPU(
            ModelHelper(name="m"),
            input_builder_fun=lambda m: None,
            forward_pass_builder_fun=lambda m, scale: [],
            devices=[0],
            rendezvous={k: v for k, v in rendezvous.items() if k != "engine" or v is not None},
        )
