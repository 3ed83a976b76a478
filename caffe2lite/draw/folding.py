"""A graph whose name scopes are folded: the operators of one, on a device and in a direction, are one node."""

from __future__ import annotations

from typing import NamedTuple

from caffe2lite.draw.graph import Edge, Graph, Node


class Folded(NamedTuple):
    """The folded graph, and for each of its nodes the operators that are in it."""

    graph: Graph
    members: list[list[int]]


def scopes_of(graph: Graph) -> set[str]:
    """Return the outermost scopes of the operators that have one."""
    return {_outermost(node) for node in graph.nodes if node.scope}


def folded(graph: Graph) -> Folded:
    """Return the graph with one node for all that stands in an outermost scope; others stay as they are."""
    places: dict[object, int] = {}
    members: list[list[int]] = []
    of = []
    for n, node in enumerate(graph.nodes):
        key: object = (node.device, node.backward, _outermost(node)) if node.scope and node.kind != "input" else n
        if n == graph.operators:
            operators = len(members)
        at = places.setdefault(key, len(members))
        if at == len(members):
            members.append([])
        members[at].append(n)
        of.append(at)
    if len(graph.nodes) == graph.operators:
        operators = len(members)
    nodes = [_joined(graph, numbers) for numbers in members]
    edges = dict.fromkeys(Edge(of[e.source], of[e.target], e.blob) for e in graph.edges if of[e.source] != of[e.target])
    return Folded(Graph(nodes, list(edges), operators), members)


def _outermost(node: Node) -> str:
    return node.scope.partition("/")[0]


def _joined(graph: Graph, numbers: list[int]) -> Node:
    first = graph.nodes[numbers[0]]
    if not first.scope or first.kind == "input":
        return first
    kinds = {graph.nodes[n].kind for n in numbers}
    kind = "collective" if "collective" in kinds else "gradient" if kinds == {"gradient"} else "operator"
    many = f"{len(numbers):,} operator{'s' if len(numbers) != 1 else ''}"
    return first._replace(title=_outermost(first), detail=many, kind=kind, scope="")
