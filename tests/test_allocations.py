"""A warmed net allocates no tensors: outputs and working memory are kept from run to run."""

import functools
import json
import tracemalloc

import array_memory
import golden_cases
import numpy as np
import pytest
from caffe2.python import core, workspace

from caffe2lite.engine.runner import make_net
from caffe2lite.ops import _recycled
from caffe2lite.proto import caffe2_pb2

SHAPE = (2, 16, 64, 64)  # half a megabyte
LIMIT = 130_000  # bytes, a quarter of it: NumPy has buffers of 3 x 8192 elements of its own
CHANNELS = {"s": 16, "b": 16, "m": 16, "v": 16}

NETS = {
    "Conv": (["x", "filter", "b"], ["y"], {"kernel": 3, "pad": 1}),
    "ConvGradient": (["x", "filter", "x"], ["dw", "db", "dx"], {"kernel": 3, "pad": 1}),
    "MaxPool": (["x"], ["y"], {"kernel": 3, "stride": 2, "pad": 1}),
    "AveragePool": (["x"], ["y"], {"kernel": 3, "stride": 2, "pad": 1}),
    "AveragePoolGradient": (["x", "half", "half"], ["dx"], {"kernel": 2, "stride": 2}),
    "SpatialBN": (["x", "s", "b", "m", "v"], ["y", "m", "v", "sm", "sv"], {"is_test": 0}),
    "SpatialBNGradient": (["x", "s", "x", "m", "v"], ["dx", "ds", "db"], {}),
    "LRN": (["x"], ["y", "scale"], {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    "LRNGradient": (["x", "x", "x"], ["dx"], {"size": 5, "alpha": 1e-4, "beta": 0.75}),
    "Relu": (["x"], ["y"], {}),
    "ReluGradient": (["x", "x"], ["dx"], {}),
    "Sigmoid": (["x"], ["y"], {}),
    "Tanh": (["x"], ["y"], {}),
    "Softmax": (["rows"], ["y"], {}),
    "SoftmaxGradient": (["rows", "rows"], ["y"], {}),
    "SoftmaxWithLoss": (["rows", "label"], ["p", "loss"], {}),
    "FC": (["rows", "weights", "bias"], ["y"], {}),
    "FCGradient": (["rows", "weights", "rows"], ["dw", "db", "dx"], {}),
    "MatMul": (["rows", "weights"], ["y"], {}),
    "Add": (["x", "x"], ["y"], {}),
    "Mul": (["x", "x"], ["y"], {}),
    "Sum": (["x", "x", "x"], ["y"], {}),
    "Concat": (["x", "x"], ["y", "split"], {"axis": 1}),
    "Copy": (["x"], ["y"], {}),
    "Scale": (["x"], ["y"], {"scale": 2.0}),
    "MomentumSGDUpdate": (["x", "moment", "lr", "param"], ["x", "moment", "param"], {"momentum": 0.9}),
    "Adam": (["param", "moment", "square", "x", "lr", "it"], ["param", "moment", "square"], {}),
    "Adagrad": (["param", "square", "x", "lr"], ["param", "square"], {}),
    "Gather": (["rows", "index"], ["y"], {}),
    "SparseLengthsSum": (["rows", "index", "lengths"], ["y"], {}),
}


@pytest.fixture(autouse=True)
def operands():
    workspace.ResetWorkspace()
    rng = np.random.RandomState(0)
    for name in ("x", "moment", "param"):
        workspace.FeedBlob(name, rng.rand(*SHAPE).astype("f"))
    workspace.FeedBlob("square", np.ones(SHAPE, "f"))
    workspace.FeedBlob("half", rng.rand(2, 16, 32, 32).astype("f"))
    workspace.FeedBlob("filter", rng.rand(16, 16, 3, 3).astype("f"))
    workspace.FeedBlob("rows", rng.rand(360, 360).astype("f"))
    workspace.FeedBlob("weights", rng.rand(360, 360).astype("f"))
    workspace.FeedBlob("bias", rng.rand(360).astype("f"))
    workspace.FeedBlob("label", np.arange(360, dtype="int32"))
    workspace.FeedBlob("index", np.arange(360))
    workspace.FeedBlob("lengths", np.full(36, 10, "int32"))
    workspace.FeedBlob("lr", np.array([0.1], "f"))
    workspace.FeedBlob("it", np.array([1]))
    for name, n in CHANNELS.items():
        workspace.FeedBlob(name, np.ones(n, "f"))


@pytest.mark.parametrize("kind", NETS)
def test_a_warm_operator_allocates_no_tensor(kind):
    inputs, outputs, args = NETS[kind]
    net = core.Net("warm")
    getattr(net, kind)(inputs, outputs, **args)
    workspace.CreateNet(net)
    workspace.RunNet(net, 4)
    tracemalloc.start()
    try:
        workspace.RunNet(net)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        workspace.RunNet(net)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < LIMIT


# ---- all operators, on the recorded cases ------------------------------------------------------------------------

# NumPy can put the results of these into no given array; the size of many depends on the data.
WITHOUT_OUT = ("argsort", "bincount", "flatnonzero", "lexsort", "nonzero", "searchsorted", "sort", "unique")

GROWS = "what is kept grows from run to run"
BY_DATA = "how much there is depends on the data"
PROTOBUF = "the values come from the argument's message"
GENERATOR = "NumPy's generator has no `out` for this type"
MAY_ALLOCATE = {
    "APMeter": GROWS,
    "Append": GROWS,
    "AtomicAppend": GROWS,
    "BoxWithNMSLimit": BY_DATA,
    "CTCGreedyDecoder": BY_DATA,
    "CollectAndDistributeFpnRpnProposals": BY_DATA,
    "ComputeOffset": BY_DATA,
    "DistributeFpnProposals": BY_DATA,
    "Float16UniformFill": GENERATOR,
    "GatherByKey": BY_DATA,
    "GivenTensorByteStringToUInt8Fill": PROTOBUF,
    "GivenTensorFill": PROTOBUF,
    "GivenTensorIntFill": PROTOBUF,
    "PackRNNSequence": BY_DATA,
    "PackSegments": BY_DATA,
    "PackedInt8BGRANHWCToNCHWCStylizerPreprocess": GENERATOR,
    "PiecewiseLinearTransform": PROTOBUF,
    "RemoveDataBlocks": BY_DATA,
    "Shape": "a list of numbers becomes a small tensor",
    "SparseDropoutWithReplacement": GENERATOR,
    "SparseItemwiseDropoutWithReplacement": GENERATOR,
    "SparseLengthsSumSparseLookup": BY_DATA,
    "SparseToDenseMask": BY_DATA,
    "SparseToDenseMaskGradient": BY_DATA,
    "UniformIntFill": GENERATOR,
    "UniqueUniformFill": BY_DATA,
}


def _unseen(function, when=lambda *args: True):
    @functools.wraps(function)
    def run(*args, **options):
        if not when(*args):
            return function(*args, **options)
        with array_memory.unseen():
            return function(*args, **options)

    return run


def _repeats_by_data(array, repeats, *axis):
    return not isinstance(repeats, int)


def _picks_by_data(array, index):
    return any(isinstance(i, np.ndarray) and i.dtype == bool for i in (index if type(index) is tuple else (index,)))


@pytest.fixture
def without_out(monkeypatch):
    """Only the arrays count that need not be new; and all operators recycle theirs, however small these are."""
    monkeypatch.setattr(_recycled, "LEAST", 0)
    monkeypatch.setattr(_recycled, "SMALL", 0)
    for name in WITHOUT_OUT:
        monkeypatch.setattr(np, name, _unseen(getattr(np, name)))
        if hasattr(np.ndarray, name):
            monkeypatch.setattr(_recycled.Recycled, name, _unseen(getattr(np.ndarray, name)), raising=False)
    for name, when in (("repeat", _repeats_by_data), ("__getitem__", _picks_by_data)):
        monkeypatch.setattr(_recycled.Recycled, name, _unseen(getattr(_recycled.Recycled, name), when))
    monkeypatch.setattr(np, "repeat", _unseen(np.repeat, _repeats_by_data))


def _bytes(blob):
    return blob.value.nbytes if blob is not None and blob.is_tensor else 0


def _allocated(files):
    """What a warmed net of one operator allocates that is as large as a quarter of the largest operand."""
    workspace, op = golden_cases.load(files)
    try:
        net = make_net(caffe2_pb2.NetDef(name="warm", op=[op]), workspace)
        for _ in range(4):
            net.run()
    except RuntimeError:
        return []  # it may not run again on what it made
    largest = max((_bytes(workspace.get_blob(name)) for name in [*op.input, *op.output]), default=0)
    conversions = "_recycled.__array_ufunc__"  # NumPy's own, of operands of several types: in parts of 8192 elements
    for _ in range(3):  # a pool that has become too large gives up what it keeps, and has to buy it once more
        with array_memory.allocations() as seen:
            net.run()
        made = [(n, where) for n, where in seen if n > 64 and n >= largest / 4 and conversions not in where]
        if not made:
            break
    return made


@pytest.mark.skipif(not hasattr(np, "unstack"), reason="before NumPy 2.1 one cannot ask for a reshape without a copy")
@pytest.mark.parametrize(
    ("part", "kind"),
    [(p, k) for p in ("operators", "detectron/operators") for k in golden_cases.types(p) if k not in MAY_ALLOCATE],
)
def test_a_warm_operator_allocates_nothing(part, kind, without_out):
    cases = ((n, f) for n, f in golden_cases.cases(part, kind) if not json.loads(f["meta.json"]).get("engine_error"))
    assert {name: made for name, files in cases if (made := _allocated(files))} == {}
