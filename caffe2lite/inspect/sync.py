"""What a net that brings parameters to all devices does, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from caffe2lite.inspect.summary import BlobUse, device_name
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2


class Move(NamedTuple):
    """One parameter: from the blob `source` to the `targets` by an operator at a position of the net."""

    parameter: str
    source: str
    targets: list[str]
    by: str  # operator and engine
    world: str  # common world, "" within a process
    position: int


class Sync(NamedTuple):
    """A net that only moves parameters."""

    moves: list[Move]
    parameters: list[str]
    devices: list[str]  # scopes of the blobs: gpu_0, gpu_1, …
    worlds: list[str]
    chained: bool  # whether control inputs put the collectives in one order
    bytes_each: dict[str, int]  # by parameter, where shapes are known

    def explain(self, bandwidth: float | None = None) -> str:
        """Return the net in a few sentences; with a bandwidth in GB/s, how long a device takes to receive its bytes."""
        master = self.devices[0] if self.devices else "the first device"
        text = [
            f"This net synchronizes {len(self.parameters)} parameters over {len(self.devices)} devices "
            f"({', '.join(self.devices)}): each gets the values of {master}."
        ]
        if self.worlds:
            order = (
                "one after the other: each waits for the one before it by a control input"
                if self.chained
                else "in the order of the net"
            )
            text.append(
                f"Between shards it broadcasts from the root's (rank 0's) {master} over the common world"
                f"{'s' if len(self.worlds) > 1 else ''} {', '.join(self.worlds)}, {order}. All shards must run it together."
            )
        else:
            text.append("It stays within one process: no shards take part.")
        if self.bytes_each:
            total = sum(self.bytes_each.values())
            others = len(self.devices) - 1
            unknown = len(self.parameters) - len(self.bytes_each)
            least = "at least " if unknown else ""
            text.append(f"Each device receives {least}{total:,} bytes, {total * others:,} in all within a process.")
            if bandwidth is not None:
                text.append(
                    f"At {bandwidth:g} GB/s a device takes {least or 'about '}{total / bandwidth / 1e6:,.2f} ms."
                )
            if unknown:
                text.append(
                    f"The shapes of {unknown} parameters are not known: --input, or the init net before this one, tell them."
                )
        return " ".join(text)


def sync_of(net: caffe2_pb2.NetDef, shapes: Mapping[str, Spec] | None = None) -> Sync | None:
    """Return the Sync of a NetDef, None where it does anything else but move parameters."""
    moves: list[Move] = []
    staged: dict[str, str] = {}  # what a copy on the host is a copy of

    def parameter(blob: str) -> str:
        return _plain(staged.get(blob, blob))

    for position, op in enumerate(net.op):
        traits = registry.traits(op.type)
        if "to_all" in traits:
            inside = "among_gpus" in traits
            blobs = list(op.input) if inside else list(op.input[1:])
            if not blobs:
                return None
            world = "" if inside else op.input[0]
            by = f"{op.type} ({op.engine})" if op.engine else op.type
            moves.append(Move(parameter(blobs[0]), blobs[0], blobs[1:], by, world, position))
        elif "copy" in traits and len(op.input) == len(op.output) == 1:
            if _to_host(op) and op.output[0].startswith(op.input[0]):
                staged[op.output[0]] = staged.get(op.input[0], op.input[0])
            if parameter(op.input[0]) != parameter(op.output[0]) and _plain(op.input[0]) != _plain(op.output[0]):
                return None
            at = device_name(op.device_option)
            moves.append(Move(parameter(op.input[0]), op.input[0], [op.output[0]], f"{op.type} on {at}", "", position))
        elif traits.isdisjoint(("common_world", "store")):
            return None
    if not moves:
        return None
    devices = dict.fromkeys(scope_of(b) for m in moves for b in (m.source, *m.targets))
    collectives = [op for op in net.op if "to_all" in registry.traits(op.type)]
    sizes = {}
    for move in moves:
        spec = (shapes or {}).get(move.source)
        size = BlobUse([], [], spec).bytes
        if size is not None:
            sizes[move.parameter] = size
    return Sync(
        moves=moves,
        parameters=list(dict.fromkeys(m.parameter for m in moves)),
        devices=sorted(devices, key=lambda d: (len(d), d)),
        worlds=list(dict.fromkeys(m.world for m in moves if m.world)),
        chained=len(collectives) > 1 and all(op.control_input for op in collectives),
        bytes_each=sizes,
    )


def _to_host(op: caffe2_pb2.OperatorDef) -> bool:
    """Return whether an operator puts its output into host memory, wherever it runs."""
    record = registry.find(op.type)
    return not record.host.isdisjoint(record.outputs)


def _plain(blob: str) -> str:
    return blob.partition("/")[2] or blob


def scope_of(blob: str) -> str:
    """Return the device that a blob's name says: gpu_0 of gpu_0/fc_w."""
    head, slash, _ = blob.partition("/")
    return head if slash else "(no scope)"
