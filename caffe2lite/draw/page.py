"""Nets as one HTML page that needs nothing else: pictures, a search, a panel with what is known of an operator."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from caffe2lite.draw.drawing import Drawing
from caffe2lite.draw.graph import Graph
from caffe2lite.draw.svg import style, svg, words
from caffe2lite.inspect.diff import value_of
from caffe2lite.ops.kit.infer import Spec

_LONGEST = 300  # characters of an argument's value


def page(title: str, nets: Sequence[tuple[Any, Graph, Drawing, str]], shapes: Sequence[Mapping[str, Spec]]) -> str:
    """Return the page for (net, graph, drawing, remark) of each net, and the shapes known in each."""
    facts = [_facts(*net, known) for net, known in zip(nets, shapes)]
    pictures = "\n".join(
        f'<template data-net="{i}">{svg(drawing, sheet=False)}</template>' for i, (_, _, drawing, _) in enumerate(nets)
    )
    choices = "".join(f'<option value="{i}">{words(net[0].name or "(no name)")}</option>' for i, net in enumerate(nets))
    script = _part("page.js")
    parts = {
        "ALLOWED": f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",  # this script, no other
        "TITLE": words(title),
        "STYLE": style() + _part("page.css"),
        "CHOICES": choices,
        "HIDDEN": "" if len(nets) > 1 else "hidden",
        "PICTURES": pictures,
        "FACTS": _inert(facts),
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


def _facts(net: Any, graph: Graph, drawing: Drawing, remark: str, known: Mapping[str, Spec]) -> dict[str, Any]:
    operators = []
    for op, node in zip(net.op, graph.nodes):
        fact = {"type": str(op.type), "device": node.device, "in": _texts(op.input), "out": _texts(op.output)}
        args = {str(arg.name): _value(arg) for arg in op.arg}
        more = {
            "name": str(op.name), "engine": str(op.engine), "args": args, "after": _texts(op.control_input),
            "scope": node.scope, "debug": str(op.debug_info)[:_LONGEST],
        }  # fmt: skip
        operators.append(fact | {key: value for key, value in more.items() if value})
    inputs = [{"type": "", "device": n.device, "in": [], "out": [n.title]} for n in graph.nodes[graph.operators :]]
    return {
        "name": str(net.name),
        "kind": str(net.type or "simple"),
        "remark": remark,
        "nodes": operators + inputs,
        "operators": graph.operators,
        "boxes": {b.node: [round(b.x), round(b.y), round(b.width), round(b.height), b.colour] for b in drawing.boxes},
        "links": drawing.links,
        "shapes": {
            str(blob): f"{spec.dtype or '?'} {' × '.join(map(str, spec.shape)) or 'scalar'}"
            for blob, spec in known.items()
        },
    }


def _texts(names: Any) -> list[str]:
    return [str(name) for name in names]


def _value(arg: Any) -> str:
    for field in ("floats", "ints", "strings"):
        values = getattr(arg, field)
        if len(values) > 40:
            return f"{', '.join(map(str, itertools.islice(values, 12)))}, … ({len(values):,} values)"
    text = str(value_of(arg))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
