"""What the names of a script mean: its imports, and dotted names that are rooted in them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Import(NamedTuple):
    """One name that a script imports: `import MODULE as alias`, or `from MODULE import NAME as alias`."""

    node: ast.Import | ast.ImportFrom
    module: str
    name: str  # "" for a module as such
    alias: str  # what the script calls it
    meaning: str  # the dotted name that the alias stands for


def imports(tree: ast.AST) -> Iterator[Import]:
    """Yield the imports of a script, except those relative to itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                root = a.name.split(".")[0]
                yield Import(node, a.name, "", a.asname or root, a.name if a.asname else root)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for a in node.names:
                yield Import(node, node.module, a.name, a.asname or a.name, f"{node.module}.{a.name}")


def aliases(imported: Iterable[Import]) -> dict[str, str]:
    """Return {name in the script: the dotted name that it stands for}."""
    return {i.alias: i.meaning for i in imported}


def dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """Return the dotted name of an expression that is rooted in one of the aliases, "" for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return ""
    return ".".join([aliases[node.id], *reversed(parts)])
