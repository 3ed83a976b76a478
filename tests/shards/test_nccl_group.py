"""NCCL among the GPUs of one process, with a stand-in for CuPy's module."""

import pathlib
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite.devices import emulated

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import fake_nccl


@pytest.mark.parametrize("kind", ["NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLAllGather", "NCCLReduceScatter"])
def test_group_calls_against_numpy(kind, monkeypatch):
    monkeypatch.setattr(emulated.Gpu, "nccl", fake_nccl)
    emulated.use(3, peers=False)
    try:
        workspace.ResetWorkspace()
        values = [np.random.RandomState(d).randn(3, 5).astype("f") for d in range(3)]
        for d, value in enumerate(values):
            workspace.FeedBlob(f"x{d}", value, core.DeviceOption(caffe2_pb2.CUDA, d))
        inputs = [f"x{d}" for d in range(3)]
        outputs = {"NCCLBroadcast": inputs, "NCCLReduce": ["y"]}.get(kind, ["y0", "y1", "y2"])
        args = {"root": 1} if kind in ("NCCLBroadcast", "NCCLReduce") else {}
        fake_nccl.calls.clear()
        option = core.DeviceOption(caffe2_pb2.CUDA, 0)
        workspace.RunOperatorOnce(core.CreateOperator(kind, inputs, outputs, device_option=option, **args))
        assert len(fake_nccl.calls) == 3
        done = fake_nccl.run(0)
        while not done():
            pass
        total = np.sum(values, axis=0, dtype="f")
        expected = {
            "NCCLAllreduce": [total] * 3,
            "NCCLBroadcast": [values[1]] * 3,
            "NCCLReduce": [total],
            "NCCLAllGather": [np.stack(values)] * 3,
            "NCCLReduceScatter": list(total),
        }[kind]
        for name, value in zip(outputs, expected):
            np.testing.assert_array_equal(workspace.FetchBlob(name), value)
    finally:
        workspace.ResetWorkspace()
        emulated.use(0)
