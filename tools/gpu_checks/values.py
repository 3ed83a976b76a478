"""Whether operators compute on GPUs what they compute on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import golden_cases
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

from caffe2lite import devices
from gpu_checks import Check, close, option, refused, run, several


def checks() -> Iterator[Check]:
    """The recorded cases by operator, what is at the edges, training, and the collectives of one process."""
    for part in ("operators", "changed", "detectron/operators"):
        for kind in golden_cases.types(part):
            if kind in golden_cases.HOST_ONLY:
                continue
            yield Check("recorded cases", f"{part}/{kind}", partial(recorded, part, kind))
    for edge in (scalars, empty, out_of_range, duplicates, wrong_device, segment_sums, draws):
        yield Check("edges", edge.__name__.replace("_", " "), edge)
    for n in range(1, devices.gpu_count() + 1):
        yield Check("training", f"seed and 3 steps on {n}, against the CPU", partial(seed, n))
    for kind in ("NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLAllGather", "NCCLReduceScatter"):
        yield Check("collectives", f"{kind} on all GPUs", partial(collective, kind))


def recorded(part: str, kind: str) -> Any:
    """The cases on each GPU, and twice on the first: results that differ from run to run are told, no failure."""
    told = []
    for name, files in golden_cases.cases(part, kind):
        if not golden_cases.for_gpu(files):
            continue
        for gpu in range(devices.gpu_count()):
            wrong = golden_cases.replay(files, gpu=True, device_id=gpu)
            if wrong and "does not run on" in wrong:
                return "not for GPUs"
            if wrong:
                raise AssertionError(f"{name} on GPU {gpu}: {wrong}")
        if b"random" not in files["meta.json"] and results(files) != results(files):
            told.append(name)
    return f"differs from run to run, by the order of atomic sums: {' '.join(told)}" if told else None


def results(files: dict[str, bytes]) -> list[bytes]:
    """The bytes of a case's tensors."""
    from caffe2lite.engine import runner

    place, op = golden_cases.load(files, gpu=True)
    runner.run_operator(place, op)
    made = [place.fetch(name) for name in op.output]
    return [m.tobytes() for m in made if isinstance(m, np.ndarray) and m.dtype != object]


def scalars() -> None:
    """0-d tensors come here and back."""
    workspace.FeedBlob("x", np.float32(3), option(0))
    workspace.RunOperatorOnce(core.CreateOperator("Relu", ["x"], ["y"], device_option=option(0)))
    have = workspace.FetchBlob("y")
    assert have.shape == () and have == 3, have


def empty() -> None:
    """Tensors without elements."""
    none = np.zeros((0, 3), "f")
    assert run("Relu", [none])[0].shape == (0, 3)
    close(run("LengthsSum", [none, np.zeros(2, "i")])[0], np.zeros((2, 3)))
    assert run("SparseLengthsSum", [np.ones((4, 3), "f"), np.zeros(0, "int64"), np.zeros(0, "i")])[0].shape == (0, 3)


def out_of_range() -> None:
    """Indices outside of the data: CuPy would take them modulo its length."""
    data, index = np.ones((3, 2), "f"), np.array([3])
    for kind, inputs, args in (
        ("Gather", [data, index], {}),
        ("BatchGather", [data, index], {}),
        ("ATen", [data, index], {"operator": "index_select", "dim": 0}),
        ("ATen", [data, index], {"operator": "index"}),
        ("ATen", [data, index], {"operator": "embedding"}),
    ):
        with refused("index 3 is outside"):
            run(kind, inputs, **args)


def duplicates() -> None:
    """Of several values for one place the last stays; rows that come again are stepped again."""
    n = 100_000
    ids = np.zeros((1, n), "i")
    assert run("Scatter", [np.zeros((1, 2), "f"), ids, np.arange(n, dtype="f")[None]], axis=1)[0].tolist() == [
        [n - 1, 0]
    ]
    workspace.ResetWorkspace()
    blobs = {"p": np.zeros((2, 1), "f"), "m": np.zeros((2, 1), "f"), "i": np.array([0, 0]), "g": np.ones((2, 1), "f")}
    for name, value in (*blobs.items(), ("lr", np.ones(1, "f"))):
        workspace.FeedBlob(name, value, option(0))
    op = core.CreateOperator(
        "SparseAdagrad", ["p", "m", "i", "g", "lr"], ["p", "m"], device_option=option(0), epsilon=0.0
    )
    workspace.RunOperatorOnce(op)
    close(workspace.FetchBlob("p"), [[1 + 0.5**0.5], [0]])


def wrong_device() -> None:
    """An operand in host memory is named."""
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.ones(2, "f"))
    with refused("'x' is on cpu"):
        workspace.RunOperatorOnce(core.CreateOperator("Relu", ["x"], ["y"], device_option=option(0)))


def segment_sums() -> str:
    """A million rows with one that is infinite, against float64."""
    rows = np.random.RandomState(0).rand(1_000_000, 2).astype("f")
    rows[3] = np.inf
    worst = 0.0
    for count in (1, 1000, 100_000):
        lengths = np.full(count, len(rows) // count, "i")
        have = run("LengthsSum", [rows, lengths])[0][1 if count > 1 else 0 :]
        want = rows.astype("d").reshape(count, -1, 2).sum(1)[1 if count > 1 else 0 :]
        close(have, want, rtol=1e-5)
        if count > 1:
            worst = max(worst, float(np.abs(have / want - 1).max()))
    return f"largest relative error {worst:.1e}"


def draws() -> None:
    """One seed gives one sequence; the mean and variance of a normal draw are what they should be."""
    seeded = option(0)
    seeded.random_seed = 7
    made = []
    for _ in range(2):
        op = core.CreateOperator("GaussianFill", [], ["x"], shape=[1_000_000], device_option=seeded)
        workspace.RunOperatorOnce(op)
        made.append(workspace.FetchBlob("x"))
    assert (made[0] == made[1]).all()
    assert abs(made[0].mean()) < 0.01 and abs(made[0].std() - 1) < 0.01


def train(count: int, cpu: bool) -> list[np.ndarray]:
    """Parameters of a small model after three steps of data-parallel training from fixed values."""
    workspace.ResetWorkspace()
    kind = "cpu" if cpu else "gpu"

    def forward(model, scale):
        h = brew.relu(model, brew.conv(model, "data", "conv", 1, 4, kernel=3, pad=1), "h")
        h = brew.max_pool(model, h, "pool", kernel=2, stride=2)
        _, loss = model.net.SoftmaxWithLoss([brew.fc(model, h, "fc", 64, 5), "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=scale)]

    model = model_helper.ModelHelper(name=f"check_{kind}_{count}", arg_scope={"order": "NCHW"})
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, momentum=0.9),
        devices=list(range(count)),
        cpu_device=cpu,
    )
    workspace.RunNetOnce(model.param_init_net)
    names = ["conv_w", "conv_b", "fc_w", "fc_b"]
    rng = np.random.RandomState(0)
    places = [core.DeviceOption(caffe2_pb2.CPU if cpu else caffe2_pb2.CUDA, d) for d in range(count)]
    for name in names:  # the checkpoint: on the first device only
        value = rng.randn(*workspace.FetchBlob(f"{kind}_0/{name}").shape).astype("f") * 0.1
        workspace.FeedBlob(f"{kind}_0/{name}", value, places[0])
    data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=cpu)
    for d, place in enumerate(places):
        workspace.FeedBlob(f"{kind}_{d}/data", rng.randn(6, 1, 8, 8).astype("f"), place)
        workspace.FeedBlob(f"{kind}_{d}/label", rng.randint(0, 5, 6).astype("i"), place)
    workspace.CreateNet(model.net)
    for _ in range(3):
        workspace.RunNet(model.net)
    for name in names:
        first = workspace.FetchBlob(f"{kind}_0/{name}").tobytes()
        for d in range(1, count):
            assert workspace.FetchBlob(f"{kind}_{d}/{name}").tobytes() == first, f"{name} differs between 0 and {d}"
    return [workspace.FetchBlob(f"{kind}_0/{name}") for name in names]


def seed(count: int) -> None:
    """The checkpoint reaches all GPUs, and training gives what it gives on the CPU."""
    for here, there in zip(train(count, cpu=False), train(count, cpu=True)):
        close(here, there, rtol=1e-3, atol=1e-4)


def collective(kind: str) -> None:
    """A collective of the GPUs of this process, against NumPy."""
    count = several()
    workspace.ResetWorkspace()
    rows = count if kind == "NCCLReduceScatter" else 3
    values = [np.random.RandomState(d).randn(rows, 1000).astype("f") for d in range(count)]
    for d, value in enumerate(values):
        workspace.FeedBlob(f"x{d}", value, option(d))
    inputs = [f"x{d}" for d in range(count)]
    outputs = inputs if kind == "NCCLBroadcast" else ["y0"] if kind == "NCCLReduce" else [f"y{d}" for d in range(count)]
    workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, outputs, device_option=option(0)))
    total = np.sum(values, axis=0, dtype="f")
    for d, name in enumerate(outputs):
        expected = {
            "NCCLBroadcast": values[0],
            "NCCLAllGather": np.stack(values),
            "NCCLReduceScatter": total[min(d, rows - 1)],
        }.get(kind, total)
        close(workspace.FetchBlob(name), expected, atol=1e-5)
