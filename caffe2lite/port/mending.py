"""Safe fixes of a legacy file: Python 2 by fissix, then names of NumPy and the standard library by LibCST.

Comments, blank lines and layout stay as they are.
"""

from __future__ import annotations

import ast
import io
import itertools
import os
import shutil
import tokenize
from collections.abc import Callable
from typing import Any, NamedTuple

from caffe2lite.extras import install
from caffe2lite.port import bridges, flow, gone, project, python2, scan
from caffe2lite.port.notebooks import Notebook
from caffe2lite.port.scan import ASK, Finding, divisions, examine, examine_source, in_cell

try:
    import libcst as cst
    from libcst import metadata
except ImportError as e:
    raise ImportError(f"rewriting scripts needs a package: {install('port')}", name="libcst") from e


class Mended(NamedTuple):
    """A file's text with the safe fixes, and what is left for a person to decide, by lines of that text."""

    text: str
    asks: list[Finding]


def mend(source: str, path: str, means2: bool | Callable[[], bool] | None = None) -> Mended:
    """Return the text with its safe fixes; python2.Unreadable where it is Python of no version.

    `means2` says what it means, or is asked where it does not show that.
    """
    with python2.deep(path):
        plain = python2.parse(source, path)
        is_python2 = python2.means_python2(plain, source, path, means2)
        text = python2.convert(source, path, project.left_out(source, path, plain)).text if is_python2 else source
        tree = python2.parse(text, path)
        try:
            if tree is not None and (places := _places(tree, text, is_python2)):
                text = metadata.MetadataWrapper(cst.parse_module(text)).visit(_Flows(places)).code
            fixed = metadata.MetadataWrapper(cst.parse_module(text)).visit(_Names(_left_out(text, path))).code
        except cst.ParserSyntaxError as e:
            raise python2.Unreadable(path, e.message, e.raw_line) from None
        asks = [f for f in examine_source(fixed, path, False).findings if f.fix == ASK and f.code != "P006"]
        mended = python2.parse(fixed, path)
        if is_python2 and mended is not None and not python2.has_true_division(source):
            asks += divisions(mended, path)
    return Mended(fixed, sorted(asks, key=lambda f: f.line))


_PICKLE = "pickle"


def _places(tree: ast.Module, text: str, is_python2: bool) -> dict[tuple[int, int], str]:
    """Return {(line, column) of a call: what is to be mended there}."""
    lines = text.split("\n")

    def place(node: ast.expr) -> tuple[int, int]:
        before = lines[node.lineno - 1].encode()[: node.col_offset]
        return node.lineno, len(before.decode())

    found = {place(f.node): f.kind for f in flow.breaks(tree) if f.alone and f.kind != flow.FRACTION}
    if is_python2:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and scan.is_old_pickle(node):
                found.setdefault(place(node), _PICKLE)
    return found


def _left_out(text: str, path: str) -> set[tuple[int, str]]:
    """Return (line, name) of the imports that are left out: those of bridges that nothing asks for."""
    tree = python2.parse(text, path)
    if tree is None:
        return set()
    guarded = {n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt) and id(n) in python2.guarded(tree)}
    return {place for place in bridges.needless(tree, path) if place[0] not in guarded}


def mend_file(path: str, version: int | None = None) -> tuple[str, Mended]:
    """Return (text, mended) of a script or a notebook."""
    text = python2.read(path)
    if path.endswith(".pyx"):
        return text, Mended(text, examine(path).findings)
    if not path.endswith(".ipynb"):
        return text, mend(text, path, version == 2 if version else lambda: project.guess(path).python2)
    notebook = Notebook(text, path)
    try:
        mended = mend(notebook.source, path, version == 2 if version else lambda: notebook.is_python2)
    except python2.Unreadable as e:
        cell, line = notebook.place(e.line)
        raise python2.Unreadable(f"{path}: cell {cell}", e.reason, line) from None
    asks = [in_cell(f, notebook) for f in mended.asks]
    if mended.text == notebook.source and not notebook.is_python2:
        return text, Mended(text, asks)
    return text, Mended(notebook.mended(mended.text), asks)


def write(path: str, mended: Mended, target: str | None = None) -> str:
    """Write the mended text to `target`, or in the place of the file, which stays as `path.orig`, or `.orig.2` beside an older one."""
    place, source = target or path, path
    if target is None:
        spare = (path + ".orig" + (f".{n}" if n > 1 else "") for n in itertools.count(1))
        source = next(name for name in spare if not os.path.lexists(name))
        os.replace(path, source)
    folder = os.path.dirname(place)
    if folder:
        os.makedirs(folder, exist_ok=True)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(mended.text.encode()).readline)  # what a coding line says
    with open(source, "rb") as old:
        newline = "\r\n" if b"\r\n" in old.read() else "\n"
    with open(place, "w", encoding=encoding, newline=newline) as f:
        f.write(mended.text)
    shutil.copymode(source, place)
    return place


class _Flows(cst.CSTTransformer):
    """Files of bytes are opened as such, pickles of Python 2 read, and lists made where lists were."""

    METADATA_DEPENDENCIES = (metadata.PositionProvider,)

    def __init__(self, places: dict[tuple[int, int], str]) -> None:
        super().__init__()
        self.places = places

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        start = self.get_metadata(metadata.PositionProvider, original_node).start
        kind = self.places.get((start.line, start.column))
        if kind == flow.LOSES_BYTES and _is_open(original_node):
            return _binary(updated_node)
        if kind == flow.IN_MEMORY:
            return updated_node.with_changes(func=_bytes_io(updated_node.func))
        if kind == flow.INDEXED and _is_lazy(original_node):
            return cst.Call(cst.Name("list"), [cst.Arg(updated_node)])
        if kind == _PICKLE and len(updated_node.args) == 1:
            plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            encoding = cst.Arg(cst.SimpleString("'latin1'"), cst.Name("encoding"), equal=plain)
            return updated_node.with_changes(args=[*updated_node.args, encoding])
        return updated_node

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        names = updated_node.names
        if flow.IN_MEMORY not in self.places.values() or isinstance(names, cst.ImportStar):
            return updated_node
        if not isinstance(updated_node.module, cst.Name) or updated_node.module.value != "io":
            return updated_node
        if {a.evaluated_name for a in names} == {"StringIO"}:
            return updated_node.with_changes(names=_listed([cst.ImportAlias(cst.Name("BytesIO")), *names]))
        return updated_node


def _is_open(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value in ("open", "file")


def _is_lazy(node: cst.Call) -> bool:
    return not (isinstance(node.func, cst.Name) and node.func.value == "list")


def _binary(node: cst.Call) -> cst.Call:
    """Return an `open` with a `b` in its mode."""
    args = list(node.args)
    at = next((i for i, a in enumerate(args) if (a.keyword.value == "mode" if a.keyword else i == 1)), None)
    if at is None:
        return node.with_changes(args=[*args, cst.Arg(cst.SimpleString("'rb'"))])
    mode = args[at].value
    if not isinstance(mode, cst.SimpleString):
        return node
    letters = mode.raw_value.replace("U", "").replace("t", "") or "r"
    changed = f"{mode.quote}{letters[0]}b{letters[1:]}{mode.quote}"
    args[at] = args[at].with_changes(value=cst.SimpleString(changed))
    return node.with_changes(args=args)


def _bytes_io(function: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(function, cst.Attribute):
        return function.with_changes(attr=cst.Name("BytesIO"))
    return cst.Name("BytesIO")


class _Names(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (metadata.QualifiedNameProvider, metadata.PositionProvider)

    def __init__(self, left_out: set[tuple[int, str]]) -> None:
        super().__init__()
        self.left_out = left_out

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:
        return self._needed(original_node, updated_node, updated_node.names)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:
        names = updated_node.names
        return updated_node if isinstance(names, cst.ImportStar) else self._needed(original_node, updated_node, names)

    def _needed(self, original: cst.CSTNode, updated: Any, names: Any) -> Any:
        """Return an import without the names that are left out."""
        line = self.get_metadata(metadata.PositionProvider, original).start.line
        kept = [a for a in names if (line, a.evaluated_name) not in self.left_out]
        if len(kept) == len(names):
            return updated
        return updated.with_changes(names=_listed(kept)) if kept else cst.RemoveFromParent()

    def _qualified(self, node: cst.CSTNode) -> str:
        """Return the full name of what an import brought, "" for anything else."""
        names = self.get_metadata(metadata.QualifiedNameProvider, node, set())
        imported = [n.name for n in names if n.source is metadata.QualifiedNameSource.IMPORT]
        return imported[0] if len(imported) == 1 else ""

    def _imported(self, node: cst.BaseExpression) -> bool:
        """Return whether it is a name in a module, and no method of what a call has returned."""
        inner = node
        while isinstance(inner, cst.Attribute):
            inner = inner.value
        return isinstance(inner, cst.Name) and self._qualified(node) != ""

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        whole = self._qualified(original_node)
        name = updated_node.attr.value
        if whole.startswith("numpy.") and whole.count(".") == 1 and name in gone.NUMPY:
            return _numpy(gone.NUMPY[name], updated_node)
        if whole.startswith("collections.") and whole in gone.NAMES:
            return updated_node.with_changes(value=cst.Attribute(updated_node.value, cst.Name("abc")))
        if whole == "time.clock":
            return updated_node.with_changes(attr=cst.Name("perf_counter"))
        instead = gone.UNITTEST.get(name, "")
        if instead.isidentifier() and isinstance(updated_node.value, cst.Name) and updated_node.value.value == "self":
            return updated_node.with_changes(attr=cst.Name(instead))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        function = updated_node.func
        if (
            isinstance(function, cst.Attribute)
            and function.attr.value == "tostring"
            and not self._imported(original_node.func)
        ):
            return updated_node.with_changes(func=function.with_changes(attr=cst.Name("tobytes")))
        if self._qualified(original_node.func) == "numpy.asscalar" and len(updated_node.args) == 1:
            value = updated_node.args[0].value
            if not isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) and not value.lpar:
                value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
            return cst.Call(cst.Attribute(value, cst.Name("item")))
        return updated_node

    def leave_SimpleStatementLine(self, original_node: Any, updated_node: cst.SimpleStatementLine) -> Any:
        """`from collections import Mapping, OrderedDict` in two lines where some have moved to collections.abc."""
        if not updated_node.body:
            return cst.RemoveFromParent()  # an import that was left out
        statement = updated_node.body[0]
        if (
            len(updated_node.body) != 1
            or not isinstance(statement, cst.ImportFrom)
            or isinstance(statement.names, cst.ImportStar)
        ):
            return updated_node
        module = statement.module
        if not isinstance(module, cst.Name) or module.value != "collections":
            return updated_node
        moved = [a for a in statement.names if f"collections.{a.evaluated_name}" in gone.NAMES]
        stay = [a for a in statement.names if a not in moved]
        if not moved:
            return updated_node
        abc = statement.with_changes(module=cst.Attribute(module, cst.Name("abc")), names=_listed(moved))
        if not stay:
            return updated_node.with_changes(body=[abc])
        first = updated_node.with_changes(body=[statement.with_changes(names=_listed(stay))])
        return cst.FlattenSentinel([first, cst.SimpleStatementLine([abc])])


def _listed(names: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return the names of an import, the last without a comma."""
    return [
        a.with_changes(
            comma=cst.MaybeSentinel.DEFAULT if a is names[-1] else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        )
        for a in names
    ]


def _numpy(instead: str, node: cst.Attribute) -> cst.BaseExpression:
    """Return what to write for a name of NumPy: a builtin, or another name under the same alias; the node where it is a call."""
    if instead.isidentifier():
        return cst.Name(instead)
    bare = instead.removeprefix("-").removeprefix("np.")
    if not bare.isidentifier():
        return node
    found = node.with_changes(attr=cst.Name(bare))
    return cst.UnaryOperation(cst.Minus(), found) if instead.startswith("-") else found
