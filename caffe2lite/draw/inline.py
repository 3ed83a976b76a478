"""Nets and blobs as HTML, for notebooks, and nets in memory as a page in the browser."""

from __future__ import annotations

import html
import pathlib
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any

from caffe2lite.draw.picture import picture, to_html
from caffe2lite.draw.svg import words
from caffe2lite.draw.values import Values, values_of
from caffe2lite.ops.kit.infer import Spec

_MOST = 400  # operators of nets that are drawn without being asked; a notebook keeps what it shows
_ROWS = 100  # blobs


class Inline:
    """HTML that a notebook shows."""

    def __init__(self, content: str) -> None:
        self._content = content

    def _repr_html_(self) -> str:
        return self._content


def show(model: Any, shapes: Mapping[str, Spec] | None = None, height: int = 600) -> Inline | str:
    """Show a net, a plan or a model that is in memory: in a notebook as the cell's result, else in the browser.

    The path of the page comes back where a browser was asked to open it.
    """
    held = nets_in(model)
    title = str(getattr(model, "name", "") or (held[-1].name if held else "")) or "net"
    page = to_html(held, title, shapes)
    if _in_notebook():
        return Inline(framed(page, height))
    with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as f:
        f.write(page)
    webbrowser.open(pathlib.Path(f.name).as_uri())
    return f.name


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


def nets_in(model: Any) -> list[Any]:
    """Return the NetDefs of a Net, a Plan, a model (its initialization first), or of a message of one of these."""
    if hasattr(model, "param_init_net"):
        return [net.Proto() for net in (model.param_init_net, model.net) if len(net.Proto().op) or net is model.net]
    if hasattr(type(model), "Proto"):
        model = model.Proto()
    if hasattr(model, "op"):
        return [model]
    if hasattr(model, "network"):
        return list(model.network)
    raise TypeError(f"a net, a plan or a model can be drawn, not a {type(model).__name__}")


def framed(page: str, height: int = 600) -> str:
    """Return a page as a part of another one."""
    style = f"width:100%;height:{height}px;border:1px solid #c9cdd2;border-radius:5px"
    return f'<iframe srcdoc="{html.escape(page)}" style="{style}"></iframe>'


def nets_html(model: Any, shapes: Mapping[str, Spec]) -> str:
    """Return what a notebook shows of nets: the page, or for large ones how many operators of each type there are."""
    held = nets_in(model)
    if sum(len(net.op) for net in held) > _MOST:
        return "".join(_summary(net) for net in held) + "<p><code>draw.show(…)</code> of caffe2lite draws it</p>"
    return framed(to_html(held, str(held[-1].name) if held else "plan", shapes), 480)


def net_svg(model: Any, shapes: Mapping[str, Spec]) -> str | None:
    """Return the picture of the last net, None where it is large."""
    held = nets_in(model)
    if not held or len(held[-1].op) > _MOST:
        return None
    return picture(held[-1], "svg", shapes).decode()


def _summary(net: Any) -> str:
    types: dict[str, int] = {}
    for op in net.op:
        types[op.type] = types.get(op.type, 0) + 1
    rows = sorted(types.items(), key=lambda item: -item[1])
    return f"<b>{words(net.name)}</b>: {len(net.op):,} operators" + _table(("operator", "how many"), rows)


def blobs_html(values: Mapping[str, Any]) -> str:
    """Return a table of blobs: arrays in few numbers, other values by their type."""
    rows = []
    for name, value in list(values.items())[:_ROWS]:
        found = values_of(value) if hasattr(value, "dtype") else None
        rows.append((name, *(_cells(found) if found is not None else (type(value).__name__, "", "", "", "", ""))))
    more = f"<p>and {len(values) - _ROWS:,} more</p>" if len(values) > _ROWS else ""
    return _table(("blob", "type", "shape", "least", "mean", "most", "first"), rows) + more


def _cells(found: Values) -> tuple[str, ...]:
    span = ("" if v is None else f"{v:.4g}" for v in (found.least, found.mean, found.most))
    odd = f" ({found.odd:,} NaN or infinite)" if found.odd else ""
    return found.kind + odd, " × ".join(map(str, found.shape)) or "scalar", *span, ", ".join(found.first)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top = "".join(f"<th>{words(cell)}</th>" for cell in head)
    lines = ("<tr>" + "".join(f"<td>{words(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
