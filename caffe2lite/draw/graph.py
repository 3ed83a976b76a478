"""A net as a graph: operators, the inputs worth a place of their own, and which takes what from which.

Inputs that are weights, or are updated in place, belong to their operators; data and labels get a place.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from caffe2lite.inspect.summary import places, weights
from caffe2lite.ops.kit import registry

_DEVICE_SCOPE = re.compile(r"(gpu|cpu|hip|cuda)_\d+")
_FED_TO_FEW = 3  # operators; an input that more take (a constant, say) would be lines everywhere


class Node(NamedTuple):
    """An operator, or (kind "input") a blob that comes from outside."""

    title: str
    detail: str
    kind: str  # "operator", "gradient", "collective" or "input"
    device: str
    scope: str
    backward: bool  # whether it belongs to the part of the net that begins with the first gradient


class Edge(NamedTuple):
    """`blob` goes from one node to another; "" for a control input."""

    source: int
    target: int
    blob: str


class Graph(NamedTuple):
    """Nodes (the operators by position, then inputs) and edges; of operators these run from lower to higher positions."""

    nodes: list[Node]
    edges: list[Edge]
    operators: int


def is_collective(kind: str) -> bool:
    """Return whether several devices or processes take part in an operator of this type."""
    return not registry.traits(kind).isdisjoint(("collective", "paired", "among_gpus", "common_world"))


def graph_of(net: Any) -> Graph:
    """Return the Graph of a NetDef."""
    first = next((i for i, op in enumerate(net.op) if _is_gradient(op)), len(net.op))
    nodes = [_node(op, place, i >= first) for i, (op, place) in enumerate(zip(net.op, places(net)))]
    edges: dict[Edge, None] = {}
    maker: dict[str, int] = {}
    outside: dict[str, list[int]] = {}
    for position, op in enumerate(net.op):
        for blob in op.input:
            if blob in maker:
                edges[Edge(maker[blob], position, str(blob))] = None
            else:
                outside.setdefault(blob, []).append(position)
        for blob in op.control_input:
            if blob in maker:
                edges[Edge(maker[blob], position, "")] = None
        maker.update(dict.fromkeys(op.output, position))
    held = weights(net)
    for blob, takers in outside.items():
        if blob not in held and blob not in maker and len(set(takers)) <= _FED_TO_FEW:
            taker = nodes[takers[0]]
            nodes.append(taker._replace(title=str(blob), detail="input", kind="input"))
            edges.update((Edge(len(nodes) - 1, t, str(blob)), None) for t in takers)
    return Graph(nodes, list(edges), len(net.op))


def _is_gradient(op: Any) -> bool:
    return (
        bool(op.is_gradient_op)
        or op.type.endswith("Gradient")
        or any(str(b).endswith("_autogen_grad") for b in op.output)
    )


def _node(op: Any, place: str, backward: bool) -> Node:
    named = [str(b) for b in [*op.output, *op.input]]
    scopes = named[0].lstrip("_").split("/")[:-1] if named else []  # parts of a gradient are _SCOPE/BLOB_grad_…
    if scopes and _DEVICE_SCOPE.fullmatch(scopes[0]):
        device = scopes.pop(0)
        if place == "cpu" and device.startswith("cpu"):  # replicas on one CPU differ by their scope alone
            place = device
    kind = "collective" if is_collective(op.type) else "gradient" if _is_gradient(op) else "operator"
    title = f"{op.type} ({op.engine})" if op.engine else str(op.type)
    return Node(title, named[0] if named else str(op.name), kind, place, "/".join(scopes), backward)
