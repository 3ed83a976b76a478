"""Running the nets of a data parallel model."""

from __future__ import annotations

import logging
import warnings

from caffe2lite.python import core, workspace
from caffe2lite.python._data_parallel.setup import num_shards
from caffe2lite.python._data_parallel.shards import CreateBarrierNet
from caffe2lite.python._data_parallel.synchronization import DEFAULT_BARRIER_NET_TIMEOUT_SEC

log = logging.getLogger("data_parallel_model")


def CreateNet(model, overwrite=False):
    """Create the nets that `RunNet` runs."""
    for net in model._data_parallel_model_nets:
        workspace.CreateNet(net[0] if isinstance(net, tuple) else net, overwrite=overwrite)


def RunInitNet(model):
    """Initialize the parameters, and with them the common worlds, then create the nets."""
    for net in model._data_parallel_model_init_nets:
        workspace.RunNetOnce(net)
    CreateNet(model)


def RunWarmup(model):
    """Run the warm-up iterations of a BMUF model and give all devices the first one's parameters."""
    if not hasattr(model, "_warmup_iterations"):
        raise RuntimeError(
            f"RunWarmup is for models of Parallelize_BMUF with warmup_iterations, which {model.name!r} is not"
        )
    workspace.RunNet(model.net, model._warmup_iterations)
    workspace.RunNetOnce(model._warmup_broadcast)


def RunNet(model, num_iterations):
    """Wait for the other shards, then run `num_iterations` steps."""
    for net in model._data_parallel_model_nets:
        if isinstance(net, tuple):
            workspace.RunNet(net[0].Proto().name, net[1])
        else:
            workspace.RunNet(net.Proto().name, num_iterations)


def Synchronize(model, timeout_sec=DEFAULT_BARRIER_NET_TIMEOUT_SEC):
    """Wait until all shards have called it.  Deprecated: `RunNet` runs a barrier itself."""
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
        model._sync_barrier_net = CreateBarrierNet(model, init_net, "sync", timeout_sec)
        workspace.RunNetOnce(init_net)
        workspace.CreateNet(model._sync_barrier_net)
        model._sync_barrier_net_timeout = timeout_sec
    if model._sync_barrier_net_timeout != timeout_sec:
        raise AssertionError(f"Must use fixed timeout, {model._sync_barrier_net_timeout} != {timeout_sec}")
    log.info("Waiting for the other shards at the barrier")
    workspace.RunNet(model._sync_barrier_net)
