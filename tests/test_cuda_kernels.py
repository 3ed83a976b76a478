"""CUDA kernels: NVRTC compiles each, and compiled for the host they compute what the plain formulas do."""

import ctypes
import importlib.metadata
import pathlib

import golden_cases
import host_kernels
import numpy as np
import pytest

from caffe2lite.devices import emulated
from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import cuda_kernels, segments
from caffe2lite.proto import caffe2_pb2

OPERATORS = """
Adam Adagrad MomentumSGD MomentumSGDUpdate SparseMomentumSGDUpdate SparseAdam RowWiseSparseAdam SparseAdagrad
RowWiseSparseAdagrad LengthsSum LengthsMean LengthsMax LengthsWeightedSum SparseLengthsSum SparseLengthsMean
SparseLengthsWeightedSum SparseLengthsMax SortedSegmentSum SortedSegmentMean SparseSortedSegmentSum UnsortedSegmentSum
UnsortedSegmentMean SortedSegmentRangeMax SortedSegmentRangeSum SparseLengthsSumFused8BitRowwise RoIPool RoIPoolGradient
RoIAlign RoIAlignGradient MaxPool AveragePool LRN
"""
RECORDED = [(p, k) for p in ("operators", "changed") for k in OPERATORS.split() if k in golden_cases.types(p)]
needs_compiler = pytest.mark.skipif(host_kernels.COMPILER is None, reason="no C++ compiler for the host")


@pytest.fixture
def gpu():
    emulated.use(1)
    host_kernels.give(emulated.devices())
    yield emulated.devices()[0]
    emulated.use(0)


def nvrtc():
    """NVRTC's library, from its wheel, which needs no GPU."""
    for wheel in ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"):
        try:
            files = importlib.metadata.files(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files or ():
            if pathlib.Path(file).name.startswith("libnvrtc.so"):
                return ctypes.CDLL(str(file.locate()))
    return None


@pytest.mark.parametrize("kernel", cuda_kernels.KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("real", ["float", "double"])
def test_nvrtc_compiles(kernel, real):
    library = nvrtc()
    if library is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    types = {letter: "long long" if letter == "I" else real for letter in kernel.letters()} | {"A": "double"}
    program = ctypes.c_void_p()
    source = kernel.source(types).encode()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_75")
    if library.nvrtcCompileProgram(program, 1, options):
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        pytest.fail(log.value.decode())
    library.nvrtcDestroyProgram(ctypes.byref(program))


@needs_compiler
@pytest.mark.parametrize(("part", "kind"), RECORDED)
def test_recorded_cases(gpu, part, kind):
    """The kernels in the place of the plain formulas, on what genuine Caffe2 computed."""
    wrong = []
    for name, files in golden_cases.cases(part, kind):
        if golden_cases.for_gpu(files) and (found := golden_cases.replay(files, gpu=True)):
            wrong.append(f"{name}: {found}")
    assert not wrong, "\n".join(wrong[:5])


@needs_compiler
def test_every_kernel_was_run(gpu):
    """By the recorded cases above, or below: none is left unproven."""
    if not host_kernels.launched:
        pytest.skip("the recorded cases were not run")
    seen = set(host_kernels.launched)
    assert {k.name for k in cuda_kernels.KERNELS} <= seen


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_long_segments_are_shared_by_threads(gpu, dtype):
    xp = gpu.xp
    rows = (np.random.RandomState(0).rand(3000, 2) * 100).astype(dtype)
    counts = np.array([2500, 0, 500])
    starts = np.cumsum(counts) - counts
    result = xp.empty((3, 2), dtype)
    segments.reduce_rows(xp, xp.add, *map(xp.asarray, (rows, starts, counts)), result)
    wide = rows.astype("d")
    np.testing.assert_allclose(result.get(), [wide[:2500].sum(0), [0, 0], wide[2500:].sum(0)], rtol=1e-6)
    assert gpu.counts["launches"] < 10


@needs_compiler
@pytest.mark.parametrize("kind", ["SparseMomentumSGDUpdate", "SparseAdam", "RowWiseSparseAdam", "SparseAdagrad",
                                  "RowWiseSparseAdagrad"])  # fmt: skip
def test_rows_that_come_again_are_stepped_again(gpu, kind):
    """One call with an index three times is three calls."""
    random = np.random.RandomState(1)
    ids = np.array([4, 1, 4, 0, 4, 1])
    grads = random.randn(6, 3).astype("f")
    row_wise = kind.startswith("RowWise")
    blobs = {
        "param": random.randn(5, 3).astype("f"),
        "moment": random.rand(*((5,) if row_wise and "Adagrad" in kind else (5, 3))).astype("f"),
        "moment2": random.rand(*((5,) if row_wise else (5, 3))).astype("f"),
        "lr": np.array([0.1], "f"),
        "iter": np.array([3]),
    }
    order = {
        "SparseMomentumSGDUpdate": ["grad", "moment", "lr", "param", "indices"],
        "SparseAdam": ["param", "moment", "moment2", "indices", "grad", "lr", "iter"],
        "SparseAdagrad": ["param", "moment", "indices", "grad", "lr"],
    }[kind.replace("RowWise", "")]
    outputs = ["grad", "moment", "param"] if "Momentum" in kind else order[: 3 if "Adam" in kind else 2]
    op = caffe2_pb2.OperatorDef(type=kind, input=order, output=outputs)
    op.arg.add(name="momentum", f=0.9)

    def after(groups, on_gpu):
        workspace = Workspace()
        option = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA) if on_gpu else None
        op.device_option.CopyFrom(option or caffe2_pb2.DeviceOption())
        if "Momentum" not in kind:
            del op.arg[:]
        for name, value in blobs.items():
            workspace.feed(name, value, None if name == "iter" else option)
        for at in groups:
            workspace.feed("grad", grads[at], option)
            workspace.feed("indices", ids[at], option)
            runner.run_operator(workspace, op)
        return [workspace.fetch(name) for name in outputs if name != "grad"]

    for have, want in zip(after([slice(None)], True), after([[k] for k in range(6)], False)):
        np.testing.assert_allclose(have, want, rtol=1e-5)
