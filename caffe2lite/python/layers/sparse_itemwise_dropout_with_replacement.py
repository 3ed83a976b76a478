"""Dropout of ids."""

from __future__ import annotations

from caffe2lite.python.layers.sparse_dropout_with_replacement import SparseDropoutWithReplacement


class SparseItemwiseDropoutWithReplacement(SparseDropoutWithReplacement):
    """An id list of which ids are dropped, with one probability each for training, evaluation, prediction.

    What is dropped becomes `replacement_value`.
    """

    _operator = "SparseItemwiseDropoutWithReplacement"

    def __init__(
        self,
        model,
        input_record,
        dropout_prob_train,
        dropout_prob_eval,
        dropout_prob_predict,
        replacement_value,
        name="sparse_itemwise_dropout",
        **kwargs,
    ):
        super().__init__(
            model,
            input_record,
            dropout_prob_train,
            dropout_prob_eval,
            dropout_prob_predict,
            replacement_value,
            name=name,
            **kwargs,
        )
