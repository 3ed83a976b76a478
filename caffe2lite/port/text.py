"""Python 2's `str`, which was text and bytes at once: bytes that understand text, and files that take and give both.

Text that was read from a file is the same bytes again when it is written: what is no UTF-8 stands in it as lone surrogates.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable
from typing import Any

MARK = "__caffe2lite_call__"  # a name that the globals of legacy modules have


def encoded(value: Any) -> Any:
    """Return text as bytes, anything else as it is."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def decoded(value: Any) -> Any:
    """Return bytes as text, anything else as it is."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def tolerant(value: Any) -> Any:
    """Return bytes, also in a tuple or list, so that they understand text."""
    if type(value) is bytes:
        return Bytes(value)
    if type(value) in (tuple, list) and any(type(part) is bytes for part in value):
        return type(value)(map(tolerant, value))
    return value


class Bytes(bytes):
    """Bytes that can be compared, joined, formatted and searched with text; together with text they are text where they can be."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return bytes.__repr__(self)[1:]

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __hash__(self) -> int:
        return hash(str(self))  # a key is found by text

    def __eq__(self, other: object) -> bool:
        return bytes.__eq__(self, encoded(other))

    def __ne__(self, other: object) -> bool:
        return bytes.__ne__(self, encoded(other))

    def __lt__(self, other: Any) -> bool:
        return bytes.__lt__(self, encoded(other))

    def __le__(self, other: Any) -> bool:
        return bytes.__le__(self, encoded(other))

    def __gt__(self, other: Any) -> bool:
        return bytes.__gt__(self, encoded(other))

    def __ge__(self, other: Any) -> bool:
        return bytes.__ge__(self, encoded(other))

    def __contains__(self, part: Any) -> bool:
        return bytes.__contains__(self, encoded(part))

    def __add__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._joined(other, lambda a, b: b + a)

    def __mod__(self, values: Any) -> Any:
        return str(self) % values

    def _joined(self, other: Any, join: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, str):
            try:
                return join(bytes.decode(self), other)
            except UnicodeDecodeError:
                other = encoded(other)
        return Bytes(join(bytes(self), bytes(other)))

    def __mul__(self, times: Any) -> Bytes:
        return Bytes(bytes.__mul__(self, times))

    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> Bytes:
        return Bytes(bytes.__getitem__(self, key if isinstance(key, slice) else slice(key, key + 1 or None)))

    def __iter__(self) -> Any:
        return (Bytes((number,)) for number in bytes.__iter__(self))

    def __reduce__(self) -> Any:
        return bytes, (bytes(self),)  # who reads it need not have caffe2lite

    def format(self, *args: Any, **kwargs: Any) -> str:
        """As of text."""
        return str(self).format(*args, **kwargs)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """They are encoded already."""
        return self


def _of_bytes(name: str) -> Callable[..., Any]:
    method = getattr(bytes, name)

    def called(self: Bytes, *args: Any) -> Any:
        given = (tuple(map(encoded, a)) if isinstance(a, (tuple, list)) else encoded(a) for a in args)
        return tolerant(method(self, *given))

    called.__name__ = name
    return called


_METHODS = [
    "capitalize", "center", "count", "endswith", "expandtabs", "find", "index", "join", "ljust", "lower", "lstrip",
    "partition", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "swapcase", "title", "upper", "zfill",
]  # fmt: skip
for _name in _METHODS:
    setattr(Bytes, _name, _of_bytes(_name))


_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\b"))


def is_text(content: bytes, cut: bool = False) -> bool:
    """Return whether bytes are text: UTF-8 without control characters; `cut`: they may end within a character."""
    if content.translate(None, _CONTROL) != content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError as e:
        return cut and e.start >= len(content) - 3 and e.reason == "unexpected end of data"
    return True


class File(io.IOBase):
    """A file of Python 2: it takes text and bytes, and gives text where it was opened for text and holds some.

    Otherwise legacy code gets bytes that understand text, other code plain bytes.
    """

    def __init__(self, buffer: Any, mode: str, text: bool) -> None:
        self.buffer, self.mode, self._text = buffer, mode, text
        self.name = getattr(buffer, "name", "<memory>")

    def _given(self, content: bytes) -> Any:
        if self._text:
            return decoded(content)
        return Bytes(content) if MARK in sys._getframe(2).f_globals else content

    def read(self, size: int | None = -1) -> Any:
        """Return so many bytes, or all that are left."""
        return self._given(self.buffer.read(size))

    def readline(self, size: int | None = -1) -> Any:  # type: ignore[override]
        """Return a line with its end."""
        return self._given(self.buffer.readline(-1 if size is None else size))

    def __next__(self) -> Any:
        line = self.buffer.readline()
        if not line:
            raise StopIteration
        return self._given(line)

    def readlines(self, hint: int | None = -1) -> list[Any]:
        """Return the lines that are left."""
        return [self._given(line) for line in self.buffer.readlines(-1 if hint is None else hint)]

    def readinto(self, place: Any) -> int:
        """Read into a buffer."""
        return self.buffer.readinto(place)

    def write(self, content: Any) -> int:
        """Write text or bytes."""
        return self.buffer.write(encoded(content))

    def writelines(self, lines: Any) -> None:
        """Write pieces, one after another."""
        for line in lines:
            self.write(line)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        return self.buffer.seek(offset, whence)

    def tell(self) -> int:
        """Return the place, in bytes."""
        return self.buffer.tell()

    def truncate(self, size: int | None = None) -> int:
        """Cut the file."""
        return self.buffer.truncate(size)

    def flush(self) -> None:
        """Write what waits."""
        if not self.buffer.closed:
            self.buffer.flush()

    def close(self) -> None:
        """Close the file."""
        self.buffer.close()
        super().close()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.buffer.fileno()

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self.buffer.isatty()

    def readable(self) -> bool:
        """Return whether it can be read."""
        return self.buffer.readable()

    def writable(self) -> bool:
        """Return whether it can be written."""
        return self.buffer.writable()

    def seekable(self) -> bool:
        """Return whether one can go to a place."""
        return self.buffer.seekable()


def open(name: Any, mode: str = "r", buffering: int = -1, **more: Any) -> Any:
    """`open` and `file` of Python 2; what is called as only Python 3's can be, is Python 3's."""
    if more or isinstance(name, int):
        return builtins.open(name, mode, buffering, **more)
    plain = mode.replace("U", "").replace("t", "").replace("b", "") or "r"
    buffer = builtins.open(name, f"{plain}b", -1 if buffering == 1 else buffering)  # noqa: SIM115 - the caller closes it
    text = "b" not in mode
    if text and plain[0] == "r" and buffer.seekable() and os.path.isfile(buffer.name):
        text = is_text(buffer.peek(4096)[:4096], cut=True) if hasattr(buffer, "peek") else text
    return File(buffer, mode, text)


class StringIO(File):
    """StringIO.StringIO of Python 2, a file in memory: text as long as there is nothing but text in it."""

    def __init__(self, content: Any = b"") -> None:
        super().__init__(io.BytesIO(encoded(content or b"")), "r+", text=True)

    def _given(self, content: bytes) -> Any:
        if is_text(self.buffer.getvalue()):
            return decoded(content)
        return Bytes(content) if MARK in sys._getframe(2).f_globals else content

    def getvalue(self) -> Any:
        """Return all that is in it."""
        return self._given(self.buffer.getvalue())
