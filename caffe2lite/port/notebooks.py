"""Notebooks: the Python in their cells as one text, and back.

Lines that are IPython's and not Python's (`%matplotlib inline`, `!ls`, `name?`) and whole cells of other languages (`%%bash`)
stand in the text as `pass` with a comment, and come back as they were.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from caffe2lite.port import python2

_CELL = "# caffe2lite, cell "
_KEPT = "pass  # caffe2lite, IPython: "
_COMMAND = re.compile(r"%%?\w|[!?]")
_CAPTURED = re.compile(r"%\w|!")  # what stands behind `names =`
_NAMES = re.compile(r"[\w., \t]+")
_HELP = re.compile(r"[\w.*%]+\?\??")
_STILL_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")  # cells that go on in Python below their first line


class Notebook:
    """The text of a notebook file.  Unreadable where it is none."""

    def __init__(self, text: str, path: str) -> None:
        self.path, self.text = path, text
        try:
            self.content = json.loads(text)
        except ValueError as e:
            line, reason = getattr(e, "lineno", 1), getattr(e, "msg", str(e))
            raise python2.Unreadable(path, f"it is no notebook: {reason}", line) from None
        try:
            cells = [(number, cell, key, _joined(cell[key])) for number, cell, key in _code(self.content)]
        except (AttributeError, KeyError, TypeError):
            raise python2.Unreadable(path, "it is no notebook: its cells are not where they should be") from None
        language = str(self._kernel.get("language", "python")).lower()
        if not language.startswith("python"):
            raise python2.Unreadable(path, f"it is a notebook of {language}")
        self.cells = [(number, cell, key, *_without_magics(source)) for number, cell, key, source in cells]

    @property
    def source(self) -> str:
        """The Python of all cells, each below a comment with its number."""
        return "".join(f"{_CELL}{number}\n{python}\n" for number, _, _, python, _ in self.cells)

    def place(self, line: int) -> tuple[int, int]:
        """Return (cell, line in it) of a line of `source`; cells of every kind count, from 1."""
        at = 1  # of a cell's first line
        found = (1, 1)
        for number, _, _, python, _ in self.cells:
            at += 1
            if line >= at - 1:
                found = (number, max(1, line - at + 1))
            at += python.count("\n") + 1
        return found

    @property
    def is_python2(self) -> bool:
        """Whether it asks for a kernel of Python 2."""
        return self._kernel.get("name") == "python2"

    @property
    def _kernel(self) -> dict[str, Any]:
        metadata = self.content.get("metadata")
        kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
        return kernel if isinstance(kernel, dict) else {}

    def mended(self, source: str) -> str:
        """Return the file with the cells of a mended `source`, on a kernel of Python 3.  Call it once; all else stays as it is."""
        parts = re.split(rf"^{re.escape(_CELL)}(\d+)\n", source, flags=re.M)
        if [int(number) for number in parts[1::2]] != [number for number, *_ in self.cells]:
            raise python2.Unreadable(self.path, "its cells could not be told apart after mending")
        style = _style(self.text, self.content)
        for k, ((_, cell, key, python, magics), made) in enumerate(zip(self.cells, parts[2::2])):
            made = (parts[0] if k == 0 else "") + made.removesuffix("\n")
            if made != python:
                text = _with_magics(made, magics)
                cell[key] = text.splitlines(keepends=True) if isinstance(cell[key], list) else text
        if self.is_python2:
            self._kernel.update(display_name="Python 3", name="python3")
            self.content["metadata"].pop("language_info", None)  # a kernel writes its own
        return _dumped(self.content, *style)


def _code(content: Any) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Yield (number, cell, key of its source) of the code cells, of formats 3 and 4."""
    sheets = content.get("worksheets", [content])
    cells = [cell for sheet in sheets for cell in sheet["cells"]]
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") == "code":
            yield number, cell, "input" if "input" in cell else "source"


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _without_magics(source: str) -> tuple[str, list[str]]:
    """Return (source with `pass` in the place of what is IPython's, these lines)."""
    if python2.parse(source, "") is not None:
        return source, []
    if source.lstrip().startswith("%%") and not source.lstrip().startswith(_STILL_PYTHON):
        return f"{_KEPT}0", [source]
    lines: list[str] = []
    magics: list[str] = []
    goes_on, indent = False, ""
    for line in source.split("\n"):
        if not goes_on and not _is_magic(line):
            lines.append(line)
            continue
        if not goes_on:
            indent = line[: len(line) - len(line.lstrip())]
        lines.append(f"{indent}{_KEPT}{len(magics)}")
        magics.append(line)
        goes_on = line.endswith("\\")
    return "\n".join(lines), magics


def _is_magic(line: str) -> bool:
    """Return whether a line is IPython's; no pattern looks at the line more than once, however long it is."""
    text = line.strip()
    if _COMMAND.match(text) or _HELP.fullmatch(text):
        return True
    names, equals, value = text.partition("=")
    return bool(equals and _CAPTURED.match(value.lstrip()) and _NAMES.fullmatch(names))


def _with_magics(source: str, magics: list[str]) -> str:
    return re.sub(rf"^[ \t]*{re.escape(_KEPT)}(\d+)$", lambda found: magics[int(found[1])], source, flags=re.M)


def _style(text: str, content: Any) -> tuple[int | None, bool, str]:
    """Return (indent, whether ASCII only, end) with which the file was written; as nbformat writes where it is none of these."""
    for style in itertools.product((1, 2, 4, None), (False, True), ("\n", "")):
        if _dumped(content, *style) == text:
            return style
    return 1, False, "\n"


def _dumped(content: Any, indent: int | None, ascii_only: bool, end: str) -> str:
    return json.dumps(content, indent=indent, ensure_ascii=ascii_only) + end
