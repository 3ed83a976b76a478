"""Sharing of blobs in a NetDef: an output takes over a blob that is no longer needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import Any

from caffe2lite.engine.dependencies import ancestors
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.inference import operand_devices
from caffe2lite.engine.schema import OpSchema
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2


def _nested(net: caffe2_pb2.NetDef) -> set[str]:
    """Blobs that nets in arguments mention, other than those of recurrent networks, which are renamed along."""
    names: set[str] = set()
    for op in net.op:
        followed = _step_nets(op)
        for argument in op.arg:
            if argument.name in followed:
                continue
            inner = [*argument.nets, *([argument.n] if argument.HasField("n") else [])]
            for subnet in inner:
                for inner_op in subnet.op:
                    names.update(inner_op.input, inner_op.output)
                names |= _nested(subnet)
    return names


def _check_enforced_inplace(net: caffe2_pb2.NetDef) -> None:
    for op in net.op:
        schema = OpSchema.get(op.type)
        if schema is None:
            continue
        for i, blob in enumerate(op.input):
            for o, output in enumerate(op.output):
                if blob != output and schema.inplace_enforced(i, o):
                    raise EngineError(
                        f"{op.type} works in place: its input {blob!r} and output {output!r} must be one blob"
                    )


def _places(op: caffe2_pb2.OperatorDef) -> list[tuple[int, int]]:
    """Type and id of the device on which each output of an operator lives."""
    return [(option.device_type, option.device_id) for option in operand_devices(op)[1]]


def _step_nets(op: caffe2_pb2.OperatorDef) -> frozenset[str]:
    """The arguments of an operator with nets whose blobs are renamed along."""
    record = registry.get(op.type)
    return frozenset() if record is None else record.step_nets


@dataclass(frozen=True)
class _Group:
    """Blobs that share one storage."""

    place: tuple[int, int]  # type and id of the device
    touched_by: int  # the operators that read or write one of the blobs, as bits
    size: int  # elements of the largest, 0 where that is not known
    blobs: tuple[str, ...]
    name: str | None  # under which they share it; None: it gets a new one

    def with_blob(self, other: _Group) -> _Group:
        """The group with the other one's blobs."""
        return replace(
            self,
            touched_by=self.touched_by | other.touched_by,
            size=max(self.size, other.size),
            blobs=self.blobs + other.blobs,
        )


Name = str | bytes


def _text(name: Name) -> str:
    return name.decode("utf-8") if isinstance(name, bytes) else str(name)


def share_blobs(
    net: caffe2_pb2.NetDef,
    op_indices: Iterable[int],
    shareable: Iterable[Name],
    namescope: Name = "",
    dont_share: Iterable[Name] = (),
    shapes: Mapping[Name, Sequence[int]] | None = None,
) -> Any:
    """A copy of `net` in which outputs of the operators `op_indices` share blobs, safely even on parallel executors.

    Only blobs in `shareable` take part; those that other operators write can be taken over, and keep their name. A blob
    is taken over once every operator that touches it is sure to have run; of several, the one whose size comes nearest
    (with `shapes`), or that was shared most.
    """
    _check_enforced_inplace(net)
    chosen = set(op_indices)
    allowed = {_text(b) for b in shareable} - {_text(b) for b in dont_share} - _nested(net)
    before = ancestors(net)
    touched: dict[str, int] = {}  # blob -> the operators that touch it, as bits
    first: dict[str, int] = {}
    for i, op in enumerate(net.op):
        for blob in (*op.input, *op.output):
            touched[blob] = touched.get(blob, 0) | 1 << i
            first.setdefault(blob, i)
    sizes = {}
    for name, dims in (shapes or {}).items():
        size = 1
        for d in dims:
            size *= int(d)
        sizes[_text(name)] = size

    groups: list[_Group] = []
    for i, op in enumerate(net.op):
        places = dict(zip(op.output, _places(op)))
        for blob, place in places.items():
            if blob not in allowed or first[blob] != i:
                continue
            alone = _Group(place, touched[blob], sizes.get(blob, 0), (blob,), blob if i not in chosen else None)
            if i not in chosen:
                groups.append(alone)
            elif blob not in op.input:
                free = [g for g in groups if g.place == place and not g.touched_by & ~before[i]]
                if free and sizes:
                    taken = min(free, key=lambda g: abs(g.size - alone.size))
                elif free:
                    taken = max(free, key=lambda g: len(g.blobs))
                else:
                    groups.append(alone)
                    continue
                groups[groups.index(taken)] = taken.with_blob(alone)

    names: dict[str, str] = {}
    number = 0
    for group in groups:
        if len(group.blobs) > 1:
            shared = group.name
            if shared is None:
                shared = f"{_text(namescope)}__m{number}_shared"
                number += 1
            names.update(dict.fromkeys(group.blobs, shared))
    return _renamed(net, names)


def _renamed(net: caffe2_pb2.NetDef, names: Mapping[str, str]) -> Any:
    made = caffe2_pb2.NetDef()
    made.CopyFrom(net)
    _rename_operators(made, names)
    return made


def _rename(blobs: MutableSequence[str], names: Mapping[str, str]) -> None:
    for i, blob in enumerate(blobs):
        if blob in names:
            blobs[i] = names[blob]


def _rename_operators(net: caffe2_pb2.NetDef, names: Mapping[str, str]) -> None:
    for op in net.op:
        followed = _step_nets(op)
        for argument in op.arg:
            if argument.name in followed and argument.HasField("n"):
                _rename_operators(argument.n, names)
                _rename(argument.n.external_input, names)
                _rename(argument.n.external_output, names)
        _rename(op.input, names)
        _rename(op.output, names)


def share_in_order(net: caffe2_pb2.NetDef, static_blobs: Iterable[Name]) -> Any:
    """A copy of `net`, which runs in order, in which all blobs but `static_blobs` share storage where they can."""
    if net.type not in ("", "simple") or any(_step_nets(op) for op in net.op):
        return net
    static = {_text(b) for b in static_blobs}
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    made_here: set[str] = set()
    for i, op in enumerate(net.op):
        for blob in op.input:
            last[blob] = i
            first.setdefault(blob, i)
        for blob in op.output:
            last[blob] = i
            if blob not in first:
                made_here.add(blob)
            first.setdefault(blob, i)
    # What no operator reads is a result that somebody may fetch.
    read = {blob for op in net.op for blob in op.input}
    shareable = (made_here & read) - static - set(net.external_output) - _nested(net)
    names: dict[str, str] = {}
    free: list[str] = []
    storages = 0
    for i, op in enumerate(net.op):
        for blob in dict.fromkeys(op.output):
            if first[blob] == i and blob in shareable:
                if not free:
                    free.append(f"__m{storages}_shared")
                    storages += 1
                names[blob] = free.pop()
        done = dict.fromkeys(b for b in (*op.input, *op.output) if last[b] == i and b in shareable)
        free.extend(names[b] for b in done)
    return _renamed(net, names)
