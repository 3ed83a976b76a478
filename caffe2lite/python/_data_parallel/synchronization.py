"""Keeping devices in step, whether of one machine or of many shards."""

from __future__ import annotations

import logging

from caffe2lite.python import core
from caffe2lite.python._data_parallel.blobs import prefix_of
from caffe2lite.python._data_parallel.one_host import (
    AllReduceBlobsSingleHost,
    BroadcastComputedParamsSingleHost,
    SyncAllParamsSingleHost,
)
from caffe2lite.python._data_parallel.setup import num_shards
from caffe2lite.python._data_parallel.shards import (
    AllReduceBlobsDistributed,
    CreateBarrierNet,
    SyncAllParamsDistributed,
)

log = logging.getLogger("data_parallel_model")

DEFAULT_BARRIER_NET_TIMEOUT_SEC = 300


def SyncAllParams(devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops=4):
    """Add to `net` what gives every device the first device's blobs (of shard 0, where there are several)."""
    if num_shards(rendezvous) <= 1:
        SyncAllParamsSingleHost(devices, model, net, unique_param_names)
    else:
        SyncAllParamsDistributed(
            devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops
        )


def AllReduceBlobs(blob_names, devices, model, net, rendezvous, use_nccl, max_concurrent_distributed_ops):
    """Sum blobs over all devices of all shards."""
    if num_shards(rendezvous) <= 1:
        AllReduceBlobsSingleHost(blob_names, devices, model, net, use_nccl)
    else:
        AllReduceBlobsDistributed(blob_names, devices, model, net, rendezvous, max_concurrent_distributed_ops)


def BroadcastComputedParams(devices, model, rendezvous, use_nccl=False):
    """Keep computed parameters, as running means, those of the first device."""
    if rendezvous is None:
        BroadcastComputedParamsSingleHost(devices, model, use_nccl)
    else:
        BroadcastComputedParamsDistributed(devices, model, rendezvous, use_nccl)


def BroadcastComputedParamsDistributed(devices, model, rendezvous, use_nccl=False):
    """Keep computed parameters those of the first device, in each shard by itself."""
    BroadcastComputedParamsSingleHost(devices, model, use_nccl)
    log.warning("computed params are broadcast within each shard only")


def AddBlobSync(model, blobs, net=None):
    """Add to `net` (default: the training net) the synchronization of blobs, given without the device's scope."""
    for blob in blobs:
        if blob.startswith(model._device_prefix):
            raise AssertionError(f"Provide unprefixed blob name: {blob}")
        model._device_grouped_blobs[blob] = {d: core.BlobReference(prefix_of(model, d) + blob) for d in model._devices}
    net = model.net if net is None else net
    SyncAllParams(model._devices, model, model.param_init_net, net, model._rendezvous, set(blobs))


def AddBarrierToModelNets(model, barrier_net_timeout_sec):
    """Let shards wait for each other, longer than collectives do, before each `RunNet` (an epoch)."""
    if model._rendezvous is None or model._rendezvous["engine"] != "GLOO":
        return
    model._barrier_init_net = core.Net("barrier_init_net")
    model._barrier_net = CreateBarrierNet(model, model._barrier_init_net, "pre_training", barrier_net_timeout_sec)
    model._data_parallel_model_init_nets.insert(0, model._barrier_init_net)
    model._data_parallel_model_nets.insert(0, model._barrier_net)
