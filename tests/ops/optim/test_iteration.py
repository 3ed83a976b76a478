"""Counters of iterations count."""

import numpy as np
from running import check, refused, run

from caffe2lite.python import core, workspace


def test_counting():
    check("Iter", [np.array([41])], [np.array([42])])
    workspace.ResetWorkspace()
    workspace.RunOperatorOnce(core.CreateOperator("CreateMutex", [], ["mutex"]))
    workspace.FeedBlob("n", np.array([7]))
    net = core.Net("counting")
    net.Iter([], ["fresh"])  # begins with 0 where there is nothing
    net.AtomicIter(["mutex", "n"], ["n"])
    workspace.CreateNet(net)
    for k in range(3):
        workspace.RunNet(net)
        assert workspace.FetchBlob("fresh").tolist() == [k + 1] and workspace.FetchBlob("n").tolist() == [8 + k]
    workspace.ResetWorkspace()


def test_refusals():
    refused("Iter", [np.array([1, 2])], r"one int64, found the shape \[2\]")
    refused("Iter", [np.array([1], "int32")], "'in0' is int32")
    assert run("Iter", [np.array([0])])[0].dtype == np.int64
