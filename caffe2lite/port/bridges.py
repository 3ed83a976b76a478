"""Imports of the packages that bridge Python 2 and 3 (six, future, past): which of them a script can do without."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import os

from caffe2lite.port import gone


def is_one(module: str) -> bool:
    """Return whether a module is part of a bridge that has to be installed."""
    top = module.partition(".")[0]
    return top in gone.BRIDGES and top != "builtins"


def is_installed(module: str) -> bool:
    """Return whether plain Python finds the package of a bridge."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def needless(tree: ast.Module, path: str = "") -> set[tuple[int, str]]:
    """Return (line, name) of what is imported from bridges and is not used, or is a builtin of Python 3 by the same name."""
    if os.path.basename(path) == "__init__.py":
        return set()  # others may take it from there
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    exported = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(node.lineno, a.name) for a in node.names if is_one(a.name) and _bound(a) not in used | exported}
        elif isinstance(node, ast.ImportFrom) and is_one(node.module or "") and not node.level:
            found |= {(node.lineno, a.name) for a in node.names if _is_needless(node, a, used | exported)}
    return found


def _is_needless(node: ast.ImportFrom, a: ast.alias, used: set[str]) -> bool:
    same = node.module in ("six.moves", "future.builtins") and a.asname in (None, a.name) and hasattr(builtins, a.name)
    return same or (a.name != "*" and _bound(a) not in used)


def _bound(a: ast.alias) -> str:
    return a.asname or a.name.partition(".")[0]
