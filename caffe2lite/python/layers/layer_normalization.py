"""Layer normalization."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class LayerNormalization(ModelLayer):
    """(x - mean) / deviation * scale + bias, from `axis` on, by LayerNorm or by simpler operators."""

    def __init__(
        self,
        model,
        input_record,
        name="layer_normalization",
        scale_optim=None,
        bias_optim=None,
        epsilon=1e-4,
        axis=1,
        use_layer_norm_op=True,
        scale_init_value=1.0,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type: {input_record!r}")
        self.input_shape = input_record.field_type().shape
        self.axis = axis
        self.epsilon = epsilon
        self.use_layer_norm_op = use_layer_norm_op
        if len(self.input_shape) < 1 or axis != 1 or not use_layer_norm_op and len(self.input_shape) != 1:
            raise AssertionError(f"axis must be 1, and without LayerNorm the input a vector; got {self.input_shape}")
        size = self.input_shape[0]

        def number(param_name, value, optimizer):
            return self.create_param(
                param_name=param_name,
                shape=[size],
                initializer=("ConstantFill", {"value": value}),
                optimizer=optimizer,
            )

        self.scale = number("scale", float(scale_init_value), scale_optim)
        self.bias = number("bias", 0.0, bias_optim)
        if not use_layer_norm_op:
            self.epsilon_blob = model.maybe_add_global_constant(f"{self.name}_epsilon", float(epsilon))
        self.output_schema = schema.Scalar((np.float32, self.input_shape), self.get_next_blob_reference("output"))

    def add_ops_with_layer_norm_op(self, net):
        """By LayerNorm."""
        name = net.NextScopedBlob
        normalized = [name("ln_output"), name("ln_mean"), name("ln_stdev")]
        net.LayerNorm(self.input_record.field_blobs(), normalized, axis=self.axis, epsilon=self.epsilon)
        scaled = net.Mul([normalized[0], self.scale], [name("ln_scaled")], broadcast=1, axis=self.axis)
        net.Add([scaled, self.bias], self.output_schema.field_blobs(), broadcast=1, axis=self.axis)

    def add_ops_without_layer_norm_op(self, net):
        """By operators for means, differences and powers."""
        name = net.NextScopedBlob
        x = self.input_record.field_blobs()
        mean = net.ExpandDims(net.ReduceBackMean(x, [name("ln_mean_arr")]), [name("ln_mean")], dims=[self.axis])
        centered = net.Sub([*x, mean], [name("ln_centered")])
        squares = net.ReduceBackMean(net.Sqr(centered, [name("ln_sqr")]), [name("ln_sqr_mean")])
        variance = net.Add([squares, self.epsilon_blob], name("ln_var"))
        deviation = net.ExpandDims(
            net.Pow(variance, name("ln_std_arr"), exponent=0.5), [name("ln_stdev")], dims=[self.axis]
        )
        normalized = net.Div([centered, deviation], [name("ln_output")])
        scaled = net.Mul([normalized, self.scale], [name("ln_scaled")])
        net.Add([scaled, self.bias], self.output_schema.field_blobs())

    def add_ops(self, net):
        if self.use_layer_norm_op:
            self.add_ops_with_layer_norm_op(net)
        else:
            self.add_ops_without_layer_norm_op(net)
