"""What is read from, or made of, the nets of a data parallel model; and how one is set up."""

from __future__ import annotations

import copy
import logging
from multiprocessing import cpu_count

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, model_helper, scope, workspace
from caffe2lite.python._dpm_blobs import _ComputeBlobsToSync, prefix_of

log = logging.getLogger("data_parallel_model")


def check_call(model):
    device = scope.CurrentDeviceScope()
    assert device is None or device.device_type == caffe2_pb2.CPU, (
        f"Parallelize must be called without device-scope, device scope was: {device}"
    )
    assert isinstance(model, model_helper.ModelHelper), f"expected a ModelHelper, got {type(model).__name__}"


def num_shards(rendezvous):
    return 1 if rendezvous is None else rendezvous["num_shards"]


def check_rendezvous(rendezvous):
    """ValueError where the dict by which shards find each other lacks something, or cannot be."""
    if rendezvous is None:
        return
    missing = [k for k in ("kv_handler", "num_shards", "shard_id", "engine") if k not in rendezvous]
    if missing:
        raise ValueError(f"the rendezvous lacks {', '.join(missing)}: see caffe2lite.distributed.rendezvous()")
    if rendezvous["engine"] not in ("GLOO", "MPI", "NCCL"):
        raise ValueError(f"the rendezvous names the engine {rendezvous['engine']!r}; there are GLOO, MPI and NCCL")
    if not 0 <= rendezvous["shard_id"] < rendezvous["num_shards"]:
        raise ValueError(
            f"shard_id {rendezvous['shard_id']} is none of the {rendezvous['num_shards']} shards, which count from 0"
        )


def set_devices(model, devices, cpu_device, ideep, rendezvous, shared_model):
    """Notes on the model which devices of which kind it is for; returns them."""
    check_rendezvous(rendezvous)
    if ideep:
        model._device_type, model._device_prefix = caffe2_pb2.IDEEP, "ideep"
    elif cpu_device:
        model._device_type, model._device_prefix = caffe2_pb2.CPU, "cpu"
    else:
        model._device_type, model._device_prefix = workspace.GpuDeviceType, "gpu"
    on_gpus = not (cpu_device or ideep)
    if devices is None:
        devices = list(range(workspace.NumGpuDevices() if on_gpus else cpu_count()))
    if not len(devices):
        raise ValueError("no devices to parallelize on: there is no GPU, so pass devices=[…] or cpu_device=True")
    if on_gpus and max(devices) >= workspace.NumGpuDevices():
        log.warning("** Only %s GPUs available, GPUs %s requested", workspace.NumGpuDevices(), devices)
    model._devices = devices
    model._rendezvous = rendezvous
    model._shared_model = shared_model
    model._sync_barrier_net = None
    model._broadcast_context = None
    return devices


def set_workers(net, devices, num_threads_per_device, rendezvous, net_type):
    """Sets type and threads of a net, some more of them when collectives may wait for other shards."""
    net.Proto().num_workers = len(devices) * num_threads_per_device + (0 if rendezvous is None else 8)
    net.Proto().type = net_type
    return net.Proto().num_workers


def _AddGradientOperators(devices, model, losses_by_gpu):
    """Adds the backward pass, whose first gradients are made on the device of each loss."""
    loss_grads = {}
    for device in devices:
        with core.DeviceScope(core.DeviceOption(model._device_type, device)):
            for loss in losses_by_gpu[device]:
                loss_grads[str(loss)] = str(model.ConstantFill(loss, f"{loss}_grad", value=1.0))
    model.AddGradientOperators(loss_grads)


def GetLearningRateBlobNames(model):
    """Names of the learning rate blobs of the model's optimizer."""
    optimizer = model._optimizer
    if optimizer is None:
        return [op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"]
    if core.IsGPUDeviceType(model._device_type):
        return [optimizer.get_gpu_blob_name("lr", gpu, "") for gpu in model._devices]
    return [optimizer.get_cpu_blob_name("lr")]


def GetCheckpointParams(model):
    """What a checkpoint has to hold: all blobs of the first device that are synchronised, and the iteration."""
    first = prefix_of(model, model._devices[0])
    blobs, _ = _ComputeBlobsToSync(model)
    iterations = {
        op.output[0]
        for op in model.net.Proto().op
        if op.type in ("Iter", "AtomicIter") and not op.output[0].startswith(f"{model._device_prefix}_")
    }
    return {b for b in blobs if str(b).startswith(first)} | iterations


def ConvertNetForDevice(net, device=None):
    """A copy of a net for one device (default: that of the scope): blobs named below it, operators put on it."""
    if device is None:
        device = scope.CurrentDeviceScope()
    if device is None:
        raise ValueError("ConvertNetForDevice needs a device: pass one or call it in a DeviceScope")
    if core.IsGPUDeviceType(device.device_type):
        kind = "gpu"
    else:
        kind = "ideep" if device.device_type == caffe2_pb2.IDEEP else "cpu"
    prefix = f"{kind}_{device.device_id}{scope._NAMESCOPE_SEPARATOR}"
    converted = copy.deepcopy(net)
    proto = converted.Proto()

    def rename(names):
        names[:] = [prefix + name for name in names]

    for op in proto.op:
        if "RecurrentNetwork" in op.type:
            raise NotImplementedError(f"a {op.type} cannot be moved to another device: its step nets name their blobs themselves")
        rename(op.input)
        rename(op.output)
        rename(op.control_input)
        op.device_option.CopyFrom(device)
    rename(proto.external_input)
    rename(proto.external_output)
    return converted


def ExtractPredictorNet(model, inputs, outputs, device):
    """(net, parameters) that predict, taken from the first device of a test model; inputs and outputs without scope."""
    prefix = prefix_of(model, model._devices[0])
    return model_helper.ExtractPredictorNet(
        net_proto=model.net.Proto(),
        input_blobs=[prefix + str(b) for b in inputs],
        output_blobs=[prefix + str(b) for b in outputs],
        device=device,
        renames={prefix + str(b): str(b) for b in (*inputs, *outputs)},
    )
