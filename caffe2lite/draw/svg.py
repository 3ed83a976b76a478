"""A Drawing as SVG.  Names come from files that nobody vouches for: each goes through `words`."""

from __future__ import annotations

import importlib.resources
import unicodedata
from collections.abc import Iterator
from xml.sax.saxutils import escape

from caffe2lite.draw.drawing import Box, Drawing, Line, Stub

COLOURS = 10
_CHARACTER = 7.4  # pixels that one takes, about, in the font of the titles
_SMALL = 6.0


def fitted(text: object, room: float | None = None, character: float = _CHARACTER) -> str:
    """Return text without control characters, cut in its middle to fit into `room` pixels."""
    shown = "".join("�" if unicodedata.category(c)[0] == "C" else c for c in str(text))
    limit = None if room is None else max(3, int(room / character))
    if limit is not None and len(shown) > limit:
        tail = (limit - 1) * 3 // 5
        shown = shown[: limit - 1 - tail] + "…" + shown[-tail:]
    return shown


def words(text: object, room: float | None = None, character: float = _CHARACTER) -> str:
    """Return text for an element or attribute: `fitted`, and no markup."""
    return escape(fitted(text, room, character), {'"': "&quot;", "'": "&#39;"})


def style() -> str:
    """Return the style sheet of the picture."""
    return importlib.resources.files("caffe2lite.draw").joinpath("picture.css").read_text(encoding="utf-8")


def svg(drawing: Drawing, sheet: bool = True) -> str:
    """Return the SVG element; with `sheet`, its style is in it, and it is a file of its own."""
    return "\n".join(_parts(drawing, sheet))


def _parts(d: Drawing, sheet: bool) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="net" role="img" viewBox="0 0 {d.width:.0f} {d.height:.0f}" '
        f'width="{d.width:.0f}" height="{d.height:.0f}"><title>{words(d.title)}</title>'
    )
    if sheet:
        yield f"<style>{style()}</style>"
    yield "<defs>"
    for name in ("tip", "mark"):  # the heads of arrows
        yield f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        yield f'<path class="{name}" d="M0 0L8 4L0 8z"/></marker>'
    yield '<marker id="from" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="6" markerHeight="6">'
    yield '<circle class="mark" cx="4" cy="4" r="3"/></marker>'
    yield '</defs><rect class="paper" width="100%" height="100%"/><g class="scene">'
    for lane in d.lanes:
        c = lane.colour % COLOURS
        yield f'<rect class="lane c{c}" x="{lane.x:.0f}" y="0" width="{lane.width:.0f}" height="{d.height:.0f}"/>'
    for f in d.frames:
        yield f'<rect class="frame" rx="8" x="{f.x:.0f}" y="{f.y:.0f}" width="{f.width:.0f}" height="{f.height:.0f}"/>'
    yield '<g class="lines">'
    yield from map(_line, d.lines)
    yield from map(_stub, d.stubs)
    yield '</g><g class="boxes">'
    yield from map(_box, d.boxes)
    yield "</g>"
    for f in d.frames:
        place = f'x="{f.x + 8:.0f}" y="{f.y + 13:.0f}"'
        yield f'<text class="scope" {place}>{words(f.label, f.width - 12)}</text>'
    for label in d.labels:
        yield f'<text class="label" x="{label.x:.0f}" y="{label.y:.0f}" text-anchor="{label.anchor}">'
        yield f"{words(label.text, 200, _SMALL)}</text>"
    yield '<g class="heads">'
    for lane in d.lanes:
        c, middle = lane.colour % COLOURS, lane.x + lane.width / 2
        yield f'<rect class="head c{c}" x="{lane.x:.0f}" y="0" width="{lane.width:.0f}" height="44"/>'
        yield f'<rect class="stripe c{c}" x="{lane.x:.0f}" y="41" width="{lane.width:.0f}" height="3"/>'
        place = f'x="{middle:.0f}" data-room="{lane.width:.0f}" text-anchor="middle"'
        yield f'<text class="device" y="19" {place}>{words(lane.label, lane.width, 10)}</text>'
        yield f'<text class="note" y="34" {place}>{words(lane.note, lane.width)}</text>'
    yield "</g></g></svg>"


def _box(b: Box) -> str:
    c, tall = b.colour % COLOURS, b.height > 30
    radius = b.height / 2 if b.kind == "input" else 5
    mark = "⇄ " if b.kind == "collective" else ""
    lines = [(b.title, "title", 15 if tall else 12), (b.detail, "detail", 29 if tall else 23)]
    if not b.detail:
        lines = [(b.title, "title", b.height / 2 + 4)]
    text = "".join(
        f'<text class="{name}" x="{b.width / 2:.0f}" y="{y:.0f}">{mark if name == "title" else ""}'
        f"{words(said, b.width - (30 if mark else 14), _CHARACTER if name == 'title' else _SMALL)}</text>"
        for said, name, y in lines
    )
    stripe = "" if b.kind == "input" else f'<rect class="stripe c{c}" width="4" height="{b.height:.0f}"/>'
    return (
        f'<g class="box {b.kind}" id="n{b.node}" transform="translate({b.x:.0f} {b.y:.0f})">'
        f"<title>{words(b.title)}: {words(b.detail)}</title>"
        f'<rect class="body" width="{b.width:.0f}" height="{b.height:.0f}" rx="{radius:.0f}"/>{stripe}{text}</g>'
    )


def _line(line: Line) -> str:
    return f'<path class="line {line.kind}" data-a="{line.source}" data-b="{line.target}" d="{_path(line)}"/>'


def _path(line: Line) -> str:
    (x, y), *others = line.points
    path = [f"M{x:.0f} {y:.0f}"]
    for to_x, to_y in others:
        if line.kind == "move":
            path.append(f"L{to_x:.0f} {to_y:.0f}")
        elif line.kind == "back":
            middle = (x + to_x) / 2
            path.append(f"C{middle:.0f} {y:.0f} {middle:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}")
        x, y = to_x, to_y
    return "".join(path)


def _stub(stub: Stub) -> str:
    return f'<path class="stub{" out" if stub.out else ""}" d="M{stub.x:.0f} {stub.y:.0f}v{-9 if stub.up else 9}"/>'
