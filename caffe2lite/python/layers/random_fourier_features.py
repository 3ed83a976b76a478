"""Random features for Gaussian kernels."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class RandomFourierFeatures(ModelLayer):
    """sqrt(2 / output_dims) cos(X w^T + b) with random w and b; `sigma` is the kernel's width (Rahimi, Recht, 2007)."""

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        sigma,
        w_init=None,
        b_init=None,
        name="random_fourier_features",
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        input_dims = input_record.field_type().shape[0]
        if input_dims < 1 or output_dims < 1:
            raise AssertionError(f"Expected dimensions >= 1, got {input_dims} (input) and {output_dims} (output)")
        if sigma <= 0:
            raise AssertionError(f"Expected bandwidth > 0, got {sigma}")
        self.output_dims = output_dims
        self.w = self.create_param(
            param_name="w",
            shape=[output_dims, input_dims],
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": 1.0 / sigma}),
            optimizer=model.NoOptim,
        )
        self.b = self.create_param(
            param_name="b",
            shape=[output_dims],
            initializer=b_init or ("UniformFill", {"min": 0.0, "max": 2 * math.pi}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Scalar((np.float32, (output_dims,)), self.get_next_blob_reference("output"))

    def add_ops(self, net):
        angles = net.FC([*self.input_record.field_blobs(), self.w, self.b], net.NextScopedBlob("cosine_arg"))
        waves = net.Cos([angles], net.NextScopedBlob("new_feature_vec"))
        net.Scale(waves, self.output_schema(), scale=math.sqrt(2.0 / self.output_dims))
