"""Learned weights of positions."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer, get_categorical_limit
from caffe2lite.python.layers.tags import Tags


class PositionWeighted(ModelLayer):
    """For each id of an id list, a learned weight of its position in its list."""

    def __init__(self, model, input_record, weight_optim=None, name="position_weights"):
        super().__init__(model, name, input_record)
        if not isinstance(input_record, schema.List):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        limit = get_categorical_limit(input_record)
        if not limit > 0:
            raise AssertionError(f"PositionWeighted needs a categorical limit > 0, got {limit}")
        self.shape = limit
        self.pos_w = self.create_param(
            param_name="pos_w",
            shape=[limit],
            initializer=("ConstantFill", {"value": 1.0}),
            optimizer=weight_optim,
        )
        weights = schema.Scalar((np.float32, limit), self.get_next_blob_reference("pos_w_gather"))
        self.output_schema = schema.Struct(("position_weights", weights))
        self.tags.update([Tags.HANDLE_AS_SPARSE_LAYER])

    def get_memory_usage(self):
        return self.shape

    def add_ops(self, net):
        lengths = self.input_record.lengths()
        positions = net.LengthsRangeFill([lengths], lengths + "_pos_w_seq")
        net.Gather([self.pos_w, positions], self.output_schema.position_weights.field_blobs())
