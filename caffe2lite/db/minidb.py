"""minidb: one file of records, each the lengths of key and value (int32, little endian), the key, the value."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.db.files import NewFile, ReadFile

_HEAD = struct.Struct("<ii")


class _Cursor(Cursor):
    def __init__(self, source: str) -> None:
        self._source = source
        self._file = ReadFile(source)
        self._at = 0  # of the record
        self._sizes = 0, 0  # of its key and value
        self._key: bytes | None = None  # None past the last record

    def seek_to_first(self) -> None:
        self._at = 0
        self._read()

    def next(self) -> None:
        if self._key is not None:
            self._at += _HEAD.size + sum(self._sizes)
            self._read()

    def _read(self) -> None:
        at, end = self._at, self._file.size
        self._key = None
        if at == end:
            self._file.check()  # before it is believed that this is all
            return
        key_size, value_size = _HEAD.unpack(self._file.read(at, _HEAD.size)) if at + _HEAD.size <= end else (-1, -1)
        if key_size < 0 or value_size < 0 or at + _HEAD.size + key_size + value_size > end:
            raise DBError(
                f"{self._source}: there is no whole record at byte {at} of {end}: the file is truncated, or not a minidb"
            )
        self._sizes = key_size, value_size
        self._key = self._file.read(at + _HEAD.size, key_size)

    def valid(self) -> bool:
        return self._key is not None

    def key(self) -> bytes:
        if self._key is None:
            raise DBError(f"{self._source}: the cursor is past the last record")
        return self._key

    def value(self) -> bytes:
        self.key()
        key_size, value_size = self._sizes
        return self._file.read(self._at + _HEAD.size + key_size, value_size)

    def close(self) -> None:
        self._file.close()


class _Transaction(Transaction):
    def __init__(self, db: MiniDB) -> None:
        self._db = db

    def put(self, key: bytes, value: bytes) -> None:
        self._db._write(_HEAD.pack(len(key), len(value)) + key)
        self._db._write(value)  # which may be large: it is not copied

    def commit(self) -> None:
        self._db._commit()


@db_type("minidb", "MiniDB")
class MiniDB(DB):
    """A minidb file.

    A new one appears under its name when it is committed, so that the file of that name is complete at any moment.
    """

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self._file: BinaryIO | None = None  # that records are added to
        self._new: NewFile | None = None
        self._cursors: list[_Cursor] = []
        if mode is Mode.read:
            ReadFile(source).close()
        elif mode is Mode.write:
            self._file = _open(source)
        else:
            self._new = NewFile(source)

    def new_cursor(self) -> Cursor:
        cursor = _Cursor(self.source)
        self._cursors.append(cursor)
        cursor.seek_to_first()
        return cursor

    def new_transaction(self) -> Transaction:
        self._need_writable()
        return _Transaction(self)

    def _write(self, content: bytes) -> None:
        file = self._new or self._file
        if file is None:
            raise DBError(f"{self.source}: it is closed")
        file.write(content)

    def _commit(self) -> None:
        if self._new is not None:
            self._new.commit()
        elif self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()
        for file in (self._new, self._file):
            if file is not None:
                file.close()
        self._new = self._file = None

    def __del__(self) -> None:
        if hasattr(self, "_new"):  # it was opened
            self.close()


def _open(source: str) -> BinaryIO:
    try:
        return open(source, "ab")
    except OSError as e:
        raise DBError(f"{source}: cannot be opened: {e.strerror}") from None
