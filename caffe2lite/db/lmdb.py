"""lmdb (the extra of that name)."""

from __future__ import annotations

import os
from typing import Any

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.extras import install

_MAP_SIZE = 1 << 40  # address space, not disk


class _Cursor(Cursor):
    supports_seek = True

    def __init__(self, environment: Any) -> None:
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
    def __init__(self, environment: Any) -> None:
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
            self._environment = lmdb.open(
                source, map_size=_MAP_SIZE, readonly=mode is Mode.read, lock=mode is not Mode.read, readahead=False
            )
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
        self._environment.close()
