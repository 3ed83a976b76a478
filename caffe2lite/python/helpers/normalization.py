"""Normalizations and softmax."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import scope
from caffe2lite.python.modeling import initializers
from caffe2lite.python.modeling.parameter_info import ParameterTags


def _param(model, name, shape, tags, value, initializer=None):
    """Return a parameter that starts at one value, or that comes from outside when the model does not initialize."""
    if model.init_params:
        init = initializers.update_initializer(initializer, None, ("ConstantFill", {"value": value}))
    else:
        init = initializers.ExternalInitializer()
    return model.create_param(name, shape, init, tags=tags)


def lrn(model, blob_in, blob_out, order="NCHW", use_cudnn=False, **kwargs):
    """Local response normalization."""
    device = kwargs["device_option"] if "device_option" in kwargs else scope.CurrentDeviceScope()
    on_cpu = device is None or device.device_type == caffe2_pb2.CPU
    if use_cudnn and not on_cpu:
        kwargs["engine"] = "CUDNN"
        return model.net.LRN(blob_in, blob_out, order=order, **kwargs)
    return model.net.LRN(blob_in, [blob_out, "_" + blob_out + "_scale"], order=order, **kwargs)[0]


def softmax(model, blob_in, blob_out=None, use_cudnn=False, **kwargs):
    """Softmax."""
    if use_cudnn:
        kwargs["engine"] = "CUDNN"
    return model.net.Softmax(blob_in, *([] if blob_out is None else [blob_out]), **kwargs)


def instance_norm(model, blob_in, blob_out, dim_in, order="NCHW", **kwargs):
    """Normalization of each channel of each example, with scale OUT_s and bias OUT_b."""
    blob_out = blob_out or model.net.NextName()
    scale = model.param_init_net.ConstantFill([], blob_out + "_s", shape=[dim_in], value=1.0)
    bias = model.param_init_net.ConstantFill([], blob_out + "_b", shape=[dim_in], value=0.0)
    model.AddParameter(scale, ParameterTags.WEIGHT)
    model.AddParameter(bias, ParameterTags.BIAS)
    inputs = [blob_in, scale, bias]
    if kwargs.get("is_test"):
        return model.net.InstanceNorm(inputs, blob_out, order=order, **kwargs)
    return model.net.InstanceNorm(inputs, [blob_out, blob_out + "_sm", blob_out + "_siv"], order=order, **kwargs)[0]


def spatial_bn(
    model,
    blob_in,
    blob_out,
    dim_in,
    init_scale=1.0,
    init_bias=0.0,
    ScaleInitializer=None,
    BiasInitializer=None,
    RunningMeanInitializer=None,
    RunningVarianceInitializer=None,
    order="NCHW",
    **kwargs,
):
    """Batch normalization of each channel: OUT_s and OUT_b are trained, OUT_rm and OUT_riv follow the batches."""
    blob_out = blob_out or model.net.NextName()
    computed, shape = ParameterTags.COMPUTED_PARAM, [dim_in]
    scale = _param(model, blob_out + "_s", shape, ParameterTags.WEIGHT, init_scale, ScaleInitializer)
    bias = _param(model, blob_out + "_b", shape, ParameterTags.BIAS, init_bias, BiasInitializer)
    mean = _param(model, blob_out + "_rm", shape, computed, 0.0, RunningMeanInitializer)
    variance = _param(model, blob_out + "_riv", shape, computed, 1.0, RunningVarianceInitializer)
    inputs = [blob_in, scale, bias, mean, variance]
    if kwargs.get("is_test"):
        return model.net.SpatialBN(inputs, blob_out, order=order, **kwargs)
    outputs = [blob_out, mean, variance, blob_out + "_sm", blob_out + "_siv"]
    return model.net.SpatialBN(inputs, outputs, order=order, **kwargs)[0]


def spatial_gn(
    model,
    blob_in,
    blob_out,
    dim_in,
    init_scale=1.0,
    init_bias=0.0,
    ScaleInitializer=None,
    BiasInitializer=None,
    RunningMeanInitializer=None,
    RunningVarianceInitializer=None,
    order="NCHW",
    **kwargs,
):
    """Normalization of each of `group` groups of channels, with scale OUT_s and bias OUT_b."""
    blob_out = blob_out or model.net.NextName()
    scale = _param(model, blob_out + "_s", [dim_in], ParameterTags.WEIGHT, init_scale, ScaleInitializer)
    bias = _param(model, blob_out + "_b", [dim_in], ParameterTags.BIAS, init_bias, BiasInitializer)
    outputs = [blob_out, blob_out + "_mean", blob_out + "_std"]
    return model.net.GroupNorm([blob_in, scale, bias], outputs, **kwargs)[0]


def layer_norm(model, blob_in, blob_out, dim_in, axis=1, epsilon=1e-4, initial_scale=1.0, initial_bias=0.0):
    """Add a normalization of each example from `axis` on, with OUT_scale and OUT_bias; return (Y, mean, std)."""
    shape = [dim_in] if isinstance(dim_in, int) else dim_in
    made = [
        model.create_param(f"{blob_out}_{name}", shape, initializers.Initializer("ConstantFill", value=value), tags=tag)
        for name, value, tag in (
            ("scale", initial_scale, ParameterTags.WEIGHT),
            ("bias", initial_bias, ParameterTags.BIAS),
        )
    ]
    outputs = [blob_out, f"{blob_out}_mean", f"{blob_out}_std"]
    return model.net.LayerNorm([blob_in, *made], outputs, axis=axis, epsilon=epsilon, elementwise_affine=True)


def moments_with_running_stats(
    model,
    blob_in,
    blob_out,
    dim_in,
    RunningMeanInitializer=None,
    RunningVarianceInitializer=None,
    order="NCHW",
    **kwargs,
):
    """Mean OUT_sm and variance OUT_sv of each channel; makes the running OUT_rm and OUT_riv."""
    computed = ParameterTags.COMPUTED_PARAM
    _param(model, blob_out + "_rm", [dim_in], computed, 0.0, RunningMeanInitializer)
    _param(model, blob_out + "_riv", [dim_in], computed, 1.0, RunningVarianceInitializer)
    axes = [0, 2, 3] if order == "NCHW" else [0, 1, 2]
    outputs = [blob_out + "_sm", blob_out + "_sv"]
    return model.net.Moments([blob_in], outputs, axes=axes, order=order, keepdims=False, **kwargs)
