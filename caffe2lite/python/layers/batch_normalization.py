"""Batch normalization."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class BatchNormalization(ModelLayer):
    """Spatial batch normalization of vectors or images; statistics of the batch in training, else running ones."""

    def __init__(
        self,
        model,
        input_record,
        name="batch_normalization",
        scale_optim=None,
        bias_optim=None,
        momentum=0.9,
        order="NCHW",
        scale_init_value=1.0,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        self.input_shape = input_record.field_type().shape
        if len(self.input_shape) not in (1, 3):
            raise AssertionError(f"BatchNormalization takes records of shape (C,) or (C, H, W), got {self.input_shape}")
        if order not in ("NCHW", "NHWC"):
            raise AssertionError(f"order must be NCHW or NHWC, got {order}")
        channels = self.input_shape[0] if order == "NCHW" or len(self.input_shape) == 1 else self.input_shape[2]
        self.momentum = momentum
        self.order = order

        def number(param_name, value, optimizer):
            return self.create_param(
                param_name=param_name,
                shape=[channels],
                initializer=("ConstantFill", {"value": value}),
                optimizer=optimizer,
            )

        self.scale = number("scale", float(scale_init_value), scale_optim)
        self.bias = number("bias", 0.0, bias_optim)
        self.rm = number("running_mean", 0.0, model.NoOptim)
        self.riv = number("running_inv_var", 1.0, model.NoOptim)
        self.output_schema = schema.Scalar((np.float32, self.input_shape), self.get_next_blob_reference("output"))

    def _add_ops(self, net, is_test, out_blob=None):
        original = self.input_record.field_blobs()
        output = out_blob or self.output_schema.field_blobs()
        is_vector = len(self.input_shape) == 1
        inputs = net.ExpandDims(original, dims=[2, 3]) if is_vector else original[0]
        outputs = list(output)
        if not is_test:
            outputs += [self.rm, self.riv, *(net.NextScopedBlob(name) for name in ("bn_saved_mean", "bn_saved_iv"))]
        net.SpatialBN(
            [inputs, self.scale, self.bias, self.rm, self.riv],
            outputs,
            momentum=self.momentum,
            is_test=is_test,
            order=self.order,
        )
        if is_vector:
            net.Squeeze(output, output, dims=[2, 3])

    def add_train_ops(self, net):
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net):
        self._add_ops(net, is_test=True)

    def add_ops(self, net):
        self.add_eval_ops(net)
