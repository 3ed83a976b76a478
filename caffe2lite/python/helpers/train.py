"""Iteration counter, accuracy, weight decay."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, scope


def _get_weights(model, namescope=None):
    namescope = scope.CurrentNameScope() if namescope is None else namescope
    return [w for w in model.weights if namescope == "" or w.GetNameScope() == namescope]


def iter(model, blob_out, **kwargs):
    """Return an iteration counter, which starts at 0 and lives on the CPU."""
    kwargs.pop("device_option", None)
    model.param_init_net.ConstantFill(
        [],
        blob_out,
        shape=[1],
        value=0,
        dtype=core.DataType.INT64,
        device_option=core.DeviceOption(caffe2_pb2.CPU, 0),
        **kwargs,
    )
    return model.net.Iter(blob_out, blob_out, **kwargs)


def accuracy(model, blob_in, blob_out, **kwargs):
    """Share of right predictions, `blob_in` = [predictions, labels]; top_k > 1 is counted on the CPU."""
    device = kwargs["device_option"] if "device_option" in kwargs else scope.CurrentDeviceScope()
    on_cpu = device is None or device.device_type == caffe2_pb2.CPU
    if on_cpu or kwargs.get("top_k", 1) <= 1:
        model.net.Accuracy(blob_in, blob_out)
        return
    hosted = [model.net.CopyGPUToCPU(b, b + "_host") for b in blob_in[:2]]
    model.net.Accuracy(hosted, blob_out, device_option=core.DeviceOption(caffe2_pb2.CPU, 0), **kwargs)


def add_weight_decay(model, weight_decay):
    """Add weight_decay * w to the gradient of every weight w of the current scope."""
    if weight_decay <= 0.0:
        return
    decay = model.param_init_net.ConstantFill([], "wd", shape=[1], value=weight_decay)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for weight in _get_weights(model):
        grad = model.param_to_grad[weight]
        model.net.WeightedSum([grad, one, weight, decay], grad)
