"""Data parallel training: one model, copied to the devices of one or many machines, kept in step.

Blobs of device d are named "gpu_d/…" (or "cpu_d/…"); `rendezvous` says how the machines (shards) find each other:
{"kv_handler": store blob, "num_shards": n, "shard_id": i, "engine": "GLOO" | "MPI" | "NCCL", …}.
"""

from __future__ import annotations

import copy
import logging
import warnings

from caffe2lite.python import (
    _dpm_bmuf,
    core,
    scope,  # noqa: F401 - code written for this namespace names it
    workspace,
)
from caffe2lite.python._dpm_batch_norm import (
    _CPUInterDeviceBatchNormalization,
    _GPUInterDeviceBatchNormalization,
    _InterleaveOps,
)
from caffe2lite.python._dpm_blobs import (
    _AnalyzeOperators,
    _ComputeBlobsToSync,
    _ForEachDevice,
    _GetReverseOrderedGrads,
    _GroupByDevice,
    _InferBlobDevice,
    _IsGPUBlob,  # noqa: F401 - this and the like below: scripts call them here
    _IsIDEEPBlob,  # noqa: F401
    _ValidateParams,
    prefix_of,
    stripBlobName,
)
from caffe2lite.python._dpm_checks import (
    _check_checkpoint_net,
    _RunComparison,  # noqa: F401
)
from caffe2lite.python._dpm_local import (
    _AllReduce,  # noqa: F401
    _AllReduceBlobsSingleHost,
    _Broadcast,  # noqa: F401
    _BroadcastComputedParamsSingleHost,
    _SyncAllParamsSingleHost,
)
from caffe2lite.python._dpm_memory import (
    OptimizeGradientMemory,
    _AddDynamicMemoryOptimization,
    _OptimizeGradientMemorySimple,
    _PruneParametersForSharing,
    _RemapParameterBlobsForSharedModel,
)
from caffe2lite.python._dpm_nets import (
    ConvertNetForDevice,
    ExtractPredictorNet,
    GetCheckpointParams,
    GetLearningRateBlobNames,
    _AddGradientOperators,
    check_call,
    num_shards,
    set_devices,
    set_workers,
)
from caffe2lite.python._dpm_shards import (
    _DEFAULT_TIMEOUT_SEC,  # noqa: F401
    AddDistributedBlobSync,
    CollectivesConcurrencyControl,
    _AllReduceBlobsDistributed,
    _CreateBarrierNet,
    _CreateOrCloneCommonWorld,  # noqa: F401
    _SyncAllParamsDistributed,
)

__all__ = [
    "AddBlobSync", "AddDistributedBlobSync", "CollectivesConcurrencyControl", "ConvertNetForDevice", "CreateNet",
    "ExtractPredictorNet", "FinalizeAfterCheckpoint", "GetCheckpointParams", "GetLearningRateBlobNames",
    "OptimizeGradientMemory", "Parallelize", "Parallelize_BMUF", "Parallelize_CPU", "Parallelize_CPU_BMUF",
    "Parallelize_GPU", "Parallelize_GPU_BMUF", "Parallelize_iDeep", "RunInitNet", "RunNet", "RunWarmup", "Synchronize",
    "stripBlobName",
]  # fmt: skip

log = logging.getLogger("data_parallel_model")
log.setLevel(logging.INFO)

_DEFAULT_BARRIER_NET_TIMEOUT_SEC = 300


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


def Parallelize(
    model_helper_obj, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun=None,
    optimizer_builder_fun=None, post_sync_builder_fun=None, pre_grad_net_transformer_fun=None, net_transformer_fun=None,
    devices=None, rendezvous=None, net_type="dag", broadcast_computed_params=True, optimize_gradient_memory=False,
    dynamic_memory_management=False, blobs_to_keep=None, use_nccl=False, max_concurrent_distributed_ops=16,
    cpu_device=False, ideep=False, num_threads_per_device=4, shared_model=False, combine_spatial_bn=False,
    barrier_net_timeout_sec=_DEFAULT_BARRIER_NET_TIMEOUT_SEC,
):  # fmt: skip
    """Builds the model on every device, with synchronous SGD between all devices of all shards.

    input_builder_fun(model) and forward_pass_builder_fun(model, loss_scale) -> [losses] are called once a device, in
    its scope.  Either optimizer_builder_fun(model) is called once for all devices, or param_update_builder_fun(model)
    once a device; with neither the model is for testing.  post_sync_builder_fun(model) adds to each device's
    initialisation what follows the first synchronisation.  The transformer functions may rewrite the net before and
    after its gradients are added.

    shared_model: CPU devices share one set of parameters.  combine_spatial_bn: batch normalization over all devices.
    dynamic_memory_management: frees blobs after use, but for `blobs_to_keep`.
    """
    check_call(model_helper_obj)
    model = model_helper_obj
    if not (cpu_device or ideep):
        assert shared_model is False, "shared_model=True works on the CPU only: use Parallelize_CPU, or give each GPU its parameters"
    if ideep and shared_model and rendezvous is not None:
        raise AssertionError("shared_model=True works in one process only: leave out shared_model or rendezvous")
    devices = set_devices(model, devices, cpu_device, ideep, rendezvous, shared_model)
    log.info("Parallelizing model for devices: %s", devices)
    num_workers = set_workers(model.net, devices, num_threads_per_device, rendezvous, net_type)
    max_concurrent_distributed_ops = min(max_concurrent_distributed_ops, num_workers - 1)
    model._grad_names = []
    on_every_device = {"device_type": model._device_type, "device_prefix": model._device_prefix, "scoped": True}

    assert param_update_builder_fun is None or optimizer_builder_fun is None, (
        "give param_update_builder_fun or optimizer_builder_fun, not both"
    )
    trains = param_update_builder_fun is not None or optimizer_builder_fun is not None
    if not trains and model.init_params:
        log.warning(
            "Model %s is used for testing/validation, but has init_params=True: running its param_init_net overwrites "
            "the trained parameters. Make it by ModelHelper(init_params=False).",
            model.name,
        )

    # Parameters that the model has already are of no device.
    before = copy.copy(model.params)
    losses_by_gpu = {}
    loss_scale = 1.0 / (len(devices) * num_shards(rendezvous))

    def build(device):
        log.info("Model for %s : %s", model._device_prefix.upper(), device)
        input_builder_fun(model)
        losses = forward_pass_builder_fun(model, loss_scale)
        if trains:
            assert isinstance(losses, list), f"forward_pass_builder_fun returns the list of losses, got {losses!r}"
            for loss in losses:
                assert isinstance(loss, core.BlobReference), f"a loss is a blob, got {loss!r}"
        losses_by_gpu[device] = losses

    _ForEachDevice(devices, build, **on_every_device)
    _ValidateParams(model.params)
    model._device_grouped_blobs = _GroupByDevice(model, devices, model.params, before)
    computed = _GroupByDevice(model, devices, model.GetComputedParams(""), [])
    model._device_grouped_blobs.update(computed)
    model._param_names = list(model._device_grouped_blobs)
    model._computed_param_names = list(computed)

    if pre_grad_net_transformer_fun:
        pre_grad_net_transformer_fun(model)
    if trains:
        log.info("Adding gradient operators")
        _AddGradientOperators(devices, model, losses_by_gpu)
    if net_transformer_fun:
        net_transformer_fun(model, len(devices), model._device_prefix, model._device_type)
    if not trains:
        log.info("No parameter update: forward only")
        _InferBlobDevice(model)
        return
    if combine_spatial_bn:
        _InterleaveOps(model)
        (_CPUInterDeviceBatchNormalization if cpu_device else _GPUInterDeviceBatchNormalization)(model)
    _ValidateParams(model.params)

    # Gradients
    grads = [model.param_to_grad[p] for p in model.params if p in model.param_to_grad]
    grads_of_no_device = [model.param_to_grad[p] for p in before if p in model.param_to_grad]
    grouped = _GroupByDevice(model, devices, grads, grads_of_no_device)
    model._device_grouped_blobs.update(grouped)
    model._grad_names = list(grouped)
    model._losses_by_gpu = losses_by_gpu
    _InferBlobDevice(model)
    if broadcast_computed_params:
        _BroadcastComputedParams(devices, model, rendezvous, use_nccl)
    if model._grad_names:
        _AllReduceBlobs(
            _GetReverseOrderedGrads(model), devices, model, model.net, rendezvous, use_nccl,
            max_concurrent_distributed_ops,
        )  # fmt: skip
    else:
        log.info("The model has no parameters")

    # Updates
    all_params = set(model.GetParams(""))
    if shared_model:
        _PruneParametersForSharing(model)
    if param_update_builder_fun is not None:
        _ForEachDevice(devices, lambda _: param_update_builder_fun(model), **on_every_device)
    else:
        model._optimizer = optimizer_builder_fun(model)

    # The first synchronisation
    sync_blobs, sync_names = _ComputeBlobsToSync(model)
    model._device_grouped_blobs.update(_GroupByDevice(model, devices, sync_blobs, []))
    _InferBlobDevice(model)
    _AnalyzeOperators(model)
    # The first run allocates and sets NCCL up: one worker, so that nothing of this happens at once.
    model.Proto().arg.add(name="first_iter_only_one_worker", i=1)
    _SyncAllParams(
        devices, model, model.param_init_net, model.param_init_net, rendezvous, sync_names,
        max_concurrent_distributed_ops=1,
    )  # fmt: skip
    if post_sync_builder_fun is not None:
        _ForEachDevice(devices, lambda _: post_sync_builder_fun(model), **on_every_device)

    assert not (optimize_gradient_memory and dynamic_memory_management), (
        "optimize_gradient_memory and dynamic_memory_management exclude each other"
    )
    if optimize_gradient_memory:
        _OptimizeGradientMemorySimple(model, losses_by_gpu, devices)
    if dynamic_memory_management:
        _AddDynamicMemoryOptimization(model, blobs_to_keep, devices)
    model._data_parallel_model_init_nets = [model.param_init_net]
    model._data_parallel_model_nets = [model.net]
    _AddBarrierToModelNets(model, barrier_net_timeout_sec)
    if shared_model:
        _RemapParameterBlobsForSharedModel(model, all_params)


def Parallelize_BMUF(
    model_helper_obj, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun, block_learning_rate=1.0,
    block_momentum=None, devices=None, rendezvous=None, net_type="dag", master_device=None, use_nccl=False,
    nesterov=False, optimize_gradient_memory=False, reset_momentum_sgd=False, warmup_iterations=None,
    max_concurrent_distributed_ops=4, add_blobs_to_sync=None, num_threads_per_device=4, cpu_device=False,
    barrier_net_timeout_sec=_DEFAULT_BARRIER_NET_TIMEOUT_SEC,
):  # fmt: skip
    """Builds the model on every device, each trained by itself for a while and then averaged with block momentum.

    `RunInitNet`, with `warmup_iterations` `RunWarmup`, then `RunNet(model, n)` again and again: n local steps each,
    followed by one update of the global model (Chen and Huo 2016).  block_momentum: default 1 - 1 / all devices.
    """
    check_call(model_helper_obj)
    model = model_helper_obj
    devices = set_devices(model, devices, cpu_device, False, rendezvous, False)
    master_device = devices[0] if master_device is None else master_device
    master = core.DeviceOption(model._device_type, master_device)
    num_workers = set_workers(model.net, devices, num_threads_per_device, rendezvous, net_type)
    max_concurrent_distributed_ops = min(max_concurrent_distributed_ops, num_workers - 1)
    on_every_device = {"device_type": model._device_type, "device_prefix": model._device_prefix, "scoped": True}
    num_devices = len(devices) * num_shards(rendezvous)
    if block_momentum is None:
        block_momentum = 1.0 - 1.0 / num_devices

    def new_net(name):
        net = core.Net(name)
        set_workers(net, devices, num_threads_per_device, rendezvous, net_type)
        return net

    model._global_model_init_net = new_net("global_model_init")
    model._global_model_param_updates_net = updates = new_net("global_model")

    before = copy.copy(model.params)
    model._losses_by_gpu = {}

    def build(device):
        input_builder_fun(model)
        model._losses_by_gpu[device] = forward_pass_builder_fun(model, 1.0 / num_devices)

    _ForEachDevice(devices, build, **on_every_device)
    _ValidateParams(model.params)
    model._device_grouped_blobs = _GroupByDevice(model, devices, model.params, before)
    names = model._param_names = list(model._device_grouped_blobs)
    _AddGradientOperators(devices, model, model._losses_by_gpu)
    _ValidateParams(model.params)
    _InferBlobDevice(model)
    _ForEachDevice(devices, lambda _: param_update_builder_fun(model), **on_every_device)

    def sync(net):
        _SyncAllParams(devices, model, model.param_init_net, net, rendezvous, names, max_concurrent_distributed_ops)

    params = [model._device_grouped_blobs[name][master_device] for name in names]
    if warmup_iterations is not None:
        model._warmup_iterations = warmup_iterations
        model._warmup_broadcast = new_net("warmup-broadcast")
        sync(model._warmup_broadcast)
        with core.DeviceScope(master):
            for param in params:
                model._warmup_broadcast.Copy(param, _dpm_bmuf.global_copy(param))
    with core.DeviceScope(master):
        for param in params:
            _dpm_bmuf.add_init(model._global_model_init_net, param, nesterov)
    _AllReduceBlobs(names, devices, model, updates, rendezvous, use_nccl, max_concurrent_distributed_ops)
    with core.DeviceScope(master):
        for param in params:
            _dpm_bmuf.add_update(updates, param, num_devices, block_learning_rate, block_momentum, nesterov)
    sync(updates)
    if add_blobs_to_sync is not None:
        AddBlobSync(model, add_blobs_to_sync, net=updates)
    if reset_momentum_sgd:
        _dpm_bmuf.add_momentum_reset(model.net, updates)
    if optimize_gradient_memory:
        _OptimizeGradientMemorySimple(model, model._losses_by_gpu, devices)
    model._data_parallel_model_init_nets = [model.param_init_net, model._global_model_init_net]
    model._data_parallel_model_nets = [model.net, (updates, 1)]
    _AddBarrierToModelNets(model, barrier_net_timeout_sec)


# Running


def CreateNet(model, overwrite=False):
    """Creates the nets that `RunNet` runs."""
    for net in model._data_parallel_model_nets:
        workspace.CreateNet(net[0] if isinstance(net, tuple) else net, overwrite=overwrite)


def RunInitNet(model):
    """Initialises the parameters, and with them the common worlds, then creates the nets."""
    for net in model._data_parallel_model_init_nets:
        workspace.RunNetOnce(net)
    CreateNet(model)


def RunWarmup(model):
    """Of a BMUF model: runs the warm-up iterations and gives all devices the first one's parameters."""
    if not hasattr(model, "_warmup_iterations"):
        raise RuntimeError("RunWarmup is for models of Parallelize_BMUF with warmup_iterations")
    workspace.RunNet(model.net, model._warmup_iterations)
    workspace.RunNetOnce(model._warmup_broadcast)


def RunNet(model, num_iterations):
    """Waits for the other shards, then runs `num_iterations` steps."""
    for net in model._data_parallel_model_nets:
        if isinstance(net, tuple):
            workspace.RunNet(net[0].Proto().name, net[1])
        else:
            workspace.RunNet(net.Proto().name, num_iterations)


def Synchronize(model, timeout_sec=_DEFAULT_BARRIER_NET_TIMEOUT_SEC):
    """Waits until all shards have called it.  Deprecated: `RunNet` runs a barrier itself."""
    warnings.warn(
        "Synchronize is deprecated: a barrier net runs before training, with the time limit barrier_net_timeout_sec "
        "of Parallelize.",
        category=DeprecationWarning,
        stacklevel=2,
    )
    if num_shards(model._rendezvous) <= 1:
        return
    if model._sync_barrier_net is None:
        init_net = core.Net("sync_barrier_init_net")
        model._sync_barrier_net = _CreateBarrierNet(model, init_net, "sync", timeout_sec)
        workspace.RunNetOnce(init_net)
        workspace.CreateNet(model._sync_barrier_net)
        model._sync_barrier_net_timeout = timeout_sec
    assert model._sync_barrier_net_timeout == timeout_sec, (
        f"Must use fixed timeout, {model._sync_barrier_net_timeout} != {timeout_sec}"
    )
    log.info("Waiting for the other shards at the barrier")
    workspace.RunNet(model._sync_barrier_net)


# Parameters and checkpoints


def FinalizeAfterCheckpoint(model, blobs=None, cpu_mode=False):
    """Gives every device of every shard what was loaded on the first device of shard 0.

    blobs: which to synchronise, named as on any device ("gpu_0/fc_w"), e.g. the parameters with their momentum;
    default all that the model initialises.  The first call builds a net; later calls run it again, with the blobs of
    the first call whatever they say (a warning tells when they say something else).
    """
    wanted = None if blobs is None else frozenset(stripBlobName(b) for b in blobs)
    if not hasattr(model, "_checkpoint_net"):
        if blobs is None:
            _, names = _ComputeBlobsToSync(model)
        else:
            names = [stripBlobName(b) for b in blobs]
        log.info("Building the net that broadcasts the checkpoint")
        _build_checkpoint_net(model, names, cpu_mode)
        model._checkpoint_blobs = wanted
    else:
        _check_checkpoint_net(model, wanted)
    log.info("Run checkpoint net")
    workspace.RunNet(model._checkpoint_net.Proto().name)


def _build_checkpoint_net(model, names, cpu_mode):
    devices = model.GetDevices()
    for name in names:
        if name not in model._device_grouped_blobs:  # not a parameter: momentum, say
            model._device_grouped_blobs[name] = {d: core.BlobReference(prefix_of(model, d) + name) for d in devices}
    net = core.Net("checkpoint_sync_net")
    init_net = core.Net("checkpoint_init_net") if num_shards(model._rendezvous) > 1 else None
    if not cpu_mode:
        net.RunAllOnGPU()
        if init_net:
            init_net.RunAllOnGPU()
    _SyncAllParams(devices, model, init_net, net, model._rendezvous, names, max_concurrent_distributed_ops=1)
    if init_net:
        workspace.RunNetOnce(init_net)
    workspace.CreateNet(net)
    model._checkpoint_net = net


def _SyncAllParams(devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops=4):
    """Adds to `net` what gives every device the first device's blobs (of shard 0, where there are several)."""
    if num_shards(rendezvous) <= 1:
        _SyncAllParamsSingleHost(devices, model, net, unique_param_names)
    else:
        _SyncAllParamsDistributed(
            devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops
        )


def _AllReduceBlobs(blob_names, devices, model, net, rendezvous, use_nccl, max_concurrent_distributed_ops):
    """Sums blobs over all devices of all shards."""
    if num_shards(rendezvous) <= 1:
        _AllReduceBlobsSingleHost(blob_names, devices, model, net, use_nccl)
    else:
        _AllReduceBlobsDistributed(blob_names, devices, model, net, rendezvous, max_concurrent_distributed_ops)


def _BroadcastComputedParams(devices, model, rendezvous, use_nccl=False):
    """Keeps computed parameters, as running means, those of the first device."""
    if rendezvous is None:
        _BroadcastComputedParamsSingleHost(devices, model, use_nccl)
    else:
        _BroadcastComputedParamsDistributed(devices, model, rendezvous, use_nccl)


def _BroadcastComputedParamsDistributed(devices, model, rendezvous, use_nccl=False):
    _BroadcastComputedParamsSingleHost(devices, model, use_nccl)
    log.warning("computed params are broadcast within each shard only")


def AddBlobSync(model, blobs, net=None):
    """Adds to `net` (default: the training net) the synchronisation of blobs, given without the device's scope."""
    for blob in blobs:
        assert not blob.startswith(model._device_prefix), f"Provide unprefixed blob name: {blob}"
        model._device_grouped_blobs[blob] = {d: core.BlobReference(prefix_of(model, d) + blob) for d in model._devices}
    net = model.net if net is None else net
    _SyncAllParams(model._devices, model, model.param_init_net, net, model._rendezvous, set(blobs))


def _AddBarrierToModelNets(model, barrier_net_timeout_sec):
    """Lets shards wait for each other, longer than collectives do, before each `RunNet` (an epoch)."""
    if model._rendezvous is None or model._rendezvous["engine"] != "GLOO":
        return
    model._barrier_init_net = core.Net("barrier_init_net")
    model._barrier_net = _CreateBarrierNet(model, model._barrier_init_net, "pre_training", barrier_net_timeout_sec)
    model._data_parallel_model_init_nets.insert(0, model._barrier_init_net)
    model._data_parallel_model_nets.insert(0, model._barrier_net)
