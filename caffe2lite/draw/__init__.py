"""Pictures of nets.

from caffe2lite import draw, inspect
draw.draw(inspect.read("net.pb"), "net.html")
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from caffe2lite.draw.inline import show
from caffe2lite.draw.picture import drawing_of, picture, to_html
from caffe2lite.draw.values import Values
from caffe2lite.inspect.checkpoint import predictor_of, stored
from caffe2lite.inspect.files import File, nets_of
from caffe2lite.ops.kit.infer import Spec

__all__ = ["FORMATS", "draw", "drawing_of", "nets", "picture", "show", "to_html"]

FORMATS = ("html", "svg", "png", "dot")
_LARGEST = 500_000  # operators, inputs and outputs of a net; a page of them takes ten seconds


def draw(
    file: File,
    out: str | os.PathLike[str],
    shapes: Mapping[str, Spec] | None = None,
    net: str | None = None,
    values: Mapping[str, Values] | None = None,
) -> list[str]:
    """Draw the nets of a file into another, whose ending says how: .html, .svg, .png or .dot.

    HTML shows all nets of a file; the others the one named `net`, or the largest.  `shapes` of inputs let others be inferred;
    the page tells `values`.
    The names of the nets that are not drawn come back.
    """
    form = pathlib.Path(out).suffix.lstrip(".").lower()
    if form not in FORMATS:
        raise ValueError(f"{os.fspath(out)} ends in none of .{', .'.join(FORMATS)}")
    held = nets(file)
    if not held:
        raise ValueError(f"{file.path} is a {file.kind}: it holds no net to draw")
    if net is not None:
        named = [n for n in held if n.name == net]
        if not named:
            raise ValueError(f"{file.path} has no net {net!r}; it has {', '.join(repr(str(n.name)) for n in held)}")
        held = named
    for each in held:
        size = len(each.op) + sum(len(op.input) + len(op.output) for op in each.op)
        if size > _LARGEST:
            raise ValueError(
                f"net {str(each.name)!r} is too large to draw: {len(each.op):,} operators with {size - len(each.op):,} inputs and "
                f"outputs, and {_LARGEST:,} can be drawn"
            )
    title = pathlib.Path(file.path).name
    if form == "html":
        plan = file.message if file.kind == "plan" and net is None else None
        content = to_html(held, title, shapes, values, plan).encode()
        left = []
    else:
        largest = max(held, key=lambda n: len(n.op))
        content = picture(largest, form, shapes)
        left = [str(n.name) for n in held if n is not largest]
    pathlib.Path(out).write_bytes(content)
    return left


def nets(file: File) -> list[Any]:
    """Return the nets of a file, of a predictor export's database as well."""
    if file.kind in ("minidb", "lmdb"):
        meta = predictor_of(file.path, file.kind, stored(file.path, file.kind))
        return [] if meta is None else [n.value for n in meta.nets]
    return nets_of(file) or []
