"""Scale and shift of each feature."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python.modeling.parameter_info import ParameterTags


def _elementwise_linear(model, op_call, blob_in, blob_out, dim, weight_init=None, bias_init=None, **kwargs):
    weight_init = weight_init or ("ConstantFill", {"value": 1.0})
    bias_init = bias_init or ("ConstantFill", {"value": 0.0})
    blob_out = blob_out or model.net.NextName()
    if model.init_params:
        weight = getattr(model.param_init_net, weight_init[0])([], blob_out + "_w", shape=[dim], **weight_init[1])
        bias = getattr(model.param_init_net, bias_init[0])([], blob_out + "_b", shape=[dim], **bias_init[1])
    else:
        weight = core.ScopedBlobReference(blob_out + "_w", model.param_init_net)
        bias = core.ScopedBlobReference(blob_out + "_b", model.param_init_net)
    model.AddParameter(weight, ParameterTags.WEIGHT)
    model.AddParameter(bias, ParameterTags.BIAS)
    return op_call([blob_in, weight, bias], blob_out, **kwargs)


def elementwise_linear(model, *args, **kwargs):
    """Y = X * w + b with w, b of length `dim`: (model, blob_in, blob_out, dim, weight_init, bias_init)."""
    return _elementwise_linear(model, model.net.ElementwiseLinear, *args, **kwargs)
