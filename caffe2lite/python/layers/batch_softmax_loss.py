"""Softmax with cross entropy."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers import _label_smoothing
from caffe2lite.python.layers._losses import Loss, check


class BatchSoftmaxLoss(Loss):
    """Softmax of input.prediction, and its cross entropy with input.label, weighted by input.weight.

    `label_prob`: labels are rows of probabilities. `label_smoothing_matrix`: row i is what label i becomes.
    """

    def __init__(
        self,
        model,
        input_record,
        name="batch_softmax_loss",
        label_smoothing_matrix=None,
        label_prob=False,
        scale=1.0,
        average_by_batch_size=False,
        **kwargs,
    ):
        super().__init__(model, name, input_record, output=None, **kwargs)
        check(input_record, label=schema.Scalar(), prediction=schema.Scalar())
        self.label_prob = label_prob
        self.scale = scale
        self.average_by_batch_size = average_by_batch_size
        self.label_smoothing_matrix = label_smoothing_matrix
        if label_smoothing_matrix is not None:
            self.initialize_label_smoothing_constants()
        self.output_schema = schema.Struct(
            (
                "softmax",
                schema.Scalar(input_record.prediction.field_type(), self.get_next_blob_reference("softmax")),
            ),
            ("loss", schema.Scalar(np.float32, self.get_next_blob_reference("loss"))),
        )

    def initialize_label_smoothing_constants(self):
        """Check the matrix and make it a constant of the model."""
        matrix = np.asarray(self.label_smoothing_matrix, np.float32)
        shape = self.input_record.prediction.field_type().shape
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or shape != (len(matrix),):
            raise AssertionError(f"the matrix must be square with {shape} rows, it has the shape {matrix.shape}")
        if not np.allclose(matrix.sum(axis=1), 1, atol=1e-2):
            raise AssertionError(
                f"the rows of the label smoothing matrix must each add up to 1, got {matrix.sum(axis=1).tolist()}"
            )
        self.label_smoothing_matrix = self.model.maybe_add_global_constant(
            f"{self.name}_label_smoothing_matrix", array=matrix
        )
        self.label_dim = self.model.maybe_add_global_constant(
            f"{self.name}_label_dim", array=len(matrix), dtype=np.int64
        )
        self.label_prob = True
        self._smooth = True

    in_predictions = True
    _smooth = False

    def compute_smoothed_label(self, net):
        """Return the smoothed labels."""
        return _label_smoothing.smoothed(
            net,
            self.input_record.label(),
            self.label_dim,
            self.label_smoothing_matrix,
            net.NextScopedBlob("smoothed_label"),
        )

    def add_ops(self, net):
        label = self.input_record.label
        if self._smooth:
            label = self.compute_smoothed_label(net)
        elif label.field_type().base == np.int32 or self.label_prob:
            label = label()
        else:
            label = net.Cast(label(), net.NextScopedBlob("int32_label"), to=core.DataType.INT32)
        inputs = [self.input_record.prediction(), label]
        if "weight" in self.input_record.fields:
            field = self.input_record.weight
            inputs.append(self.as_float(net, field, field() + "_float32"))
        net.SoftmaxWithLoss(
            inputs,
            self.output_schema.field_blobs(),
            label_prob=int(self.label_prob),
            scale=self.scale,
            average_by_batch_size=int(self.average_by_batch_size),
        )
