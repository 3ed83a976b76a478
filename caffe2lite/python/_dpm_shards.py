"""Data parallel training, between shards: common worlds and the collectives that keep shards in step."""

from __future__ import annotations

import logging

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core
from caffe2lite.python._dpm_local import _Broadcast, on_blob_device

log = logging.getLogger("data_parallel_model")

_DEFAULT_TIMEOUT_SEC = 30


def _CreateOrCloneCommonWorld(net, common_world_blob, rendezvous, name=None, timeout_sec=None):
    """A new common world, cloned from one of the same timeout where `net` creates such a one."""
    timeout_ms = (_DEFAULT_TIMEOUT_SEC if timeout_sec is None else timeout_sec) * 1000
    name = f"{common_world_blob}_op" if name is None else name
    engine = rendezvous["engine"]
    for op in net.Proto().op:
        if op.type == "CreateCommonWorld" and any(a.name == "timeout_ms" and a.i == timeout_ms for a in op.arg):
            return net.CloneCommonWorld([op.output[0]], common_world_blob, name=name, engine=engine)
    options = {k: rendezvous[k] for k in ("transport", "interface", "mpi_rendezvous") if k in rendezvous}
    return net.CreateCommonWorld(
        rendezvous["kv_handler"] or [],
        common_world_blob,
        name=name,
        size=rendezvous["num_shards"],
        rank=rendezvous["shard_id"],
        engine=engine,
        timeout_ms=timeout_ms,
        **options,
    )


class CollectivesConcurrencyControl:
    """Hands out common worlds in turn, so that at most `max_concurrent_context` collectives run at once.

    Collectives on one common world must run in the same order everywhere: each waits for the one before.
    """

    def __init__(self, name, max_concurrent_context, param_init_net, rendezvous):
        self.name = name
        self.param_init_net = param_init_net
        self.max_concurrent_context = max_concurrent_context
        self.counter = 0
        self.common_worlds = []
        self.control_inputs = []
        self.rendezvous = rendezvous

    def get_control_and_context(self, control_output_blob):
        """(common world, what to wait for or None) of the collective that writes `control_output_blob`."""
        slot = self.counter % self.max_concurrent_context
        self.counter += 1
        if len(self.common_worlds) < self.max_concurrent_context:
            world = _CreateOrCloneCommonWorld(self.param_init_net, f"{self.name}_{slot}_cw", rendezvous=self.rendezvous)
            self.common_worlds.append(world)
            self.control_inputs.append(control_output_blob)
            return world, None
        waits_for = self.control_inputs[slot]
        self.control_inputs[slot] = control_output_blob
        return self.common_worlds[slot], waits_for


def _SyncAllParamsDistributed(
    devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops
):
    assert rendezvous["num_shards"] > 1
    if model._broadcast_context is None:
        model._broadcast_context = CollectivesConcurrencyControl(
            "broadcast", max_concurrent_distributed_ops, init_net, rendezvous
        )

    def broadcast(name, blobs):
        world, waits_for = model._broadcast_context.get_control_and_context(blobs)
        net.Broadcast(
            inputs=[world, *blobs], outputs=blobs, name=name, engine=rendezvous["engine"], control_input=waits_for
        )

    for name in sorted(unique_param_names):
        group = model._device_grouped_blobs[name]
        where = on_blob_device(model, name, devices[0])
        if rendezvous["engine"] == "GLOO":
            with core.DeviceScope(where):
                broadcast(name, list(group.values()))
            continue
        master = group[devices[0]]
        with core.DeviceScope(where):
            on_cpu = net.CopyGPUToCPU(master, f"{master}cpu")
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            broadcast(name, [on_cpu])
        with core.DeviceScope(where):
            net.CopyCPUToGPU(on_cpu, master)
        _Broadcast(devices, model, net, name)


def _AllReduceBlobsDistributed(blob_names, devices, model, net, rendezvous, max_concurrent_distributed_ops):
    workers = model.net.Proto().num_workers
    assert workers > 1, f"net {model.net.Name()} has {workers} worker, and all-reduce between shards needs more"
    engine = rendezvous["engine"]
    master = core.DeviceOption(model._device_type, devices[0])
    context = CollectivesConcurrencyControl(
        "allreduce", max_concurrent_distributed_ops, model.param_init_net, rendezvous
    )

    def allreduce(name, blobs, **kwargs):
        world, waits_for = context.get_control_and_context(blobs[0])
        net.Allreduce(
            inputs=[world, *blobs], outputs=blobs, name=name, engine=engine, control_input=waits_for, **kwargs
        )

    last = None
    for name in blob_names:
        blobs = list(model._device_grouped_blobs[name].values())
        if isinstance(blobs[0], core.GradientSlice):
            raise TypeError(
                f"the gradient {name} is sparse: sparse gradients are not synchronised between shards "
                "(make the lookup dense, or use one shard)"
            )
        with core.DeviceScope(master):
            if engine == "GLOO":
                allreduce(name, blobs, gpu_direct=rendezvous.get("transport") == "ibverbs")
                continue
            # Within the machine by NCCL, between the machines on a copy of the first device's sum.
            reduced = f"{blobs[0]}_red"
            model.ConstantFill(blobs[0], reduced, value=0.0)
            net.NCCLAllreduce(blobs, blobs, control_input=last)
            last = blobs[0]
            net.Copy(blobs[0], reduced)
            allreduce(name, [reduced])
            net.Copy(reduced, blobs[0])
        _Broadcast(devices, model, net, name)


def AddDistributedBlobSync(model, blobs):
    """Adds to the training net the sum of blobs (full names) over the shards, not over devices."""
    if model._rendezvous is None:
        return
    world = _CreateOrCloneCommonWorld(
        model.param_init_net, "blob_sync_cw_" + "_".join(str(b) for b in blobs), rendezvous=model._rendezvous
    )
    model.net.Allreduce(inputs=[world, *blobs], outputs=blobs, engine=model._rendezvous["engine"])


def _CreateBarrierNet(model, init_net, name_prefix, timeout_sec):
    """A net of one Barrier; its common world is created by `init_net`."""
    log.info("Creating barrier net")
    engine = model._rendezvous["engine"]
    assert engine == "GLOO", f"Engine {engine} does not support barrier"
    world = _CreateOrCloneCommonWorld(
        init_net, name_prefix + "_barrier_cw", rendezvous=model._rendezvous, timeout_sec=timeout_sec
    )
    net = core.Net(name_prefix + "_barrier_net")
    net.Barrier(inputs=[world], outputs=[], engine=engine)
    return net
