"""Tables and lines for people: aligned and folded to a terminal, one row a line where the output is piped; JSON; trouble."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import json
import math
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

_GAP = "  "
_WORD = 40  # a longer word may be cut


class Trouble(click.ClickException):
    """What a command cannot do, in a sentence; its exit status differs from that of a finding."""

    exit_code = 2


class Input(click.Path):
    """A file or folder that is there; `-` is what comes through standard input, kept in a file until the end."""

    def __init__(self, suffix: str = "") -> None:
        super().__init__(exists=True)
        self._suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            folder = tempfile.TemporaryDirectory()
            atexit.register(folder.cleanup)
            value = os.path.join(folder.name, f"stdin{self._suffix}")
            with open(value, "wb") as f:
                shutil.copyfileobj(click.get_binary_stream("stdin"), f)
        return super().convert(value, param, ctx)


def say(line: str = "", bold: bool = False) -> None:
    """Print a line; on a terminal it is folded between words, and may be bold."""
    text = shown(line)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        if len(text) > width and "\n" not in text:
            indent = " " * (len(text) - len(text.lstrip()) + 2)
            text = "\n".join(
                textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
            )
    click.echo(click.style(text, bold=True) if bold else text)


def say_json(value: Any) -> None:
    """Print JSON; numbers that JSON has no words for become strings."""
    try:
        text = json.dumps(value, indent=1, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=1, default=str)
    click.echo(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def shown(text: object) -> str:
    """Return text as it may be printed anywhere: control characters and lone surrogates of a file's names are escaped."""
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in plain)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns' names."""
    cells = [[shown(cell).replace("\n", " ") for cell in row] for row in rows]
    if sys.stdout.isatty() and cells:
        kept = [i for i in range(len(columns)) if any(row[i] for row in cells)]
        columns, cells = [columns[i] for i in kept], [[row[i] for i in kept] for row in cells]
    widths = [max(len(name), *(len(row[i]) for row in cells), 0) for i, name in enumerate(columns)]
    if sys.stdout.isatty():
        words = [max((len(w) for row in cells for w in row[i].split()), default=0) for i in range(len(columns))]
        words = [max(len(name), min(word, _WORD)) for name, word in zip(columns, words)]
        widths = fitted(widths, shutil.get_terminal_size().columns - len(_GAP) * (len(columns) - 1), words)
    click.echo(click.style("\n".join(_folded(columns, widths)), bold=True))
    lines: list[str] = []
    for row in cells:
        lines += _folded(row, widths)
    if lines:
        click.echo("\n".join(lines))


def fitted(widths: Sequence[int], room: int, words: Sequence[int] = ()) -> list[int]:
    """Return widths that fit into `room`: the widest columns give way, as far as their longest `words` allow where that will do.

    Otherwise none goes below 12 unless there is no other way, and then 6.
    """
    fit = list(widths)
    if words:
        _shrink(fit, room, words)
    for least in (12, 6):
        _shrink(fit, room, [least] * len(fit))
    return fit


def _shrink(fit: list[int], room: int, least: Sequence[int]) -> None:
    excess = sum(fit) - room
    while excess > 0:
        free = [i for i, width in enumerate(fit) if width > least[i]]
        if not free:
            return
        widest = max(free, key=fit.__getitem__)
        second = max((fit[i] for i in free if i != widest), default=0)
        step = max(1, min(excess, fit[widest] - max(second, least[widest])))
        fit[widest] -= step
        excess -= step


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join([cell.ljust(width) for cell, width in zip(row, widths)]).rstrip()


def _folded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    if all(len(cell) <= width for cell, width in zip(row, widths)):
        return [_line(row, widths)]
    parts = [_fold(cell, width) for cell, width in zip(row, widths)]
    height = max(map(len, parts))
    return [_line([part[i] if i < len(part) else "" for part in parts], widths) for i in range(height)]


def _fold(cell: str, width: int) -> list[str]:
    """Return the cell in pieces of at most `width`, broken after a space or comma where there is one, or else within a name."""
    pieces = []
    while len(cell) > width:
        cuts = (max(cell.rfind(mark, 0, width) for mark in marks) + 1 for marks in (" ,", "/_"))
        cut = next((cut for cut in cuts if cut > width // 2), width)
        pieces.append(cell[:cut].rstrip())
        cell = cell[cut:]
    return [*pieces, cell]


@contextlib.contextmanager
def progress(verb: str, number: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is begun; on a terminal it shows that, and how far the work is."""
    done = 0
    shows = number > 1 and sys.stderr.isatty()

    def step(thing: str) -> None:
        nonlocal done
        done += 1
        if shows:
            line = f"{verb} {done} of {number}: {shown(thing)}"
            click.echo(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", nl=False, err=True)

    try:
        yield step
    finally:
        if shows:
            click.echo("\r\x1b[K", nl=False, err=True)


def nearest(name: str, names: Sequence[str], most: int = 5) -> str:
    """Return all names, or where they are many those that look most like the one that was meant, and how many others there are."""
    if len(names) <= most:
        return ", ".join(names)
    close = difflib.get_close_matches(name, names, most, 0.5) or list(names[:most])
    return f"{', '.join(close)} (and {count(len(names) - len(close), 'other')})"


def count(number: int, thing: str) -> str:
    """`1 blob`, `3 blobs`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def amount(size: int) -> str:
    """Return the bytes in a unit that reads well: `4,096 bytes`, `102.2 MB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return count(size, "byte")
