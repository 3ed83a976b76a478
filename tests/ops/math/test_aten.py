"""ATen: functions by name (all were compared with PyTorch's own when they were written)."""

import numpy as np
import pytest
from caffe2.python import core, workspace

X = np.random.RandomState(0).randn(3, 4).astype("f")
Y = np.random.RandomState(1).rand(3, 4).astype("f")

CASES = [
    ("add", [X, Y], {"alpha": 2.0}, [X + 2 * Y]),
    ("mul", [X], {"other": 0.5}, [X / 2]),
    ("pow", [Y], {"exponent": 2.0}, [Y * Y]),
    ("sum", [X], {"dim": [1], "keepdim": 1}, [X.sum(axis=1, keepdims=True)]),
    ("std", [X], {}, [X.std(ddof=1)]),
    ("norm", [X], {"p": 2.0}, [np.linalg.norm(X)]),
    ("max", [X], {"dim": 1, "keepdim": 0}, [X.max(axis=1), X.argmax(axis=1)]),
    ("max", [X, Y], {}, [np.maximum(X, Y)]),
    ("sort", [X], {"dim": 1, "descending": 1}, [-np.sort(-X, axis=1), np.argsort(-X, axis=1)]),
    ("topk", [X], {"k": 2, "dim": 0}, [-np.sort(-X, axis=0)[:2], np.argsort(-X, axis=0)[:2]]),
    ("index", [X, np.array([2, 0])], {}, [X[[2, 0]]]),
    ("index", [X, np.array([1, 0, 1], "uint8")], {}, [X[[0, 2]]]),
    ("index_put", [X, np.array([1]), Y[:1]], {}, [np.stack([X[0], Y[0], X[2]])]),
    ("reshape", [X], {"shape": [2, -1]}, [X.reshape(2, 6)]),
    ("expand", [X[:1]], {"size": [2, 3, -1]}, [np.broadcast_to(X[:1], (2, 3, 4))]),
    ("cat", [X, Y], {"dim": 1}, [np.concatenate([X, Y], axis=1)]),
    ("softmax", [X], {"dim": 1}, [np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)]),
    ("addmm", [X[:, :3], X, np.ascontiguousarray(Y.T)], {"beta": 0.5, "alpha": 2.0}, [X[:, :3] / 2 + 2 * X @ Y.T]),
    ("gt", [X], {"other": 0.0}, [X > 0]),
]


def run(name, arrays, count, **args):
    inputs = [f"in{k}" for k in range(len(arrays))]
    for blob, array in zip(inputs, arrays):
        workspace.FeedBlob(blob, np.ascontiguousarray(array))
    outputs = [f"out{k}" for k in range(count)]
    workspace.RunOperatorOnce(core.CreateOperator("ATen", inputs, outputs, operator=name, **args))
    return [workspace.FetchBlob(o) for o in outputs]


@pytest.mark.parametrize(("name", "arrays", "args", "expected"), CASES)
def test_function(name, arrays, args, expected):
    for have, want in zip(run(name, arrays, len(expected), **args), expected):
        assert (have.shape, have.dtype) == (np.shape(want), want.dtype)
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_what_it_does_not_know_is_said():
    with pytest.raises(RuntimeError, match=r"ATen has no function 'fft' here; there are .*add"):
        run("fft", [X], 1)
    with pytest.raises(RuntimeError, match=r"'topk' on 1 tensors: missing a required (keyword-only )?argument: 'k'"):
        run("topk", [X], 2)


@pytest.mark.parametrize("kind", ["Onnxifi", "TensorRT"])
def test_doors_to_other_runtimes_say_what_to_do(kind):
    workspace.FeedBlob("x", X)
    net = core.Net("door")
    getattr(net, kind)("x", "y")
    with pytest.raises(RuntimeError, match=f"{kind} hands a part of a net to .*onnxruntime"):
        workspace.RunNetOnce(net)
