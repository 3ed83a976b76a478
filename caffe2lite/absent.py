"""Modules of Caffe2's last wheel that are not here, and what to use instead."""

from __future__ import annotations

import importlib.abc
from typing import Any

_BUILD = "it made source code when Caffe2 was built"
_BENCHMARK = "it is a benchmark; time nets of your own by workspace.BenchmarkNet or `caffe2lite run --profile`"
_PLAIN_CPU = "the operators run on a CPU without it: leave out the device option"

# What follows "caffe2.", and the reason; it counts for what is below a name, too.
_ABSENT = {
    "contrib.aten.docs": "it is a sample of PyTorch's exporter; the operator ATen is here",
    "contrib.aten.gen_op": _BUILD,
    "contrib.playground": "start from caffe2.python.examples.resnet50_trainer, which trains on several devices and machines",
    "contrib.script": "it explains the script language of Caffe2's C++ engine; build control flow with caffe2.python.net_builder",
    "core": _BUILD,
    "experiments.python.SparseTransformer": "it rewrites FC with pruned weights for operators that no wheel of Caffe2 had",
    "experiments.python.convnet_benchmarks": _BENCHMARK,
    "experiments.python.device_reduce_sum_bench": _BENCHMARK,
    "experiments.python.net_construct_bench": _BENCHMARK,
    "perfkernels": _BUILD,
    "proto.gen_proto_typestubs_helper": _BUILD,
    "python.binarysize": "it measures compiled programs",
    "python.docs": "docs/operators.md holds what it wrote; workspace.C.OpSchema.get(TYPE).doc is one operator's text",
    "python.embedding_generation_benchmark": _BENCHMARK,
    "python.fakelowp": "it holds tests of an accelerator's rounding; the transform is caffe2.python.fakefp16_transform_lib",
    "python.ideep": _PLAIN_CPU,
    "python.mint": "it drew blobs on a web page; caffe2.contrib.tensorboard writes them for TensorBoard",
    "python.mkl": _PLAIN_CPU,
    "python.numa_benchmark": _BENCHMARK,
    "python.onnx.test_onnxifi": "ONNXIFI's accelerators are gone",
    "python.operator_test.conftest": "it belongs to Caffe2's own tests, which `caffe2lite conformance` runs",
    "python.operator_test.detectron_keypoints": "it belongs to a test; the operator HeatmapMaxKeypoint is here",
    "python.operator_test.mul_gradient_benchmark": _BENCHMARK,
    "python.operator_test.sparse_lengths_sum_benchmark": _BENCHMARK,
    "python.rnn.lstm_comparison": _BENCHMARK,
    "python.serialized_test.coverage": "it counts Caffe2's own tests",
    "python.trt": "write the net by `caffe2lite export --to onnx`, which TensorRT reads",
    "quantization": "its operators (engine DNNLOWP) were in no wheel of Caffe2; the Int8 operators are here",
}
_PACKAGES = ("python.operator_test", "python.serialized_test")
_TEST = "it is one of Caffe2's own tests; `caffe2lite conformance --only {file}` runs it"


def why(name: str) -> str:
    """Why a module such as `caffe2.python.mint` is not here, and what to use instead; "" if Caffe2 had none of that name."""
    inner = name.partition(".")[2]
    for known, reason in _ABSENT.items():
        if f"{inner}.".startswith(f"{known}."):
            return reason
    if inner.endswith("_test") and inner not in _PACKAGES:
        return _TEST.format(file=inner.replace(".", "/"))
    return ""


def _download(name: str) -> str:
    """Return how a model of `caffe2.python.models` comes to be there; "" for other names."""
    inner = name.partition(".")[2]
    if not inner.startswith("python.models.") or inner.count(".") != 2:
        return ""
    return f"a model is downloaded first: python -m caffe2.python.models.download -i {inner.rpartition('.')[2]}"


class AbsentFinder(importlib.abc.MetaPathFinder):
    """The last finder: where no other finds a module of Caffe2's, it says why."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError for what is in the table."""
        top, _, inner = fullname.partition(".")
        reason = (why(fullname) or _download(fullname)) if top in ("caffe2", "caffe2lite") else ""
        if reason:
            # Without `name=`, as `from caffe2.python import mint` would else replace the sentence by one of its own.
            raise ModuleNotFoundError(f"caffe2lite has no caffe2.{inner}: {reason}")
