"""Whether shards agree, and whether a checkpoint's net still does what its caller may think."""

from __future__ import annotations

import warnings

import numpy as np

from caffe2lite.python import core, workspace
from caffe2lite.python._dpm_nets import num_shards


def _check_checkpoint_net(model, wanted):
    """Warns where a repeated call will not do what its caller may think."""
    if wanted != getattr(model, "_checkpoint_blobs", wanted):
        warnings.warn(
            "FinalizeAfterCheckpoint was called before with other blobs, and those are synchronised again: "
            "`del model._checkpoint_net` to synchronise others",
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


def _RunComparison(model, blob_name, device=None):
    """True if a blob has the same sum of squares on all shards, else AssertionError; all shards must call it."""
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
            rendezvous["kv_handler"] or [], "initial_sync", name=net.Proto().name + ".cw_master_select", size=shards,
            rank=shard, engine=engine, **options,
        )  # fmt: skip
        checksum, gathered = blob_name + "_checksum", blob_name + "_gather"
        net.SumSqrElements([blob_name], [checksum], average=False)
        net.Mul(["compare_arr", checksum], gathered, broadcast=1)
        net.Allreduce(inputs=[world, gathered], outputs=[gathered], engine=engine)
        workspace.RunNetOnce(net)
    checksums = workspace.FetchBlob(gathered)
    for other in range(shards):
        assert checksums[other] == checksums[0], (
            f"allcompare failed on shard {shard}: {blob_name} differs between shards 0 and {other}"
        )
    return True
