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
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import cuda_kernels, segments
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import utils

OPERATORS = """
Adam Adagrad MomentumSGD MomentumSGDUpdate SparseMomentumSGDUpdate SparseAdam RowWiseSparseAdam SparseAdagrad
RowWiseSparseAdagrad LengthsSum LengthsMean LengthsMax LengthsWeightedSum SparseLengthsSum SparseLengthsMean
SparseLengthsWeightedSum SparseLengthsMax SortedSegmentSum SortedSegmentMean SparseSortedSegmentSum UnsortedSegmentSum
UnsortedSegmentMean SortedSegmentRangeMax SortedSegmentRangeSum SparseLengthsSumFused8BitRowwise RoIPool RoIPoolGradient
RoIAlign RoIAlignGradient MaxPool MaxPool1D MaxPool2D MaxPoolGradient AveragePool AveragePool2D AveragePoolGradient LRN
LRNGradient Conv Conv1D Conv2D Conv3D ConvGradient Conv1DGradient Conv2DGradient Conv3DGradient ConvTranspose
ConvTransposeGradient Im2Col Col2Im LC LC2D LCGradient LC2DGradient SpatialBN SpatialBNGradient LSTMUnit
LSTMUnitGradient GRUUnit GRUUnitGradient Sum WeightedSum Erf Gelu GeluGradient
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


def prepared(kind, inputs, outputs, host=(), in_place=(), **arguments):
    """(workspace, operator on GPU 0); `in_place` gives outputs the names of inputs."""
    option = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA)
    workspace = Workspace()
    names = [f"i{k}" for k in range(len(inputs))]
    made = [f"o{k}" for k in range(outputs)]
    for o, i in dict(in_place).items():
        made[o] = names[i]
    op = caffe2_pb2.OperatorDef(type=kind, input=names, output=made, device_option=option)
    op.arg.extend(utils.MakeArgument(name, value) for name, value in arguments.items())
    for k, (name, value) in enumerate(zip(names, inputs)):
        workspace.feed(name, value, None if k in host else option)
    return workspace, op


def rois_of(random, count=6):
    """Some rois in an image of 9 x 9."""
    corners = np.sort(random.rand(count, 2, 2) * 9, axis=1)
    return np.concatenate([random.randint(0, 2, (count, 1)), corners.reshape(count, 4)], axis=1).astype("f")


@needs_compiler
@pytest.mark.parametrize("kind", ["RoIPoolGradient", "RoIAlignGradient", "RoIPool", "RoIAlign"])
def test_pools_of_regions_are_as_the_plain_formulas(gpu, kind):
    random = np.random.RandomState(3)
    x, rois, dy = random.randn(2, 3, 9, 9).astype("f"), rois_of(random), random.randn(6, 3, 2, 2).astype("f")
    places = random.randint(-1, 81, dy.shape).astype("i")
    inputs = {"RoIPoolGradient": [x, rois, places, dy], "RoIAlignGradient": [x, rois, dy]}.get(kind, [x, rois])
    made = []
    for kernels in (True, False):
        emulated.use(1)
        if kernels:
            host_kernels.give(emulated.devices())
        size = {"sampling_ratio": 2} if "Align" in kind else {}
        workspace, op = prepared(kind, inputs, 2 if kind == "RoIPool" else 1, pooled_h=2, pooled_w=2, **size)
        runner.run_operator(workspace, op)
        made.append([workspace.fetch(name) for name in op.output])
    for have, want in zip(*made):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def f(*shape):
    return np.random.RandomState(0).rand(*shape).astype("f")


IDS = np.array([3, 1, 3, 7, 1, 3, 9, 0])
ROIS = np.concatenate([np.zeros((16, 1)), np.tile([0, 0, 6, 6], (16, 1))], axis=1).astype("f")
BUDGETS = [  # (launches, synchronisations), operator, inputs, outputs, how `prepared` takes them
    ((1, 0), "Adam", [f(4), f(4), f(4), f(4), f(1), np.array([5])], 3, {"host": (5,)}),
    ((1, 0), "Adagrad", [f(4), f(4), f(4), f(1)], 2, {}),
    ((1, 0), "MomentumSGDUpdate", [f(4), f(4), f(1), f(4)], 3, {}),
    ((6, 1), "SparseAdagrad", [f(10, 3), f(10, 3), IDS, f(8, 3), f(1)], 2, {"in_place": {0: 0, 1: 1}}),
    ((6, 1), "RowWiseSparseAdagrad", [f(10, 3), f(10), IDS, f(8, 3), f(1)], 2, {"in_place": {0: 0, 1: 1}}),
    ((6, 1), "SparseMomentumSGDUpdate", [f(8, 3), f(10, 3), f(1), f(10, 3), IDS], 3,
     {"in_place": {0: 0, 1: 1, 2: 3}, "momentum": 0.9}),
    ((6, 1), "SparseAdam", [f(10, 3), f(10, 3), f(10, 3), IDS, f(8, 3), f(1), np.array([5])], 3,
     {"host": (6,), "in_place": {0: 0, 1: 1, 2: 2}}),
    ((3, 2), "RoIPool", [f(1, 8, 14, 14), ROIS], 2, {"pooled_h": 7, "pooled_w": 7}),
    ((1, 2), "RoIAlign", [f(1, 8, 14, 14), ROIS], 1, {"pooled_h": 7, "pooled_w": 7, "sampling_ratio": 2}),
    ((1, 0), "MaxPool", [f(16, 8, 14, 14)], 1, {"kernel": 3, "stride": 2, "pad": 1}),
    ((1, 0), "AveragePool", [f(16, 8, 7, 7)], 1, {"kernel": 3}),
    ((1, 0), "LRN", [f(16, 8, 7, 7)], 2, {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    ((6, 0), "Conv", [f(2, 8, 32, 32), f(8, 8, 3, 3), f(8)], 1, {"kernel": 3, "pad": 1}),
    ((6, 0), "Conv", [f(64, 8, 32, 32), f(8, 8, 3, 3), f(8)], 1, {"kernel": 3, "pad": 1}),
    ((7, 1), "LengthsSum", [f(8, 3), np.array([5, 3], "i")], 1, {}),
    ((9, 1), "SparseLengthsSum", [f(10, 3), IDS, np.array([5, 3], "i")], 1, {}),
    ((5, 0), "ConvTranspose", [f(2, 8, 9, 9), f(8, 4, 3, 3), f(4)], 1, {"kernel": 3, "stride": 2}),
    ((10, 0), "ConvGradient", [f(2, 8, 32, 32), f(8, 8, 3, 3), f(2, 8, 32, 32)], 3, {"kernel": 3, "pad": 1}),
    ((10, 0), "ConvGradient", [f(64, 8, 32, 32), f(8, 8, 3, 3), f(64, 8, 32, 32)], 3, {"kernel": 3, "pad": 1}),
    ((3, 0), "SpatialBN", [f(2, 3, 5, 5), f(3), f(3), f(3), f(3)], 5, {"in_place": {1: 3, 2: 4}, "is_test": 0}),
    ((2, 0), "SpatialBN", [f(2, 3, 5, 5), f(3), f(3), f(3), f(3)], 1, {"is_test": 1}),
    ((3, 0), "SpatialBNGradient", [f(2, 3, 5, 5), f(3), f(2, 3, 5, 5), f(3), f(3)], 3, {"is_test": 0}),
    ((1, 0), "LSTMUnit", [f(1, 2, 4), f(1, 2, 4), f(1, 2, 16), np.array([5, 3], "i"), np.array([1], "i")], 2, {"host": (4,)}),
    ((1, 0), "GRUUnit", [f(1, 2, 4), f(1, 2, 12), np.array([5, 3], "i"), np.array([1], "i")], 1, {"host": (3,)}),
    ((1, 0), "Sum", [f(8, 3)] * 4, 1, {}),
    ((2, 0), "Erf", [f(8, 3)], 1, {}),
    ((1, 0), "Relu", [f(8, 3)], 1, {}),
    ((1, 0), "Sum", [f(8, 3), f(8, 3)], 1, {}),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(
    ("budget", "kind", "inputs", "outputs", "rest"), BUDGETS, ids=[f"{b[1]}-{len(b[2][0])}" for b in BUDGETS]
)
def test_launches_and_synchronisations_are_few(gpu, budget, kind, inputs, outputs, rest):
    """A launch costs some microseconds, a synchronisation all that the host could have prepared meanwhile."""
    workspace, op = prepared(kind, inputs, outputs, **rest)
    runner.run_operator(workspace, op)
    gpu.counts.clear()
    runner.run_operator(workspace, op)
    have = gpu.counts["launches"], gpu.counts["synchronisations"]
    assert have <= budget and have[1] <= budget[1], (have, budget)
    assert not gpu.counts["uploads"]


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


# ---- faults in values, told when the run ends ----------------------------------------------------------------------


def lookups(kind, name="lookups"):
    """A net of three operators on GPU 0, the second of which reads `ids`; and what they read."""
    net = caffe2_pb2.NetDef(name=name, type=kind)
    net.device_option.device_type = caffe2_pb2.CUDA
    for ids, lengths, result in (("fine", "two", "a"), ("ids", "lengths", "b"), ("fine", "two", "c")):
        net.op.add(type="SparseLengthsSum", input=["data", ids, lengths], output=[result])
    return net


@needs_compiler
@pytest.mark.parametrize("kind", ["simple", "dag", "async_scheduling"])
@pytest.mark.parametrize(
    ("ids", "lengths", "sentence"),
    [
        ([1, 12], [2, 0], "index 12 is outside of the data, which has 10 rows"),
        ([-1, 1], [2, 0], "index -1 is outside of the data"),
        ([1, 1], [3, 0], "the lengths sum to 3, and there are 2 rows"),
        ([1, 1], [3, -1], "a length is negative: -1"),
    ],
)
def test_faults_in_values_are_told_when_a_net_ends(gpu, kind, ids, lengths, sentence):
    """The operator at fault is named, the GPU is asked once, and the next run of good values is right."""
    option = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA)
    workspace = Workspace()
    data = np.arange(30, dtype="f").reshape(10, 3)
    for name, value in (
        ("data", data),
        ("fine", np.array([0, 9])),
        ("two", np.array([1, 1], "i")),
        ("ids", np.array(ids)),
        ("lengths", np.array(lengths, "i")),
    ):
        workspace.feed(name, value, option)
    runner.create_net(workspace, lookups(kind))
    for _ in range(3):
        gpu.counts.clear()
        with pytest.raises(EngineError) as e:
            runner.run_net(workspace, "lookups")
        assert sentence in str(e.value)
        assert "SparseLengthsSum(data: float32[10, 3]@GPU 0, ids" in str(e.value).replace("gpu_0", "GPU 0")
        assert gpu.counts["synchronisations"] == 1
    workspace.feed("ids", np.array([2, 3]), option)
    workspace.feed("lengths", np.array([1, 1], "i"), option)
    runner.run_net(workspace, "lookups")
    np.testing.assert_array_equal(workspace.fetch("b"), data[2:4])


@needs_compiler
@pytest.mark.parametrize("kind", ["SparseMomentumSGDUpdate", "SparseAdam", "RowWiseSparseAdam", "SparseAdagrad",
                                  "RowWiseSparseAdagrad"])  # fmt: skip
@pytest.mark.parametrize("wrong", [-1, 10])
def test_sparse_optimizers_change_nothing_where_an_index_is_wrong(gpu, kind, wrong):
    ids = np.array([0, 3, wrong, 3])
    moment = f(10) if kind == "RowWiseSparseAdagrad" else f(10, 3)
    second = f(10) if kind == "RowWiseSparseAdam" else f(10, 3)
    inputs, in_place = {
        "SparseMomentumSGDUpdate": ([f(4, 3), f(10, 3), f(1), f(10, 3), ids], {0: 0, 1: 1, 2: 3}),
        "SparseAdam": ([f(10, 3), moment, second, ids, f(4, 3), f(1), np.array([5])], {0: 0, 1: 1, 2: 2}),
        "SparseAdagrad": ([f(10, 3), moment, ids, f(4, 3), f(1)], {0: 0, 1: 1}),
    }[kind.replace("RowWise", "")]
    host = (6,) if "Adam" in kind else ()
    workspace, op = prepared(kind, inputs, len(in_place), host=host, in_place=in_place)
    with pytest.raises(EngineError, match=f"index {wrong} is outside of the parameter, which has 10 rows"):
        runner.run_operator(workspace, op)
    for k, value in enumerate(inputs):
        np.testing.assert_array_equal(workspace.fetch(f"i{k}"), value)
