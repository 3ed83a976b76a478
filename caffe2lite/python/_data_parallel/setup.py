"""The devices, shards and threads that a model is made for."""

from __future__ import annotations

import logging
from multiprocessing import cpu_count

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import model_helper, scope, workspace

log = logging.getLogger("data_parallel_model")
log.setLevel(logging.INFO)


def check_call(model):
    """Raise AssertionError unless `model` is a ModelHelper, and no GPU is in scope."""
    device = scope.CurrentDeviceScope()
    if device is not None and device.device_type != caffe2_pb2.CPU:
        raise AssertionError(f"Parallelize must be called without device-scope, device scope was: {device}")
    if not isinstance(model, model_helper.ModelHelper):
        raise AssertionError(f"Parallelize takes a ModelHelper, got {type(model).__name__}")


def num_shards(rendezvous):
    """Return how many shards train together."""
    return 1 if rendezvous is None else rendezvous["num_shards"]


def check_rendezvous(rendezvous):
    """Raise ValueError where the dict by which shards find each other lacks something, or cannot be."""
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
    """Note on the model which devices, of which kind, it is for; return them."""
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
    """Set type and number of threads of a net, with some more where collectives wait for other shards."""
    net.Proto().num_workers = len(devices) * num_threads_per_device + (0 if rendezvous is None else 8)
    net.Proto().type = net_type
    return net.Proto().num_workers
