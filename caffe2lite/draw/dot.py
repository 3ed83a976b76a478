"""A graph in Graphviz's language."""

from __future__ import annotations

import collections

from caffe2lite.draw.drawing import natural
from caffe2lite.draw.graph import Graph

_SHAPES = {
    "operator": "shape=box",
    "gradient": 'shape=box, style="filled,dashed"',
    "collective": "shape=box, color=red, penwidth=2",
    "input": "shape=ellipse",
}
_PALETTE = (
    "#dce9f7",
    "#fbe6cf",
    "#d9efe1",
    "#eddff5",
    "#f7dce1",
    "#d6eef1",
    "#eeeecb",
    "#e3e3f8",
    "#efe2db",
    "#dfe6ea",
)


def dot(graph: Graph, title: str) -> str:
    """Return the graph as a digraph: a cluster a device, in it one a name scope."""
    lines = [f"digraph {_quoted(title)} {{", '  node [style=filled, fontname="sans-serif", fontsize=10];']
    devices: dict[str, dict[str, list[int]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for n, node in enumerate(graph.nodes):
        devices[node.device][node.scope].append(n)
    for d, device in enumerate(sorted(devices, key=natural)):
        lines.append(f"  subgraph cluster_{d} {{ label={_quoted(device)};")
        for s, (scope, members) in enumerate(devices[device].items()):
            lines += [f"    subgraph cluster_{d}_{s} {{ label={_quoted(scope)};"] if scope else []
            for n in members:
                node = graph.nodes[n]
                label = _quoted(f"{node.title}\n{node.detail}")
                colour = _PALETTE[d % len(_PALETTE)]
                lines.append(f'    n{n} [label={label}, fillcolor="{colour}", {_SHAPES[node.kind]}];')
            lines += ["    }"] if scope else []
        lines.append("  }")
    for edge in graph.edges:
        shown = f"tooltip={_quoted(edge.blob)}" if edge.blob else "style=dotted"
        lines.append(f"  n{edge.source} -> n{edge.target} [{shown}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: object) -> str:
    """Return a string of the language; its backslashes mean nothing but themselves and line ends."""
    plain = "".join(c if c.isprintable() or c == "\n" else "�" for c in str(text))
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
