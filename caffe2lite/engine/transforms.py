"""Named rewrites of nets, as `workspace.ApplyTransform` and the class Transformer take them."""

from __future__ import annotations

import time
from collections.abc import Callable

from caffe2lite.engine import fusion, subexpressions
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.runner import make_net, run_net_once
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

# Of the net alone, and of the net and the weights in a workspace.
OF_NETS: dict[str, Callable[[caffe2_pb2.NetDef], None]] = {
    "CommonSubexpressionElimination": subexpressions.eliminate,
    "AddNNPACK": fusion.add_nnpack,
    "ConvToNNPack": fusion.name_nnpack,
    "FuseNNPACKConvRelu": fusion.fuse_nnpack_conv_relu,
    "OptimizeForMKLDNN": fusion.optimize_for_mkldnn,
}
OF_WORKSPACES: dict[str, Callable[[caffe2_pb2.NetDef, Workspace], None]] = {"FuseConvBN": fusion.fuse_conv_bn}


def apply(key: str, net: caffe2_pb2.NetDef, workspace: Workspace | None = None) -> caffe2_pb2.NetDef:
    """The net as the transform leaves it, which with a workspace may change weights there; the given one stays as it is."""
    table = OF_NETS if workspace is None else OF_WORKSPACES
    if key not in table:
        raise EngineError(f"no transform {key!r} is registered; there are {', '.join(sorted(table))}")
    changed = caffe2_pb2.NetDef()
    changed.CopyFrom(net)
    if workspace is None:
        OF_NETS[key](changed)
    else:
        OF_WORKSPACES[key](changed, workspace)
    return changed


def apply_if_faster(
    key: str, net: caffe2_pb2.NetDef, init_net: caffe2_pb2.NetDef, warmup: int, runs: int, threshold: float
) -> caffe2_pb2.NetDef:
    """The transformed net where it runs `threshold` times faster after `init_net`, else the net itself."""
    changed = apply(key, net)
    before, after = (_seconds(n, init_net, warmup, runs) for n in (net, changed))
    return changed if before > threshold * after else net


def _seconds(net: caffe2_pb2.NetDef, init_net: caffe2_pb2.NetDef, warmup: int, runs: int) -> float:
    workspace = Workspace()
    run_net_once(workspace, init_net)
    made = make_net(net, workspace)
    for _ in range(max(1, warmup)):
        made.run()
    start = time.perf_counter()
    for _ in range(max(1, runs)):
        made.run()
    return time.perf_counter() - start
