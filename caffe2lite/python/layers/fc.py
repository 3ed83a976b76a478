"""A fully connected layer."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


def get_fc_predictor_version(fc_version):
    """Return the form of the parameters that a prediction uses: what was asked for."""
    if fc_version not in ("fp32",):
        raise AssertionError(f"Only support fp32 for the fully connected layer in the predictor net, got {fc_version}")
    return fc_version


class FC(SamplingTrainableMixin, ModelLayer):
    """X w^T + b over the dimensions from `axis` on (the batch is 0).

    `max_fc_size` splits the outputs into parts of at most that many weights (-1: no limit); `clip_param` = (min, max)
    clips weights and bias before they are used; `transposed` keeps w as (inputs, outputs).
    """

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        weight_init=None,
        bias_init=None,
        weight_optim=None,
        bias_optim=None,
        name="fc",
        weight_reg=None,
        bias_reg=None,
        clip_param=None,
        max_fc_size=None,
        axis=1,
        transposed=False,
        uniform_weight_init_scale_numerator=1.0,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        dims = input_record.field_type().shape
        if not dims:
            raise AssertionError(f"FC needs the shape of its input in the schema, got {input_record!r}")
        if axis < 1 or axis > len(dims):
            raise AssertionError(f"axis is from 1 to {len(dims)}, got {axis}")
        input_dims = functools.reduce(operator.mul, dims[axis - 1 :])
        if input_dims <= 0:
            raise AssertionError(f"FC expects input dimensions > 0, got {input_dims}")
        if clip_param is not None and len(clip_param) != 2:
            raise AssertionError(f"clip_param must be (min, max) of which one may be None, got {clip_param}")
        self.axis = axis
        self.transposed = transposed
        self.clip_args = None
        if clip_param is not None:
            self.clip_args = {k: v for k, v in zip(("min", "max"), clip_param) if v is not None}

        scale = math.sqrt(uniform_weight_init_scale_numerator / input_dims)
        uniform = ("UniformFill", {"min": -scale, "max": scale})
        self.output_dim_vec = FC.calculate_fc_output_dims(max_fc_size, input_dims, output_dims)
        parts = ["w", "b"] if len(self.output_dim_vec) == 1 else None
        self._names = [parts] if parts else [[f"w_sub_{i}", f"b_sub_{i}"] for i in range(len(self.output_dim_vec))]
        self.params_of_parts = []
        for (w_name, b_name), size in zip(self._names, self.output_dim_vec):
            w = self.create_param(
                param_name=w_name,
                shape=[input_dims, size] if transposed else [size, input_dims],
                initializer=weight_init or uniform,
                optimizer=weight_optim,
                regularizer=weight_reg,
            )
            b = self.create_param(
                param_name=b_name,
                shape=[size],
                initializer=bias_init or uniform,
                optimizer=bias_optim,
                regularizer=bias_reg,
            )
            setattr(self, w_name, w)
            setattr(self, b_name, b)
            self.params_of_parts.append((w, b))
        self.output_schema = schema.Scalar(
            (np.float32, (*dims[: axis - 1], output_dims)), self.get_next_blob_reference("output")
        )

    @staticmethod
    def calculate_fc_output_dims(max_fc_size, input_dim, output_dim):
        """Return the sizes of the parts of the output."""
        if not max_fc_size or max_fc_size < 0:
            return [output_dim]
        if max_fc_size < input_dim:
            raise AssertionError(
                "Currently we split along the output dimension. So we need max_fc_size >= input_dim. "
                f"But, max_fc_size: {max_fc_size}, input_dim: {input_dim}"
            )
        most = min(max_fc_size // input_dim, output_dim)
        full, rest = divmod(output_dim, most)
        return [most] * full + ([rest] if rest else [])

    def _insert_fc_ops(self, net, params, outputs, version):
        if version != "fp32":
            raise ValueError(f"unsupported FC type version {version}")
        add = net.FCTransposed if self.transposed else net.FC
        return add(self.input_record.field_blobs() + params, outputs, axis=self.axis, **self.kwargs)

    def _clipped(self, net, params):
        if self.clip_args is None:
            return params
        clipped = [net.NextScopedBlob(f"clipped_{param}") for param in params]
        for param, blob in zip(params, clipped):
            net.Clip([param], [blob], **self.clip_args)
        return clipped

    def _add_ops(self, net, params, version="fp32"):
        params = self._clipped(net, list(params))
        outputs = self.output_schema.field_blobs()
        if len(self.output_dim_vec) == 1:
            return self._insert_fc_ops(net, params, outputs, version)
        made = []
        for i in range(len(self.output_dim_vec)):
            made.append(net.NextScopedBlob(f"output_sub_{i}"))
            self._insert_fc_ops(net, params[2 * i : 2 * i + 2], [made[-1]], version)
        net.Concat(made, [*outputs, outputs[0] + "_concat_dims"])

    def add_ops(self, net):
        """With the parameters in the form that predictions use."""
        self._add_ops(net, self.param_blobs, get_fc_predictor_version("fp32"))

    def add_train_ops(self, net):
        self._add_ops(net, self.train_param_blobs)

    def get_fp16_compatible_parameters(self):
        return [w for w, _ in self.params_of_parts]

    @property
    def param_blobs(self):
        return [param for part in self.params_of_parts for param in part]
