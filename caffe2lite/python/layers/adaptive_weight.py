"""Losses weighted by learned uncertainty."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.regularizer import BoundedGradientProjection, LogBarrier


class AdaptiveWeight(ModelLayer):
    """Sum of w x + log(1 / 2 w) / 2 over the numbers x of the input, with learned w (Kendall, Gal, Cipolla, 2018).

    `estimation_method` log_std learns the logarithm of the variance; inv_var its inverse, kept positive by a
    log barrier or by projection (`pos_optim_method`).  `enable_diagnose` plots the weights.
    """

    def __init__(
        self,
        model,
        input_record,
        name="adaptive_weight",
        optimizer=None,
        weights=None,
        enable_diagnose=False,
        estimation_method="log_std",
        pos_optim_method="log_barrier",
        reg_lambda=0.1,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        self.num = len(input_record.field_names())
        weights = [1.0 / self.num] * self.num if weights is None else weights
        if len(weights) != self.num or min(weights) <= 0:
            raise AssertionError(f"weights must be {self.num} positive numbers, got {weights}")
        self.weights = np.array(weights, np.float32)
        self.optimizer = optimizer
        self.pos_optim_method = pos_optim_method
        self.reg_lambda = reg_lambda
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("adaptive_weight"))
        self.data = input_record.field_blobs()
        methods = {
            "log_std": (self.log_std_init, self.log_std_weight, self.log_std_reg),
            "inv_var": (self.inv_var_init, self.inv_var_weight, self.inv_var_reg),
        }
        init, self.weight_func, self.reg_func = methods[str(estimation_method).lower()]
        init()
        self.enable_diagnose = enable_diagnose
        if enable_diagnose:
            self.weight_i = [self.get_next_blob_reference(f"adaptive_weight_{i}") for i in range(self.num)]
            for blob in self.weight_i:
                model.add_ad_hoc_plot_blob(blob)

    def concat_data(self, net):
        """Return the inputs as one vector."""
        name = net.NextScopedBlob
        parts = []
        for i, blob in enumerate(self.data):
            parts.append(name(f"reshaped_data_{i}"))
            net.Reshape([blob], [parts[-1], name(f"new_shape_{i}")], shape=[1])
        joined = [name("concated_data"), name("concated_new_shape")]
        return net.Concat(parts, joined, axis=0)[0]

    def _param(self, param_name, values, regularizer=None):
        return self.create_param(
            param_name=param_name,
            shape=[self.num],
            initializer=("GivenTensorFill", {"values": values, "dtype": core.DataType.FLOAT}),
            optimizer=self.optimizer,
            regularizer=regularizer,
        )

    def log_std_init(self):
        """mu, the logarithm of the variance: w = exp(-mu) / 2."""
        self.mu = self._param("mu", np.log(0.5 / self.weights))

    def log_std_weight(self, x, net, weight):
        """weight = exp(-mu) / 2."""
        negative = net.Negative(self.mu, net.NextScopedBlob("mu_neg"))
        net.Scale(net.Exp(negative, net.NextScopedBlob("mu_neg_exp")), weight, scale=0.5)

    def log_std_reg(self, net, reg):
        """reg = mu / 2."""
        net.Scale(self.mu, reg, scale=0.5)

    def inv_var_init(self):
        """k, the inverse of the variance: w = k / 2."""
        if self.pos_optim_method == "log_barrier":
            regularizer = LogBarrier(reg_lambda=self.reg_lambda)
        elif self.pos_optim_method == "pos_grad_proj":
            regularizer = BoundedGradientProjection(lb=0, left_open=True)
        else:
            raise TypeError(f"unknown positivity optimization method: {self.pos_optim_method}")
        self.k = self._param("k", 2.0 * self.weights, regularizer)

    def inv_var_weight(self, x, net, weight):
        """weight = k / 2."""
        net.Scale(self.k, weight, scale=0.5)

    def inv_var_reg(self, net, reg):
        """reg = -log(k) / 2."""
        net.Scale(net.Log(self.k, net.NextScopedBlob("log_k")), reg, scale=-0.5)

    def _add_ops_impl(self, net, enable_diagnose):
        x = self.concat_data(net)
        weight = net.NextScopedBlob("weight")
        reg = net.NextScopedBlob("reg")
        weighted = net.NextScopedBlob("weighted_x")
        total = net.NextScopedBlob("weighted_x_add_reg")
        self.weight_func(x, net, weight)
        self.reg_func(net, reg)
        net.Mul([weight, x], weighted)
        net.Add([weighted, reg], total)
        net.SumElements(total, self.output_schema())
        if enable_diagnose:
            for i, blob in enumerate(self.weight_i):
                net.Slice(weight, blob, starts=[i], ends=[i + 1])

    def add_ops(self, net):
        self._add_ops_impl(net, self.enable_diagnose)
