"""Layers with packed weights round these to half precision and nothing else."""

import numpy as np
import pytest
from running import floats, refused

from caffe2lite.python import core, workspace


@pytest.fixture(autouse=True)
def fresh():
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


@pytest.mark.parametrize("kind", ["FbGemmPack", "FbGemmPackTranspose"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 4)])
def test_a_layer(kind, shape):
    w, b, x = floats(5, 4), floats(5), floats(*shape)
    workspace.FeedBlob("w", w if kind == "FbGemmPack" else np.ascontiguousarray(w.T))
    workspace.FeedBlob("b", b)
    workspace.FeedBlob("x", x)
    workspace.RunOperatorOnce(core.CreateOperator(kind, ["w"], ["packed"]))
    workspace.RunOperatorOnce(core.CreateOperator("FbFCPacked", ["x", "packed", "b"], ["y"], axis=len(shape) - 1))
    wanted = x.astype("d") @ w.astype(np.float16).astype("d").T + b
    np.testing.assert_allclose(workspace.FetchBlob("y"), wanted, rtol=1e-5, atol=1e-6)
    assert "fbgemm" in str(workspace.FetchBlob("packed"))


def test_refusals():
    refused("FbGemmPack", [floats(3)], r"matrix is needed.*\[3\]")
    refused("FbFCPacked", [floats(2, 3), floats(3, 4), floats(4)], "FbGemmPack")
    workspace.FeedBlob("w", floats(5, 4))
    workspace.FeedBlob("b", floats(5))
    workspace.FeedBlob("x", floats(2, 3))
    workspace.RunOperatorOnce(core.CreateOperator("FbGemmPack", ["w"], ["packed"]))
    with pytest.raises(RuntimeError, match=r"rows of 3 values and b 5; the weights take 4 and give 5"):
        workspace.RunOperatorOnce(core.CreateOperator("FbFCPacked", ["x", "packed", "b"], ["y"]))
