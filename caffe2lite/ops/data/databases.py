"""Databases and readers as blobs."""

from __future__ import annotations

import math

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.dtypes import dtype_of, field_of
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, NO_GRADIENT, operator
from caffe2lite.proto import caffe2_pb2


class Reader(Object):
    """What hands out one record after the other."""

    title = "a reader (CreateDB or CreateBlobsQueueDB makes one)"
    type_name = "caffe2::db::DBReader"

    def next_record(self) -> tuple[bytes, bytes]:
        """The next (key, value)."""
        raise NotImplementedError


class DBReader(Reader):
    """An open database and where its reading stands; shared by the operators that read from it."""

    title = "an open database (CreateDB makes one)"
    blob_type = "std::unique_ptr<db::DBReader>"

    def __init__(self, db_type: str, source: str, num_shards: int = 1, shard_id: int = 0) -> None:
        self.db_type, self.source = db_type, source
        self.num_shards, self.shard_id = num_shards, shard_id
        self._db = databases.open_db(db_type, source, Mode.read)
        self._cursor = self._db.new_cursor()
        self._lock = locks.lock()
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
def CreateDB(ctx, *, db: str = "", db_type: str = "leveldb", num_shards: int = 1, shard_id: int = 0):
    """Open a database for reading; of several shards, each reads every `num_shards`th record.

    reader of the database `db`; no tensors, of any type. ValueError where `db` is absent, or shard_id is not in
    [0, num_shards); a DBError where the database cannot be opened.
    """
    if not db:
        raise ValueError("operator CreateDB needs the argument 'db', the database's path")
    if not 0 <= shard_id < num_shards:
        raise ValueError(f"shard_id must be within 0 to {num_shards - 1}, got {shard_id}")
    return DBReader(db_type, db, num_shards, shard_id)


def array_of(tensor, key):
    """Return the array of a TensorProto."""
    dtype = dtype_of(tensor.data_type)
    shape = tuple(tensor.dims)
    if tensor.raw_data and dtype != "object":
        values = np.frombuffer(tensor.raw_data, dtype)
    elif tensor.byte_data:
        values = np.frombuffer(tensor.byte_data, dtype)
    elif dtype == "float16":
        values = np.array(tensor.int32_data, np.uint16).view(dtype)
    else:
        values = np.array(getattr(tensor, field_of(dtype)), dtype)
    if values.size != math.prod(shape) or any(d < 0 for d in shape):
        raise ValueError(f"the record {key!r} has a tensor of {values.size} values for the shape {list(shape)}")
    return values.reshape(shape)


def _tensors(record, count):
    """Return the tensors of a record, a serialised TensorProtos."""
    key, content = record
    try:
        tensors = caffe2_pb2.TensorProtos.FromString(content).protos
    except DecodeError:
        raise ValueError(f"the record {key!r} holds no TensorProtos") from None
    if len(tensors) != count:
        raise ValueError(f"the record {key!r} holds {len(tensors)} tensors, and there are {count} outputs")
    return [array_of(t, key) for t in tensors]


@operator("output*", stateful=True, num_outputs=(1, MANY), gradient=NO_GRADIENT)
def TensorProtosDBInput(ctx, data, *, batch_size: int = 0):
    """The tensors of the next records, one output for each place in a record; batch_size 0 is one, without a batch.

    reader -> for each tensor of a record an output [batch_size, ...] of its type, any type; without a batch [...].
    ValueError where a record holds no TensorProtos, not as many tensors as there are outputs, or others than the first
    one of the batch; TypeError where the input is no reader.
    """
    reader = needed(Reader, data)
    records = [_tensors(reader.next_record(), len(ctx.outputs)) for _ in range(max(batch_size, 1))]
    for i, first in enumerate(records[0]):
        odd = next((r[i] for r in records if r[i].shape != first.shape or r[i].dtype != first.dtype), None)
        if odd is not None:
            raise ValueError(
                f"the records of a batch must be alike; tensor {i} is {first.dtype} {list(first.shape)} in the first "
                f"and {odd.dtype} {list(odd.shape)} in another"
            )
    return tuple(np.stack(column) if batch_size else column[0].copy() for column in zip(*records))
