"""About the workspace, failures on purpose, small services."""

import subprocess
import sys

import numpy as np
import pytest
from running import check_places, definition, refused, run
from session import Session

from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import Forward

X = np.arange(6, dtype="f").reshape(2, 3)


def test_names_of_blobs():
    do = Session(b=[1], a=[2])
    assert sorted(do("GetAllBlobNames", "", "names")[0]) == [b"a", b"b", b"names"]


def test_fed_strings():
    do = Session()
    do("FeedBlob", "", "s", value=b"text\x00")
    assert do["s"] == b"text\x00"


@pytest.mark.parametrize("kind", ["Fail", "ThrowException", "ThrowChildThreadException", "LogFatal"])
def test_failures_on_purpose(kind):
    with pytest.raises(OperatorError, match=kind):
        run(kind, [], outputs=0)


def test_a_crash_ends_the_process():
    code = "from caffe2.python import core, workspace; workspace.RunOperatorOnce(core.CreateOperator('Crash', [], []))"
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, timeout=60).returncode < 0


def test_gradients_turned_and_stopped():
    np.testing.assert_array_equal(run("NegateGradient", [X])[0], X, strict=True)
    check_places("NegateGradient", [X])
    for kind, want in (("NegateGradient", "Negative"), ("ZeroGradient", "ConstantFill")):
        (op,) = registry.find(kind).gradient(Forward(definition(kind, ["x"], ["y"]), ["dy"]))
        assert op.type == want
    run("ZeroGradient", [X], outputs=0)
    run("DataCouple", [X], inplace={0: 0})


@pytest.mark.parametrize("dtype", ["float32", "int64", "object"])
def test_append(dtype):
    a, b = X.astype(dtype), X[:1].astype(dtype)
    if dtype == "object":
        a, b = (np.vectorize(lambda v: b"%d" % v, otypes=[object])(x) for x in (a, b))
    np.testing.assert_array_equal(run("Append", [a, b])[0], np.concatenate([a, b]), strict=True)
    np.testing.assert_array_equal(run("Append", [a, b[:0]])[0], a, strict=True)


def test_accumulation_reads_what_the_output_holds():
    do = Session(x=X, y=100 * X)
    np.testing.assert_array_equal(do("Accumulate", "x", "y", gamma=0.5)[0], 51 * X, strict=True)
    do.feed(y=np.ones(3, "f"))
    np.testing.assert_array_equal(do("Accumulate", "x", "y")[0], X, strict=True)


def test_summary(tmp_path):
    do = Session(x=X)
    do.workspace.root_folder = str(tmp_path)
    (Y,) = do("Summarize", "x", "y", to_file=1)
    np.testing.assert_allclose(Y, [0, 5, 2.5, X.std(ddof=1)], rtol=1e-6)
    assert [float(v) for v in (tmp_path / "x.summary").read_text().split()] == pytest.approx(Y.tolist())


def test_sizes_of_blobs():
    do = Session(x=X, n=np.arange(4))
    labels, sizes = do("EstimateAllBlobSizes", "", "names sizes")
    table = dict(zip(labels.tolist(), sizes.tolist()))
    assert table[b"x"] == 6 * 4 + 50 + 1 and table[b"n"] == 4 * 8 + 50 + 1


def test_memory_of_gpus_has_a_row_for_use_and_for_the_most():
    assert run("GetGPUMemoryUsage", [])[0].shape[0] == 2


@pytest.mark.parametrize(
    ("words", "kind", "inputs"),
    [
        (r"found float32\[2, 3\] and float32\[3\]", "Append", [X, X[0]]),
        (r"found float32\[2, 3\] and int64\[2, 3\]", "Append", [X, X.astype(int)]),
        (r"found the shape \[0, 3\]", "Summarize", [X[:0]]),
    ],
)
def test_refusals(words, kind, inputs):
    refused(kind, inputs, words)
