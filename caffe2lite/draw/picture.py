"""NetDefs as pictures: one as SVG, dot or PNG, several as a page, with the nets that are within their operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from caffe2lite.draw.dot import dot
from caffe2lite.draw.drawing import Drawing
from caffe2lite.draw.folding import folded, scopes_of
from caffe2lite.draw.graph import graph_of
from caffe2lite.draw.layered import layered
from caffe2lite.draw.moves import of_sync
from caffe2lite.draw.page import Fold, Sheet, page
from caffe2lite.draw.raster import png
from caffe2lite.draw.svg import svg
from caffe2lite.draw.values import Values
from caffe2lite.engine.dependencies import blobs_of
from caffe2lite.engine.inference import infer_net
from caffe2lite.inspect.files import outline
from caffe2lite.inspect.sync import sync_of
from caffe2lite.ops.control.recurrent import net_of
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.infer import Spec

_DEEPEST = 5  # nets in each other
_FEWEST = 8  # operators of a net whose scopes are worth folding


def to_html(
    nets: Sequence[Any],
    title: str,
    shapes: Mapping[str, Spec] | None = None,
    values: Mapping[str, Values] | None = None,
    plan: Any = None,
) -> str:
    """Return NetDefs as one page that opens offline; what the first make is known to those that follow.

    `values` are told beside the blobs, and the steps of a `plan` beside its nets.
    """
    known: dict[str, Spec] = dict(shapes or {})
    sheets: list[Sheet] = []
    for net in nets:
        known = infer_net([net], known)
        _add(sheets, net, dict(known), None)
    steps = [line for step in plan.execution_step for line in outline(step)] if plan is not None else []
    return page(title, sheets, values or {}, steps)


def _add(sheets: list[Sheet], net: Any, known: dict[str, Spec], parent: tuple[int, int] | None, depth: int = 0) -> int:
    """Append a net and all within it; return its place."""
    graph = graph_of(net)
    drawing, remark = drawing_of(net, known)
    blobs = blobs_of([net])
    found = {name: spec for name, spec in known.items() if name in blobs}
    place = len(sheets)
    fold = None
    if not remark and graph.operators >= _FEWEST and len(scopes_of(graph)) > 1:
        members = folded(graph)
        fold = Fold(layered(members.graph, str(net.name)), members)
    inner: dict[int, list[tuple[str, int]]] = {}
    sheets.append(Sheet(net, graph, drawing, remark, found, parent, inner, fold))
    if depth < _DEEPEST:
        for position, op in enumerate(net.op):
            for name, within in nets_within(op):
                at = _add(sheets, within, infer_net([within], dict(known)), (place, position), depth + 1)
                inner.setdefault(position, []).append((name, at))
    return place


def nets_within(op: Any) -> Iterator[tuple[str, Any]]:
    """Yield (argument, NetDef) of the nets that an operator runs itself: branches, bodies of loops, steps."""
    record = registry.get(op.type)
    steps = record.step_nets if record is not None else frozenset()
    for arg in op.arg:
        if arg.HasField("n"):
            yield str(arg.name), arg.n
        for i, net in enumerate(arg.nets):
            yield f"{arg.name}[{i}]", net
        if arg.name in steps and arg.s:  # older nets hold them as text
            with contextlib.suppress(ValueError):
                yield str(arg.name), net_of(arg)


def picture(net: Any, form: str, shapes: Mapping[str, Spec] | None = None) -> bytes:
    """Return a NetDef as "svg", "dot" or "png"."""
    if form == "dot":
        return dot(graph_of(net), str(net.name)).encode()
    drawing = drawing_of(net, shapes)[0]
    return png(drawing) if form == "png" else svg(drawing).encode()


def drawing_of(net: Any, shapes: Mapping[str, Spec] | None = None) -> tuple[Drawing, str]:
    """Return (Drawing, what is to be said of it) of a NetDef: lanes for a net that synchronizes devices, layers for any other."""
    sync = sync_of(net, shapes)
    title = str(net.name)
    if sync is not None:
        return of_sync(net, sync, title), sync.explain()
    return layered(graph_of(net), title), ""
