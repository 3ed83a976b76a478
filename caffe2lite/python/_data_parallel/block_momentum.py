"""Block momentum (BMUF): how the averaged models of all devices move the global model.

With the average a of the local models, the global model g, the velocity v, the learning rate r and the momentum m:
v = m * v + r * (a - g), then g = g + v, and with Nesterov's momentum g = g + v - m * (v - previous v).
"""

from __future__ import annotations

import copy

from caffe2lite.python import core
from caffe2lite.python._data_parallel.blobs import GroupByDevice, InferBlobDevice, ValidateParams, on_every_device
from caffe2lite.python._data_parallel.memory import OptimizeGradientMemorySimple
from caffe2lite.python._data_parallel.nets import AddGradientOperators
from caffe2lite.python._data_parallel.setup import check_call, num_shards, set_devices, set_workers
from caffe2lite.python._data_parallel.synchronization import (
    DEFAULT_BARRIER_NET_TIMEOUT_SEC,
    AddBarrierToModelNets,
    AddBlobSync,
    AllReduceBlobs,
    SyncAllParams,
)


def Parallelize_BMUF(
    model_helper_obj,
    input_builder_fun,
    forward_pass_builder_fun,
    param_update_builder_fun,
    block_learning_rate=1.0,
    block_momentum=None,
    devices=None,
    rendezvous=None,
    net_type="dag",
    master_device=None,
    use_nccl=False,
    nesterov=False,
    optimize_gradient_memory=False,
    reset_momentum_sgd=False,
    warmup_iterations=None,
    max_concurrent_distributed_ops=4,
    add_blobs_to_sync=None,
    num_threads_per_device=4,
    cpu_device=False,
    barrier_net_timeout_sec=DEFAULT_BARRIER_NET_TIMEOUT_SEC,
):
    """Build the model on every device, each trained by itself for a while and then averaged with block momentum.

    `RunInitNet`, with `warmup_iterations` `RunWarmup`, then `RunNet(model, n)` again and again: n local steps each,
    followed by one update of the global model (Chen and Huo 2016).  block_momentum: default 1 - 1 / all devices.
    """
    model = model_helper_obj
    check_call(model)
    devices = set_devices(model, devices, cpu_device, False, rendezvous, False)
    num_devices = len(devices) * num_shards(rendezvous)
    if block_momentum is None:
        block_momentum = 1.0 - 1.0 / num_devices

    def with_workers(net):
        set_workers(net, devices, num_threads_per_device, rendezvous, net_type)
        return net

    with_workers(model.net)
    max_concurrent_distributed_ops = min(max_concurrent_distributed_ops, model.net.Proto().num_workers - 1)
    model._global_model_init_net = with_workers(core.Net("global_model_init"))
    model._global_model_param_updates_net = updates = with_workers(core.Net("global_model"))
    _build_local_models(model, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun, num_devices)

    def synchronize(net):
        names = model._param_names
        SyncAllParams(devices, model, model.param_init_net, net, rendezvous, names, max_concurrent_distributed_ops)

    master_device = devices[0] if master_device is None else master_device
    master = core.DeviceOption(model._device_type, master_device)
    params = [model._device_grouped_blobs[name][master_device] for name in model._param_names]
    if warmup_iterations is not None:
        model._warmup_iterations = warmup_iterations
        model._warmup_broadcast = with_workers(core.Net("warmup-broadcast"))
        synchronize(model._warmup_broadcast)
        with core.DeviceScope(master):
            for param in params:
                model._warmup_broadcast.Copy(param, _global_copy(param))
    with core.DeviceScope(master):
        for param in params:
            _add_init(model._global_model_init_net, param, nesterov)
    AllReduceBlobs(model._param_names, devices, model, updates, rendezvous, use_nccl, max_concurrent_distributed_ops)
    with core.DeviceScope(master):
        for param in params:
            _add_update(updates, param, num_devices, block_learning_rate, block_momentum, nesterov)
    synchronize(updates)
    if add_blobs_to_sync is not None:
        AddBlobSync(model, add_blobs_to_sync, net=updates)
    if reset_momentum_sgd:
        _add_momentum_reset(model.net, updates)
    if optimize_gradient_memory:
        OptimizeGradientMemorySimple(model, model._losses_by_gpu, devices)
    model._data_parallel_model_init_nets = [model.param_init_net, model._global_model_init_net]
    model._data_parallel_model_nets = [model.net, (updates, 1)]
    AddBarrierToModelNets(model, barrier_net_timeout_sec)


def _build_local_models(model, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun, num_devices):
    """Build the model of every device with its own updates, and group the parameters by device."""
    before = copy.copy(model.params)
    model._losses_by_gpu = {}

    def build(device):
        input_builder_fun(model)
        model._losses_by_gpu[device] = forward_pass_builder_fun(model, 1.0 / num_devices)

    on_every_device(model, build)
    ValidateParams(model.params)
    model._device_grouped_blobs = GroupByDevice(model, model._devices, model.params, before)
    model._param_names = list(model._device_grouped_blobs)
    AddGradientOperators(model._devices, model, model._losses_by_gpu)
    ValidateParams(model.params)
    InferBlobDevice(model)
    on_every_device(model, lambda _: param_update_builder_fun(model))


def _velocity(param):
    return f"{param}_v"


def _global_copy(param):
    return f"{param}_g"


def _previous_velocity(param):
    return f"{param}_prev"


def _add_init(net, param, nesterov):
    """Start the global model as the local one of the master device, at rest."""
    net.ConstantFill(param, _velocity(param), value=0.0)
    net.Copy(param, _global_copy(param))
    if nesterov:
        net.ConstantFill(param, _previous_velocity(param), value=0.0)


def _add_update(net, param, num_devices, learning_rate, momentum, nesterov):
    """Turn `param`, the sum of all local models, into the new global model."""
    v, g, previous = _velocity(param), _global_copy(param), _previous_velocity(param)
    net.Scale(param, param, scale=1.0 / num_devices)
    net.Sub([param, g], param)
    net.Scale(param, param, scale=learning_rate)
    net.Scale(v, v, scale=momentum)
    net.Add([v, param], v)
    net.Add([g, v], g)
    if nesterov:
        net.Sub([v, previous], previous)
        net.Scale(previous, previous, scale=momentum)
        net.Sub([g, previous], g)
        net.Copy(v, previous)
    net.Copy(g, param)


def _add_momentum_reset(training_net, net):
    """Set the momentum blobs of all local updates to zero."""
    for op in training_net.Proto().op:
        if op.type == "MomentumSGDUpdate":
            momentum = op.input[1]
            net.ConstantFill([momentum], momentum, value=0.0, device_option=op.device_option)
