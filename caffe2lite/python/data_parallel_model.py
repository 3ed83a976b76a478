"""Data parallel training: one model, copied to the devices of one or many machines, kept in step.

Blobs of device d are named "gpu_d/…" (or "cpu_d/…"); `rendezvous` says how the machines (shards) find each other:
{"kv_handler": store blob, "num_shards": n, "shard_id": i, "engine": "GLOO" | "MPI" | "NCCL", …}.
"""

from __future__ import annotations

from caffe2lite.python import core, scope, workspace  # noqa: F401 - code written for this namespace names them
from caffe2lite.python._data_parallel import (
    batch_normalization,
    blobs,
    memory,
    nets,
    one_host,
    shards,
    synchronization,
)
from caffe2lite.python._data_parallel.blobs import stripBlobName
from caffe2lite.python._data_parallel.block_momentum import Parallelize_BMUF
from caffe2lite.python._data_parallel.checkpoint import FinalizeAfterCheckpoint
from caffe2lite.python._data_parallel.memory import OptimizeGradientMemory
from caffe2lite.python._data_parallel.nets import (
    ConvertNetForDevice,
    ExtractPredictorNet,
    GetCheckpointParams,
    GetLearningRateBlobNames,
)
from caffe2lite.python._data_parallel.running import CreateNet, RunInitNet, RunNet, RunWarmup, Synchronize
from caffe2lite.python._data_parallel.setup import log  # noqa: F401 - scripts set its level
from caffe2lite.python._data_parallel.shards import AddDistributedBlobSync, CollectivesConcurrencyControl
from caffe2lite.python._data_parallel.synchronization import AddBlobSync
from caffe2lite.python._data_parallel.synchronous import Parallelize

__all__ = [
    "AddBlobSync", "AddDistributedBlobSync", "CollectivesConcurrencyControl", "ConvertNetForDevice", "CreateNet",
    "ExtractPredictorNet", "FinalizeAfterCheckpoint", "GetCheckpointParams", "GetLearningRateBlobNames",
    "OptimizeGradientMemory", "Parallelize", "Parallelize_BMUF", "Parallelize_CPU", "Parallelize_CPU_BMUF",
    "Parallelize_GPU", "Parallelize_GPU_BMUF", "Parallelize_iDeep", "RunInitNet", "RunNet", "RunWarmup", "Synchronize",
    "stripBlobName",
]  # fmt: skip

# The private names of Caffe2's module, which scripts call here.
_DEFAULT_BARRIER_NET_TIMEOUT_SEC = synchronization.DEFAULT_BARRIER_NET_TIMEOUT_SEC
_DEFAULT_TIMEOUT_SEC = shards.DEFAULT_TIMEOUT_SEC
_AddBarrierToModelNets = synchronization.AddBarrierToModelNets
_AddDynamicMemoryOptimization = memory.AddDynamicMemoryOptimization
_AddGradientOperators = nets.AddGradientOperators
_AllReduce = one_host.AllReduce
_AllReduceBlobs = synchronization.AllReduceBlobs
_AllReduceBlobsDistributed = shards.AllReduceBlobsDistributed
_AllReduceBlobsSingleHost = one_host.AllReduceBlobsSingleHost
_AnalyzeOperators = blobs.AnalyzeOperators
_Broadcast = one_host.Broadcast
_BroadcastComputedParams = synchronization.BroadcastComputedParams
_BroadcastComputedParamsDistributed = synchronization.BroadcastComputedParamsDistributed
_BroadcastComputedParamsSingleHost = one_host.BroadcastComputedParamsSingleHost
_ComputeBlobsToSync = blobs.ComputeBlobsToSync
_CPUInterDeviceBatchNormalization = batch_normalization.CPUInterDeviceBatchNormalization
_CreateBarrierNet = shards.CreateBarrierNet
_CreateOrCloneCommonWorld = shards.CreateOrCloneCommonWorld
_ForEachDevice = blobs.ForEachDevice
_GetReverseOrderedGrads = blobs.GetReverseOrderedGrads
_GPUInterDeviceBatchNormalization = batch_normalization.GPUInterDeviceBatchNormalization
_GroupByDevice = blobs.GroupByDevice
_InferBlobDevice = blobs.InferBlobDevice
_InterleaveOps = batch_normalization.InterleaveOps
_IsGPUBlob = blobs.IsGPUBlob
_IsIDEEPBlob = blobs.IsIDEEPBlob
_OptimizeGradientMemorySimple = memory.OptimizeGradientMemorySimple
_PruneParametersForSharing = memory.PruneParametersForSharing
_RemapParameterBlobsForSharedModel = memory.RemapParameterBlobsForSharedModel
_RunComparison = shards.RunComparison
_SyncAllParams = synchronization.SyncAllParams
_SyncAllParamsDistributed = shards.SyncAllParamsDistributed
_SyncAllParamsSingleHost = one_host.SyncAllParamsSingleHost
_ValidateParams = blobs.ValidateParams


def Parallelize_GPU(*args, **kwargs):
    """`Parallelize` on GPUs."""
    kwargs["cpu_device"] = False
    Parallelize(*args, **kwargs)


def Parallelize_CPU(*args, **kwargs):
    """`Parallelize` on CPU devices."""
    kwargs["cpu_device"] = True
    Parallelize(*args, **kwargs)


def Parallelize_iDeep(*args, **kwargs):
    """`Parallelize` on iDeep devices."""
    kwargs["ideep"] = True
    Parallelize(*args, **kwargs)


def Parallelize_GPU_BMUF(*args, **kwargs):
    """`Parallelize_BMUF` on GPUs."""
    kwargs["cpu_device"] = False
    Parallelize_BMUF(*args, **kwargs)


def Parallelize_CPU_BMUF(*args, **kwargs):
    """`Parallelize_BMUF` on CPU devices."""
    kwargs["cpu_device"] = True
    Parallelize_BMUF(*args, **kwargs)
