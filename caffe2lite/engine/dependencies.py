"""What operators of a net must wait for, told from the names of their blobs."""

from __future__ import annotations

from collections.abc import Iterable

from caffe2lite.proto import caffe2_pb2


def blobs_of(nets: Iterable[caffe2_pb2.NetDef]) -> set[str]:
    """The names of all blobs that operators of the nets take or make."""
    return {blob for net in nets for op in net.op for blob in (*op.input, *op.output)}


def dependencies(net: caffe2_pb2.NetDef) -> list[set[int]]:
    """For each operator the earlier ones that it must wait for: its sources, and all whose blobs it overwrites.

    A control input is the name of a blob, which it waits for as if it read it.
    """
    writer: dict[str, int] = {}
    readers: dict[str, set[int]] = {}
    parents: list[set[int]] = []
    for i, op in enumerate(net.op):
        mine: set[int] = set()
        awaited = (*op.input, *op.control_input)
        for name in awaited:
            if name in writer:
                mine.add(writer[name])
        for name in op.output:
            if name in writer:
                mine.add(writer[name])
            mine |= readers.get(name, set())
        mine.discard(i)
        for name in awaited:
            readers.setdefault(name, set()).add(i)
        for name in op.output:
            writer[name] = i
            readers[name] = {i} if name in op.input else set()
        parents.append(mine)
    return parents


def ancestors(net: caffe2_pb2.NetDef) -> list[int]:
    """For each operator, as bits, those that have ended when it starts, however the net's graph is run."""
    found: list[int] = []
    for parents in dependencies(net):
        bits = 0
        for p in parents:
            bits |= found[p] | 1 << p
        found.append(bits)
    return found
