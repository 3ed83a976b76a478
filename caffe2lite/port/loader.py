"""Imports of a script's own modules while it runs: they may be as old as the script is."""

from __future__ import annotations

import builtins
import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from typing import Any

from caffe2lite.port import python2


def compiled(path: str, source: str | None = None) -> Any:
    """The code object of a legacy file, as this Python runs it."""
    code = python2.load(python2.read(path) if source is None else source, path)
    return compile(code.tree, path, "exec", dont_inherit=True)


def globals_of(name: str, path: str) -> dict[str, Any]:
    """The first names of a legacy module: Python 2's builtins are among its builtins."""
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
