"""Databases and readers as blobs."""

from __future__ import annotations

import threading

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.ops.gradient import NO_GRADIENT
from caffe2lite.ops.objects import Object
from caffe2lite.ops.registry import NO_GRADIENT, operator


class DBReader(Object):
    """An open database and where its reading stands; shared by the operators that read from it."""

    type_name = "std::unique_ptr<caffe2::db::DBReader>"
    blob_type = "std::unique_ptr<db::DBReader>"

    def __init__(self, db_type: str, source: str, num_shards: int = 1, shard_id: int = 0) -> None:
        self.db_type, self.source = db_type, source
        self.num_shards, self.shard_id = num_shards, shard_id
        self._db = databases.open_db(db_type, source, Mode.read)
        self._cursor = self._db.new_cursor()
        self._lock = threading.Lock()
        self._skip(self.shard_id)

    def _skip(self, records: int) -> None:
        """Go on by that many records, beginning again at the end."""
        for _ in range(records):
            self._cursor.next()
            if not self._cursor.valid():
                self._cursor.seek_to_first()

    def next_record(self) -> tuple[bytes, bytes]:
        """The next (key, value) of this reader's shard; after the last record the first comes again."""
        with self._lock:
            if not self._cursor.valid():
                raise ValueError(f"{self.source} holds no records")
            record = self._cursor.key(), self._cursor.value()
            for _ in range(self.num_shards):
                self._cursor.next()
                if not self._cursor.valid():
                    self._cursor.seek_to_first()
                    self._skip(self.shard_id)
                    break
            return record

    def new_cursor(self):
        """A cursor of its own, at the first record."""
        return self._db.new_cursor()


@operator("reader", stateful=True, gradient=NO_GRADIENT)
def CreateDB(ctx, *, db: str, db_type: str = "leveldb", num_shards: int = 1, shard_id: int = 0):
    """Open a database for reading; of several shards, each reads every `num_shards`th record."""
    if not 0 <= shard_id < num_shards:
        raise ValueError(f"shard_id must be within 0 to {num_shards - 1}, got {shard_id}")
    return DBReader(db_type, db, num_shards, shard_id)
