"""Where values go: files opened as text that hold bytes, StringIO that holds bytes, and results that were lists or integers.

One scope at a time, statement after statement; names and dotted names are followed, calls of the script's own functions are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

TEXT_FILE, MEMORY, CONTENT, LAZY, QUOTIENT = "text file", "memory", "content", "lazy", "quotient"
LOSES_BYTES, IN_MEMORY, INDEXED, FRACTION = "file", "memory", "indexed", "fraction"


class Found(NamedTuple):
    """What breaks: `node` is the call or the value that has to change, `use` the place that shows it."""

    kind: str
    node: ast.expr
    use: ast.AST
    alone: bool  # nothing else is done with it that contradicts


# Functions that take or give bytes, by their last name: the position of the argument that is a file or bytes.
_FILE_TAKERS = {
    "pickle.load": 0, "pickle.dump": 1, "pickle.Unpickler": 0, "pickle.Pickler": 0, "marshal.load": 0, "marshal.dump": 1,
    "np.load": 0, "np.save": 0, "np.savez": 0, "np.fromfile": 0, "numpy.load": 0, "numpy.save": 0, "numpy.fromfile": 0,
    "Image.open": 0, "plt.savefig": 0, "torch.load": 0, "torch.save": 1, "joblib.load": 0,
}  # fmt: skip
_BYTES_TAKERS = {
    "ParseFromString": 0, "MergeFromString": 0, "FromString": 0, "unpack": 1, "unpack_from": 1, "decompress": 0, "frombuffer": 0,
    "pickle.loads": 0, "b64encode": 0, "sendall": 0, "send": 0,
}  # fmt: skip
_BYTES_MAKERS = (
    "SerializeToString", "pickle.dumps", "struct.pack", "tobytes", "tostring", "b64decode", "zlib.compress",
    "urlopen.read", "marshal.dumps", "content",
)  # fmt: skip
_LAZY = ("zip", "map", "filter")
_VIEWS = ("keys", "values", "items")


def breaks(tree: ast.Module) -> list[Found]:
    """Return what goes wrong, in the order of the lines."""
    found: list[Found] = []
    for body in _scopes(tree):
        found += _Scope(body).found()
    return sorted(found, key=lambda f: (f.use.lineno, f.use.col_offset))  # type: ignore[attr-defined]


def _scopes(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    yield tree.body
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.body


class _Value(NamedTuple):
    kind: str
    node: ast.expr


_KEEP_FRACTIONS = (ast.Add, ast.Sub, ast.Mult)


class _Scope:
    """The values of one function's names."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.names: dict[str, _Value] = {}
        self.hits: list[tuple[str, ast.expr, ast.AST]] = []
        self.as_text: set[int] = set()  # ids of nodes that are used as text, too
        self._block(body)

    def found(self) -> Iterator[Found]:
        """Yield each node once."""
        seen: set[int] = set()
        for kind, node, use in self.hits:
            if id(node) not in seen:
                seen.add(id(node))
                yield Found(kind, node, use, id(node) not in self.as_text)

    # ---- statements

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if isinstance(node, ast.ClassDef):
                self._block([part for part in node.body if not isinstance(part, ast.FunctionDef)])
            return
        for field, value in ast.iter_fields(node):
            if field in ("body", "orelse", "finalbody", "handlers", "cases"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.withitem):
                    self._use(part.context_expr)
                    if part.optional_vars is not None:
                        self._assign(part.optional_vars, part.context_expr)
                elif isinstance(part, ast.expr):
                    self._use(part)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.For):
            value = self._value(node.iter)
            if value is not None and value.kind in (TEXT_FILE, MEMORY):
                self.as_text.add(id(value.node))
            self._forget(node.target)
        for field in ("body", "orelse", "finalbody"):
            self._block(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            self._block(handler.body)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        name = _key(target)
        if not name:
            self._forget(target)
            return
        known = self._value(value)
        if known is None:
            self.names.pop(name, None)
        else:
            self.names[name] = known

    def _forget(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            if isinstance(node, (ast.Name, ast.Attribute)):
                self.names.pop(_key(node), None)

    # ---- values

    def _value(self, node: ast.expr) -> _Value | None:
        key = _key(node)
        if key:
            return self.names.get(key)
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.Div) and not is_fraction(node.left) and not is_fraction(node.right):
                return _Value(QUOTIENT, node)
            if isinstance(node.op, _KEEP_FRACTIONS):
                return self._fraction_in(node)
        if not isinstance(node, ast.Call):
            return None
        called = _called(node)
        if called in ("open", "file"):
            mode = _mode(node)
            return None if mode is None or "b" in mode else _Value(TEXT_FILE, node)
        if called.rpartition(".")[2] == "StringIO":
            return _Value(MEMORY, node)
        if called in _LAZY or (isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and not node.args):
            return _Value(LAZY, node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("read", "readline", "getvalue"):
            owner = self._value(node.func.value)
            return _Value(CONTENT, owner.node) if owner is not None and owner.kind == TEXT_FILE else None
        return None

    def _fraction_in(self, node: ast.BinOp) -> _Value | None:
        """The quotient that is an operand of sums, differences and products: a + b + c is (a + b) + c, as deep as it is long."""
        found, rest = None, node.left
        operands = [node.right]
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, _KEEP_FRACTIONS):
            operands.append(rest.right)
            rest = rest.left
        for operand in (*operands, rest):
            value = self._value(operand)
            if value is not None and value.kind == QUOTIENT:
                found = value
        return found

    def _is_bytes(self, node: ast.expr) -> bool:
        """Return whether an expression is surely of bytes."""
        if isinstance(node, ast.Attribute):
            return node.attr == "content"
        if isinstance(node, ast.Constant):
            return isinstance(node.value, bytes)
        if not isinstance(node, ast.Call):
            return False
        called = _called(node)
        if called.endswith(".read") and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            return isinstance(owner, ast.Call) and (
                _called(owner).endswith("urlopen") or (_called(owner) == "open" and "b" in (_mode(owner) or ""))
            )
        return any(called == name or called.endswith(f".{name}") for name in _BYTES_MAKERS)

    # ---- uses

    def _use(self, expression: ast.expr) -> None:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Subscript):
                self._subscript(node)

    def _subscript(self, node: ast.Subscript) -> None:
        value = self._value(node.value)
        indexed = isinstance(node.ctx, ast.Load) and (_number(node.slice) or isinstance(node.slice, ast.Slice))
        if value is not None and value.kind == LAZY and indexed:
            self.hits.append((INDEXED, value.node, node))
        bounds = [node.slice] if not isinstance(node.slice, ast.Tuple) else node.slice.elts
        for bound in bounds:
            if isinstance(bound, ast.Slice):
                for part in (bound.lower, bound.upper, bound.step):
                    inner = self._value(part) if part is not None else None
                    if inner is not None and inner.kind == QUOTIENT:
                        self.hits.append((FRACTION, inner.node, node))

    def _call(self, node: ast.Call) -> None:
        called = _called(node)
        last = called.rpartition(".")[2]
        if called in ("range", "xrange"):
            for argument in node.args:
                inner = self._value(argument)
                if inner is not None and inner.kind == QUOTIENT:
                    self.hits.append((FRACTION, inner.node, node))
        place = _FILE_TAKERS.get(called.replace("cPickle", "pickle"), _FILE_TAKERS.get(_tail(called)))
        if place is None and last in ("save", "savefig") and node.args:
            place = 0  # of an image or a figure
        if place is not None and len(node.args) > place:
            self._binary(self._value(node.args[place]), node)
        place = _BYTES_TAKERS.get(last, _BYTES_TAKERS.get(called.replace("cPickle", "pickle")))
        if place is not None and len(node.args) > place:
            value = self._value(node.args[place])
            if value is not None and value.kind == CONTENT:
                self.hits.append((LOSES_BYTES, value.node, node))
        if last == "StringIO" and node.args and self._is_bytes(node.args[0]):
            self.hits.append((IN_MEMORY, node, node))
        if last == "write" and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            value = self._value(node.func.value)
            if self._is_bytes(node.args[0]):
                self._binary(value, node)
            elif value is not None:
                self.as_text.add(id(value.node))
        if called in ("json.load", "json.dump", "csv.reader", "csv.writer", "yaml.load", "text_format.Merge"):
            for argument in node.args:
                value = self._value(argument)
                if value is not None:
                    self.as_text.add(id(value.node))

    def _binary(self, value: _Value | None, use: ast.AST) -> None:
        if value is not None and value.kind in (TEXT_FILE, MEMORY):
            self.hits.append((LOSES_BYTES if value.kind == TEXT_FILE else IN_MEMORY, value.node, use))


def _key(node: ast.expr) -> str:
    """Return the dotted name of a variable, "" for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _called(node: ast.Call) -> str:
    """Return the dotted name of what is called; of a method of a call's result, `function.method`."""
    whole = _key(node.func)
    if whole or not isinstance(node.func, ast.Attribute):
        return whole
    owner = node.func.value
    return f"{_tail(_key(owner.func)) if isinstance(owner, ast.Call) else ''}.{node.func.attr}"


def _tail(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def _mode(node: ast.Call) -> str | None:
    """Return the mode of an `open`; None where it is not written there."""
    mode: Any = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
    if any(k.arg in ("encoding", "errors", "newline") for k in node.keywords):
        return None
    if mode is None:
        return "r" if node.args else None
    return mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else None


def _number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


_FRACTIONS = (
    "float",
    "float32",
    "float64",
    "time",
    "clock",
    "sqrt",
    "exp",
    "log",
    "mean",
    "std",
    "norm",
    "spacing",
    "rand",
    "randn",
)


def is_fraction(node: ast.expr) -> bool:
    """Return whether it is surely no integer."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, int)
    if isinstance(node, ast.Call):
        words = {
            n.id if isinstance(n, ast.Name) else n.attr
            for n in ast.walk(node)
            if isinstance(n, (ast.Name, ast.Attribute))
        }
        typed = _called(node).rpartition(".")[2] in (
            "astype",
            "array",
            "asarray",
            "zeros",
            "ones",
            "full",
            "empty",
            "arange",
        )
        return _called(node).rpartition(".")[2] in _FRACTIONS or (typed and any(w.startswith("float") for w in words))
    if isinstance(node, ast.BinOp):
        return is_fraction(node.left) or is_fraction(node.right)
    return False
