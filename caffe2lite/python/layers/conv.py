"""A convolution."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class Conv(ModelLayer):
    """A convolution over images; paddings that are not given keep the size where stride is 1."""

    def __init__(
        self,
        model,
        input_record,
        output_dim,
        kernel_h,
        kernel_w,
        stride_h,
        stride_w,
        pad_b=None,
        pad_l=None,
        pad_r=None,
        pad_t=None,
        order="NHWC",
        kernel_init=None,
        bias_init=None,
        kernel_optim=None,
        bias_optim=None,
        name="conv",
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Conv takes a Scalar, got {input_record!r}")
        dims = input_record.field_type().shape
        if len(dims) != 3 or order not in ("NHWC", "NCHW"):
            raise AssertionError(f"Conv takes images in the order NHWC or NCHW, got {dims} in the order {order}")
        if stride_h < 1 or stride_w < 1:
            raise AssertionError(f"strides are at least 1, got {stride_h} and {stride_w}")
        channels = dims[2] if order == "NHWC" else dims[0]
        if not channels > 0:
            raise AssertionError(f"Conv needs to know its number of channels, got {channels}")

        def pad(given, size):
            return (size - 1) // 2 if given is None else given

        self.window = {
            "kernel_h": kernel_h,
            "kernel_w": kernel_w,
            "stride_h": stride_h,
            "stride_w": stride_w,
            "pad_t": pad(pad_t, kernel_h),
            "pad_b": pad(pad_b, kernel_h),
            "pad_l": pad(pad_l, kernel_w),
            "pad_r": pad(pad_r, kernel_w),
            "order": order,
        }
        area = [kernel_h, kernel_w]
        self.kernel = self.create_param(
            param_name="conv_kernel",
            shape=[output_dim, *area, channels] if order == "NHWC" else [output_dim, channels, *area],
            initializer=kernel_init or ("XavierFill", {}),
            optimizer=kernel_optim,
        )
        self.bias = self.create_param(
            param_name="conv_bias",
            shape=[output_dim],
            initializer=bias_init or ("ConstantFill", {"value": 0.0}),
            optimizer=bias_optim,
        )
        # The size of the output is not worked out: it has been the number of channels from the start.
        self.output_schema = schema.Scalar((np.float32, (output_dim,)), self.get_next_blob_reference("output"))

    def add_ops(self, net):
        net.Conv(
            self.input_record.field_blobs() + [self.kernel, self.bias], self.output_schema.field_blobs(), **self.window
        )
