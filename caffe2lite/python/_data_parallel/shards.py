"""Data parallel training, between shards: common worlds and the collectives that keep shards in step."""

from __future__ import annotations

import logging

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace
from caffe2lite.python._data_parallel.one_host import Broadcast, on_blob_device
from caffe2lite.python._data_parallel.setup import num_shards

log = logging.getLogger("data_parallel_model")

DEFAULT_TIMEOUT_SEC = 30


def CreateOrCloneCommonWorld(net, common_world_blob, rendezvous, name=None, timeout_sec=None):
    """Return a new common world, cloned from one of the same timeout where `net` creates such a one."""
    timeout_ms = (DEFAULT_TIMEOUT_SEC if timeout_sec is None else timeout_sec) * 1000
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
        """Return (common world, what to wait for or None) of the collective that writes `control_output_blob`."""
        slot = self.counter % self.max_concurrent_context
        self.counter += 1
        if len(self.common_worlds) < self.max_concurrent_context:
            world = CreateOrCloneCommonWorld(self.param_init_net, f"{self.name}_{slot}_cw", rendezvous=self.rendezvous)
            self.common_worlds.append(world)
            self.control_inputs.append(control_output_blob)
            return world, None
        waits_for = self.control_inputs[slot]
        self.control_inputs[slot] = control_output_blob
        return self.common_worlds[slot], waits_for


def SyncAllParamsDistributed(
    devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops
):
    """Give every device of every shard the blobs of the first device of shard 0."""
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
        Broadcast(devices, model, net, name)


def AllReduceBlobsDistributed(blob_names, devices, model, net, rendezvous, max_concurrent_distributed_ops):
    """Sum blobs over all devices of all shards, in all of them."""
    workers = model.net.Proto().num_workers
    if workers <= 1:
        raise AssertionError(f"net {model.net.Name()} has {workers} worker, and all-reduce between shards needs more")
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
                f"the gradient {name} is sparse: sparse gradients are not synchronized between shards "
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
        Broadcast(devices, model, net, name)


def AddDistributedBlobSync(model, blobs):
    """Add to the training net the sum of blobs (full names) over the shards, not over devices."""
    if model._rendezvous is None:
        return
    world = CreateOrCloneCommonWorld(
        model.param_init_net, "blob_sync_cw_" + "_".join(str(b) for b in blobs), rendezvous=model._rendezvous
    )
    model.net.Allreduce(inputs=[world, *blobs], outputs=blobs, engine=model._rendezvous["engine"])


def CreateBarrierNet(model, init_net, name_prefix, timeout_sec):
    """Return a net of one Barrier; its common world is created by `init_net`."""
    log.info("Creating barrier net")
    engine = model._rendezvous["engine"]
    if engine != "GLOO":
        raise AssertionError(f"Engine {engine} does not support barrier, only GLOO does")
    world = CreateOrCloneCommonWorld(
        init_net, name_prefix + "_barrier_cw", rendezvous=model._rendezvous, timeout_sec=timeout_sec
    )
    net = core.Net(name_prefix + "_barrier_net")
    net.Barrier(inputs=[world], outputs=[], engine=engine)
    return net


def RunComparison(model, blob_name, device=None):
    """Return True if a blob has the same sum of squares on all shards, else AssertionError; all shards must call it."""
    rendezvous = model._rendezvous
    if device is None:
        device = model._blob_to_device[blob_name]
    if num_shards(rendezvous) == 1:
        return True
    shards, shard, engine = rendezvous["num_shards"], rendezvous["shard_id"], rendezvous["engine"]
    options = {k: rendezvous[k] for k in ("mpi_rendezvous",) if k in rendezvous}
    with core.DeviceScope(device):
        one_hot = np.zeros(shards, dtype=np.float32)
        one_hot[shard] = 1
        workspace.FeedBlob("compare_arr", one_hot)
        net = core.Net("allcompare_net")
        world = net.CreateCommonWorld(
            rendezvous["kv_handler"] or [],
            "initial_sync",
            name=net.Proto().name + ".cw_master_select",
            size=shards,
            rank=shard,
            engine=engine,
            **options,
        )
        checksum, gathered = blob_name + "_checksum", blob_name + "_gather"
        net.SumSqrElements([blob_name], [checksum], average=False)
        net.Mul(["compare_arr", checksum], gathered, broadcast=1)
        net.Allreduce(inputs=[world, gathered], outputs=[gathered], engine=engine)
        workspace.RunNetOnce(net)
    checksums = workspace.FetchBlob(gathered)
    for other in range(shards):
        if checksums[other] != checksums[0]:
            raise AssertionError(
                f"allcompare failed on shard {shard}: {blob_name} differs between shards 0 and {other}, their sums of "
                f"squares are {checksums[0]} and {checksums[other]}"
            )
    return True
