"""What a layout hands to those who put it on paper: shapes with places, no more."""

from __future__ import annotations

import re
from typing import NamedTuple

NODE_WIDTH, NODE_HEIGHT = 168, 36


class Box(NamedTuple):
    """A node; `node` is its number in the graph, x and y its upper left corner."""

    node: int
    x: float
    y: float
    width: float
    height: float
    title: str
    detail: str
    kind: str
    colour: int  # of its lane


class Line(NamedTuple):
    """A line through points.  Kinds: data, control, across (to another device), back (into the backward part), move."""

    source: int
    target: int
    points: list[tuple[float, float]]
    kind: str


class Stub(NamedTuple):
    """The end of a line that is too long to draw: it leaves (or, if not `out`, comes to) a node at x, y, upwards or downwards."""

    node: int
    x: float
    y: float
    up: bool
    out: bool


class Lane(NamedTuple):
    """The column of a device."""

    x: float
    width: float
    label: str
    note: str
    colour: int


class Frame(NamedTuple):
    """What encloses the operators of a name scope."""

    x: float
    y: float
    width: float
    height: float
    label: str


class Label(NamedTuple):
    """Words at a place; `anchor` is SVG's start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str


class Drawing(NamedTuple):
    """All of a picture."""

    title: str
    width: float
    height: float
    lanes: list[Lane]
    frames: list[Frame]
    lines: list[Line]
    stubs: list[Stub]
    boxes: list[Box]
    labels: list[Label]
    links: list[tuple[int, int]]  # all edges, also those that are no lines


def natural(name: str) -> tuple[object, ...]:
    """Return a key that sorts gpu_10 behind gpu_9."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
