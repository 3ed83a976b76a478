"""Spatial batch normalization of batches without rows; the numbers are genuine Caffe2's."""

import numpy as np
import pytest
from caffe2.python import core, workspace


@pytest.mark.parametrize("order, shape", [("NCHW", (0, 3, 2, 2)), ("NHWC", (0, 2, 2, 3))])
@pytest.mark.parametrize("num_batches", [1, 2])
def test_an_empty_batch(order, shape, num_batches):
    workspace.ResetWorkspace()
    workspace.FeedBlob("X", np.zeros(shape, "f"))
    for i, name in enumerate(["scale", "bias", "mean", "var", "sum", "sumsq"]):
        workspace.FeedBlob(name, np.full(3, i + 2.0, "f"))
    args = {"order": order, "num_batches": num_batches}
    inputs = ["X", "scale", "bias", "mean", "var", "sum", "sumsq"]
    outputs = ["Y", "mean", "var", "saved_mean", "saved_inv"]
    workspace.RunOperatorOnce(core.CreateOperator("SpatialBN", inputs, outputs, is_test=0, **args))
    assert [workspace.FetchBlob(n).tolist() for n in outputs[1:]] == [[4.0] * 3, [5.0] * 3, [0.0] * 3, [0.0] * 3]
    inputs = ["X", "scale", "X", "saved_mean", "saved_inv", "sum", "sumsq"]
    workspace.RunOperatorOnce(core.CreateOperator("SpatialBNGradient", inputs, ["dX", "dscale", "dbias"], **args))
    assert workspace.FetchBlob("dX").shape == shape
    assert not workspace.FetchBlob("dscale").any() and not workspace.FetchBlob("dbias").any()
    workspace.ResetWorkspace()
