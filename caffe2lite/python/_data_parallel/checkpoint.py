"""After a checkpoint was loaded: the first device's blobs for every device of every shard."""

from __future__ import annotations

import logging
import warnings

from caffe2lite.python import core, workspace
from caffe2lite.python._data_parallel.blobs import ComputeBlobsToSync, prefix_of, stripBlobName
from caffe2lite.python._data_parallel.setup import num_shards
from caffe2lite.python._data_parallel.synchronization import SyncAllParams

log = logging.getLogger("data_parallel_model")


def FinalizeAfterCheckpoint(model, blobs=None, cpu_mode=False):
    """Give every device of every shard what was loaded on the first device of shard 0.

    blobs: which to synchronize, named as on any device ("gpu_0/fc_w"), e.g. the parameters with their momentum;
    default all that the model initializes.  The first call builds a net; later calls run it again, with the blobs of
    the first call whatever they say (a warning tells when they say something else).
    """
    wanted = None if blobs is None else frozenset(stripBlobName(b) for b in blobs)
    if not hasattr(model, "_checkpoint_net"):
        if blobs is None:
            _, names = ComputeBlobsToSync(model)
        else:
            names = [stripBlobName(b) for b in blobs]
        log.info("Building the net that broadcasts the checkpoint")
        _build_checkpoint_net(model, names, cpu_mode)
        model._checkpoint_blobs = wanted
    else:
        _check_net(model, wanted)
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
    SyncAllParams(devices, model, init_net, net, model._rendezvous, names, max_concurrent_distributed_ops=1)
    if init_net:
        workspace.RunNetOnce(init_net)
    workspace.CreateNet(net)
    model._checkpoint_net = net


def _check_net(model, wanted):
    """Warn where a repeated call will not do what its caller may think."""
    if wanted != getattr(model, "_checkpoint_blobs", wanted):
        warnings.warn(
            "FinalizeAfterCheckpoint was called before with other blobs, and those are synchronized again: "
            "`del model._checkpoint_net` to synchronize others",
            RuntimeWarning,
            stacklevel=3,
        )
    name = model._checkpoint_net.Proto().name
    if name in workspace.C.nets():
        return
    if num_shards(model._rendezvous) > 1:
        raise RuntimeError(
            f"net {name!r} is gone, as after ResetWorkspace, and so are its common worlds: build the model anew "
            "(Parallelize, RunInitNet), then call FinalizeAfterCheckpoint"
        )
    warnings.warn(f"net {name!r} is gone, as after ResetWorkspace: it is created again", RuntimeWarning, stacklevel=3)
    workspace.CreateNet(model._checkpoint_net)
