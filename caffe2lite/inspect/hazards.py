"""Operators of a net that may run in an order that nobody meant, as its graph does not keep them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from caffe2lite.engine.dependencies import ancestors
from caffe2lite.engine.runner import runs_in_order
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2


class Hazard(NamedTuple):
    """Two accesses to one storage, at least one a write, with nothing between them that keeps their order."""

    position: int | None
    blob: str
    message: str
    remedy: str


def of_net(net: caffe2_pb2.NetDef) -> Iterator[Hazard]:
    """In a net that runs as a graph: operators that reach one storage by two names."""
    if not _is_graph(net):
        return
    storage = _storages(net)
    if not storage:
        return
    before = ancestors(net)
    accesses: dict[str, list[tuple[int, str, bool]]] = {}
    for position, op in enumerate(net.op):
        for name in dict.fromkeys([*op.input, *op.output]):
            if name in storage:
                accesses.setdefault(storage[name], []).append((position, name, name in op.output))
    for found in accesses.values():
        for (p, one, writes), (q, other, overwrites) in itertools.combinations(found, 2):
            if p != q and one != other and (writes or overwrites) and not before[q] >> p & 1:
                message = (
                    f"{net.op[q].type} {'writes' if overwrites else 'reads'} blob {other!r} and {net.op[p].type} (operator {p}) "
                    f"{'writes' if writes else 'reads'} {one!r}, which is the same storage: a {net.type} net keeps no order "
                    f"between them"
                )
                yield Hazard(q, other, message, "use one name, a control input, or the net type simple")


def unordered(net: caffe2_pb2.NetDef) -> Iterator[Hazard]:
    """In a net that runs as a graph: users of one queue or common world that it keeps in no order, as they only read its blob."""
    if not _is_graph(net):
        return
    users: dict[str, list[int]] = {}
    for position, op in enumerate(net.op):
        if use_of(op):
            users.setdefault(op.input[0], []).append(position)
    if all(len(found) < 2 for found in users.values()):
        return
    before = ancestors(net)
    for shared, found in users.items():
        for p, q in itertools.pairwise(found):
            bad, remedy = _OUT_OF_ORDER.get((use_of(net.op[p]), use_of(net.op[q])), ("", ""))
            if bad and not before[q] >> p & 1:
                message = (
                    f"{net.op[p].type} (operator {p}) and {net.op[q].type} use {shared!r}, and a {net.type} net keeps no order "
                    f"between them: {bad}"
                )
                yield Hazard(q, shared, message, remedy)


_ONE, _FILL, _TAKE = "collective", "enqueue", "dequeue"
_USES = {
    "collective": _ONE,
    "enqueues": _FILL,
    "dequeues": _TAKE,
}  # those that are paired find each other by their tags
_OUT_OF_ORDER = {
    (_ONE, _ONE): (
        "another shard may start them the other way round, and both wait forever",
        "order them by control inputs, as data_parallel_model does, or give each a common world",
    ),
    (_FILL, _FILL): ("either may fill it first", "order them by a control input"),
    (_TAKE, _TAKE): ("each may get what was meant for the other", "order them by a control input"),
    (_TAKE, _FILL): (
        "the first waits for the second, which may have no thread to run on",
        "put them into nets of concurrent steps, or order them by a control input",
    ),
}


def use_of(op: caffe2_pb2.OperatorDef) -> str:
    """Return how an operator uses the object that its first input is: as a common world, as a queue to fill or to take from; or ""."""
    uses = (use for trait, use in _USES.items() if trait in registry.traits(op.type))
    return next(uses, "") if op.input else ""


def _is_graph(net: caffe2_pb2.NetDef) -> bool:
    return not runs_in_order(net)


def _storages(net: caffe2_pb2.NetDef) -> dict[str, str]:
    """Return {blob: one name for the storage that it shares}, of blobs with two names."""
    same: dict[str, str] = {}

    def root(name: str) -> str:
        while same.get(name, name) != name:
            name = same[name]
        return name

    for op in net.op:
        record = registry.get(op.type)
        for i, o in record.aliases if record is not None else ():
            if i < len(op.input) and o < len(op.output) and op.input[i] != op.output[o]:
                same.setdefault(op.input[i], op.input[i])
                same[root(op.output[o])] = root(op.input[i])
                same.setdefault(op.output[o], root(op.input[i]))
    return {name: root(name) for name in same}
