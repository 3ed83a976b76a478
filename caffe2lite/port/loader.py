"""Imports of a script's own modules while it runs: they may be as old as the script is."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

from caffe2lite.port import cython, meaning, project, python2
from caffe2lite.port.notebooks import Notebook


class Reader:
    """Reads legacy files as one Python: that which was asked for, or which the project of each means."""

    def __init__(self, version: int | None = None) -> None:
        self.version = version
        self.guesses: dict[str, str] = {}  # {file that both can read and that was taken for Python 2: why}

    def load(self, source: str, path: str, otherwise: Callable[[], bool] | None = None) -> python2.Code:
        """Return source as code for this Python: as it was asked for, else as it shows, else as its project (or `otherwise`) says."""
        asked = self.version == 2 if self.version else otherwise or (lambda: self._guessed(path))
        with python2.deep(path):
            means2 = python2.means_python2(python2.parse(source, path), source, path, asked)
        return python2.load(source, path, means2)

    def _guessed(self, path: str) -> bool:
        found = project.guess(path)
        if found.python2:
            self.guesses[path] = found.why
        return found.python2

    def compiled(self, path: str) -> tuple[Any, bool]:
        """Return (the code object of a legacy file as this Python runs it, whether it is Python 2)."""
        code = self.load(python2.read(path), path)
        return _compiled(code.tree, path), code.python2

    def cells(self, path: str) -> tuple[list[Any], bool]:
        """Return the code objects of a notebook's cells; tracebacks name the cell.  What is IPython's is passed over."""
        notebook = Notebook(python2.read(path), path)
        try:
            code = self.load(notebook.source, path, (lambda: True) if notebook.is_python2 else None)
        except python2.Unreadable as e:
            cell, line = notebook.place(e.line)
            raise python2.Unreadable(f"{path}: cell {cell}", e.reason, line) from None
        found: dict[int, list[ast.stmt]] = {}
        for statement in code.tree.body:
            cell, line = notebook.place(statement.lineno)
            ast.increment_lineno(statement, line - statement.lineno)
            found.setdefault(cell, []).append(statement)
        codes = [_compiled(ast.Module(body, []), f"{path}, cell {cell}") for cell, body in found.items()]
        return codes, code.python2


def _compiled(tree: ast.Module, path: str) -> Any:
    with python2.deep(path):
        return compile(tree, path, "exec", dont_inherit=True)


def globals_of(name: str, path: str, is_python2: bool = True) -> dict[str, Any]:
    """Return the first names of a legacy module: Python 2's builtins are among its builtins."""
    return {
        "__name__": name,
        "__file__": path,
        "__doc__": None,
        "__package__": None,
        "__builtins__": {
            **vars(builtins),
            **meaning.BUILTINS,
            "execfile": python2.execfile,
            **(meaning.CHANGED if is_python2 else {}),
        },
        **meaning.HELPERS,
    }


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a legacy file.  Its code is not cached on disk: another Python would read the same cache."""

    def __init__(self, reader: Reader, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.reader = reader

    def get_code(self, fullname: str) -> Any:
        return self.reader.compiled(self.path)[0]

    def exec_module(self, module: Any) -> None:
        variables = vars(module)
        code, is_python2 = self.reader.compiled(self.path)
        for name, value in globals_of(module.__name__, self.path, is_python2).items():
            if name.startswith(("__builtins", "__caffe2lite")):
                variables[name] = value
        exec(code, variables)


class _Nearby(importlib.abc.MetaPathFinder):
    """The last finder: what no path leads to may be in one other folder of the project, for which its README sets PYTHONPATH."""

    def __init__(self, root: str, say: Callable[[str], None]) -> None:
        self.root, self.say = root, say

    @functools.cached_property
    def folders(self) -> dict[str, set[str]]:
        """{name of a module: the folders that hold it}, for the modules and packages of the project."""
        found: dict[str, set[str]] = {}
        for path in project.sources(self.root):
            folder, name = os.path.split(path)
            found.setdefault(name[:-3], set()).add(folder)
            upper, package = os.path.split(folder)
            if folder != self.root:
                found.setdefault(package, set()).add(upper)
        return found

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of the project that is in one place only, and put that on the path."""
        if "." in fullname:
            return None
        places = self.folders.get(fullname, set())
        if len(places) != 1:
            return None
        (folder,) = places
        if folder in sys.path:
            return None
        self.say(f"{fullname} is in {folder}, which no path leads to: taken from there, as PYTHONPATH={folder} would")
        sys.path.append(folder)
        return importlib.machinery.PathFinder.find_spec(fullname)


@contextlib.contextmanager
def imports_from(root: str, reader: Reader, say: Callable[[str], None]) -> Iterator[None]:
    """While it is entered, Python files of the project, and of folders that come to the path, are imported as legacy code."""
    root = os.path.realpath(root)
    foreign = _foreign()
    details = [
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
        (functools.partial(_Loader, reader), importlib.machinery.SOURCE_SUFFIXES),
        (functools.partial(cython.Loader, say), [".pyx"]),
    ]
    make = importlib.machinery.FileFinder.path_hook(*details)

    def hook(path: str) -> Any:
        where = os.path.realpath(path or ".")
        own = _within(where, root) or not any(_within(where, place) for place in foreign)
        if not own or any(part in ("site-packages", "dist-packages") for part in where.split(os.sep)):
            raise ImportError
        return make(path)

    nearby = _Nearby(root, say)
    sys.path_hooks.insert(0, hook)
    sys.meta_path.append(nearby)
    sys.path_importer_cache.clear()
    try:
        yield
    finally:
        sys.meta_path.remove(nearby)
        sys.path_hooks.remove(hook)
        sys.path_importer_cache.clear()


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _foreign() -> list[str]:
    """Return the folders whose modules are as new as this Python: all that is on the path by itself."""
    asked = {os.path.realpath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    asked.add(os.path.realpath("."))
    own = [os.path.realpath(p) for p in sys.path if p]
    return [
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))),
        os.path.realpath(sysconfig.get_path("stdlib")),
        *(p for p in own if p not in asked),
    ]
