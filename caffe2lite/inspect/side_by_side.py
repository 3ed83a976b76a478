"""What the concurrent steps of a plan share, with nothing that keeps them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from caffe2lite.inspect.hazards import Hazard, use_of
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2


class Uses(NamedTuple):
    """What the operators of a step use: {blob: type of the operator}; those that wait for others are left out."""

    read: dict[str, str]
    written: dict[str, str]
    guarded: dict[str, str]  # written under a mutex; {blob: operator and mutex}
    worlds: set[str]  # common worlds of collectives


def blobs(plan: caffe2_pb2.PlanDef) -> Iterator[Hazard]:
    """Yield the blobs that one step writes and another uses."""
    remedy = "pass it through a queue, or give each step a blob of its own"
    for one, a, other, b in _pairs(plan):
        for first, x, second, y in ((one, a, other, b), (other, b, one, a))[: 1 if a is b else 2]:
            for blob, writer in x.written.items():
                use = y.read.get(blob) or (y.written.get(blob) if x is a else None)
                if use:
                    message = (
                        f"steps {first!r} and {second!r} run side by side; {writer} of the first writes blob {blob!r} and {use} "
                        f"of the second uses it"
                    )
                    yield Hazard(None, blob, message, remedy)
        for blob in sorted({*a.guarded, *b.guarded}):
            by, also_by = (u.guarded.get(blob) or u.written.get(blob) for u in (a, b))
            if by and also_by and by != also_by:
                message = (
                    f"steps {one!r} and {other!r} run side by side; both write blob {blob!r}, by {by} and by {also_by}"
                )
                yield Hazard(None, blob, message, "guard it by one mutex in both")


def worlds(plan: caffe2_pb2.PlanDef) -> Iterator[Hazard]:
    """Common worlds by which several steps talk to other shards."""
    for one, a, other, b in _pairs(plan):
        for world in sorted(a.worlds & b.worlds):
            message = (
                f"steps {one!r} and {other!r} run side by side, and collectives of both use {world!r}: another shard may start "
                f"them the other way round, and both wait forever"
            )
            yield Hazard(None, world, message, "give each step a common world of its own")


def _pairs(plan: caffe2_pb2.PlanDef) -> Iterator[tuple[str, Uses, str, Uses]]:
    nets = {net.name: net for net in plan.network}
    for step in _concurrent(plan.execution_step):
        named = [(substep.name or f"substep {i}", _uses(substep, nets)) for i, substep in enumerate(step.substep)]
        for (one, a), (other, b) in itertools.combinations(named, 2):
            yield one, a, other, b
        if step.num_concurrent_instances > 1:
            for one, a in named:
                yield one, a, f"{one} (another instance)", a


def _concurrent(steps: Iterable[caffe2_pb2.ExecutionStep]) -> Iterator[Any]:
    for step in steps:
        if step.concurrent_substeps or step.num_concurrent_instances > 1:
            yield step
        yield from _concurrent(step.substep)


def _uses(step: caffe2_pb2.ExecutionStep, nets: dict[str, caffe2_pb2.NetDef]) -> Uses:
    found = Uses({}, {}, {}, set())
    for name in [*step.network, step.report_net]:
        for op in nets[name].op if name in nets else ():
            record = registry.get(op.type)
            if record is None:
                continue
            if use_of(op) == "collective":
                found.worlds.add(op.input[0])
            if record.blocking:
                continue
            if "under_mutex" in record.traits and op.input:
                found.guarded.update(
                    (blob, f"{op.type} under {op.input[0]!r}") for blob in op.output if blob in op.input
                )
                continue
            found.read.update((blob, op.type) for blob in op.input)
            found.written.update((blob, op.type) for blob in op.output)
    for substep in step.substep:
        more = _uses(substep, nets)
        found.read.update(more.read)
        found.written.update(more.written)
        found.guarded.update(more.guarded)
        found.worlds.update(more.worlds)
    if step.create_workspace:
        found.written.clear()  # what it writes is its own, but for blobs that were there
    return found
