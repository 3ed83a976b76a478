"""Operators that may run in an order that nobody meant: what neither a graph nor concurrent steps keep apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from caffe2lite.engine.graph import dependencies
from caffe2lite.engine.net import net_types
from caffe2lite.ops import registry

_IN_ORDER = {"", "simple", "simple_refcount", "async_simple", "singlethread_async"}
_GUARDED = ("Atomic", "Count", "Iter")  # operators that are made to be shared


class Hazard(NamedTuple):
    """Two accesses to one storage, at least one a write, with nothing between them that keeps their order."""

    position: int | None
    blob: str
    message: str
    remedy: str


def of_net(net: Any) -> Iterator[Hazard]:
    """In a net that runs as a graph: operators that reach one storage by two names."""
    if net.type in _IN_ORDER or net.type not in net_types():
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


def of_plan(plan: Any) -> Iterator[Hazard]:
    """Blobs that one of several concurrent steps writes and another uses."""
    nets = {net.name: net for net in plan.network}
    for step in plan.execution_step:
        yield from _of_step(step, nets)


def _of_step(step: Any, nets: dict[str, Any]) -> Iterator[Hazard]:
    if step.concurrent_substeps:
        uses = [_uses(substep, nets) for substep in step.substep]
        for (i, (_, written)), (j, (read, also)) in itertools.permutations(enumerate(uses), 2):
            for blob in written:
                if blob in read or (blob in also and i < j):
                    names = step.substep[i].name or f"substep {i}", step.substep[j].name or f"substep {j}"
                    message = (
                        f"steps {names[0]!r} and {names[1]!r} run side by side; {written[blob]} of the first writes blob {blob!r} "
                        f"and {read.get(blob) or also[blob]} of the second uses it"
                    )
                    yield Hazard(None, blob, message, "pass it through a queue, or give each step a blob of its own")
    for substep in step.substep:
        yield from _of_step(substep, nets)


def _uses(step: Any, nets: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """({blob read: operator}, {blob written: operator}) of all nets of a step; what waits or is guarded is left out."""
    read: dict[str, str] = {}
    written: dict[str, str] = {}
    for name in [*step.network, step.report_net]:
        for op in nets[name].op if name in nets else ():
            record = registry.get(op.type)
            if record is None or record.blocking or op.type.startswith(_GUARDED):
                continue
            read.update((blob, op.type) for blob in op.input)
            written.update((blob, op.type) for blob in op.output)
    for substep in step.substep:
        more_read, more_written = _uses(substep, nets)
        read.update(more_read)
        written.update(more_written)
    if step.create_workspace:
        return read, {}  # what it writes is its own, but for blobs that were there
    return read, written
