"""Simple model parallelism on top of data parallelism: activations that move to other GPUs, to balance memory."""

from __future__ import annotations

import logging

from caffe2lite.python import core
from caffe2lite.python._data_parallel.blobs import prefix_of, stripBlobName

log = logging.getLogger("data_parallel_model_utils")


def GetActivationBlobs(model):
    """Return names, without the device's scope, of the blobs that the first device makes and computes the gradient of."""
    prefix = prefix_of(model, model._devices[0])
    read = {blob for op in model.net.Proto().op for blob in op.input}
    params = {str(p) for p in model.GetParams("")}
    made = (blob for op in model.net.Proto().op for blob in op.output)
    return [
        stripBlobName(blob)
        for blob in dict.fromkeys(made)
        if blob.startswith(prefix)
        and not blob.endswith("_grad")
        and blob in read
        and f"{blob}_grad" in read
        and blob not in params
    ]


def ShiftActivationDevices(model, activations, shifts):
    """Move operators that handle `activations` (as of GetActivationBlobs) from device to device, with copies between.

    shifts: {from: to}, numbers of GPUs; the parameters and gradients of the operators move with them.
    """
    both = set(shifts) & set(shifts.values())
    if both:
        raise AssertionError(f"devices {sorted(both)} are to be moved from and to at once")
    for from_device, to_device in shifts.items():
        log.info("Shifting %d activations from %s to %s", len(activations), from_device, to_device)
        _shift(model, activations, from_device, to_device)
    model.param_init_net, devices = core.InjectCrossDeviceCopies(model.param_init_net)
    model.net, _ = core.InjectCrossDeviceCopies(model.net, devices)


def _shift(model, activations, from_device, to_device):
    """Spread the devices of the activations over the operators that use them and over their other blobs."""
    prefix = prefix_of(model, from_device)
    all_activations = {prefix + a for a in GetActivationBlobs(model)}
    device_of = dict.fromkeys(all_activations, from_device)
    device_of.update(dict.fromkeys((prefix + a for a in activations), to_device))
    for op in model.net.Proto().op:
        if op.device_option.device_id != from_device:
            continue
        device = None
        for blob in (*op.input, *op.output):
            if blob in device_of and (blob in all_activations or device is None):
                device = device_of[blob]
        if device is None:
            continue
        op.device_option.device_id = device
        for blob in (*op.input, *op.output):
            if blob.startswith(prefix):
                device_of.setdefault(blob, device)
    for op in model.param_init_net.Proto().op:
        if op.output and op.output[0] in device_of:
            op.device_option.device_id = device_of[op.output[0]]
