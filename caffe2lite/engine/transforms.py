"""Named rewrites of nets, as `workspace.ApplyTransform` takes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.runner import make_net, run_net_once
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2

_transforms: dict[str, Callable[[Any], None]] = {}


def transform(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register a function that changes a NetDef under its own name."""
    _transforms[change.__name__] = change
    return change


@transform
def ConvToNNPack(net: Any) -> None:
    """Name the engine NNPACK on every convolution on the CPU."""
    for op in net.op:
        if op.type == "Conv" and op.device_option.device_type == caffe2_pb2.PROTO_CPU:
            op.engine = "NNPACK"


def exists(key: str) -> bool:
    """Whether there is a transform of that name."""
    return key in _transforms


def apply(key: str, net: Any) -> Any:
    """The net as the transform leaves it; the given one stays as it is."""
    if key not in _transforms:
        raise EngineError(f"no transform {key!r} is registered; there are {', '.join(sorted(_transforms))}")
    changed = caffe2_pb2.NetDef()
    changed.CopyFrom(net)
    _transforms[key](changed)
    return changed


def apply_if_faster(key: str, net: Any, init_net: Any, warmup: int, runs: int, threshold: float) -> Any:
    """The transformed net where it runs `threshold` times faster after `init_net`, else the net itself."""
    changed = apply(key, net)
    before, after = (_seconds(n, init_net, warmup, runs) for n in (net, changed))
    return changed if before > threshold * after else net


def _seconds(net: Any, init_net: Any, warmup: int, runs: int) -> float:
    workspace = Workspace()
    run_net_once(workspace, init_net)
    made = make_net(net, workspace)
    for _ in range(max(1, warmup)):
        made.run()
    start = time.perf_counter()
    for _ in range(max(1, runs)):
        made.run()
    return time.perf_counter() - start
