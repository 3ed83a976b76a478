"""What shards that run together do not agree on: they would wait for each other, or get wrong values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from caffe2lite.engine.inference import learn
from caffe2lite.engine.runner import runs_in_order
from caffe2lite.inspect.hazards import Hazard
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2

_SAME = "give all shards the same parameters in the same order"


class Call(NamedTuple):
    """One operator by which a shard meets the others: its position, common world, what it does, and with what tensor."""

    position: int
    world: str
    said: str
    spec: Spec | None
    rank: int | None  # of CreateCommonWorld


def mismatches(nets: Sequence[caffe2_pb2.NetDef], shapes: Mapping[str, Spec]) -> Iterator[Hazard]:
    """Yield the collectives that differ in kind, blob, root or shape, common worlds in another order, ranks that are there twice.

    `shapes` are those of inputs, the same for all shards.
    """
    calls = [_calls(net, dict(shapes)) for net in nets]
    found = [
        hazard for world in dict.fromkeys(c.world for each in calls for c in each) for hazard in _in_world(world, calls)
    ]
    yield from found or _between_worlds(nets, calls)


def _in_world(world: str, calls: Sequence[Sequence[Call]]) -> Iterator[Hazard]:
    rows = [[c for c in each if c.world == world] for each in calls]
    ranks: dict[int, int] = {}
    for shard, row in enumerate(rows):
        for call in row:
            if call.rank is not None and ranks.setdefault(call.rank, shard) != shard:
                message = f"common world {world!r}: shards {ranks[call.rank]} and {shard} both are rank {call.rank}"
                yield Hazard(call.position, world, message, "give each shard a rank of its own")
                return
    for number, column in enumerate(itertools.zip_longest(*rows)):
        said = ["nothing more" if call is None else call.said for call in column]
        specs = [None if call is None else call.spec for call in column]
        if len(set(said)) == 1 and None not in specs and len({(s.shape, s.dtype) for s in specs if s is not None}) > 1:
            said = [f"{was} of {s.dtype}{list(s.shape)}" for was, s in zip(said, specs) if s is not None]
        if len(set(said)) > 1:
            first = next(call.position for call in column if call is not None)
            text = "; ".join(f"shard {shard}: {was}" for shard, was in enumerate(said))
            yield Hazard(first, world, f"common world {world!r}, collective {number}: {text}", _SAME)
            return


def _between_worlds(nets: Sequence[caffe2_pb2.NetDef], calls: Sequence[Sequence[Call]]) -> Iterator[Hazard]:
    """In nets that run in order: shards that meet in several common worlds, but not in one order."""
    for one, other in itertools.combinations(range(len(nets)), 2):
        if not runs_in_order(nets[one]) or not runs_in_order(nets[other]):
            continue
        shared = {c.world for c in calls[one]} & {c.world for c in calls[other]}
        pairs = zip(*([c for c in calls[shard] if c.world in shared] for shard in (one, other)))
        for mine, theirs in pairs:
            if mine.world != theirs.world:
                message = (
                    f"shard {one} waits in common world {mine.world!r} ({mine.said}) while shard {other} waits in "
                    f"{theirs.world!r} ({theirs.said}, operator {theirs.position})"
                )
                yield Hazard(mine.position, mine.world, message, "use the common worlds in one order in all shards")
                return


def _calls(net: caffe2_pb2.NetDef, known: dict[str, Spec]) -> list[Call]:
    found = []
    for position, op in enumerate(net.op):
        values = {arg.name: arg.i for arg in op.arg}
        traits = registry.traits(op.type)
        if op.type == "CreateCommonWorld" and op.output:
            said = f"{op.type} of {values.get('size', 0)} shards"
            found.append(Call(position, op.output[0], said, None, values.get("rank", 0)))
        elif "collective" in traits and op.input:
            blob = op.input[1] if len(op.input) > 1 else ""
            root = f" root {values.get('root', 0)}" if "rooted" in traits else ""
            said = f"{op.type} {blob.rpartition('/')[2]}{root}".strip()
            found.append(Call(position, op.input[0], said, known.get(blob), None))
        learn(known, op)
    return found
