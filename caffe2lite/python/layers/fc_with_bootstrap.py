"""Fully connected layers on bootstrap samples of the batch."""

from __future__ import annotations

import math

from caffe2lite.python import core, schema
from caffe2lite.python.layers.fc import get_fc_predictor_version  # noqa: F401 - scripts take it from here as well
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.layers.sampling_trainable_mixin import SamplingTrainableMixin


class FCWithBootstrap(SamplingTrainableMixin, ModelLayer):
    """`num_bootstrap` FC layers, each trained on rows drawn with replacement; outputs rows' numbers and predictions."""

    def __init__(
        self,
        model,
        input_record,
        output_dims,
        num_bootstrap,
        weight_init=None,
        bias_init=None,
        weight_optim=None,
        bias_optim=None,
        name="fc_with_bootstrap",
        weight_reg=None,
        bias_reg=None,
        clip_param=None,
        axis=1,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        dims = input_record.field_type().shape
        if not dims:
            raise AssertionError(f"FC expects limited dimensions of the input tensor, got {input_record!r}")
        if axis < 1:
            raise AssertionError(f"axis is at least 1, got {axis}")
        if clip_param is not None and len(clip_param) != 2:
            raise AssertionError(f"clip_param must be (min, max) of which one may be None, got {clip_param}")
        input_dims = math.prod(dims[axis - 1 :])
        self.axis = axis
        self.num_bootstrap = num_bootstrap
        self.clip_args = None
        if clip_param is not None:
            self.clip_args = {k: v for k, v in zip(("min", "max"), clip_param) if v is not None}
        scale = math.sqrt(1.0 / input_dims)
        uniform = ("UniformFill", {"min": -scale, "max": scale})
        self.bootstrapped_FCs = []
        outputs = []
        for i in range(num_bootstrap):
            prefix = f"bootstrap_iteration_{i}/"
            w = self.create_param(
                param_name=prefix + "w",
                shape=[output_dims, input_dims],
                initializer=weight_init or uniform,
                optimizer=weight_optim,
                regularizer=weight_reg,
            )
            b = self.create_param(
                param_name=prefix + "b",
                shape=[output_dims],
                initializer=bias_init or uniform,
                optimizer=bias_optim,
                regularizer=bias_reg,
            )
            self.bootstrapped_FCs.append((w, b))
            for part in ("indices", "preds"):
                outputs.append((prefix + part, self.get_next_blob_reference(prefix + part)))
        self.output_schema = schema.Struct(*((name, schema.Scalar(blob=blob)) for name, blob in outputs))

    def _blob(self, net, name, iteration=0):
        return net.NextScopedBlob(f"bootstrap_iteration_{iteration}/{name}")

    def _bounds(self, net):
        shape = net.Shape(self.input_record.field_blobs(), self._blob(net, "input_shape"))
        index = self._blob(net, "batch_size_index")
        net.GivenTensorInt64Fill([], index, shape=[1], values=[0])
        size = net.Gather([shape, index], self._blob(net, "batch_size"))
        lower = net.GivenTensorIntFill([], self._blob(net, "lower_bound"), shape=[1], values=[0])
        one = net.GivenTensorIntFill([], self._blob(net, "offset"), shape=[1], values=[1])
        as_int = net.Cast(size, self._blob(net, "int_batch_size"), to=core.DataType.INT32)
        return size, lower, net.Sub([as_int, one], self._blob(net, "upper_bound"))

    def _clipped(self, net, params):
        if self.clip_args is None:
            return list(params)
        return [net.Clip([p], [net.NextScopedBlob(f"clipped_{p}")], **self.clip_args) for p in params]

    def _add_ops(self, net, params, train=False):
        bounds = self._bounds(net)
        for i in range(self.num_bootstrap):
            indices, preds = self.output_schema.field_blobs()[2 * i : 2 * i + 2]
            net.UniformIntFill(list(bounds), indices, input_as_shape=1)
            features = self.input_record.field_blobs()
            if train:
                sampled = net.NextScopedBlob(f"bootstrapped_features_{i}")
                features = [net.Gather([*features, indices], sampled)]
            net.FC(features + self._clipped(net, params[2 * i : 2 * i + 2]), preds, axis=self.axis, **self.kwargs)

    def add_ops(self, net):
        """Predict on all rows."""
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net):
        self._add_ops(net, self.train_param_blobs, train=True)

    def get_fp16_compatible_parameters(self):
        return [w for w, _ in self.bootstrapped_FCs]

    @property
    def param_blobs(self):
        return [param for part in self.bootstrapped_FCs for param in part]
