"""The layout of a sync net: a lane a device (and one for other shards), a row for what moves, in the order of the net."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

from caffe2lite.draw.drawing import Box, Drawing, Label, Lane, Line
from caffe2lite.inspect.sync import Move, Sync, scope_of

_LANE, _GAP, _NAMES, _HEAD, _PITCH, _CHIP = 150.0, 14.0, 300.0, 64.0, 46.0, 28.0
OTHER_SHARDS = "other shards"


class _Row(NamedTuple):
    parameter: str
    source: str
    moves: list[Move]


def of_sync(net: Any, sync: Sync, title: str) -> Drawing:
    """Return the Drawing of a net that only moves parameters."""
    devices = [*sync.devices, *([OTHER_SHARDS] if sync.worlds else [])]
    picture = _Picture(net, devices)
    labels = []
    y, last = _HEAD, None
    for row in _rows(sync):
        y += _PITCH
        size = sync.bytes_each.get(row.parameter)
        if row.parameter != last:
            labels.append(Label(_NAMES - (96 if sync.bytes_each else 14), y + _CHIP / 2 + 4, row.parameter, "end"))
            last = row.parameter
        if size is not None:
            labels.append(Label(_NAMES - 14, y + _CHIP / 2 + 4, said(size), "end"))
        for move in row.moves:
            picture.add_move(move, y, size)
    lanes = [
        Lane(picture.at[d], _LANE, d, picture.note(d) if sync.bytes_each else "", picture.colours[d]) for d in devices
    ]
    in_lines = {move.position for move in sync.moves}
    y += _PITCH if picture.boxes else 0
    y += _PITCH * picture.add_others([i for i in range(len(net.op)) if i not in in_lines], y)
    width = _NAMES + len(devices) * (_LANE + _GAP) + 16
    return Drawing(
        title, width, y + _PITCH, lanes, [], picture.lines, [], sorted(picture.boxes), labels, list(_links(net))
    )


class _Picture:
    """Boxes of operators and lines of what they move, in the lanes of devices."""

    def __init__(self, net: Any, devices: list[str]) -> None:
        self.net, self.devices = net, devices
        self.at = {d: _NAMES + i * (_LANE + _GAP) for i, d in enumerate(devices)}
        self.colours = {d: i for i, d in enumerate(devices)}
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self._sent: collections.Counter[str] = collections.Counter()
        self._got: collections.Counter[str] = collections.Counter()

    def add_move(self, move: Move, y: float, size: int | None) -> None:
        """Draw one operator that moves a parameter of `size` bytes, in the row at `y`."""
        home = scope_of(move.source)
        targets = [scope_of(t) for t in move.targets] + ([OTHER_SHARDS] if move.world else [])
        collective = bool(move.world) or move.by.startswith("NCCL")
        lane = home if collective or not targets else targets[0]
        detail = f"on {move.world}" if move.world else "" if size is None else said(size)
        self._add_box(move.position, lane, y, detail, "collective" if collective else "operator")
        for target in targets:
            if target != home:
                self._sent[home] += size or 0
                self._got[target] += size or 0
                start, end = self.at[home] + _LANE / 2, self.at[target] + _LANE / 2
                low = y + _CHIP / 2 if collective else y
                points = [(start, y if collective else y - 2), (start, y - 9), (end, y - 9), (end, low)]
                self.lines.append(Line(move.position, move.position, points, "move"))

    def add_others(self, positions: list[int], y: float) -> int:
        """Draw the operators that set up the common worlds, in rows from `y` on; return how many rows they take."""
        columns = max(1, len(self.devices))
        for n, position in enumerate(positions):
            op = self.net.op[position]
            detail = str(op.output[0]) if op.output else ""
            self._add_box(position, self.devices[n % columns], y + n // columns * _PITCH, detail, "collective")
        return -(-len(positions) // columns)

    def _add_box(self, position: int, lane: str, y: float, detail: str, kind: str) -> None:
        x, title = self.at[lane] + 8, str(self.net.op[position].type)
        self.boxes.append(Box(position, x, y, _LANE - 16, _CHIP, title, detail, kind, self.colours[lane]))

    def note(self, device: str) -> str:
        """Return what a device sends and gets."""
        return _note(self._sent[device], self._got[device])


def _links(net: Any) -> dict[tuple[int, int], None]:
    """Return {(operator, one that reads what it makes): None}, in the order of the net."""
    links: dict[tuple[int, int], None] = {}
    makers: dict[str, int] = {}
    for i, op in enumerate(net.op):
        links.update(((makers[b], i), None) for b in [*op.input, *op.control_input] if b in makers)
        makers.update(dict.fromkeys(op.output, i))
    return links


def _rows(sync: Sync) -> list[_Row]:
    """Join the copies of one blob to several devices, one after the other, into one row."""
    rows: list[_Row] = []
    for move in sync.moves:
        lanes = {scope_of(t) for m in rows[-1].moves for t in m.targets} if rows else set()
        same = bool(rows) and rows[-1][:2] == (move.parameter, move.source)
        if (
            same
            and all(m.by.startswith("Copy") for m in (*rows[-1].moves, move))
            and scope_of(move.targets[0]) not in lanes
        ):
            rows[-1].moves.append(move)
        else:
            rows.append(_Row(move.parameter, move.source, [move]))
    return rows


def said(size: int) -> str:
    """Return a number of bytes for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.3g} {unit}"
    return f"{size} B"


def _note(sent: int, got: int) -> str:
    return ", ".join(f"{word} {said(n)}" for word, n in (("sends", sent), ("gets", got)) if n) or "nothing moves"
