"""A Drawing as PNG, by Pillow: the places and colours of the SVG."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from caffe2lite.draw.drawing import Box, Drawing, Line
from caffe2lite.draw.svg import COLOURS, fitted, style
from caffe2lite.extras import install

_LARGEST = 60e6  # pixels; a larger drawing is scaled down
_FINEST = 2.0  # pixels for one of the drawing
# The colours of the SVG's style sheet on light paper, which it names first.
_LOOK = dict(re.findall(r"--(\w+): (#\w+)", style().partition("@media")[0]))
_PAPER, _INK, _SOFT, _BODY, _EDGE, _RULE, _MARK = (
    _LOOK[n] for n in ["paper", "ink", "soft", "body", "edge", "rule", "mark"]
)
LANES = [_LOOK[f"c{i}"] for i in range(COLOURS)]
_STEPS = 12  # straight parts of a curve


def png(drawing: Drawing) -> bytes:
    """Return a picture of the drawing; RuntimeError where Pillow is not installed."""
    try:
        from PIL import Image, ImageDraw  # an extra
    except ImportError:
        raise RuntimeError(f"PNG needs Pillow: {install('image')}; SVG and HTML need nothing") from None
    area = drawing.width * drawing.height
    scale = min(_FINEST, (_LARGEST / area) ** 0.5, 60_000 / drawing.width, 60_000 / drawing.height)
    size = max(1, round(drawing.width * scale)), max(1, round(drawing.height * scale))
    image = Image.new("RGB", size, _PAPER)
    _Painter(ImageDraw.Draw(image), scale).paint(drawing)
    held = io.BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


def _mixed(colour: str, paper: str, part: float) -> str:
    """Return so much of a colour over another."""
    pairs = zip(*(bytes.fromhex(c[1:]) for c in (colour, paper)))
    return "#" + bytes(round(a * part + b * (1 - part)) for a, b in pairs).hex()


class _Painter:
    def __init__(self, draw: Any, scale: float) -> None:
        self.draw, self.scale = draw, scale

    def paint(self, d: Drawing) -> None:
        for lane in d.lanes:
            self.box(lane.x, 0, lane.width, d.height, fill=_mixed(LANES[lane.colour % COLOURS], _PAPER, 0.055))
        for f in d.frames:
            self.box(f.x, f.y, f.width, f.height, 8, outline=_RULE)
        for line in d.lines:
            self.line(line)
        for s in d.stubs:
            self.path([(s.x, s.y), (s.x, s.y + (-9 if s.up else 9))], _EDGE, 2.4)
        for b in d.boxes:
            self.node(b)
        for f in d.frames:
            self.text(f.x + 8, f.y + 13, fitted(f.label, f.width - 12), 10.5, _SOFT, "ls")
        for label in d.labels:
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[label.anchor]
            self.text(label.x, label.y, fitted(label.text, 200, 6.0), 11, _INK, anchor)
        for lane in d.lanes:
            middle = lane.x + lane.width / 2
            self.box(lane.x, 0, lane.width, 44, fill=_PAPER)
            self.box(lane.x, 41, lane.width, 3, fill=LANES[lane.colour % COLOURS])
            self.text(middle, 19, fitted(lane.label, lane.width, 10), 14, _INK, "ms")
            self.text(middle, 34, fitted(lane.note, lane.width), 10.5, _SOFT, "ms")

    def node(self, b: Box) -> None:
        """Paint an operator or an input."""
        collective, tall = b.kind == "collective", b.height > 30
        edge = _MARK if collective else _EDGE if b.kind in ("gradient", "input") else _RULE
        radius = b.height / 2 if b.kind == "input" else 5
        self.box(
            b.x, b.y, b.width, b.height, radius, _PAPER if b.kind == "input" else _BODY, edge, 2 if collective else 1
        )
        if b.kind != "input":
            self.box(b.x, b.y, 4, b.height, fill=LANES[b.colour % COLOURS])
        middle, title = b.x + b.width / 2, fitted(b.title, b.width - (30 if collective else 14))
        up = 15 if tall else 12
        self.text(middle, b.y + (up if b.detail else b.height / 2 + 4), title, 11, _MARK if collective else _INK, "ms")
        if b.detail:
            self.text(middle, b.y + (29 if tall else 23), fitted(b.detail, b.width - 14, 6.0), 9.5, _SOFT, "ms")

    def line(self, line: Line) -> None:
        """Paint a line, and its head where it has one."""
        far = line.kind in ("across", "back")
        colour = _MARK if line.kind in ("across", "move") else _EDGE
        points = list(line.points) if line.kind == "move" else list(_curve(line))
        self.path(points, _mixed(colour, _PAPER, 0.4) if far else colour, 1.2)
        if not far:
            self.head(points, colour)

    def head(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        (x, y), (to_x, to_y) = points[-2:]
        length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
        dx, dy = (to_x - x) / length * 6, (to_y - y) / length * 6
        corners = [(to_x, to_y), (to_x - dx - dy / 2, to_y - dy + dx / 2), (to_x - dx + dy / 2, to_y - dy - dx / 2)]
        self.draw.polygon([self.at(*c) for c in corners], fill=colour)

    def path(self, points: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        self.draw.line([self.at(*p) for p in points], fill=colour, width=max(1, round(width * self.scale)))

    def box(
        self, x: float, y: float, w: float, h: float, radius: float = 0, fill: str | None = None, outline: str | None = None,
        width: int = 1,
    ) -> None:  # fmt: skip
        place = [*self.at(x, y), *self.at(x + w, y + h)]
        wide = max(1, round(width * self.scale)) if outline else 0
        self.draw.rounded_rectangle(place, radius * self.scale, fill, outline, wide)

    def text(self, x: float, y: float, text: str, size: float, colour: str, anchor: str) -> None:
        if text and size * self.scale >= 4:
            self.draw.text(self.at(x, y), text, fill=colour, font=_font(round(size * self.scale)), anchor=anchor)

    def at(self, x: float, y: float) -> tuple[float, float]:
        return x * self.scale, y * self.scale


@functools.cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _curve(line: Line) -> Iterator[tuple[float, float]]:
    """Yield points of the Bézier curves of a line, as the SVG bends them."""
    (x, y), *others = line.points
    yield x, y
    for to_x, to_y in others:
        sideways = line.kind == "back"
        middle = (x + to_x) / 2 if sideways else (y + to_y) / 2
        first, second = ((middle, y), (middle, to_y)) if sideways else ((x, middle), (to_x, middle))
        for i in range(1, _STEPS + 1):
            t = i / _STEPS
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield (
                a * x + b * first[0] + c * second[0] + d * to_x,
                a * y + b * first[1] + c * second[1] + d * to_y,
            )
        x, y = to_x, to_y
