"""A fully connected layer without bias."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class FCWithoutBias(SamplingTrainableMixin, ModelLayer):
    """X w^T."""

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        weight_init=None,
        weight_optim=None,
        name="fc_without_bias",
        uniform_weight_init_scale_numerator=1.0,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        dims = input_record.field_type().shape
        if not dims or dims[0] <= 0:
            raise AssertionError(f"FCWithoutBias expects limited dimensions of the input tensor, got {dims}")
        scale = math.sqrt(uniform_weight_init_scale_numerator / dims[0])
        self.w = self.create_param(
            param_name="w",
            shape=[output_dims, dims[0]],
            initializer=weight_init or ("UniformFill", {"min": -scale, "max": scale}),
            optimizer=weight_optim,
        )
        self.output_schema = schema.Scalar((np.float32, (output_dims,)), self.get_next_blob_reference("output"))

    def _add_ops(self, net, params):
        net.MatMul(self.input_record.field_blobs() + params, self.output_schema.field_blobs(), trans_b=1, **self.kwargs)

    @property
    def param_blobs(self):
        return [self.w]
