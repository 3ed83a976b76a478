"""The project that a script belongs to: where it begins, and which Python its files mean."""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from caffe2lite.port import python2

_MARKS = ("setup.py", "setup.cfg", "pyproject.toml", "requirements.txt", "environment.yml", "Makefile", "Dockerfile")
_WORDS = ("readme", "install", "license", "copying", "contributing")
_NO_SOURCES = ("node_modules", "site-packages", "dist-packages", "venv", "env", "build", "__pycache__")
_MOST_FILES = 150  # that are read for a guess
_LEVELS = 5  # above a script


class Guess(NamedTuple):
    """Which Python a project means, and by what one sees it."""

    python2: bool
    why: str


def root_of(path: str) -> str:
    """Return the folder of the project that a file is in: that of a checkout, or the nearest that looks like a project's."""
    folder = os.path.dirname(os.path.realpath(path))
    above = [folder]
    while len(above) <= _LEVELS and os.path.dirname(above[-1]) != above[-1]:
        above.append(os.path.dirname(above[-1]))
    ends = {os.path.realpath(os.path.expanduser("~")), os.path.realpath("/tmp"), os.path.abspath(os.sep)}
    above = above[: next((i for i, place in enumerate(above) if place in ends and i), len(above))]
    for place in above:
        if os.path.exists(os.path.join(place, ".git")):
            return place
    return next((place for place in above if _looks_like_one(place)), folder)


def _looks_like_one(folder: str) -> bool:
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(n in _MARKS or n.lower().startswith(_WORDS) for n in names)


def sources(root: str, ends: tuple[str, ...] = (".py",)) -> Iterator[str]:
    """Yield the Python files of a project, or files of other kinds, those of upper folders first."""
    waiting = [root]
    while waiting:
        folder = waiting.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in _NO_SOURCES:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(ends):
                yield entry.path


def guess(path: str, root: str = "") -> Guess:
    """Say which Python a file means that both can read: as the files nearest to it, else as the project says of itself.

    A file that was mended is of Python 3, whatever the others are.
    """
    if _mended(path):
        return Guess(False, f"as it was mended: {os.path.basename(path)}.orig is what it was")
    root = root or root_of(path)
    votes = _votes(root)
    folder = os.path.dirname(os.path.realpath(path))
    while True:
        near = [(name, vote) for name, vote in votes if name.startswith(folder.rstrip(os.sep) + os.sep)]
        if near or folder == root or os.path.dirname(folder) == folder:
            break
        folder = os.path.dirname(folder)
    if near:
        means2 = sum(vote for _, vote in near) * 2 >= len(near)
        return Guess(means2, f"as {os.path.relpath(next(n for n, v in near if v == means2), root)} is written")
    said = _said(root)
    return said if said is not None else Guess(False, "nothing in the project says otherwise")


def _mended(path: str) -> bool:
    """Return whether `port --write` has written the file: it leaves what was there beside it."""
    return os.path.lexists(f"{path}.orig")


@functools.cache
def _votes(root: str) -> list[tuple[str, bool]]:
    """Return (file, whether it is of Python 2) of the files of a project that show it."""
    found = []
    for path, _ in zip(sources(root), range(_MOST_FILES)):
        with contextlib.suppress(OSError):
            shown = False if _mended(path) else _shows(python2.read(path), path)
            if shown is not None:
                found.append((path, shown))
    return found


def _shows(source: str, path: str) -> bool | None:
    """Return whether a file is of Python 2 (True) or 3 (False); None for one that is of both."""
    first = source.partition("\n")[0]
    if first.startswith("#!"):
        found = _SHEBANG.search(first)
        if found is not None:
            return found[1] == "2"
    try:
        tree = python2.parse(source, path)
    except python2.Unreadable:
        return None
    if tree is None:
        return True if _PRINTS.search(source) or _CATCHES.search(source) else None
    shown = python2.shown(tree, source)
    return True if shown is None and python2.guesses(tree, source) else shown


_SHEBANG = re.compile(r"python(2|3)")
_PRINTS = re.compile(r"^[ \t]*print[ \t]+[\"'\w]", re.M)
_CATCHES = re.compile(r"^[ \t]*except[ \t]+\w+[ \t]*,[ \t]*\w+[ \t]*:", re.M)
_SAYS = re.compile(r"python[ \t_:=>~-]{0,4}([23])(?![\w])(?!\.x)", re.I)


def _said(root: str) -> Guess | None:
    for name in sorted(os.listdir(root)):
        if name.lower().startswith(("readme", "install", "setup.py", "dockerfile", "environment", "requirements")):
            path = os.path.join(root, name)
            if not os.path.isfile(path):
                continue
            versions = set(_SAYS.findall(python2.read(path)[:100_000]))
            if len(versions) == 1:
                return Guess(versions == {"2"}, f"as {name} says")
    return None


class Own(NamedTuple):
    """What a project defines itself, in whatever file."""

    functions: frozenset[str]
    operators: dict[str, str]  # compiled for Caffe2's C++ engine: {type: file}
    imported: frozenset[str] = frozenset()  # parts of the names of modules that its files import


_DEFINES = re.compile(r"^[ \t]*(?:def|class)[ \t]+(\w+)|\bsetattr\([^,\n]{1,80},[ \t]*[\"'](\w+)", re.M)
_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.M)
_REGISTERS = re.compile(r"\b(?:REGISTER_(?:CPU|CUDA|CUDNN|HIP)_OPERATOR(?:_STR)?|OPERATOR_SCHEMA)\(\s*(\w+)")


@functools.cache
def own(root: str) -> Own:
    """Return the names that the files of a project define."""
    functions: set[str] = set()
    operators: dict[str, str] = {}
    imported: set[str] = set()
    for path in sources(root, (".py", ".cc", ".cu", ".cpp", ".h")):
        with contextlib.suppress(OSError):
            content = python2.read(path)
            if path.endswith(".py"):
                functions.update(name for pair in _DEFINES.findall(content) for name in pair)
                imported.update(part for name in _IMPORTS.findall(content) for part in name.split("."))
            else:
                operators |= {name: os.path.relpath(path, root) for name in _REGISTERS.findall(content)}
    return Own(frozenset(functions - {""}), operators, frozenset(imported))


def left_out(source: str, path: str, tree: ast.Module | None) -> frozenset[str]:
    """Return what of a file's conversion is to be left out: what works as it is.

    A module is looked for beside another one only where that is imported as a part of a package.
    """
    found = {"future"}
    folder = os.path.basename(os.path.dirname(os.path.realpath(path)))
    if _MAIN.search(source) or not os.path.exists(path) or folder not in own(root_of(path)).imported:
        found.add("import")
    if tree is not None and not any(what in ("print", "print >>") for _, what in python2.traits(tree)):
        found.add("print")
    return frozenset(found)


_MAIN = re.compile(r"^if[ \t]+__name__\b", re.M)
