"""lmdb: reading needs nothing, writing the extra of that name."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.db.files import beside
from caffe2lite.db.lmdb_pages import PageCursor, Pages
from caffe2lite.extras import install

_MAP_SIZE = 1 << 40  # address space, not disk


class _Transaction(Transaction):
    def __init__(self, db: LMDB, environment: Any) -> None:
        self._db, self._environment = db, environment
        self._open = environment.begin(write=True)

    def put(self, key: bytes, value: bytes) -> None:
        with self._db.told():
            self._open.put(key, value)

    def commit(self) -> None:
        with self._db.told():
            self._open.commit()
            self._db.show()
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
        self._beside = ""  # where a new one is until its first commit
        self._errors: tuple[type[Exception], ...] = ()
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
        self._errors = (OSError, lmdb.Error)
        try:
            with self.told():
                if mode is Mode.new:
                    self._beside = beside(source)
                path = self._beside or source
                self._environment = lmdb.open(path, map_size=_MAP_SIZE, readahead=False, max_readers=1024)
        except DBError:
            self.close()
            raise

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Errors of lmdb and of the system become ours."""
        try:
            yield
        except self._errors as e:
            raise DBError(f"{self.source}: cannot be written as lmdb: {e}") from None

    def show(self) -> None:
        """A new folder comes to its place, once there is something in it."""
        if self._beside:
            os.rename(self._beside, self.source)
            self._beside = ""

    def new_cursor(self) -> Cursor:
        return PageCursor(self._pages if self.mode is Mode.read else Pages(self.source))

    def new_transaction(self) -> Transaction:
        self._need_writable()
        with self.told():
            self._transactions.append(_Transaction(self, self._environment))
        return self._transactions[-1]

    def close(self) -> None:
        for transaction in self._transactions:
            transaction.close()
        self._transactions.clear()
        if self._environment is not None:
            self._environment.close()
            self._environment = None
        if self._beside:
            shutil.rmtree(self._beside, ignore_errors=True)
            self._beside = ""
