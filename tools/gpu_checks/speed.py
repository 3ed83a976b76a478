"""How fast: operators, steps of nets (beside PyTorch where it is), NCCL's bandwidth, and memory that must not grow.

These fail only where memory grows; the numbers are there to be compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from caffe2.python import brew, core, model_helper, optimizer, workspace

from caffe2lite import devices
from caffe2lite.distributed import nccl
from gpu_checks import Check, Skip, emulated, option, several


def numbers(*shape: int) -> np.ndarray:
    """Random numbers of that shape."""
    return np.random.RandomState(0).rand(*shape).astype("f")


IDS = np.random.RandomState(0).randint(0, 100_000, 4096)
OPERATORS: dict[str, tuple[list[Any], int, dict[str, Any]]] = {  # inputs, outputs, arguments
    "Relu": ([numbers(64, 256, 28, 28)], 1, {}),
    "Sum": ([numbers(4_000_000), numbers(4_000_000)], 1, {}),
    "Conv": ([numbers(32, 64, 56, 56), numbers(64, 64, 3, 3), numbers(64)], 1, {"kernel": 3, "pad": 1}),
    "ConvGradient": (
        [numbers(32, 64, 56, 56), numbers(64, 64, 3, 3), numbers(32, 64, 56, 56)], 3, {"kernel": 3, "pad": 1}
    ),
    "MaxPool": ([numbers(32, 64, 56, 56)], 1, {"kernel": 3, "stride": 2, "pad": 1}),
    "AveragePool": ([numbers(32, 512, 7, 7)], 1, {"kernel": 7}),
    "LRN": ([numbers(32, 64, 28, 28)], 2, {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    "FC": ([numbers(256, 1024), numbers(1024, 1024), numbers(1024)], 1, {}),
    "Softmax": ([numbers(256, 1000)], 1, {}),
    "Adam": ([numbers(1_000_000)] * 4 + [numbers(1), np.array([5])], 3, {}),
    "SparseLengthsSum": ([numbers(100_000, 64), IDS, np.full(256, 16, "i")], 1, {}),
    "LengthsSum": ([numbers(100_000, 64), np.full(1000, 100, "i")], 1, {}),
    "RoIAlign": (
        [numbers(1, 256, 50, 50), np.tile(np.array([[0, 3, 3, 30, 30]], "f"), (256, 1))], 1,
        {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 2},
    ),
}  # fmt: skip


def checks() -> Iterator[Check]:
    """Times, bandwidth and memory."""
    for kind in OPERATORS:
        yield Check("operators", kind, partial(operator, kind))
    for name in ("ResNet-50", "LSTM"):
        yield Check("steps", name, partial(step, name))
    yield Check("bandwidth", "NCCL allreduce", bandwidth)
    for test in (fills, steps):
        yield Check("memory", test.__doc__.split(":")[0], test)


def seconds(call: Callable[[], object], rounds: int = 20) -> float:
    """Median time of a call, the GPU's work included."""
    times = []
    for _ in range(3 if emulated() else rounds + 3):
        begin = time.perf_counter()
        call()
        for gpu in devices.gpus():
            gpu.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:] if emulated() else times[3:])


def operator(kind: str) -> dict[str, Any]:
    """Time of an operator, and its launches and synchronisations where they can be counted."""
    inputs, outputs, args = OPERATORS[kind]
    workspace.ResetWorkspace()
    for k, value in enumerate(inputs):
        small = value[:2] if emulated() and value.ndim == 4 and k != 1 else value  # no filter
        workspace.FeedBlob(f"i{k}", small, None if kind == "Adam" and k == 5 else option(0))
    names = [f"i{k}" for k in range(len(inputs))]
    net = core.Net("one")
    net.Proto().op.extend(
        [core.CreateOperator(kind, names, [f"o{k}" for k in range(outputs)], device_option=option(0), **args)]
    )
    workspace.CreateNet(net)
    run = partial(workspace.RunNet, net)
    made: dict[str, Any] = {"milliseconds": round(1e3 * seconds(run), 3)}
    counts = getattr(devices.gpus()[0], "counts", None)
    if counts is None:
        return made | cuda_counts(run)
    counts.clear()
    run()
    return made | {"launches": counts["launches"], "synchronisations": counts["synchronisations"]}


def cuda_counts(run: Callable[[], object]) -> dict[str, Any]:
    """What PyTorch's profiler sees of one run, since CuPy counts nothing; empty without PyTorch."""
    try:
        import torch.profiler as profiler
    except ImportError:
        return {}
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA, profiler.ProfilerActivity.CPU]) as seen:
        run()
        devices.gpus()[0].synchronize()
    names = [event.name for event in seen.events()]
    return {
        "launches": sum("LaunchKernel" in name for name in names),
        "synchronisations": sum("Synchronize" in name or name == "cudaMemcpy" for name in names) - 1,
    }


def build(name: str) -> tuple[Any, int]:
    """A model with its optimizer, fed; and how many samples a step takes."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name=name.replace("-", ""), arg_scope={"order": "NCHW"})
    batch = 2 if emulated() else 32
    with core.DeviceScope(option(0)):
        if name == "ResNet-50":
            from caffe2.python.models import resnet

            side = 64 if emulated() else 224
            feeds = {"data": numbers(batch, 3, side, side), "label": np.zeros(batch, "i")}
            kernel = 2 if emulated() else 7
            _, loss = resnet.create_resnet50(model, "data", 3, 1000, label="label", final_avg_kernel=kernel)
        else:
            from caffe2.python import rnn_cell

            length, width = (4, 32) if emulated() else (64, 512)
            feeds = {
                "data": numbers(length, batch, width),
                "lengths": np.full(batch, length, "i"),
                "h": numbers(1, batch, width),
                "c": numbers(1, batch, width),
            }
            outputs, *_ = rnn_cell.LSTM(model, "data", "lengths", ("h", "c"), width, width, scope="lstm")
            loss = model.net.AveragedLoss(outputs, "loss")
        model.AddGradientOperators([loss])
        optimizer.build_sgd(model, 1e-3)
    for blob, value in feeds.items():
        workspace.FeedBlob(blob, value, option(0))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model, batch


def step(name: str) -> dict[str, Any]:
    """Time of a training step; beside it PyTorch's, where that and its models are installed."""
    model, batch = build(name)
    taken = seconds(partial(workspace.RunNet, model.net), 10)
    return {"milliseconds": round(1e3 * taken, 2), "samples a second": round(batch / taken, 1)} | torch_step(
        name, batch
    )


def torch_step(name: str, batch: int) -> dict[str, Any]:
    """The same step in PyTorch."""
    try:
        import torch
        import torchvision
    except ImportError:
        return {}
    if emulated() or not torch.cuda.is_available():
        return {}
    if name == "ResNet-50":
        model, data = torchvision.models.resnet50().cuda(), torch.rand(batch, 3, 224, 224).cuda()
    else:
        model, data = torch.nn.LSTM(512, 512).cuda(), torch.rand(64, batch, 512).cuda()
    descent = torch.optim.SGD(model.parameters(), 1e-3)

    def once() -> None:
        descent.zero_grad()
        made = model(data)
        (made[0] if isinstance(made, tuple) else made).mean().backward()
        descent.step()
        torch.cuda.synchronize()

    return {"PyTorch's milliseconds": round(1e3 * seconds(once, 10), 2)}


def bandwidth() -> dict[str, float]:
    """Bus bandwidth as nccl-tests counts it: 2 (n - 1) / n of the bytes, over the time of one sum."""
    count = several()
    gpus = devices.gpus()
    clique = nccl.clique(gpus) if gpus[0].nccl else None
    if clique is None:
        raise Skip("there is no NCCL")
    made = {}
    for megabytes in (1, 16, 256):
        arrays = []
        for gpu in gpus:
            with gpu.context():
                arrays.append(gpu.xp.ones(megabytes << 18, "float32"))
        taken = seconds(partial(clique.allreduce, arrays, arrays))
        made[f"{megabytes} MiB, GB/s"] = round(2 * (count - 1) / count * (megabytes << 20) / taken / 1e9, 2)
    return made


def used() -> int:
    """Bytes of GPU 0 that are taken."""
    free, total = devices.gpus()[0].memory()
    return total - free


def grows(call: Callable[[], object], times: int) -> str:
    """AssertionError where memory grows after the first tenth of many calls."""
    for _ in range(times // 10):
        call()
    before = used()
    for _ in range(times - times // 10):
        call()
    grown = used() - before
    assert grown < 16 << 20, f"{grown / 2**20:.0f} MiB more after {times} times"
    return f"{grown / 2**20:.0f} MiB more after {times} times"


def fills() -> str:
    """100 random fills: each operator has a generator, which must go with it."""

    def once():
        made = core.CreateOperator("UniformFill", [], ["x"], shape=[100], device_option=option(0))
        workspace.RunOperatorOnce(made)

    return grows(once, 100)


def steps() -> str:
    """1,000 steps: of a net whose shapes stay."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="small")
    with core.DeviceScope(option(0)):
        out = brew.fc(model, brew.relu(model, brew.fc(model, "x", "a", 32, 32), "r"), "b", 32, 4)
        model.AddGradientOperators([model.net.AveragedLoss(out, "loss")])
        optimizer.build_adam(model, 1e-3)
    workspace.FeedBlob("x", numbers(16, 32), option(0))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return grows(partial(workspace.RunNet, model.net), 1000)
