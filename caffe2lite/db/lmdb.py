"""lmdb: reading needs nothing, writing the extra of that name."""

from __future__ import annotations

import os
from typing import Any

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.db.lmdb_pages import PageCursor, Pages
from caffe2lite.extras import install

_MAP_SIZE = 1 << 40  # address space, not disk


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
        self._environment: Any = None
        self._transactions: list[_Transaction] = []
        if mode is Mode.read:
            self._pages = Pages(source)
            return
        try:
            import lmdb
        except ImportError:
            raise DBError(f"writing databases of type lmdb needs a package: {install('lmdb')}") from None
        if mode is Mode.new and os.path.exists(source):
            raise DBError(f"{source}: exists already; a new lmdb needs a folder that does not")
        if mode is Mode.write and os.path.exists(source):
            Pages(source)  # tells of a damaged file, which would end the process
        try:
            self._environment = lmdb.open(source, map_size=_MAP_SIZE, readahead=False, max_readers=1024)
        except lmdb.Error as e:
            raise DBError(f"{source}: cannot be opened as lmdb: {e}") from None

    def new_cursor(self) -> Cursor:
        return PageCursor(self._pages if self.mode is Mode.read else Pages(self.source))

    def new_transaction(self) -> Transaction:
        self._need_writable()
        transaction = _Transaction(self._environment)
        self._transactions.append(transaction)
        return transaction

    def close(self) -> None:
        for transaction in self._transactions:
            transaction.close()
        self._transactions.clear()
        if self._environment is not None:
            self._environment.close()
            self._environment = None
