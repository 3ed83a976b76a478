"""minidb: one file of records, each the lengths of key and value (int32, little endian), the key, the value."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from typing import BinaryIO

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type

_HEAD = struct.Struct("<ii")


class _Cursor(Cursor):
    def __init__(self, source: str) -> None:
        self._source = source
        self._file = _open(source, "rb")
        self._size = os.fstat(self._file.fileno()).st_size
        self._valid = False
        self._map: mmap.mmap | None = None  # closed with its last view

    def seek_to_first(self) -> None:
        self._file.seek(0)
        self._read()

    def next(self) -> None:
        if self._valid:
            self._read()

    def _read(self) -> None:
        at = self._file.tell()
        head = self._file.read(_HEAD.size)
        self._valid = bool(head)
        if not head:
            return
        key_size, value_size = _HEAD.unpack(head) if len(head) == _HEAD.size else (-1, -1)
        if key_size < 0 or value_size < 0 or at + _HEAD.size + key_size + value_size > self._size:
            self._valid = False
            raise DBError(
                f"{self._source}: there is no whole record at byte {at} of {self._size}: the file is truncated, or "
                f"not a minidb"
            )
        self._key = self._file.read(key_size)
        self._value_size = value_size
        self._value_at = self._file.tell()
        self._file.seek(value_size, os.SEEK_CUR)

    def valid(self) -> bool:
        return self._valid

    def key(self) -> bytes:
        self._need()
        return self._key

    def value(self) -> bytes:
        self._need()
        end = self._file.tell()
        self._file.seek(self._value_at)
        value = self._file.read(self._value_size)
        self._file.seek(end)
        return value

    def view(self) -> memoryview:
        self._need()
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return memoryview(self._map)[self._value_at : self._value_at + self._value_size]

    def forget(self) -> None:
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _need(self) -> None:
        if not self._valid:
            raise DBError(f"{self._source}: the cursor is past the last record")

    def close(self) -> None:
        self._file.close()


class _Transaction(Transaction):
    def __init__(self, db: MiniDB) -> None:
        self._db = db

    def put(self, key: bytes, value: bytes) -> None:
        self._db._write(b"".join((_HEAD.pack(len(key), len(value)), key, value)))

    def commit(self) -> None:
        self._db._commit()


@db_type("minidb", "MiniDB")
class MiniDB(DB):
    """A minidb file.

    A new one is written beside its place and moved there when it is committed, so that the file of that name is
    complete at any moment.
    """

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self._file: BinaryIO | None = None
        self._beside = ""
        self._cursors: list[_Cursor] = []
        if mode is Mode.read:
            _open(source, "rb").close()
        elif mode is Mode.write:
            self._file = _open(source, "ab")
        else:
            folder = os.path.dirname(os.path.abspath(source))
            try:
                handle, self._beside = tempfile.mkstemp(
                    prefix=os.path.basename(source) + ".", suffix=".tmp", dir=folder
                )
            except OSError as e:
                raise DBError(f"{source}: cannot be written: {e.strerror}") from None
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._beside, 0o666 & ~mask)
            self._file = os.fdopen(handle, "wb")

    def new_cursor(self) -> Cursor:
        cursor = _Cursor(self.source)
        self._cursors.append(cursor)
        cursor.seek_to_first()
        return cursor

    def new_transaction(self) -> Transaction:
        self._need_writable()
        return _Transaction(self)

    def _write(self, record: bytes) -> None:
        if self._file is None:
            raise DBError(f"{self.source}: it is closed")
        self._file.write(record)

    def _commit(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._beside:
            os.replace(self._beside, self.source)
            self._beside = ""

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._beside:
            os.unlink(self._beside)
            self._beside = ""

    def __del__(self) -> None:
        self.close()


def _open(source: str, mode: str) -> BinaryIO:
    try:
        return open(source, mode)  # type: ignore[return-value]
    except OSError as e:
        raise DBError(f"{source}: cannot be opened: {e.strerror}") from None
