"""Imports of a script's own modules while it runs: they may be as old as the script is."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from typing import Any

from caffe2lite.port import python2
from caffe2lite.port.notebooks import Notebook


def compiled(path: str) -> Any:
    """Return the code object of a legacy file, as this Python runs it."""
    return compile(python2.load(python2.read(path), path).tree, path, "exec", dont_inherit=True)


def cells(path: str) -> list[Any]:
    """Return the code objects of a notebook's cells; tracebacks name the cell.  What is IPython's is passed over."""
    notebook = Notebook(python2.read(path), path)
    try:
        tree = python2.load(notebook.source, path).tree
    except python2.Unreadable as e:
        cell, line = notebook.place(e.line)
        raise python2.Unreadable(f"{path}: cell {cell}", e.reason, line) from None
    found: dict[int, list[ast.stmt]] = {}
    for statement in tree.body:
        cell, line = notebook.place(statement.lineno)
        ast.increment_lineno(statement, line - statement.lineno)
        found.setdefault(cell, []).append(statement)
    return [
        compile(ast.Module(body, []), f"{path}, cell {cell}", "exec", dont_inherit=True) for cell, body in found.items()
    ]


def globals_of(name: str, path: str) -> dict[str, Any]:
    """Return the first names of a legacy module: Python 2's builtins are among its builtins."""
    return {
        "__name__": name,
        "__file__": path,
        "__doc__": None,
        "__package__": None,
        "__builtins__": {**vars(builtins), **python2.BUILTINS},
        **python2.HELPERS,
    }


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a legacy file.  Its code is not cached on disk: another Python would read the same cache."""

    def get_code(self, fullname: str) -> Any:
        return compiled(self.path)

    def exec_module(self, module: Any) -> None:
        variables = vars(module)
        for name, value in globals_of(module.__name__, self.path).items():
            if name.startswith(("__builtins", "__caffe2lite")):
                variables[name] = value
        exec(self.get_code(module.__name__), variables)


@contextlib.contextmanager
def imports_from(folder: str) -> Iterator[None]:
    """While it is entered, Python files under `folder` are imported as legacy code."""
    root = os.path.realpath(folder)
    details = [
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
        (_Loader, importlib.machinery.SOURCE_SUFFIXES),
    ]
    make = importlib.machinery.FileFinder.path_hook(*details)

    def hook(path: str) -> Any:
        where = os.path.realpath(path or ".")
        if os.path.commonpath([where, root]) != root or "site-packages" in where:
            raise ImportError
        return make(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
    try:
        yield
    finally:
        sys.path_hooks.remove(hook)
        sys.path_importer_cache.clear()
