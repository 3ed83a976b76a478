"""Sharing of blobs in a NetDef: an output takes over a blob that is no longer needed."""

from __future__ import annotations

import collections
import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from typing import Any

from caffe2lite.engine.dependencies import blobs_of
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.inference import operand_devices
from caffe2lite.engine.instance import check_schema
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.proto import caffe2_pb2


def _nested(net: caffe2_pb2.NetDef) -> set[str]:
    """Blobs that nets in arguments mention, other than those of recurrent networks, which are renamed along."""
    names: set[str] = set()
    for op in net.op:
        followed = _step_nets(op)
        for argument in op.arg:
            if argument.name in followed:
                continue
            inner = arguments.nets_in(argument)
            names |= blobs_of(inner).union(*map(_nested, inner))
    return names


def _check_schemas(net: caffe2_pb2.NetDef) -> None:
    for op in net.op:
        record = registry.get(op.type)
        if record is not None:
            try:
                check_schema(record, op)
            except ValueError as e:
                raise EngineError(f"net {net.name!r}: {e}") from None


def _step_nets(op: caffe2_pb2.OperatorDef) -> frozenset[str]:
    """The arguments of an operator with nets whose blobs are renamed along."""
    record = registry.get(op.type)
    return frozenset() if record is None else record.step_nets


Name = str | bytes


def _text(name: Name) -> str:
    return name.decode("utf-8") if isinstance(name, bytes) else str(name)


def share_blobs(
    net: caffe2_pb2.NetDef,
    heads: Iterable[Name],
    op_indices: Iterable[int],
    shareable: Iterable[Name],
    namescope: Name = "",
    dont_share: Iterable[Name] = (),
    shapes: Mapping[Name, Sequence[int]] | None = None,
) -> Any:
    """A copy of `net` in which outputs of the operators `op_indices` share blobs, safely even on parallel executors.

    The operators are gone through from those that read `heads` on, each once what it reads is there.  An output takes over
    a blob that is free, as Caffe2 chooses it: the one whose size comes nearest (with `shapes`), or that was shared most.
    Only blobs in `shareable` take part.
    """
    _check_schemas(net)
    first = [_text(h) for h in heads]
    walk = _Walk(
        net,
        first,
        sorted(set(op_indices)),
        {_text(b) for b in shareable} - _nested(net),
        {_text(b) for b in dont_share},
        {_text(name): math.prod(map(int, dims)) for name, dims in (shapes or {}).items()},
    )
    walk.begin(first)
    return _renamed(net, walk.names(_text(namescope)))


class _Walk:
    """Which blobs take over which others, found by a walk through the net along its blobs.

    Where the walk branches, what follows gets a token; where branches meet again, it has the tokens of all.  A blob that is
    free may be taken by an operator that has the tokens of all that touched the blob: those have run before.
    """

    def __init__(
        self,
        net: caffe2_pb2.NetDef,
        heads: list[str],
        chosen: list[int],
        shareable: set[str],
        kept: set[str],
        sizes: dict[str, int],
    ) -> None:
        self.net, self.shareable, self.sizes = net, shareable, sizes
        self.made = {blob for i in chosen for blob in net.op[i].output}
        self.readers: dict[str, list[int]] = collections.defaultdict(list)
        self.waits_for: collections.Counter[int] = collections.Counter()  # operator -> inputs that are yet to be made
        for i in chosen:
            for blob in net.op[i].input:
                if blob in heads or blob in shareable and blob not in kept:
                    self.readers[blob].append(i)
        for i in chosen:
            for blob in net.op[i].output:
                if blob in shareable and blob not in kept:
                    self.waits_for.update(j for j in self.readers[blob] if j > i)
        self.taken: dict[str, str] = {}  # blob -> the one that it takes over
        self.shared: collections.Counter[str] = collections.Counter()  # how often a blob was taken
        self.read: collections.Counter[str] = collections.Counter()
        self.needed: dict[str, set[int]] = collections.defaultdict(set)  # tokens of what touched a blob
        self.left: dict[int, set[int]] = collections.defaultdict(set)  # tokens left at an operator that still waits
        self.places: dict[str, tuple[int, int]] = {}
        self.seen: set[str] = set()
        self.visited: set[int] = set()
        self.arrived: collections.Counter[int] = collections.Counter()
        self.free: list[tuple[int, str]] = []
        self.tokens = itertools.count()

    def begin(self, heads: list[str]) -> None:
        for head in heads:
            for i in self.readers[head]:
                if i not in self.visited and not self.waits_for[i]:
                    self.free = []
                    self.visit(i, {next(self.tokens)})

    def _actual(self, blob: str) -> str:
        return self.taken.get(blob, blob)

    def visit(self, i: int, tokens: set[int]) -> None:
        """Go on at an operator, all of whose inputs are there."""
        self.visited.add(i)
        op = self.net.op[i]
        for blobs, options in zip((op.input, op.output), operand_devices(op)):
            for blob, option in zip(blobs, options):
                if blob not in self.made or blobs is op.output:
                    self.places.setdefault(blob, (option.device_type, option.device_id))
        released = []
        for blob in op.input:
            self.needed[self._actual(blob)] |= tokens
            self.read[blob] += 1
            if blob in self.shareable and self.read[blob] == len(self.readers[blob]):
                actual = self._actual(blob)
                if actual not in released:
                    released.append(actual)
        for blob in op.output:
            if blob in self.shareable and blob not in self.seen and blob not in op.input:
                found = self._take(blob, tokens)
                if found is not None:
                    self.taken[blob] = found
                    self.shared[found] += 1
            self.seen.add(blob)
            self.needed[self._actual(blob)] |= tokens
        for blob in released:
            heapq.heappush(self.free, (-self.shared[blob] - (blob not in self.made), blob))
        self._go_on(op, tokens)

    def _take(self, blob: str, tokens: set[int]) -> str | None:
        able = [f for f in self.free if self.places.get(f[1]) == self.places[blob] and self.needed[f[1]] <= tokens]
        if not able:
            return None
        best = min(able)
        if self.sizes:
            size, largest = self.sizes.get(blob, 0), -1
            for f in able:
                candidate = self.sizes.get(f[1], 0)
                if candidate >= largest and (largest < size or largest >= candidate):
                    best, largest = f, candidate
        self.free.remove(best)
        return best[1]

    def _go_on(self, op: caffe2_pb2.OperatorDef, tokens: set[int]) -> None:
        after = [i for blob in op.output for i in self.readers[blob]]
        for i in after:
            self.arrived[i] += 1
            if self.arrived[i] == self.waits_for[i]:
                self.visit(i, tokens | self.left[i] | ({next(self.tokens)} if len(after) > 1 else set()))
            else:
                self.left[i] |= tokens

    def names(self, namescope: str) -> dict[str, str]:
        """{blob: the name under which it is shared}; blobs that no chosen operator makes keep theirs."""
        names: dict[str, str] = {}
        roots = dict.fromkeys(self.taken.values())
        numbers = itertools.count()
        for root in roots:
            names[root] = f"{namescope}__m{next(numbers)}_shared" if root in self.made else root
        return names | {blob: names[root] for blob, root in self.taken.items()}


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
    last_read: dict[str, int] = {}
    first: dict[str, int] = {}
    made_here: set[str] = set()
    for i, op in enumerate(net.op):
        for blob in op.input:
            last_read[blob] = i
            first.setdefault(blob, i)
        made_here.update(blob for blob in op.output if blob not in first)
        for blob in op.output:
            first.setdefault(blob, i)
    shareable = made_here - static - set(net.external_output) - _nested(net)
    names: dict[str, str] = {}
    free: list[str] = []
    storages = 0
    for i, op in enumerate(net.op):
        for blob in dict.fromkeys(op.output):
            if first[blob] != i or blob not in shareable:
                continue
            # What nothing reads may be fetched: it takes a storage and does not give it back.
            if not free and blob in last_read:
                free.append(f"__m{storages}_shared")
                storages += 1
            if free:
                names[blob] = free.pop()
        done = dict.fromkeys(b for b in reversed(op.input) if last_read[b] == i and b in shareable)
        free.extend(names[b] for b in done)
    return _renamed(net, names)
