"""Dropout."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class Dropout(ModelLayer):
    """Zeros with probability `ratio`, in training, and with `dropout_for_eval` always."""

    def __init__(self, model, input_record, name="dropout", ratio=0.5, dropout_for_eval=False, **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Dropout takes a Scalar, got {input_record!r}")
        if not 0 <= ratio < 1:
            raise AssertionError(f"Expected 0 <= ratio < 1, but got ratio of {ratio}")
        self.ratio = ratio
        self.dropout_for_eval = dropout_for_eval
        self.output_schema = input_record.clone_schema()
        self.output_schema.set_value(self.get_next_blob_reference("output"))

    def _add_ops(self, net, is_test):
        outputs = [*self.output_schema.field_blobs(), net.NextScopedBlob("d_mask")]
        net.Dropout(self.input_record.field_blobs(), outputs, ratio=self.ratio, is_test=int(is_test))

    def add_train_ops(self, net):
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net):
        self._add_ops(net, is_test=not self.dropout_for_eval)

    def add_ops(self, net):
        self.add_eval_ops(net)
