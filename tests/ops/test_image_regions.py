"""Regions of RMAC at sizes where genuine Caffe2's answer was looked up."""

import numpy as np
import pytest
from caffe2.python import core, workspace


@pytest.mark.parametrize(
    "height, width, scales, regions",
    [
        (1, 1, 2, [[0, 0, 0, 0]]),  # too small for a second scale
        (1, 2, 2, [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]]),
        (5, 9, 1, [[0, 0, 4, 4], [4, 0, 8, 4]]),  # two grids are as good in single precision: the coarser one
    ],
)
def test_small_and_tied_sizes(height, width, scales, regions):
    workspace.FeedBlob("x", np.zeros((1, 1, height, width), np.float32))
    workspace.RunOperatorOnce(core.CreateOperator("RMACRegions", ["x"], ["y"], scales=scales, overlap=0.4))
    np.testing.assert_array_equal(workspace.FetchBlob("y")[:, 1:], regions)
