"""leveldb (the extra of that name): what Caffe 1 and the first tutorials kept their images in."""

from __future__ import annotations

import os
import threading
from typing import Any

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.extras import install

# leveldb locks a folder: readers of one process share what is open.  {real path: [database, users]}
_open: dict[str, list[Any]] = {}
_lock = threading.Lock()


class _Cursor(Cursor):
    supports_seek = True

    def __init__(self, database: Any) -> None:
        self._iterator = database.raw_iterator()
        self._iterator.seek_to_first()

    def seek_to_first(self) -> None:
        self._iterator.seek_to_first()

    def seek(self, key: bytes) -> None:
        self._iterator.seek(key)

    def next(self) -> None:
        if self._iterator.valid():
            self._iterator.next()

    def valid(self) -> bool:
        return self._iterator.valid()

    def key(self) -> bytes:
        return self._iterator.key()

    def value(self) -> bytes:
        return self._iterator.value()

    def close(self) -> None:
        self._iterator.close()


class _Transaction(Transaction):
    def __init__(self, database: Any) -> None:
        self._batch = database.write_batch(sync=True)

    def put(self, key: bytes, value: bytes) -> None:
        self._batch.put(key, value)

    def commit(self) -> None:
        self._batch.write()
        self._batch.clear()


@db_type("leveldb", "LevelDB")
class LevelDB(DB):
    """A leveldb folder."""

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        try:
            import plyvel
        except ImportError:
            raise DBError(f"databases of type leveldb need a package: {install('leveldb')}") from None
        self._path = os.path.realpath(source)
        self._cursors: list[_Cursor] = []
        with _lock:
            held = _open.get(self._path)
            if held is None:
                try:
                    database = plyvel.DB(
                        source, create_if_missing=mode is not Mode.read, error_if_exists=mode is Mode.new
                    )
                except plyvel.Error as e:
                    raise DBError(f"{source}: cannot be opened as leveldb: {e}") from None
                held = _open[self._path] = [database, 0]
            elif mode is Mode.new:
                raise DBError(f"{source}: exists already; a new leveldb needs a folder that does not")
            held[1] += 1
        self._database = held[0]

    def new_cursor(self) -> Cursor:
        cursor = _Cursor(self._database)
        self._cursors.append(cursor)
        return cursor

    def new_transaction(self) -> Transaction:
        self._need_writable()
        return _Transaction(self._database)

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
        if self._database is None:
            return
        self._database = None
        with _lock:
            held = _open[self._path]
            held[1] -= 1
            if not held[1]:
                del _open[self._path]
                held[0].close()
