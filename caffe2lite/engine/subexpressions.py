"""The transform CommonSubexpressionElimination: operators that compute the same from the same become one."""

from __future__ import annotations

import heapq

from caffe2lite.proto import caffe2_pb2

_TYPES = {"FC", "LearningRate"}  # those that Caffe2's transform looks at
_PREFIX = "transform/"  # of the blobs that it makes

Source = tuple[str, int]  # a blob, and the operator that wrote it last, -1 for none


def eliminate(net: caffe2_pb2.NetDef) -> None:
    """Put one new operator in the place of each group of equal ones; the order of operators is that of Caffe2's graph.

    That is: of those whose inputs are there the earliest, the new ones after all others.  Only reading what was
    written counts, so that what overwrites a blob may move before what reads it, in Caffe2 as here.
    """
    ops = list(net.op)
    sources = _sources(ops)
    for group in _groups(ops, sources):
        first = ops[group[0]]
        new = caffe2_pb2.OperatorDef()
        new.CopyFrom(first)
        new.output[:] = [_PREFIX + name for name in first.output]
        places = {(blob, i): k for i in group for k, blob in enumerate(ops[i].output)}
        for i, op in enumerate(ops):
            for slot, source in enumerate(sources[i]):
                if source in places:
                    op.input[slot] = new.output[places[source]]
                    sources[i][slot] = op.input[slot], len(ops)
        sources.append(sources[group[0]])
        ops.append(new)
        for i in group:
            sources[i] = []
            ops[i].Clear()
    order = [ops[i] for i in _order(sources) if ops[i].type]
    del net.op[:]
    net.op.extend(order)


def _sources(ops: list[caffe2_pb2.OperatorDef]) -> list[list[Source]]:
    written: dict[str, int] = {}
    found = []
    for i, op in enumerate(ops):
        found.append([(name, written.get(name, -1)) for name in op.input])
        written.update(dict.fromkeys(op.output, i))
    return found


def _groups(ops: list[caffe2_pb2.OperatorDef], sources: list[list[Source]]) -> list[list[int]]:
    """Operators that are equal: type, inputs, number of outputs, and the arguments that the first of them has."""
    found: list[list[int]] = []
    for i, op in enumerate(ops):
        if op.type not in _TYPES:
            continue
        for group in found:
            first = ops[group[0]]
            alike = first.type == op.type and sources[group[0]] == sources[i] and len(first.output) == len(op.output)
            if alike and all(a in op.arg for a in first.arg):
                group.append(i)
                break
        else:
            found.append([i])
    return [group for group in found if len(group) > 1]


def _order(sources: list[list[Source]]) -> list[int]:
    readers: list[list[int]] = [[] for _ in sources]
    missing = [len({i for _, i in given if i >= 0}) for given in sources]
    for reader, given in enumerate(sources):
        for i in {i for _, i in given if i >= 0}:
            readers[i].append(reader)
    ready = [i for i, count in enumerate(missing) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order
