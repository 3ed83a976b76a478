"""Collectives of one process: sums and copies of its blobs, with the results of NCCL."""

import numpy as np
import pytest
from running import floats, refused, run


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_results(n, dtype, shape):
    xs = [(8 * floats(*shape, seed=k, low=0)).astype(dtype) for k in range(n)]
    total = np.sum(xs, axis=0, dtype=dtype)
    same = lambda found, wanted: [np.testing.assert_allclose(f, w, rtol=1e-2 if dtype == "float16" else 1e-6)
                                  for f, w in zip(found, wanted)]  # fmt: skip
    same(run("NCCLAllreduce", xs, outputs=n), [total] * n)
    same(run("NCCLBroadcast", xs, {"root": n - 1}, n), [xs[-1]] * n)
    same(run("NCCLReduce", xs, {"root": n - 1}), [total])
    same(run("NCCLAllGather", xs, outputs=n), [np.stack(xs)] * n)
    rows = [np.stack([x] * n) for x in xs]
    same(run("NCCLReduceScatter", rows, outputs=n), [total] * n)


def test_in_place():
    xs = [floats(3, seed=k) for k in range(2)]
    for found in run("NCCLAllreduce", xs, outputs=2, inplace={0: 0, 1: 1}):
        np.testing.assert_allclose(found, xs[0] + xs[1], rtol=1e-6)
    np.testing.assert_allclose(run("NCCLReduce", xs, inplace={1: 0})[0], xs[0] + xs[1], rtol=1e-6)


def test_a_scattered_sum_gathers_to_the_whole():
    xs = [floats(2, 3, seed=k) for k in range(2)]
    parts = run("NCCLReduceScatter", xs, outputs=2)
    np.testing.assert_allclose(run("NCCLAllGather", parts, outputs=2)[1], xs[0] + xs[1], rtol=1e-6)


@pytest.mark.parametrize(("kind", "inputs", "args", "outputs", "words"), [
    ("NCCLAllreduce", [floats(3), floats(2)], {}, 2, r"one shape and type: 'in0' is float32\[3\], 'in1' float32\[2\]"),
    ("NCCLAllreduce", [floats(3), floats(3).astype("d")], {}, 2, r"'in1' float64\[3\]"),
    ("NCCLAllreduce", [floats(3), floats(3)], {}, 1, "2 inputs, 1 outputs"),
    ("NCCLReduce", [floats(3)], {"root": 1}, 1, "root=1 is none of the 1 inputs"),
    ("NCCLBroadcast", [floats(3)], {"root": -1}, 1, "root=-1"),
    ("NCCLReduceScatter", [floats(3), floats(3)], {}, 2, r"first dimension must be 2.*found \[3\]"),
    ("NCCLAllreduce", [np.array(["x"], object)], {}, 1, "string"),
])  # fmt: skip
def test_refusals(kind, inputs, args, outputs, words):
    refused(kind, inputs, words, args, outputs)
