"""The layered layout: devices side by side, in each the forward part down and the backward part up beside it.

An operator stands in the row after the last of those that it takes something from.  Within a device and direction each
name scope is a block; blocks that share rows stand side by side, in the frames of their scopes.  Lines over many rows are
left out but for their ends.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence

from caffe2lite.draw.drawing import NODE_HEIGHT, NODE_WIDTH, Box, Drawing, Frame, Lane, Line, Stub, natural
from caffe2lite.draw.graph import Edge, Graph
from caffe2lite.draw.scopes import Group, Placed, blocks_of, nested, side_by_side

_PITCH = 70.0  # from row to row
_GAP = 22.0  # between nodes of a row
_BEND = 18.0  # the width that a line passing through a row takes
_LEG_GAP, _LANE_GAP, _MARGIN, _HEAD = 52.0, 40.0, 36.0, 64.0
_FAR = 8  # rows; longer lines are drawn as stubs
_SWEEPS = 8


class _Block:
    """The operators of a scope in one lane and direction."""

    def __init__(self, scope: str, nodes: list[int], row: Sequence[int], edges: Sequence[Edge], inputs: int) -> None:
        self.scope = scope
        self.nodes = nodes
        self.first, self.last = min(row[n] for n in nodes), max(row[n] for n in nodes)
        self.bends: dict[Edge, list[int]] = {}
        self.row = {n: row[n] for n in nodes}
        self.near: dict[int, list[int]] = {n: [] for n in nodes}
        self.inputs = (
            inputs  # the first node that is one: what an operator makes says more of its place than an input does
        )
        count = -1
        for edge in edges:
            span = row[edge.target] - row[edge.source]
            if not 0 < span <= _FAR:
                continue
            chain = [edge.source]
            for r in range(row[edge.source] + 1, row[edge.target]):
                self.row[count], self.near[count] = r, []
                chain.append(count)
                count -= 1
            self.bends[edge] = chain[1:]
            for a, b in zip(chain, [*chain[1:], edge.target]):
                self.near[a].append(b)
                self.near[b].append(a)
        self.x = self._placed()
        left = min(self.x[n] - _half(n) for n in self.row)
        self.x = {n: x - left for n, x in self.x.items()}
        self.width = max(self.x[n] + _half(n) for n in self.row)

    def _placed(self) -> dict[int, float]:
        rows: dict[int, list[int]] = collections.defaultdict(list)
        for n in sorted(self.row, key=lambda n: (self.row[n], n < 0, n)):
            rows[self.row[n]].append(n)
        order = sorted(rows)
        index = {n: i - len(rows[r]) / 2 for r in order for i, n in enumerate(rows[r])}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for r in order if down else reversed(order):
                ahead = {
                    n: [index[m] for m in self.near[n] if (self.row[m] < r) == down] or [index[n]] for n in rows[r]
                }
                rows[r].sort(key=lambda n: sum(ahead[n]) / len(ahead[n]))
                index.update((n, i - len(rows[r]) / 2) for i, n in enumerate(rows[r]))
        weight = self._weights(rows)
        x = {}
        for r in order:
            at = 0.0
            for n in rows[r]:
                x[n] = at + _half(n)
                at += 2 * _half(n) + _GAP
            x.update((n, x[n] - at / 2) for n in rows[r])
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for r in order if down else reversed(order):
                wanted = []
                for n in rows[r]:
                    others = [m for m in self.near[n] if m < self.inputs] or self.near[n] or [n]
                    others = [m for m in others if (self.row[m] < r) == down] or others
                    heaviest = max(weight[m] for m in others)
                    wanted.append(_median([x[m] for m in others if weight[m] == heaviest]))
                x.update(
                    zip(rows[r], _apart(wanted, [_half(n) for n in rows[r]], [float(weight[n]) ** 6 for n in rows[r]]))
                )
        return x

    def _weights(self, rows: Mapping[int, list[int]]) -> dict[int, int]:
        """Return how much is before and behind each node: what is on a long chain stays straight, and others give way."""
        weight: dict[int, int] = dict.fromkeys(self.row, 1)
        for down in (True, False):
            reach: dict[int, int] = {}
            for r in sorted(rows, reverse=not down):
                for n in rows[r]:
                    reach[n] = max((reach[m] + 1 for m in self.near[n] if (self.row[m] < r) == down), default=1)
                    weight[n] *= reach[n]
        return weight


def _half(node: int) -> float:
    return (_BEND if node < 0 else NODE_WIDTH) / 2


def _median(values: list[float]) -> float:
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _apart(wanted: Sequence[float], halves: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted ones (in weighted least squares) at which neighbours do not touch."""
    shifts, at = [], 0.0
    for i, half in enumerate(halves):
        at += half + halves[i - 1] + _GAP if i else 0.0
        shifts.append(at)
    pools: list[tuple[float, float, int]] = []  # (mean, weight, how many): the pooling of adjacent violators
    for want, shift, weight in zip(wanted, shifts, weights):
        mean, count = want - shift, 1
        while pools and pools[-1][0] > mean:
            before, other, number = pools.pop()
            mean = (before * other + mean * weight) / (other + weight)
            weight, count = other + weight, number + count
        pools.append((mean, weight, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [f + s for f, s in zip(flat, shifts)]


def _rows(graph: Graph) -> list[int]:
    """Return the row of each node, counted in the direction of its part."""
    order = [*range(graph.operators, len(graph.nodes)), *range(graph.operators)]
    after: dict[int, list[int]] = collections.defaultdict(list)
    before: dict[int, list[int]] = collections.defaultdict(list)
    for edge in graph.edges:
        if graph.nodes[edge.source].backward == graph.nodes[edge.target].backward:
            after[edge.source].append(edge.target)
            before[edge.target].append(edge.source)
    layer = [0] * len(graph.nodes)
    for node in order:
        layer[node] = max((layer[n] + 1 for n in before[node]), default=0)
    for node in order:
        if after[node] and not before[node]:
            layer[node] = min(layer[n] for n in after[node]) - 1
    return _folded(graph, layer)


def _folded(graph: Graph, layer: Sequence[int]) -> list[int]:
    """Return rows for layers: a layer of many nodes takes several."""
    members: dict[tuple[bool, int], dict[object, list[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for n, node in enumerate(graph.nodes):
        members[node.backward, layer[n]][node.device, node.scope].append(n)
    width = max(
        6,
        int(math.sqrt(len(graph.nodes) * _PITCH / (NODE_WIDTH + _GAP) / len({n.device for n in graph.nodes} or {""}))),
    )
    row, begin = [0] * len(graph.nodes), {False: 0, True: 0}
    for (backward, _), blocks in sorted(members.items()):
        for nodes in blocks.values():
            for i, n in enumerate(nodes):
                row[n] = begin[backward] + i // width
        begin[backward] += max((len(nodes) - 1) // width + 1 for nodes in blocks.values())
    return row


def layered(graph: Graph, title: str) -> Drawing:
    """Return the Drawing of a graph."""
    row = _rows(graph)
    layout = _Layout(graph, row)
    for colour, device in enumerate(sorted({node.device for node in graph.nodes}, key=natural)):
        layout.add_lane(device, colour)
    boxes = layout.boxes()
    lines, stubs = _lines(graph, row, boxes, layout.bends)
    return Drawing(
        title,
        max(layout.left + _MARGIN - 12, 240),
        _HEAD + _PITCH * layout.height + _MARGIN,
        layout.lanes,
        layout.frames,
        lines,
        stubs,
        boxes,
        [],
        list(dict.fromkeys((e.source, e.target) for e in graph.edges)),
    )


class _Layout:
    """Lanes from left to right, and where in them the nodes stand."""

    def __init__(self, graph: Graph, row: Sequence[int]) -> None:
        self.nodes, self.row = graph.nodes, row
        self.height = 1 + max(row, default=0)
        self.blocks = _blocks(graph, row)
        self.lanes: list[Lane] = []
        self.frames: list[Frame] = []
        self.bends: dict[Edge, list[tuple[float, float]]] = {}
        self.left = _MARGIN
        self._x: dict[int, float] = {}
        self._deepest = max((row[n] for n, node in enumerate(self.nodes) if not node.backward), default=0)

    def y_of(self, row: int, backward: bool) -> float:
        return _HEAD + _PITCH * (self.height - 1 - row if backward else row + self.height - 1 - self._deepest)

    def add_lane(self, device: str, colour: int) -> None:
        """Add a device's lane: the forward part, then the backward part beside it."""
        x = begin = self.left + _LANE_GAP / 2
        for backward in (False, True):
            if (device, backward) in self.blocks:
                x += _LEG_GAP if x > begin else 0
                x += self._add_leg(device, backward, x)
        count = sum(node.device == device and node.kind != "input" for node in self.nodes)
        detail = f"{count:,} operator{'s' if count != 1 else ''}"
        self.lanes.append(Lane(self.left, x + _LANE_GAP / 2 - self.left, device, detail, colour))
        self.left = x + _LANE_GAP / 2 + 12

    def _add_leg(self, device: str, backward: bool, x: float) -> float:
        """Place the blocks of a lane's forward or backward part from `x` on; return its width."""
        here = self.blocks[device, backward]
        placed, width = side_by_side(nested([(block.scope.split("/") if block.scope else [], block) for block in here]))
        for at, block in blocks_of(placed, x):
            self._x.update((n, at + block.x[n]) for n in block.nodes)
            for edge, chain in block.bends.items():
                self.bends[edge] = [
                    (at + block.x[b], self.y_of(block.row[b], backward) + NODE_HEIGHT / 2) for b in chain
                ]
        if len(here) > 1:
            self.frames += _frames(placed, x, lambda r: self.y_of(r, backward))
        return width

    def boxes(self) -> list[Box]:
        """Return the boxes of all nodes, in their order."""
        colours = {lane.label: lane.colour for lane in self.lanes}
        return [
            Box(
                n,
                self._x[n] - NODE_WIDTH / 2,
                self.y_of(self.row[n], node.backward),
                NODE_WIDTH,
                NODE_HEIGHT,
                node.title,
                node.detail,
                node.kind,
                colours[node.device],
            )
            for n, node in enumerate(self.nodes)
        ]


def _blocks(graph: Graph, row: Sequence[int]) -> dict[tuple[str, bool], list[_Block]]:
    members: dict[tuple[str, bool, str], list[int]] = collections.defaultdict(list)
    inner: dict[tuple[str, bool, str], list[Edge]] = collections.defaultdict(list)
    keys = [(node.device, node.backward, node.scope) for node in graph.nodes]
    for n, key in enumerate(keys):
        members[key].append(n)
    for edge in graph.edges:
        if keys[edge.source] == keys[edge.target]:
            inner[keys[edge.source]].append(edge)
    blocks: dict[tuple[str, bool], list[_Block]] = collections.defaultdict(list)
    for key, nodes in members.items():
        blocks[key[:2]].append(_Block(key[2], nodes, row, inner[key], graph.operators))
    return blocks


def _frames(placed: Sequence[Placed], x: float, y_of: Callable[[int], float]) -> list[Frame]:
    """Return the frames of all scopes, outer ones first."""
    frames: list[Frame] = []
    for at, label, item in placed:
        left, right = x + at, x + at + item.width
        top, bottom = sorted((y_of(item.first), y_of(item.last)))
        inner: list[Frame] = []
        if isinstance(item, Group):
            inner = _frames(item.items, left, y_of)
            own = [(y_of(i.first), y_of(i.last)) for _, _, i in item.items]
            top = min([*(f.y + 4 for f in inner), *(min(ys) for ys in own)])
            bottom = max([*(f.y + f.height - NODE_HEIGHT - 4 for f in inner), *(max(ys) for ys in own)])
        if label:
            frames.append(Frame(left - 10, top - 20, right - left + 20, bottom - top + NODE_HEIGHT + 30, label))
        frames += inner
    return frames


def _lines(
    graph: Graph, row: Sequence[int], boxes: Sequence[Box], bends: Mapping[Edge, list[tuple[float, float]]]
) -> tuple[list[Line], list[Stub]]:
    lines: list[Line] = []
    stubs: dict[tuple[int, bool], Stub] = {}
    drawn: set[tuple[int, int]] = set()
    for edge in graph.edges:
        a, b = boxes[edge.source], boxes[edge.target]
        source, target = graph.nodes[edge.source], graph.nodes[edge.target]
        if (edge.source, edge.target) in drawn:
            continue
        drawn.add((edge.source, edge.target))
        across = source.device != target.device
        up = source.backward
        turns = source.backward != target.backward
        near = abs(a.y - b.y) <= _FAR * _PITCH
        if near and not (turns and across) and (turns or row[edge.target] > row[edge.source]):
            kind = "back" if turns else "across" if across else "data" if edge.blob else "control"
            middle = bends.get(edge, [])
            if turns:
                ends = (a.x + a.width, a.y + a.height / 2), (b.x, b.y + b.height / 2)
            else:
                ends = (
                    (a.x + a.width / 2, a.y + (0 if up else a.height)),
                    (b.x + b.width / 2, b.y + (b.height if up else 0)),
                )
            lines.append(Line(edge.source, edge.target, [ends[0], *middle, ends[1]], kind))
            continue
        stubs[edge.source, True] = Stub(edge.source, a.x + a.width - 14, a.y + (0 if up else a.height), up, True)
        up = target.backward
        stubs[edge.target, False] = Stub(edge.target, b.x + b.width - 14, b.y + (b.height if up else 0), not up, False)
    return lines, list(stubs.values())
