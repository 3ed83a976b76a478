"""Labels made less certain."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers import _label_smoothing
from caffe2lite.python.layers.layers import ModelLayer


class LabelSmooth(ModelLayer):
    """What a label becomes: of `smooth_matrix` the row of its number, or of a pair the value for 0 or for 1."""

    def __init__(self, model, label, smooth_matrix, name="label_smooth", **kwargs):
        super().__init__(model, name, label, **kwargs)
        self.label = label
        self.set_smooth_matrix(smooth_matrix)
        self.set_dim(smooth_matrix)
        self.smooth_matrix_shape = np.shape(smooth_matrix)
        self.output_schema = schema.Scalar((np.float32, (self.dim,)), self.get_next_blob_reference("smoothed_label"))

    def set_dim(self, smooth_matrix):
        """Set the numbers of the output, and the blob that says how many labels there are."""
        shape = np.shape(smooth_matrix)
        if len(shape) == 1:
            self.dim = 1
            return
        self.dim = shape[1]
        self.num_labels = self.model.add_global_constant(f"{self.name}_label_dim", array=shape[0], dtype=np.int64)

    def set_smooth_matrix(self, smooth_matrix):
        """Check it and make it a constant of the model."""
        matrix = np.asarray(smooth_matrix, np.float32)
        if matrix.shape == (2,):
            self.smooth_matrix = matrix.tolist()
        elif matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]:
            self.smooth_matrix = self.model.add_global_constant(
                f"{self.name}_label_smooth_matrix", array=matrix, dtype=np.float32
            )
        else:
            raise AssertionError(f"smooth_matrix must be a pair or a square matrix, got the shape {matrix.shape}")

    def add_ops_for_binary_prob_label(self, net):
        """For a pair."""
        net.StumpFunc(
            self.label(),
            self.output_schema(),
            threshold=0.5,
            low_value=self.smooth_matrix[0],
            high_value=self.smooth_matrix[1],
        )

    def add_ops_for_categorical_label(self, net):
        """For a matrix."""
        _label_smoothing.smoothed(net, self.label(), self.num_labels, self.smooth_matrix, self.output_schema())

    def add_ops(self, net):
        if len(self.smooth_matrix_shape) == 1:
            self.add_ops_for_binary_prob_label(net)
        else:
            self.add_ops_for_categorical_label(net)
