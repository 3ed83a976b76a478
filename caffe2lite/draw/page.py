"""Nets as one HTML page that needs nothing else: pictures, a search, a panel with what is known of an operator."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from caffe2lite.draw.drawing import Drawing
from caffe2lite.draw.folding import Folded
from caffe2lite.draw.graph import Graph
from caffe2lite.draw.svg import style, svg, words
from caffe2lite.draw.values import Values
from caffe2lite.inspect.diff import value_of
from caffe2lite.ops.kit.infer import Spec

_LONGEST = 300  # characters of an argument's value


class Fold(NamedTuple):
    """A net with its scopes folded."""

    drawing: Drawing
    of: Folded


class Sheet(NamedTuple):
    """A net of the page: what is known of its blobs, the (sheet, operator) that it is in, and the sheets in its operators."""

    net: Any
    graph: Graph
    drawing: Drawing
    remark: str
    known: Mapping[str, Spec]
    parent: tuple[int, int] | None
    inner: Mapping[int, Sequence[tuple[str, int]]]
    fold: Fold | None


def page(title: str, sheets: Sequence[Sheet], values: Mapping[str, Values], steps: Sequence[str]) -> str:
    """Return the page of nets; `steps` are lines that tell the plan that runs them."""
    facts = [_facts(sheet, values) for sheet in sheets]
    pictures = "\n".join(
        f'<template data-net="{name}">{svg(drawing, sheet=False)}</template>'
        for i, sheet in enumerate(sheets)
        for name, drawing in ((f"{i}", sheet.drawing), *([(f"{i}f", sheet.fold.drawing)] if sheet.fold else []))
    )
    roots = [(i, sheet) for i, sheet in enumerate(sheets) if sheet.parent is None]
    choices = "".join(f'<option value="{i}">{words(sheet.net.name or "(no name)")}</option>' for i, sheet in roots)
    script = _part("page.js")
    parts = {
        "ALLOWED": f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",  # this script, no other
        "TITLE": words(title),
        "STYLE": style(),
        "SHEET": _part("page.css"),
        "CHOICES": choices,
        "HIDDEN": "" if len(roots) > 1 else "hidden",
        "PICTURES": pictures,
        "FACTS": _inert({"nets": facts, "steps": list(steps)}),
        "SCRIPT": script,
    }
    pieces = _part("page.html").split("%%")  # text, name, text, name, …, text
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _part(name: str) -> str:
    return importlib.resources.files("caffe2lite.draw").joinpath(name).read_text(encoding="utf-8")


def _inert(value: object) -> str:
    """JSON that can stand within a script element, whatever is in it."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(sheet: Sheet, values: Mapping[str, Values]) -> dict[str, Any]:
    net, graph, drawing = sheet.net, sheet.graph, sheet.drawing
    operators = []
    for position, (op, node) in enumerate(zip(net.op, graph.nodes)):
        fact = {"type": str(op.type), "device": node.device, "in": _texts(op.input), "out": _texts(op.output)}
        args = {str(arg.name): _value(arg) for arg in op.arg}
        more = {
            "name": str(op.name), "engine": str(op.engine), "args": args, "after": _texts(op.control_input),
            "scope": node.scope, "debug": str(op.debug_info)[:_LONGEST], "nets": list(sheet.inner.get(position, ())),
        }  # fmt: skip
        operators.append(fact | {key: value for key, value in more.items() if value})
    inputs = [{"type": "", "device": n.device, "in": [], "out": [n.title]} for n in graph.nodes[graph.operators :]]
    return {
        "name": str(net.name),
        "kind": str(net.type or "simple"),
        "remark": sheet.remark,
        "parent": sheet.parent,
        "nodes": operators + inputs,
        "operators": graph.operators,
        "boxes": _boxes(drawing),
        "links": drawing.links,
        "fold": sheet.fold and _folded(sheet.fold),
        "shapes": {
            str(blob): f"{spec.dtype or '?'} {' × '.join(map(str, spec.shape)) or 'scalar'}"
            for blob, spec in sheet.known.items()
        },
        "values": {blob: values[blob]._asdict() for blob in _held(net) if blob in values},
    }


def _held(net: Any) -> set[str]:
    """Return the blobs that a net takes and does not make."""
    return {str(b) for op in net.op for b in op.input} - {str(b) for op in net.op for b in op.output}


def _boxes(drawing: Drawing) -> dict[int, list[int]]:
    return {b.node: [round(b.x), round(b.y), round(b.width), round(b.height), b.colour] for b in drawing.boxes}


def _folded(fold: Fold) -> dict[str, Any]:
    nodes = [
        {"title": node.title, "device": node.device, "members": members}
        for node, members in zip(fold.of.graph.nodes, fold.of.members)
    ]
    return {"nodes": nodes, "boxes": _boxes(fold.drawing), "links": fold.drawing.links}


def _texts(names: Any) -> list[str]:
    return [str(name) for name in names]


def _value(arg: Any) -> str:
    for field in ("floats", "ints", "strings"):
        values = getattr(arg, field)
        if len(values) > 40:
            return f"{', '.join(map(str, itertools.islice(values, 12)))}, … ({len(values):,} values)"
    text = str(value_of(arg))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
