"""A net in numbers: its operators by type and device, its blobs, its parameters, its work."""

from __future__ import annotations

import collections
import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from caffe2lite.engine.inference import infer_net, operator_cost_of
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2

_KINDS = {v: n.removeprefix("PROTO_").lower() for n, v in caffe2_pb2.DeviceTypeProto.items()}


class BlobUse(NamedTuple):
    """A blob: positions of the operators that make and take it, and its shape and type where they are known."""

    producers: list[int]
    consumers: list[int]
    spec: Spec | None

    @property
    def bytes(self) -> int | None:
        """Size, None where it is not known."""
        if self.spec is None or self.spec.dtype in (None, "object"):
            return None
        import numpy as np

        return math.prod(self.spec.shape) * np.dtype(self.spec.dtype).itemsize


class Summary(NamedTuple):
    """What is in a net."""

    name: str
    type: str
    operators: int
    by_type: dict[str, int]
    by_device: dict[str, int]
    blobs: dict[str, BlobUse]
    inputs: list[str]  # external inputs that no operator makes before they are used
    outputs: list[str]
    parameters: list[str]  # inputs that are weights of an operator, or its running averages
    flops: int | None  # of the operators whose cost is known


def device_name(option: caffe2_pb2.DeviceOption) -> str:
    """`cpu`, `gpu_1`, `node/cpu`, …"""
    kind = _KINDS.get(option.device_type, str(option.device_type))
    name = "cpu" if kind == "cpu" else f"{'gpu' if kind in ('cuda', 'hip') else kind}_{option.device_id}"
    return f"{option.node_name}/{name}" if option.node_name else name


def summarize(net: caffe2_pb2.NetDef, shapes: Mapping[str, Spec] | None = None) -> Summary:
    """Return the Summary of a NetDef; `shapes` of its inputs let the others be inferred."""
    known = infer_net([net], dict(shapes or {}))
    makers: dict[str, list[int]] = collections.defaultdict(list)
    takers: dict[str, list[int]] = collections.defaultdict(list)
    needed: dict[str, None] = {}
    for position, op in enumerate(net.op):
        for name in op.input:
            takers[name].append(position)
            if name not in makers:
                needed[name] = None
        for name in op.output:
            makers[name].append(position)
    names = dict.fromkeys([*net.external_input, *takers, *makers])
    costs = [operator_cost_of(op, known) for op in net.op]
    found = [c[0] for c in costs if c is not None]
    return Summary(
        name=net.name,
        type=net.type or "simple",
        operators=len(net.op),
        by_type=_counted(op.type for op in net.op),
        by_device=_counted(places(net)),
        blobs={n: BlobUse(makers.get(n, []), takers.get(n, []), known.get(n)) for n in names},
        inputs=list(needed),
        outputs=list(net.external_output) or [n for n in makers if n not in takers],
        parameters=[n for n in weights(net, _STORED) if n in needed],
        flops=sum(found) if found else None,
    )


def places(net: caffe2_pb2.NetDef) -> list[str]:
    """Return where each operator of a net runs, as device_name says it."""
    if not net.HasField("device_option"):
        return [device_name(op.device_option) for op in net.op]
    found = []
    for op in net.op:
        merged = caffe2_pb2.DeviceOption()
        merged.CopyFrom(net.device_option)
        merged.MergeFrom(op.device_option)  # as running does, field by field
        found.append(device_name(merged))
    return found


_WEIGHTS = frozenset(
    {"W", "w", "b", "beta", "bias", "filter", "gamma", "scale", "slope", "weight", "weights"}
)  # operands
_STORED = _WEIGHTS | {"mean", "var"}


def weights(net: caffe2_pb2.NetDef, operands: Collection[str] = _WEIGHTS) -> dict[str, tuple[int, str]]:
    """Return {blob: (position of the first operator that takes it as a weight, operand)}; gradients and updates aside."""
    found: dict[str, tuple[int, str]] = {}
    for position, op in enumerate(net.op):
        record = registry.get(op.type)
        if record is None or op.is_gradient_op or record.gradient is None or (0, 0) in record.enforced:
            continue
        for operand, name in zip(record.inputs, op.input):
            if operand in operands:
                found.setdefault(name, (position, operand))
    return found


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(collections.Counter(values).most_common())
