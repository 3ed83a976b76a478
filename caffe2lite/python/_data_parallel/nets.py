"""What is read from, or made of, the nets of a data parallel model."""

from __future__ import annotations

import copy

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, model_helper, scope
from caffe2lite.python._data_parallel.blobs import ComputeBlobsToSync, prefix_of


def AddGradientOperators(devices, model, losses_by_gpu):
    """Add the backward pass, whose first gradients are made on the device of each loss."""
    loss_grads = {}
    for device in devices:
        with core.DeviceScope(core.DeviceOption(model._device_type, device)):
            for loss in losses_by_gpu[device]:
                loss_grads[str(loss)] = str(model.ConstantFill(loss, f"{loss}_grad", value=1.0))
    model.AddGradientOperators(loss_grads)


def GetLearningRateBlobNames(model):
    """Return the names of the learning rate blobs of the model's optimizer."""
    optimizer = model._optimizer
    if optimizer is None:
        return [op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"]
    if core.IsGPUDeviceType(model._device_type):
        return [optimizer.get_gpu_blob_name("lr", gpu, "") for gpu in model._devices]
    return [optimizer.get_cpu_blob_name("lr")]


def GetCheckpointParams(model):
    """Return what a checkpoint has to hold: all blobs of the first device that are synchronized, and the iteration."""
    blobs, _ = ComputeBlobsToSync(model)
    first = f"{model._device_prefix}_{model._devices[0]}/"
    iterations = {
        op.output[0]
        for op in model.net.Proto().op
        if op.type in ("Iter", "AtomicIter") and not op.output[0].startswith(f"{model._device_prefix}_")
    }
    return {b for b in blobs if str(b).startswith(first)} | iterations


def ConvertNetForDevice(net, device=None):
    """Return a copy of a net for one device (default: that of the scope): blobs named below it, operators put on it."""
    if device is None:
        device = scope.CurrentDeviceScope()
    if device is None:
        raise ValueError("ConvertNetForDevice needs a device: pass one or call it in a DeviceScope")
    if core.IsGPUDeviceType(device.device_type):
        kind = "gpu"
    else:
        kind = "ideep" if device.device_type == caffe2_pb2.IDEEP else "cpu"
    prefix = f"{kind}_{device.device_id}{scope.NAMESCOPE_SEPARATOR}"
    converted = copy.deepcopy(net)
    proto = converted.Proto()

    def rename(names):
        names[:] = [prefix + name for name in names]

    for op in proto.op:
        if "RecurrentNetwork" in op.type:
            raise NotImplementedError(
                f"a {op.type} cannot be moved to another device: its step nets name their blobs themselves"
            )
        rename(op.input)
        rename(op.output)
        rename(op.control_input)
        op.device_option.CopyFrom(device)
    rename(proto.external_input)
    rename(proto.external_output)
    return converted


def ExtractPredictorNet(model, inputs, outputs, device):
    """Return (net, parameters) that predict, taken from the first device of a test model; inputs and outputs without scope."""
    prefix = prefix_of(model, model._devices[0])
    return model_helper.ExtractPredictorNet(
        net_proto=model.net.Proto(),
        input_blobs=[prefix + str(b) for b in inputs],
        output_blobs=[prefix + str(b) for b in outputs],
        device=device,
        renames={prefix + str(b): str(b) for b in (*inputs, *outputs)},
    )
