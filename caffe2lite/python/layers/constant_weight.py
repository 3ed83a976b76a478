"""A weighted sum with given weights."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class ConstantWeight(ModelLayer):
    """Sum of weight * number over the numbers of the input; equal weights if none are given."""

    def __init__(self, model, input_record, weights=None, name="constant_weight", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("constant_weight"))
        self.data = input_record.field_blobs()
        self.num = len(self.data)
        weights = [1.0 / self.num] * self.num if weights is None else weights
        if len(weights) != self.num:
            raise AssertionError(f"{self.num} inputs got {len(weights)} weights")
        self.weights = [
            model.add_global_constant(f"{self.name}_weight_{i}", float(weight)) for i, weight in enumerate(weights)
        ]

    def add_ops(self, net):
        pairs = [blob for pair in zip(self.data, self.weights) for blob in pair]
        net.WeightedSum(pairs, self.output_schema())
