"""Labels made less certain."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core


def add_constants(layer, matrix):
    """Keep `matrix` (row i: what label i becomes) and the number of labels as constants of the model."""
    matrix = np.asarray(matrix, np.float32)
    layer.label_smoothing_matrix = layer.model.add_global_constant(f"{layer.name}_label_smooth_matrix", array=matrix)
    layer.label_dim = layer.model.add_global_constant(f"{layer.name}_label_dim", array=len(matrix), dtype=np.int64)


def smoothed(net, label, size, matrix, output):
    """Return the rows of the matrix that belong to the labels."""
    as_int = net.Cast(label, net.NextScopedBlob("int64_label"), to=core.DataType.INT64)
    one_hot = net.OneHot([as_int, size], [net.NextScopedBlob("one_hot_label")])
    return net.MatMul([one_hot, matrix], output)
