"""lmdb (the extra of that name)."""

from __future__ import annotations

import os
import threading
from types import ModuleType
from typing import Any, Protocol

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.extras import install

_MAP_SIZE = 1 << 40  # address space, not disk

# lmdb forbids a process to open a folder twice: readers share what is open.  {real path: [environment, users]}
_environments: dict[str, list[Any]] = {}
_lock = threading.Lock()


class Environment(Protocol):
    """What is used of lmdb's environments."""

    def begin(self, *, write: bool = False, buffers: bool = False) -> Any: ...
    def info(self) -> dict[str, int]: ...
    def stat(self) -> dict[str, int]: ...
    def close(self) -> None: ...


def _acquire(lmdb: ModuleType, source: str, mode: Mode) -> Any:
    path = os.path.realpath(source)
    with _lock:
        held = _environments.get(path)
        if held is None:
            options = {"readonly": mode is Mode.read, "lock": mode is not Mode.read}
            environment = lmdb.open(source, map_size=_MAP_SIZE, readahead=False, max_readers=1024, **options)
            _check_size(environment, source)
            held = _environments[path] = [environment, 0]
        elif mode is not Mode.read and held[0].flags()["readonly"]:
            raise DBError(f"{source}: it is being read in this process; close the readers before it is written")
        held[1] += 1
        return held[0]


def _check_size(environment: Environment, source: str) -> None:
    """DBError where the file ends before its last page: reading it would end the process."""
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    have = os.path.getsize(os.path.join(source, "data.mdb"))
    if have < needed:
        environment.close()
        raise DBError(f"{source}: data.mdb is truncated: it has {have:,} bytes, and {needed:,} are in use")


def _release(source: str) -> None:
    path = os.path.realpath(source)
    with _lock:
        held = _environments[path]
        held[1] -= 1
        if not held[1]:
            del _environments[path]
            held[0].close()


class _Cursor(Cursor):
    supports_seek = True

    def __init__(self, environment: Environment) -> None:
        self._transaction = environment.begin(buffers=False)
        self._cursor = self._transaction.cursor()
        self._valid = self._cursor.first()

    def seek_to_first(self) -> None:
        self._valid = self._cursor.first()

    def seek(self, key: bytes) -> None:
        self._valid = self._cursor.set_range(key)

    def next(self) -> None:
        self._valid = self._cursor.next()

    def valid(self) -> bool:
        return self._valid

    def key(self) -> bytes:
        return self._cursor.key()

    def value(self) -> bytes:
        return self._cursor.value()

    def close(self) -> None:
        self._transaction.abort()


class _Transaction(Transaction):
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._open = environment.begin(write=True)

    def put(self, key: bytes, value: bytes) -> None:
        self._open.put(key, value)

    def commit(self) -> None:
        self._open.commit()
        self._open = self._environment.begin(write=True)

    def close(self) -> None:
        """Forget what was not committed."""
        self._open.abort()


@db_type("lmdb", "LMDB")
class LMDB(DB):
    """An lmdb folder."""

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        try:
            import lmdb
        except ImportError:
            raise DBError(f"databases of type lmdb need a package: {install('lmdb')}") from None
        if mode is Mode.new and os.path.exists(source):
            raise DBError(f"{source}: exists already; a new lmdb needs a folder that does not")
        try:
            self._environment = _acquire(lmdb, source, mode)
        except lmdb.Error as e:
            raise DBError(f"{source}: cannot be opened as lmdb: {e}") from None
        self._children: list[_Cursor | _Transaction] = []

    def new_cursor(self) -> Cursor:
        cursor = _Cursor(self._environment)
        self._children.append(cursor)
        return cursor

    def new_transaction(self) -> Transaction:
        self._need_writable()
        transaction = _Transaction(self._environment)
        self._children.append(transaction)
        return transaction

    def close(self) -> None:
        for child in self._children:
            child.close()
        self._children.clear()
        if self._environment is not None:
            self._environment = None
            _release(self.source)
