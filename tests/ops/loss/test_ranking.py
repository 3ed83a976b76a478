"""Losses over pairs of items are sums over these pairs."""

import numpy as np
import pytest
from derivatives import check as check_gradient
from derivatives import values
from running import check, check_again, definition, floats, refused, run

from caffe2lite.engine import runner
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

LENGTHS = np.array([3, 0, 4, 1], "int32")
SPLITS = np.cumsum(LENGTHS)[:-1]
X = floats(8)
R = np.array([2, 0, 1, 3, 1, 1, 0, 2], "f")


def pairwise(x, r):
    pairs = [np.log1p(np.exp(x[j] - x[i])) for i in range(len(x)) for j in range(len(x)) if r[i] > r[j]]
    return sum(pairs) / max(len(pairs), 1)


@pytest.mark.parametrize("shape", [(8,), (8, 1)])
def test_pairs(shape):
    x, r = X.reshape(shape), R.reshape(shape)
    wanted = np.array([pairwise(a, b) for a, b in zip(np.split(X, SPLITS), np.split(R, SPLITS))])
    check("PairWiseLoss", [x, r, LENGTHS], [wanted])
    check("PairWiseLoss", [x, r], [np.array([pairwise(X, R)])])
    check_gradient("PairWiseLoss", [values(*shape), r.astype("d"), LENGTHS], [0])
    check_gradient("PairWiseLoss", [values(*shape), r.astype("d")], [0])


def test_equal_labels_make_no_pairs():
    assert run("PairWiseLoss", [X, np.ones(8, "f")])[0] == 0


def gain_of(r, linear=False):
    return r if linear else 2.0**r


def places(v):
    """1 / log2(1 + place), the largest value in the first place."""
    made = np.zeros(len(v))
    made[np.argsort(-v, kind="stable")] = 1 / np.log2(np.arange(len(v)) + 2)
    return made


def lambda_rank(y, r, normalize):
    """(loss, its gradient while nothing changes places): the pairs, weighted by what changing places would cost."""
    ideal = np.sort(gain_of(r))[::-1] @ (1 / np.log2(np.arange(len(y)) + 2)) if normalize else 1
    loss, dy = 0.0, np.zeros(len(y))
    d, g = places(y), gain_of(r)
    for i in range(len(y)):
        for j in range(len(y)):
            swap = abs((g[i] - g[j]) * (d[i] - d[j])) / ideal
            sign = 1 if r[i] > r[j] else -1
            loss += swap * np.log1p(np.exp(-sign * (y[i] - y[j])))
            dy[i] -= swap * sign / (1 + np.exp(sign * (y[i] - y[j])))
    return loss, dy


@pytest.mark.parametrize("normalize", [0, 1])
def test_lambda_rank(normalize):
    lengths = np.array([3, 5], "int32")
    y = np.array([0.3, -1, 2, 0.1, 0.7, -0.2, 1.5, 0.9], "f")
    found = [lambda_rank(a.astype("d"), b, normalize) for a, b in ((y[:3], R[:3]), (y[3:], R[3:]))]
    wanted = [np.array([f[0] for f in found]), np.concatenate([f[1] for f in found])]
    check("LambdaRankNdcg", [y, R, lengths], wanted, {"use_idcg_normalization": normalize}, rtol=1e-4)
    dy, scale = run("LambdaRankNdcg", [y, R, lengths], outputs=2)[1], np.array([2, -1], "f")
    check("LambdaRankNdcgGradient", [y, lengths, dy, scale], [dy * np.repeat(scale, lengths)])


def test_ndcg_as_the_loss():
    """A perfect order costs nothing, the opposite one the most."""
    r, length = np.array([3, 2, 1, 0], "f"), np.array([4], "int32")
    for linear in (0, 1):
        args = {"use_ndcg_as_loss": 1, "use_exp_gain": 1 - linear}
        best, worst = (run("LambdaRankNdcg", [y, r, length], args, 2)[0] for y in (r, -r))
        gain = gain_of(r, linear)
        ideal = gain @ places(r)
        np.testing.assert_allclose(best, 0, atol=1e-6)
        np.testing.assert_allclose(worst, 1 - gain @ places(-r) / ideal, rtol=1e-5)


def average_precision(scores, truth):
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order]) / np.arange(1, len(scores) + 1)
    return hits[truth[order] == 1].mean() if truth.any() else 0.0


def test_average_precision():
    scores, truth = floats(20, 3), (floats(20, 3, seed=1) > 0).astype("int32")
    truth[:, 2] = 0
    check("APMeter", [scores, truth], [np.array([average_precision(scores[:, c], truth[:, c]) for c in range(3)])])
    last = np.array([average_precision(scores[-5:, c], truth[-5:, c]) for c in range(3)])
    check("APMeter", [scores, truth], [last], {"buffer_size": 5})


def test_further_runs():
    check_again("PairWiseLoss", [X, R, LENGTHS], [X[:3], R[:3], LENGTHS[:1]])
    check_again("LambdaRankNdcg", [X, R, np.array([8], "int32")], [X[:3], R[:3], LENGTHS[:1]], outputs=2)


@pytest.mark.parametrize(("kind", "inputs", "args", "words"), [
    ("PairWiseLoss", [X, R[:4]], {}, r"found \[8\] and \[4\]"),
    ("PairWiseLoss", [X, R, LENGTHS[:2]], {}, r"lengths \[3, 0\] .*the 8 items"),
    ("PairWiseLoss", [X[:0], R[:0], LENGTHS], {}, r"lengths \[3, 0, 4, 1\] .*the 0 items"),
    ("PairWiseLossGradient", [X, R, floats(2), LENGTHS], {}, r"each session, found \[2\]"),
    ("LambdaRankNdcg", [X, R[:3], LENGTHS], {}, r"found \[8\] and \[3\]"),
    ("LambdaRankNdcg", [X, R, LENGTHS[:2]], {}, "add up to the 8 items"),
    ("LambdaRankNdcgGradient", [X, LENGTHS, X, floats(2)], {}, r"each of 4 sessions, found \[2\]"),
    ("APMeter", [floats(3, 2), np.zeros((3, 1), "int32")], {}, r"found \[3, 2\] and \[3, 1\]"),
    ("APMeter", [floats(3, 2), np.zeros((3, 2), "int32")], {"buffer_size": 0}, "above 0, found 0"),
])  # fmt: skip
def test_refusals(kind, inputs, args, words):
    refused(kind, inputs, words, args, outputs=2 if kind == "LambdaRankNdcg" else 1)


def test_a_meter_remembers_until_its_net_is_made_again():
    workspace, scores, labels = Workspace(), iter([(0.9, 0.8), (0.95, 0.1)]), iter([(1, 0), (0, 1)])

    def feed():
        workspace.feed("p", np.array([next(scores)], "f").T)
        workspace.feed("l", np.array([next(labels)], "int32").T)

    net = caffe2_pb2.NetDef(name="net", op=[definition("APMeter", ["p", "l"], ["ap"], {"buffer_size": 4})])
    feed()
    made = runner.create_net(workspace, net)
    made.run()
    assert workspace.fetch("ap").tolist() == [1]
    feed()
    made.run()
    np.testing.assert_allclose(workspace.fetch("ap"), [(1 / 2 + 2 / 4) / 2])
    runner.create_net(workspace, net, overwrite=True).run()
    np.testing.assert_allclose(workspace.fetch("ap"), [1 / 2])
