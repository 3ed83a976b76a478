"""Activations."""

from __future__ import annotations

from caffe2lite.python import core


def prelu(model, blob_in, blob_out, num_channels=1, slope_init=None, **kwargs):
    """PRelu with the parameter OUT_slope, 0.25 at first."""
    fill, fill_args = slope_init or ("ConstantFill", {"value": 0.25})
    if model.init_params:
        slope = getattr(model.param_init_net, fill)([], blob_out + "_slope", shape=[num_channels], **fill_args)
    else:
        slope = core.ScopedBlobReference(blob_out + "_slope", model.param_init_net)
    model.AddParameter(slope)
    return model.net.PRelu([blob_in, slope], [blob_out])


def relu(model, blob_in, blob_out, use_cudnn=False, order="NCHW", **kwargs):
    """max(X, 0)."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Relu(blob_in, blob_out, order=order, **kwargs)


def tanh(model, blob_in, blob_out, use_cudnn=False, order="NCHW", **kwargs):
    """tanh(X)."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Tanh(blob_in, blob_out, order=order, **kwargs)
