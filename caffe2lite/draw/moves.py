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
    at = {d: _NAMES + i * (_LANE + _GAP) for i, d in enumerate(devices)}
    colours = {d: i for i, d in enumerate(devices)}
    sent: collections.Counter[str] = collections.Counter()
    got: collections.Counter[str] = collections.Counter()
    boxes, lines, labels = [], [], []
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
            home = scope_of(move.source)
            targets = [scope_of(t) for t in move.targets] + ([OTHER_SHARDS] if move.world else [])
            collective = bool(move.world) or move.by.startswith("NCCL")
            lane = home if collective or not targets else targets[0]
            op = net.op[move.position]
            detail = f"on {move.world}" if move.world else "" if size is None else said(size)
            boxes.append(
                Box(move.position, at[lane] + 8, y, _LANE - 16, _CHIP, str(op.type), detail,
                    "collective" if collective else "operator", colours[lane])
            )  # fmt: skip
            for target in targets:
                if target != home:
                    sent[home] += size or 0
                    got[target] += size or 0
                    ends = at[home] + _LANE / 2, at[target] + _LANE / 2
                    low = y + _CHIP / 2 if collective else y
                    points = [(ends[0], y if collective else y - 2), (ends[0], y - 9), (ends[1], y - 9), (ends[1], low)]
                    lines.append(Line(move.position, move.position, points, "move"))
    lanes = [Lane(at[d], _LANE, d, _note(sent[d], got[d]) if sync.bytes_each else "", colours[d]) for d in devices]
    in_lines = {move.position for move in sync.moves}
    others = [i for i in range(len(net.op)) if i not in in_lines]
    y += _PITCH if boxes else 0
    for n, i in enumerate(others):  # what sets up the common worlds
        column, line = n % max(1, len(devices)), n // max(1, len(devices))
        op = net.op[i]
        detail = str(op.output[0]) if op.output else ""
        x = _NAMES + column * (_LANE + _GAP) + 8
        boxes.append(
            Box(
                i, x, y + line * _PITCH, _LANE - 16, _CHIP, str(op.type), detail, "collective", colours[devices[column]]
            )
        )
    y += _PITCH * (-(-len(others) // max(1, len(devices))))
    links = []
    makers: dict[str, int] = {}
    for i, op in enumerate(net.op):
        links += [(makers[b], i) for b in [*op.input, *op.control_input] if b in makers]
        makers.update(dict.fromkeys(op.output, i))
    boxes.sort()
    width = _NAMES + len(devices) * (_LANE + _GAP) + 16
    return Drawing(title, width, y + _PITCH, lanes, [], lines, [], boxes, labels, list(dict.fromkeys(links)))


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
