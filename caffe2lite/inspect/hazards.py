"""Operators of a net that may run in an order that nobody meant, as its graph does not keep them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from caffe2lite.engine.graph import dependencies
from caffe2lite.engine.net import net_types
from caffe2lite.ops.kit import registry

IN_ORDER = {"", "simple", "simple_refcount", "async_simple", "singlethread_async"}


class Hazard(NamedTuple):
    """Two accesses to one storage, at least one a write, with nothing between them that keeps their order."""

    position: int | None
    blob: str
    message: str
    remedy: str


def of_net(net: Any) -> Iterator[Hazard]:
    """In a net that runs as a graph: operators that reach one storage by two names."""
    if not _is_graph(net):
        return
    storage = _storages(net)
    if not storage:
        return
    before = _ancestors(net)
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


def unordered(net: Any) -> Iterator[Hazard]:
    """In a net that runs as a graph: users of one queue or common world that it keeps in no order, as they only read its blob."""
    if not _is_graph(net):
        return
    users: dict[str, list[int]] = {}
    for position, op in enumerate(net.op):
        if use_of(op):
            users.setdefault(op.input[0], []).append(position)
    if all(len(found) < 2 for found in users.values()):
        return
    before = _ancestors(net)
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


def use_of(op: Any) -> str:
    """How an operator uses the object that its first input is: as a common world, as a queue to fill or to take from; or ""."""
    record = registry.get(op.type)
    if record is None or not record.blocking or not record.inputs or not op.input:
        return ""
    if record.inputs[0] == "comm_world":
        return "" if op.type in ("SendTensor", "ReceiveTensor") else _ONE  # these find each other by their tags
    if record.inputs[0] == "queue":
        return _FILL if "Enqueue" in op.type else _TAKE
    return ""


def _is_graph(net: Any) -> bool:
    return net.type not in IN_ORDER and net.type in net_types()


def _storages(net: Any) -> dict[str, str]:
    """{blob: one name for the storage that it shares}, of blobs with two names."""
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


def _ancestors(net: Any) -> list[int]:
    """For each operator the set of those that have ended when it starts, as bits."""
    found: list[int] = []
    for parents in dependencies(net):
        bits = 0
        for p in parents:
            bits |= found[p] | 1 << p
        found.append(bits)
    return found
