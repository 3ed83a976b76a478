"""Putting copies where a net reads a blob of another device."""

from __future__ import annotations

import copy

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._core.devices import (
    InferOpBlobDevices,
    InferOpDeviceAsBlobDevices,
    IsGPUDeviceType,
    device_equal,
)
from caffe2lite.python.scope import DeviceScope


def copy_func_between_devices(src, dst):
    """Return a function (net, *args) that adds the copy operator from `src` to `dst`; None where none is needed."""
    kinds = (src.device_type, dst.device_type)
    if kinds == (caffe2_pb2.CPU, caffe2_pb2.CPU):
        return None
    on_gpu = tuple(map(IsGPUDeviceType, kinds))
    if on_gpu == (True, True):
        if src.device_id == dst.device_id:
            return None
        place, op_type = dst, "Copy"
    elif on_gpu[0] and dst.device_type == caffe2_pb2.CPU:
        place, op_type = src, "CopyGPUToCPU"
    elif on_gpu[1] and src.device_type == caffe2_pb2.CPU:
        place, op_type = dst, "CopyCPUToGPU"
    else:
        raise ValueError(f"Non-supported devices: {src} and {dst}")

    def add_copy(net, *args, **kwargs):
        with DeviceScope(place):
            return getattr(net, op_type)(*args, **kwargs)

    return add_copy


class RemapEntry:
    """A blob on a device: the key under which a copied blob's new name is kept."""

    def __init__(self, blob, device):
        self.blob = blob
        self.device = device

    def __eq__(self, other):
        return isinstance(other, RemapEntry) and self.blob == other.blob and self.device == other.device

    def __hash__(self):
        return hash((self.blob, str(self.device)))


def update_placeholder_op_output(op, blob_to_device):
    """Rename, in place, outputs of a placeholder (which runs on the CPU) that are known on another device."""
    for i, output in enumerate(op.output):
        known = blob_to_device.get(output)
        if known is not None and known.device_type != caffe2_pb2.CPU:
            op.output[i] = output + "_cpu"


def _moved_name(blob, device):
    if device.device_type == caffe2_pb2.CPU:
        return blob + "_cpu"
    if IsGPUDeviceType(device.device_type):
        return f"{blob}_gpu_{device.device_id}"
    raise RuntimeError(f"Unknown device type: {device.device_type}")


def InjectCrossDeviceCopies(net, blob_to_device=None, blob_remap=None, placeHolderOps=None):
    """Return a clone of `net` with copies in front of operators that read a blob of another device.

    `blob_to_device` says where blobs are already (external inputs that are not in it: on the CPU), `blob_remap` which
    copies exist; both are extended. Operators whose type is in `placeHolderOps` have no schema: their blobs live on
    their own device. Return (net, blob_to_device).
    """
    new_net = net.Clone(net._net.name + "_cross_device", keep_schema=True)
    del new_net._net.op[:]
    blob_to_device = {} if blob_to_device is None else blob_to_device
    blob_remap = {} if blob_remap is None else blob_remap
    for op in net._net.op:
        is_placeholder = placeHolderOps is not None and op.type in placeHolderOps
        infer = InferOpDeviceAsBlobDevices if is_placeholder else InferOpBlobDevices
        input_devices, output_devices = infer(op)
        moved = {}
        for device, blob in zip(input_devices, op.input):
            if blob not in blob_to_device:
                if not net.is_external_input(blob):
                    raise AttributeError(f"No device information found for blob {blob}.")
                blob_to_device[blob] = caffe2_pb2.DeviceOption()
            if device_equal(blob_to_device[blob], device):
                continue
            entry = RemapEntry(blob, device)
            if entry not in blob_remap or not device_equal(blob_to_device[blob_remap[entry]], device):
                new_name = _moved_name(blob, device)
                copy_func_between_devices(blob_to_device[blob], device)(new_net, blob, new_name)
                blob_remap[entry] = new_name
                blob_to_device[new_name] = device
            moved[blob] = blob_remap[entry]

        new_op = copy.deepcopy(op)
        for i, blob in enumerate(new_op.input):
            new_op.input[i] = moved.get(blob, blob)
            if blob in moved and not new_net.BlobIsDefined(new_op.input[i]):
                new_net.AddExternalInput(new_op.input[i])
        if is_placeholder:
            update_placeholder_op_output(new_op, blob_to_device)
        for i, (device, blob) in enumerate(zip(output_devices, new_op.output)):
            if blob in moved:
                new_op.output[i] = moved[blob]
                continue
            known = blob_to_device.get(blob)
            if known is not None and blob not in op.input and not device_equal(known, device):
                raise RuntimeError(
                    f"In-place blob: {blob} is not supported between operators with different device option "
                    f"previous:{known} now: {device}. op:\n {op}"
                )
            blob_to_device[blob] = device
        new_net.extend_ops([new_op])
    return new_net, blob_to_device


def InjectDeviceCopiesAmongNets(nets, blob_to_device_init=None):
    """Apply InjectCrossDeviceCopies to nets that run one after the other; return (nets, blob_to_device)."""
    if not isinstance(nets, list) or not all(hasattr(net, "Proto") for net in nets):
        raise AssertionError(f"nets {nets} should be a list of nets.")
    blob_to_device = {} if blob_to_device_init is None else blob_to_device_init
    blob_remap = {}
    new_nets = []
    for net in nets:
        new_net, blob_to_device = InjectCrossDeviceCopies(net, blob_to_device, blob_remap)
        new_nets.append(new_net)
    return new_nets, blob_to_device


def InjectDeviceCopiesAmongNetsWithoutB2D(nets, blob_to_device_init=None):
    """InjectDeviceCopiesAmongNets, the nets only."""
    return InjectDeviceCopiesAmongNets(nets, blob_to_device_init)[0]
