"""Dropout of ids."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import IdList, ModelLayer


class SparseDropoutWithReplacement(ModelLayer):
    """An id list of which rows are dropped, with one probability each for training, evaluation, prediction.

    What is dropped becomes `replacement_value`.
    """

    _operator = "SparseDropoutWithReplacement"

    def __init__(
        self,
        model,
        input_record,
        dropout_prob_train,
        dropout_prob_eval,
        dropout_prob_predict,
        replacement_value,
        name="sparse_dropout",
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not schema.equal_schemas(input_record, IdList):
            raise AssertionError(f"{self._operator} takes an id list, got {input_record!r}")
        self.dropout_prob_train = float(dropout_prob_train)
        self.dropout_prob_eval = float(dropout_prob_eval)
        self.dropout_prob_predict = float(dropout_prob_predict)
        self.replacement_value = int(replacement_value)
        for probability in (self.dropout_prob_train, self.dropout_prob_eval, self.dropout_prob_predict):
            if not 0 <= probability <= 1:
                raise AssertionError(f"Expected 0 <= dropout probability <= 1, got {probability}")
        self.output_schema = schema.NewRecord(model.net, IdList)

    def _add_ops(self, net, ratio):
        getattr(net, self._operator)(
            [self.input_record.items(), self.input_record.lengths()],
            [self.output_schema.items(), self.output_schema.lengths()],
            ratio=ratio,
            replacement_value=self.replacement_value,
        )

    def add_train_ops(self, net):
        self._add_ops(net, self.dropout_prob_train)

    def add_eval_ops(self, net):
        self._add_ops(net, self.dropout_prob_eval)

    def add_ops(self, net):
        self._add_ops(net, self.dropout_prob_predict)
