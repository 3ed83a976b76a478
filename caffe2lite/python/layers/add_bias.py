"""A bias."""

from __future__ import annotations

import math

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class AddBias(ModelLayer):
    """input + b, for a vector of numbers."""

    def __init__(self, model, input_record, bias_init=None, bias_optim=None, name="add_bias"):
        super().__init__(model, name, input_record)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"AddBias takes a Scalar, got {input_record!r}")
        shape = input_record.field_type().shape
        if len(shape) != 1 or shape[0] <= 0:
            raise AssertionError(f"AddBias takes a vector, got the shape {shape}")
        scale = math.sqrt(1.0 / shape[0])
        self.b = self.create_param(
            param_name="b",
            shape=[shape[0]],
            initializer=bias_init or ("UniformFill", {"min": -scale, "max": scale}),
            optimizer=bias_optim,
        )
        self.output_schema = schema.Scalar(
            (input_record.field_type().base, shape), self.get_next_blob_reference("output")
        )

    def add_ops(self, net):
        net.Add(self.input_record.field_blobs() + [self.b], self.output_schema.field_blobs(), broadcast=1)
