"""Synchronous SGD between all devices of all shards."""

from __future__ import annotations

import copy
import logging

from caffe2lite.python import core
from caffe2lite.python._data_parallel.batch_normalization import (
    CPUInterDeviceBatchNormalization,
    GPUInterDeviceBatchNormalization,
    InterleaveOps,
)
from caffe2lite.python._data_parallel.blobs import (
    AnalyzeOperators,
    ComputeBlobsToSync,
    GetReverseOrderedGrads,
    GroupByDevice,
    InferBlobDevice,
    ValidateParams,
    on_every_device,
)
from caffe2lite.python._data_parallel.memory import (
    AddDynamicMemoryOptimization,
    OptimizeGradientMemorySimple,
    PruneParametersForSharing,
    RemapParameterBlobsForSharedModel,
)
from caffe2lite.python._data_parallel.nets import AddGradientOperators
from caffe2lite.python._data_parallel.setup import check_call, num_shards, set_devices, set_workers
from caffe2lite.python._data_parallel.synchronization import (
    DEFAULT_BARRIER_NET_TIMEOUT_SEC,
    AddBarrierToModelNets,
    AllReduceBlobs,
    BroadcastComputedParams,
    SyncAllParams,
)

log = logging.getLogger("data_parallel_model")


def Parallelize(
    model_helper_obj,
    input_builder_fun,
    forward_pass_builder_fun,
    param_update_builder_fun=None,
    optimizer_builder_fun=None,
    post_sync_builder_fun=None,
    pre_grad_net_transformer_fun=None,
    net_transformer_fun=None,
    devices=None,
    rendezvous=None,
    net_type="dag",
    broadcast_computed_params=True,
    optimize_gradient_memory=False,
    dynamic_memory_management=False,
    blobs_to_keep=None,
    use_nccl=False,
    max_concurrent_distributed_ops=16,
    cpu_device=False,
    ideep=False,
    num_threads_per_device=4,
    shared_model=False,
    combine_spatial_bn=False,
    barrier_net_timeout_sec=DEFAULT_BARRIER_NET_TIMEOUT_SEC,
):
    """Build the model on every device, with synchronous SGD between all devices of all shards.

    input_builder_fun(model) and forward_pass_builder_fun(model, loss_scale) -> [losses] are called once a device, in
    its scope.  Either optimizer_builder_fun(model) is called once for all devices, or param_update_builder_fun(model)
    once a device; with neither the model is for testing.  post_sync_builder_fun(model) adds to each device's
    initialization what follows the first synchronization.  The transformer functions may rewrite the net before and
    after its gradients are added.

    shared_model: CPU devices share one set of parameters.  combine_spatial_bn: batch normalization over all devices.
    dynamic_memory_management: frees blobs after use, but for `blobs_to_keep`.
    """
    model = model_helper_obj
    check_call(model)
    _check_sharing(shared_model, cpu_device, ideep, rendezvous)
    if param_update_builder_fun is not None and optimizer_builder_fun is not None:
        raise AssertionError("give param_update_builder_fun or optimizer_builder_fun, not both")
    if optimize_gradient_memory and dynamic_memory_management:
        raise AssertionError("optimize_gradient_memory and dynamic_memory_management exclude each other")
    devices = set_devices(model, devices, cpu_device, ideep, rendezvous, shared_model)
    log.info("Parallelizing model for devices: %s", devices)
    num_workers = set_workers(model.net, devices, num_threads_per_device, rendezvous, net_type)
    trains = param_update_builder_fun is not None or optimizer_builder_fun is not None
    if not trains:
        _warn_of_initialization(model)
    before = copy.copy(model.params)  # these are of no device

    losses = _build_forward(model, before, input_builder_fun, forward_pass_builder_fun, trains)
    if pre_grad_net_transformer_fun:
        pre_grad_net_transformer_fun(model)
    if trains:
        log.info("Adding gradient operators")
        AddGradientOperators(devices, model, losses)
    if net_transformer_fun:
        net_transformer_fun(model, len(devices), model._device_prefix, model._device_type)
    if not trains:
        log.info("No parameter update: forward only")
        InferBlobDevice(model)
        return
    if combine_spatial_bn:
        InterleaveOps(model)
        (CPUInterDeviceBatchNormalization if cpu_device else GPUInterDeviceBatchNormalization)(model)

    _group_gradients(model, before, losses)
    if broadcast_computed_params:
        BroadcastComputedParams(devices, model, rendezvous, use_nccl)
    _sum_gradients(model, use_nccl, min(max_concurrent_distributed_ops, num_workers - 1))
    all_params = set(model.GetParams(""))
    _add_updates(model, param_update_builder_fun, optimizer_builder_fun)
    _synchronize_at_start(model, post_sync_builder_fun)
    if optimize_gradient_memory:
        OptimizeGradientMemorySimple(model, losses, devices)
    if dynamic_memory_management:
        AddDynamicMemoryOptimization(model, blobs_to_keep, devices)
    model._data_parallel_model_init_nets = [model.param_init_net]
    model._data_parallel_model_nets = [model.net]
    AddBarrierToModelNets(model, barrier_net_timeout_sec)
    if shared_model:
        RemapParameterBlobsForSharedModel(model, all_params)


def _check_sharing(shared_model, cpu_device, ideep, rendezvous):
    if not (cpu_device or ideep) and shared_model is not False:
        raise AssertionError(
            "shared_model=True works on the CPU only: use Parallelize_CPU, or give each GPU its parameters"
        )
    if ideep and shared_model and rendezvous is not None:
        raise AssertionError("shared_model=True works in one process only: leave out shared_model or rendezvous")


def _warn_of_initialization(model):
    if model.init_params:
        log.warning(
            "Model %s is used for testing/validation, but has init_params=True: running its param_init_net overwrites "
            "the trained parameters. Make it by ModelHelper(init_params=False).",
            model.name,
        )


def _build_forward(model, before, input_builder_fun, forward_pass_builder_fun, trains):
    """Build the forward pass of every device, and group the parameters by device; return {device: losses}."""
    losses_by_gpu = {}
    loss_scale = 1.0 / (len(model._devices) * num_shards(model._rendezvous))

    def build(device):
        log.info("Model for %s : %s", model._device_prefix.upper(), device)
        input_builder_fun(model)
        losses = forward_pass_builder_fun(model, loss_scale)
        if trains:
            _check_losses(losses)
        losses_by_gpu[device] = losses

    on_every_device(model, build)
    ValidateParams(model.params)
    model._grad_names = []
    model._device_grouped_blobs = GroupByDevice(model, model._devices, model.params, before)
    computed = GroupByDevice(model, model._devices, model.GetComputedParams(""), [])
    model._device_grouped_blobs.update(computed)
    model._param_names = list(model._device_grouped_blobs)
    model._computed_param_names = list(computed)
    return losses_by_gpu


def _check_losses(losses):
    if not isinstance(losses, list):
        raise AssertionError(f"forward_pass_builder_fun returns the list of losses, got {losses!r}")
    for loss in losses:
        if not isinstance(loss, core.BlobReference):
            raise AssertionError(f"forward_pass_builder_fun returns losses that are blobs, got {loss!r}")


def _group_gradients(model, before, losses_by_gpu):
    """Note whose gradients are whose, and where every blob lives."""
    ValidateParams(model.params)
    gradients = [model.param_to_grad[p] for p in model.params if p in model.param_to_grad]
    of_no_device = [model.param_to_grad[p] for p in before if p in model.param_to_grad]
    grouped = GroupByDevice(model, model._devices, gradients, of_no_device)
    model._device_grouped_blobs.update(grouped)
    model._grad_names = list(grouped)
    model._losses_by_gpu = losses_by_gpu
    InferBlobDevice(model)


def _sum_gradients(model, use_nccl, max_concurrent_distributed_ops):
    if not model._grad_names:
        log.info("The model has no parameters")
        return
    names = GetReverseOrderedGrads(model)
    AllReduceBlobs(names, model._devices, model, model.net, model._rendezvous, use_nccl, max_concurrent_distributed_ops)


def _add_updates(model, param_update_builder_fun, optimizer_builder_fun):
    if model._shared_model:
        PruneParametersForSharing(model)
    if param_update_builder_fun is not None:
        on_every_device(model, lambda _: param_update_builder_fun(model))
    else:
        model._optimizer = optimizer_builder_fun(model)


def _synchronize_at_start(model, post_sync_builder_fun):
    """Let all devices begin with the first device's parameters, as a part of the initialization."""
    blobs, names = ComputeBlobsToSync(model)
    model._device_grouped_blobs.update(GroupByDevice(model, model._devices, blobs, []))
    InferBlobDevice(model)
    AnalyzeOperators(model)
    # The first run allocates and sets NCCL up: one worker, so that nothing of this happens at once.
    model.Proto().arg.add(name="first_iter_only_one_worker", i=1)
    net = model.param_init_net
    SyncAllParams(model._devices, model, net, net, model._rendezvous, names, max_concurrent_distributed_ops=1)
    if post_sync_builder_fun is not None:
        on_every_device(model, lambda _: post_sync_builder_fun(model))
