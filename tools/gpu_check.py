"""Run the seed and the NCCL operators on 1 to N GPUs and compare with the CPU.  Without a GPU it says so and exits 0.

    python tools/gpu_check.py                  the real GPUs of this machine
    python tools/gpu_check.py --emulated 4     emulated ones (checks the script, not the GPU code)

Exit status 1 where a result differs.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace

from caffe2lite import devices
from caffe2lite.devices import emulated

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = "Relu FC Conv ConvGradient MaxPool MaxPoolGradient SpatialBN Softmax SparseLengthsSum Adam MomentumSGDUpdate"


def option(device: int) -> caffe2_pb2.DeviceOption:
    return core.DeviceOption(caffe2_pb2.CUDA, device)


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
    for name in names:  # the checkpoint: on the first device only
        value = rng.randn(*workspace.FetchBlob(f"{kind}_0/{name}").shape).astype("f") * 0.1
        workspace.FeedBlob(f"{kind}_0/{name}", value, core.DeviceOption(caffe2_pb2.CPU if cpu else caffe2_pb2.CUDA, 0))
    data_parallel_model.FinalizeAfterCheckpoint(model, cpu_mode=cpu)
    for d in range(count):
        device = core.DeviceOption(caffe2_pb2.CPU if cpu else caffe2_pb2.CUDA, d)
        workspace.FeedBlob(f"{kind}_{d}/data", rng.randn(6, 1, 8, 8).astype("f"), device)
        workspace.FeedBlob(f"{kind}_{d}/label", rng.randint(0, 5, 6).astype("i"), device)
    workspace.CreateNet(model.net)
    for _ in range(3):
        workspace.RunNet(model.net)
    for name in names:
        first = workspace.FetchBlob(f"{kind}_0/{name}").tobytes()
        for d in range(1, count):
            if workspace.FetchBlob(f"{kind}_{d}/{name}").tobytes() != first:
                raise AssertionError(f"{name} differs between devices 0 and {d}")
    return [workspace.FetchBlob(f"{kind}_0/{name}") for name in names]


def seed(count: int) -> None:
    for here, there in zip(train(count, cpu=False), train(count, cpu=True)):
        np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-4)


def nccl(count: int, kind: str) -> None:
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
            "NCCLAllreduce": total,
            "NCCLReduce": total,
            "NCCLBroadcast": values[0],
            "NCCLAllGather": np.stack(values),
            "NCCLReduceScatter": total[d] if kind == "NCCLReduceScatter" else None,
        }[kind]
        np.testing.assert_allclose(workspace.FetchBlob(name), expected, rtol=1e-5, atol=1e-5)


def recorded(kind: str) -> None:
    """The recorded cases of an operator, on the first GPU."""
    import golden_cases

    for name, files in golden_cases.cases("operators", kind):
        wrong = golden_cases.replay(files, gpu=True)
        if wrong and "does not run on" not in wrong:
            raise AssertionError(f"{name}: {wrong}")


def checks(count: int) -> Iterator[tuple[str, Callable[[], None]]]:
    for n in range(1, count + 1):
        yield f"seed and 3 steps on {n} GPU{'s'[: n > 1]}, against the CPU", lambda n=n: seed(n)
    for kind in ("NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLAllGather", "NCCLReduceScatter"):
        yield f"{kind} on {count}", lambda kind=kind: nccl(count, kind)
    for kind in FAMILIES.split():
        yield f"recorded cases of {kind}", lambda kind=kind: recorded(kind)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulated", type=int, default=0, metavar="N", help="emulate N GPUs")
    emulated.use(parser.parse_args().emulated)
    sys.path.insert(0, str(ROOT / "tests"))
    count = devices.gpu_count()
    if not count:
        print("No GPU here (or CuPy is not installed): nothing was checked.")
        return 0
    for gpu in devices.gpus():
        print(f"{gpu.name}: {gpu.properties()['name']}")
    failures = 0
    for title, check in checks(count):
        start = time.perf_counter()
        try:
            check()
            outcome = "ok"
        except Exception:
            failures += 1
            outcome = "FAILED\n" + traceback.format_exc()
        print(f"{title:<55} {time.perf_counter() - start:6.2f} s  {outcome}", flush=True)
    print(f"{failures} checks failed." if failures else "All checks passed.")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
