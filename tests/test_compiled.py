"""The compiled kernels (engine NUMBA) give what the plain ones give, up to rounding."""

import itertools
import subprocess
import sys
import threading

import golden_cases
import numpy as np
import pytest

from caffe2lite.devices import cores
from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import compiled, registry
from caffe2lite.ops.kit.aside import Worker
from caffe2lite.ops.reduce import lengths as lengths_file
from caffe2lite.proto import caffe2_pb2

COMPILED = [n for n in registry.names() if ("NUMBA", registry.CPU) in registry.find(n).kernels]


@pytest.fixture
def always(monkeypatch):
    """Compiled kernels for operands of any size."""
    pytest.importorskip("numba", reason="the compiled kernels need the extra caffe2lite[fast]")
    monkeypatch.setattr(compiled, "LEAST", 0)
    monkeypatch.setenv("CAFFE2LITE_NUMBA", "wait")


@pytest.mark.parametrize("kind", golden_cases.types("operators"))  # of all: what many share has compiled loops, too
def test_recorded_cases(kind, always):
    cases = golden_cases.cases("operators", kind)
    assert [(name, wrong) for name, files in cases if (wrong := golden_cases.replay(files))] == []


def floats(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype("f")


def holes(array):
    array.reshape(-1)[::7] = np.nan
    return array


IMAGES = floats(2, 3, 13, 17)
CHANNELS = [np.abs(floats(8, seed=s)) + 0.5 for s in range(5)]
LR, ITER = np.array([0.1], "f"), np.array([3], "int64")
IDS, LENGTHS = np.array([3, 1, 3, 0, 3]), np.array([2, 0, 3], "int32")
SQUARES = np.abs(floats(6, 4, seed=9))
WINDOWS = [
    {"kernel": 3, "stride": 2, "pad": 1},
    {"kernel_h": 3, "kernel_w": 5, "stride_h": 1, "stride_w": 4, "pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 3},
    {"global_pooling": 1},
    {"kernel": 3, "stride": 2, "legacy_pad": 3},
    {"kernel": 1, "stride": 5, "legacy_pad": 3},
    {"kernel": 3, "stride": 2, "pad": 1, "order": "NHWC"},
]
CASES = [
    *(("MaxPool", [IMAGES], w) for w in WINDOWS),
    *(("MaxPool", [holes(IMAGES.copy())], w) for w in WINDOWS),
    *(("AveragePool", [IMAGES], {**w, "count_include_pad": k}) for w in WINDOWS for k in (0, 1)),
    ("MaxPool1D", [floats(2, 3, 40)], {"kernels": [3], "strides": [2], "pads": [1, 1]}),
    *(("SpatialBN", [floats(3, 8, 13, 17), *CHANNELS[:4]], {"is_test": t}) for t in (0, 1)),
    ("SpatialBN", [floats(3, 8), *CHANNELS[:4]], {"is_test": 0}),
    ("SpatialBN", [floats(3, 4, 5, 8), *CHANNELS[:4]], {"is_test": 0, "order": "NHWC"}),
    ("SpatialBNGradient", [floats(3, 8, 5, 7), CHANNELS[0], floats(3, 8, 5, 7, seed=1), *CHANNELS[1:3]], {}),
    ("SpatialBNGradient", [floats(3, 8, 5, 7), CHANNELS[0], floats(3, 8, 5, 7, seed=1), *CHANNELS[1:]], {"num_batches": 2}),
    ("SoftmaxGradient", [np.abs(floats(20, 30)), floats(20, 30, seed=1)], {}),
    *(("SparseMomentumSGDUpdate", [floats(5, 4), floats(6, 4), LR, floats(6, 4, seed=2), IDS],
       {"momentum": 0.9, "nesterov": n}) for n in (0, 1)),
    *(("MomentumSGDUpdate", [floats(9, 4), floats(9, 4, seed=1), LR, floats(9, 4, seed=2)],
       {"momentum": 0.9, "nesterov": n}) for n in (0, 1)),
    ("Adam", [floats(6, 4), floats(6, 4, seed=1), SQUARES, floats(6, 4, seed=2), LR, ITER], {}),
    ("Adagrad", [floats(6, 4), SQUARES, floats(6, 4, seed=2), LR], {"decay": 0.9, "weight_decay": 0.1}),
    ("SparseAdam", [floats(6, 4), floats(6, 4, seed=1), SQUARES, IDS, floats(5, 4, seed=2), LR, ITER], {}),
    ("RowWiseSparseAdam", [floats(6, 4), floats(6, 4, seed=1), SQUARES[:, 0].copy(), IDS, floats(5, 4), LR, ITER], {}),
    ("SparseAdagrad", [floats(6, 4), SQUARES, IDS, floats(5, 4), LR], {"weight_decay": 0.1}),
    ("RowWiseSparseAdagrad", [floats(6, 4), SQUARES[:, 0].copy(), IDS, floats(5, 4), LR], {"weight_decay": 0.1}),
    ("SparseLengthsSum", [floats(6, 2, 2), IDS, LENGTHS], {}),
    ("SparseLengthsMean", [floats(6, 4), IDS, LENGTHS], {}),
    ("SparseLengthsWeightedSum", [floats(6, 4), floats(5), IDS, LENGTHS], {}),
    ("SparseLengthsPositionalWeightedSum", [floats(6, 4), floats(5), IDS, LENGTHS], {}),
    ("LengthsSumGradient", [floats(3, 4), LENGTHS], {}),
    ("SparseLengthsIndicesInGradientMeanGradient", [floats(3, 4), LENGTHS, IDS], {}),
    ("LengthsWeightedSumGradient", [floats(5), floats(3, 4), LENGTHS], {}),
]  # fmt: skip


def run(kind, arrays, args):
    """The operator's outputs, with those in place where it wants them so."""
    record = registry.find(kind)
    op = caffe2_pb2.OperatorDef(type=kind, input=[f"in{k}" for k in range(len(arrays))])
    enforced = {o: i for i, o in record.enforced}
    op.output[:] = [f"in{enforced[o]}" if o in enforced else f"out{o}" for o in range(len(record.outputs))]
    if kind == "SpatialBN" and args["is_test"]:
        del op.output[1:]
    del op.output[{"Adam": 3, "SparseAdam": 3, "RowWiseSparseAdam": 3, "Adagrad": 2}.get(kind, 9) :]
    for name, value in args.items():
        arg = op.arg.add(name=name)
        if isinstance(value, str):
            arg.s = value.encode()
        elif isinstance(value, list):
            arg.ints[:] = value
        elif isinstance(value, float):
            arg.f = value
        else:
            arg.i = value
    workspace = Workspace()
    for k, array in enumerate(arrays):
        workspace.feed(f"in{k}", array)
    runner.run_operator(workspace, op)
    return [workspace.fetch(name) for name in op.output]


@pytest.mark.parametrize(("kind", "arrays", "args"), CASES)
def test_as_plain(kind, arrays, args, always, monkeypatch):
    made = run(kind, arrays, args)
    gradient = [(kind, arrays, args, made)]
    if "Pool" in kind:
        gradient.append((kind + "Gradient", [*arrays, *made, floats(*made[0].shape, seed=5)], args, None))
        gradient[1] = (*gradient[1][:3], run(*gradient[1][:3]))
    monkeypatch.setattr(compiled, "LEAST", 1 << 60)
    for name, inputs, given, have in gradient:
        for a, b in zip(have, run(name, inputs, given)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["SparseLengthsSum", "SparseLengthsWeightedSum", "SparseLengthsPositionalWeightedSum"])
def test_several_threads(kind, always, monkeypatch):
    lengths = np.array([3, 0, 2, 4, 0, 1, 5], "int32")
    ids = np.random.RandomState(0).randint(0, 6, 15)
    arrays = [floats(6, 20), *([floats(15, seed=3)] if "Weighted" in kind else []), ids, lengths]
    alone = run(kind, arrays, {})
    monkeypatch.setattr(lengths_file, "_SHARED", 0)
    monkeypatch.setattr(cores, "wanted", lambda work, least: 3)
    np.testing.assert_array_equal(run(kind, arrays, {}), alone)


def test_numba_is_imported_for_large_operands_only():
    code = """if True:
        import sys, numpy as np
        from caffe2.python import core, workspace
        workspace.FeedBlob("x", np.ones((1, 1, 8, 8), "f"))
        workspace.RunOperatorOnce(core.CreateOperator("MaxPool", "x", "y", kernel=2))
        assert "numba" not in sys.modules
        workspace.FeedBlob("x", np.ones((1, 1, 256, 256), "f"))
        workspace.RunOperatorOnce(core.CreateOperator("MaxPool", "x", "y", kernel=2))
        assert ("numba" in sys.modules) == (sys.argv[1] == "wait")
    """
    pytest.importorskip("numba", reason="the compiled kernels need the extra caffe2lite[fast]")
    for switch in ("wait", "0"):
        environment = {"CAFFE2LITE_NUMBA": switch, "PYTHONPATH": ":".join(p for p in sys.path if p)}
        subprocess.run([sys.executable, "-c", code, switch], check=True, env=environment)


def test_plain_serves_until_the_compiled_kernel_is_ready(always, monkeypatch, capsys):
    monkeypatch.delenv("CAFFE2LITE_NUMBA")
    monkeypatch.setattr(compiled, "_ready", {})
    monkeypatch.setattr(compiled, "_LONG", 0.01)
    monkeypatch.setattr(compiled, "_compiler", Worker())
    may_go, rehearse = threading.Event(), compiled._rehearse
    monkeypatch.setattr(compiled, "_rehearse", lambda *args: may_go.wait(120) and rehearse(*args))
    net = caffe2_pb2.NetDef(name="net", op=[caffe2_pb2.OperatorDef(type="LeakyRelu", input=["x"], output=["y"])])
    workspace = Workspace()
    workspace.feed("x", floats(4, 5))
    made = runner.make_net(net, workspace)
    (instance,) = made.instances
    made.run()
    first = workspace.fetch("y")
    assert instance.kernel is instance.plain_kernel
    said = ""
    while "are being compiled" not in said:
        said += capsys.readouterr().err
    may_go.set()
    (job,) = compiled._ready.values()
    job.result(timeout=120)
    for _ in range(3):  # runs that are bound come back to it, too
        made.run()
    assert instance.kernel is instance.compiled_kernel
    np.testing.assert_allclose(workspace.fetch("y"), first, rtol=1e-6)


def test_a_program_does_not_wait_for_what_has_not_begun():
    code = """if True:
        from caffe2lite.ops.kit.aside import Worker
        first = Worker()
        first.submit(print, "begun").result()
        later = Worker(pause=3600)
        later.submit(print, "not begun")
    """
    environment = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert done.stdout == "begun\n"


EDGES = np.array([0, -0.0, 1, -1, 0.5, -0.5, 3, -3, 7, -7, 30, -30, 1e-30, -1e-30, np.inf, -np.inf, np.nan], "f")
POINTWISE = [
    name
    for name in COMPILED
    if not (r := registry.find(name)).variadic and len(r.inputs) <= 3 and len(r.outputs) == 1 and r.takes_out
]


@pytest.mark.parametrize("kind", POINTWISE)
def test_edges_of_numbers_as_plain(kind):
    """Every combination of edges, with every float argument negative, 0 and positive; NaN and infinity included."""
    pytest.importorskip("numba", reason="the compiled kernels need the extra caffe2lite[fast]")
    record = registry.find(kind)
    grid = np.array(list(itertools.product(EDGES, repeat=len(record.inputs))), "f").T
    inputs = [row.copy() for row in grid]
    variants = [{}, *({a.name: v} for a in record.args.values() if a.kind == "float" for v in (-1.0, 0.0, 0.5, 2.0))]
    for args in variants:
        try:
            with np.errstate(all="ignore"):
                plain = record(np, *inputs, **args)
        except (ValueError, TypeError, IndexError):  # it takes no vectors of one length
            continue
        have = np.full_like(plain, 77)
        made = record.kernels["NUMBA", registry.CPU](
            np, *inputs, **record.parameters(dict(args)), out=lambda shape, dtype, have=have: have
        )
        np.testing.assert_allclose(made, plain, rtol=1e-4, atol=1e-6, err_msg=str(args))
