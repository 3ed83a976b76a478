"""What every database offers."""

from __future__ import annotations

import enum
from collections.abc import Callable

from caffe2lite.paths import allowed


class DBError(RuntimeError):
    """A database that cannot be opened, or holds something else than records."""


class Mode(enum.IntEnum):
    """How a database is opened: for reading, for adding records, or anew."""

    read = 0
    write = 1
    new = 2


class Cursor:
    """Walks over the records of a database."""

    supports_seek = False

    def seek_to_first(self) -> None:
        """Go to the first record."""
        raise NotImplementedError

    def seek(self, key: bytes) -> None:
        """Go to the record of that key, or to the first one after it."""
        raise DBError("this database cannot seek: it can only be read from its beginning")

    def next(self) -> None:
        """Go to the next record."""
        raise NotImplementedError

    def valid(self) -> bool:
        """Whether there is a record here."""
        raise NotImplementedError

    def key(self) -> bytes:
        """Key of the record here."""
        raise NotImplementedError

    def value(self) -> bytes:
        """Value of the record here."""
        raise NotImplementedError

    def close(self) -> None:
        """Give files back."""


class Transaction:
    """Records that become visible together."""

    def put(self, key: bytes, value: bytes) -> None:
        """Add a record."""
        raise NotImplementedError

    def commit(self) -> None:
        """Write what was put."""
        raise NotImplementedError


class DB:
    """An open database."""

    def __init__(self, source: str, mode: Mode) -> None:
        self.source, self.mode = source, mode

    def new_cursor(self) -> Cursor:
        """A cursor at the first record."""
        raise NotImplementedError

    def new_transaction(self) -> Transaction:
        """A transaction to put records into."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it; a transaction that was not committed is lost."""

    def _need_writable(self) -> None:
        if self.mode is Mode.read:
            raise DBError(f"{self.source}: it was opened for reading")


_TYPES: dict[str, Callable[[str, Mode], DB]] = {}


def db_type(*names: str) -> Callable[[type[DB]], type[DB]]:
    """Decorator: the class opens databases of these types."""

    def register(cls: type[DB]) -> type[DB]:
        for name in names:
            _TYPES[name] = cls
        return cls

    return register


def db_types() -> list[str]:
    """Names of the types of databases."""
    return list(_TYPES)


def open_db(kind: str, source: str, mode: Mode) -> DB:
    """Open a database; DBError where the type or the file does not exist, or the file is none of that type."""
    opener = _TYPES.get(kind)
    if opener is None:
        raise DBError(f"there is no database type {kind!r}; there are {', '.join(_TYPES)}")
    try:
        allowed(source)
    except PermissionError as e:
        raise DBError(f"{source}: cannot be opened: {e.strerror}") from None
    return opener(source, mode)
