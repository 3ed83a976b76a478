"""Random features for arc-cosine kernels."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class ArcCosineFeatureMap(ModelLayer):
    """step(z) z^s of z = X w^T + b with random w and b (Cho and Saul, 2009); for s = 0 softsign takes the step's place.

    `set_weight_as_global_constant` draws w and b here, once, instead of in the init net.
    """

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        s=1,
        scale=1.0,
        weight_init=None,
        bias_init=None,
        weight_optim=None,
        bias_optim=None,
        set_weight_as_global_constant=False,
        initialize_output_schema=True,
        name="arc_cosine_feature_map",
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        self.params = []
        self.model = model
        self.set_weight_as_global_constant = set_weight_as_global_constant
        self.input_dims = input_record.field_type().shape[0]
        if self.input_dims < 1:
            raise AssertionError(f"Expected input dimensions >= 1, got {self.input_dims}")
        if not isinstance(s, int) or s < 0:
            raise AssertionError(f"Expected s to be a nonnegative integer, got {s}")
        if scale <= 0:
            raise AssertionError(f"Expected scale > 0, got {scale}")
        self.s = s
        self.scale = scale
        self.output_dims = output_dims
        if initialize_output_schema:
            self.output_schema = schema.Scalar((np.float32, (output_dims,)), model.net.NextScopedBlob(name + "_output"))
        self.weight_init = weight_init
        self.bias_init = bias_init
        self.weight_optim = weight_optim or model.NoOptim
        self.bias_optim = bias_optim or model.NoOptim
        self.random_w, self.random_b = self._initialize_params(
            "random_w",
            "random_b",
            w_init=weight_init,
            b_init=bias_init,
            w_optim=self.weight_optim,
            b_optim=self.bias_optim,
        )

    def _spread(self):
        return self.scale / math.sqrt(self.input_dims), 0.5 * self.scale / math.sqrt(self.input_dims)

    def _initialize_params(self, w_name, b_name, w_init=None, b_init=None, w_optim=None, b_optim=None):
        deviation, bound = self._spread()
        shape = [self.output_dims, self.input_dims]
        if self.set_weight_as_global_constant:
            return (
                self.model.add_global_constant(
                    self.name + "_fixed_rand_W", array=np.random.normal(scale=deviation, size=shape)
                ),
                self.model.add_global_constant(
                    self.name + "_fixed_rand_b", array=np.random.uniform(-bound, bound, size=self.output_dims)
                ),
            )
        w = self.create_param(
            param_name=w_name,
            shape=shape,
            initializer=w_init or ("GaussianFill", {"mean": 0.0, "std": deviation}),
            optimizer=w_optim,
        )
        b = self.create_param(
            param_name=b_name,
            shape=[self.output_dims],
            initializer=b_init or ("UniformFill", {"min": -bound, "max": bound}),
            optimizer=b_optim,
        )
        return w, b

    def _heaviside_with_power(self, net, input_features, output_blob, s):
        if s == 0:
            return net.Relu([net.Softsign([input_features], net.NextScopedBlob("softsign"))], output_blob)
        if s == 1:
            return net.Relu([input_features], output_blob)
        positive = net.Relu([input_features], net.NextScopedBlob("relu_rand"))
        power = net.Pow(input_features, net.NextScopedBlob("pow_rand"), exponent=float(s - 1))
        return net.Mul([positive, power], output_blob)

    def add_ops(self, net):
        features = net.FC(
            [*self.input_record.field_blobs(), self.random_w, self.random_b], net.NextScopedBlob("random_features")
        )
        self._heaviside_with_power(net, features, self.output_schema.field_blobs(), self.s)
