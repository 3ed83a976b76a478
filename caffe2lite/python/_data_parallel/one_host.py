"""Sum and copies between the devices of one machine."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace
from caffe2lite.python._data_parallel.blobs import IsGPUBlob, IsIDEEPBlob, prefix_of

# With one of these numbers of devices gradients are summed up a tree; pairs are (into, from).
_SUM_TREES = {
    4: [(0, 1), (2, 3), (0, 2)],
    8: [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (4, 6), (0, 4)],
    16: [(i, i + s) for s in (1, 2, 4, 8) for i in range(0, 16, 2 * s)],
}


def on_blob_device(model, blob_name, device):
    """Return the DeviceOption that copies of a blob run on."""
    if IsGPUBlob(model, blob_name):
        return core.DeviceOption(workspace.GpuDeviceType, device)
    return core.DeviceOption(caffe2_pb2.IDEEP if IsIDEEPBlob(model, blob_name) else caffe2_pb2.CPU, 0)


def Broadcast(devices, model, net, param, use_nccl=False):
    """Copy a blob from the first device to the others."""
    group = model._device_grouped_blobs[param]
    master = devices[0]
    if use_nccl and IsGPUBlob(model, param):
        blobs = list(group.values())
        with core.DeviceScope(core.DeviceOption(model._device_type, master)):
            net.NCCLBroadcast(blobs, blobs, root=0)  # a rank: 0 is the first device, whichever it is
        return
    for device in devices[1:]:
        with core.DeviceScope(on_blob_device(model, param, device)):
            net.Copy(group[master], group[device])


def AllReduce(devices, model, net, param, use_nccl=False, control_input=None):
    """Sum a blob over the devices into each of them."""
    blobs = list(model._device_grouped_blobs[param].values())
    if use_nccl and model._device_type == caffe2_pb2.CUDA:
        net.NCCLAllreduce(blobs, blobs, control_input=control_input)
        return
    peers = workspace.GetGpuPeerAccessPattern() if model._device_type == workspace.GpuDeviceType else np.empty(0)

    def add_up(*which):
        on = [devices[i] for i in which]
        summands = [blobs[i] for i in which]
        with core.DeviceScope(core.DeviceOption(model._device_type, on[0])):
            for i, peer in enumerate(on[1:], 1):
                present = max(on[0], peer) < len(peers)  # a net may be made for more GPUs than there are here
                if peers.size and not (present and peers[on[0], peer]):
                    summands[i] = net.Copy(summands[i], f"{prefix_of(model, on[0])}{param}_gpu{peer}_copy")
            net.Sum(summands, [summands[0]], name="dpm")

    for which in _SUM_TREES.get(len(devices), [tuple(range(len(devices)))]):
        add_up(*which)
    Broadcast(devices, model, net, param)


def SyncAllParamsSingleHost(devices, model, net, unique_param_names):
    """Copy blobs from the first device to the others."""
    if isinstance(unique_param_names, (set, frozenset)):
        unique_param_names = sorted(unique_param_names)  # the same net in every process
    for param in unique_param_names:
        Broadcast(devices, model, net, param)


def AllReduceBlobsSingleHost(blob_names, devices, model, net, use_nccl):
    """Sum blobs over the devices into each of them; of sparse gradients, gather the rows."""
    if len(devices) == 1:
        return
    last = None  # NCCL's operators must not run at once: each waits for the one before
    gathered = set()
    for name in blob_names:
        group = model._device_grouped_blobs[name]
        blobs = list(group.values())
        if len(blobs) == 1:
            continue
        if len(blobs) != len(devices):
            raise AssertionError(f"Each GPU from {devices}, should have a copy of {name}, found {list(group)}")
        sparse = isinstance(blobs[0], core.GradientSlice)
        if IsGPUBlob(model, name):
            with core.DeviceScope(core.DeviceOption(model._device_type, devices[0])):
                if sparse:
                    _gather_slices(devices, model, net, name, gathered)
                else:
                    AllReduce(devices, model, net, name, use_nccl, last)
                    last = blobs[0]
            continue
        if sparse:
            raise AssertionError(f"parameter {name} has sparse gradients, which Parallelize_BMUF cannot synchronize")
        with core.DeviceScope(on_blob_device(model, name, 0)):
            net.Sum(blobs, [blobs[0]])
            if not model._shared_model:
                Broadcast(devices, model, net, name)


def _gather_slices(devices, model, net, name, gathered):
    """Give every device the rows of all; indices that several gradients share are gathered once."""
    group = model._device_grouped_blobs[name]
    prefix = prefix_of(model, devices[0]) + name

    def gather(part, suffix):
        blobs = [getattr(g, part) for g in group.values()]
        joined, _ = net.Concat(
            blobs,
            [f"{prefix}_{suffix}_concat", f"{prefix}_{suffix}_splitinfo"],
            axis=0,
            name="note:data_parallel_model",
        )
        for device, blob in zip(group, blobs):
            with core.DeviceScope(core.DeviceOption(model._device_type, device)):
                net.Copy(joined, blob)

    indices = {g.indices for g in group.values()}
    if not gathered & indices:
        gather("indices", "index")
        gathered |= indices
    gather("values", "val")


def BroadcastComputedParamsSingleHost(devices, model, use_nccl=False):
    """Keep computed parameters those of the first device."""
    if len(devices) == 1:
        return
    for name in model._computed_param_names:
        Broadcast(devices, model, model.net, name, use_nccl)
