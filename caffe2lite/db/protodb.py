"""protodb: one TensorProtos message; the key of a record is the name of its TensorProto."""

from __future__ import annotations

import os

from google.protobuf.message import DecodeError

from caffe2lite.db.base import DB, Cursor, DBError, Mode, Transaction, db_type
from caffe2lite.db.files import NewFile, ReadFile
from caffe2lite.proto import caffe2_pb2


class _Cursor(Cursor):
    def __init__(self, protos: caffe2_pb2.TensorProtos) -> None:
        self._protos = protos.protos
        self._at = 0

    def seek_to_first(self) -> None:
        self._at = 0

    def next(self) -> None:
        self._at += 1

    def valid(self) -> bool:
        return self._at < len(self._protos)

    def key(self) -> bytes:
        return self._here().name.encode()

    def value(self) -> bytes:
        return self._here().SerializeToString()

    def _here(self) -> caffe2_pb2.TensorProto:
        if not self.valid():
            raise DBError("the cursor is past the last record")
        return self._protos[self._at]


class _Transaction(Transaction):
    def __init__(self, db: ProtoDB) -> None:
        self._db = db

    def put(self, key: bytes, value: bytes) -> None:
        tensor = caffe2_pb2.TensorProto()
        try:
            tensor.ParseFromString(value)
        except DecodeError:
            raise DBError(f"record {key!r}: a protodb holds serialised TensorProtos, and this is none") from None
        if tensor.name.encode() != key:
            raise DBError(f"record {key!r}: its TensorProto has another name, {tensor.name!r}")
        self._db.protos.protos.append(tensor)

    def commit(self) -> None:
        self._db.write()


@db_type("protodb", "ProtoDB")
class ProtoDB(DB):
    """A protodb file."""

    def __init__(self, source: str, mode: Mode) -> None:
        super().__init__(source, mode)
        self.protos = caffe2_pb2.TensorProtos()
        if mode is Mode.new or (mode is Mode.write and not os.path.exists(source)):
            return
        file = ReadFile(source)
        try:
            self.protos.ParseFromString(file.read(0, file.size))
        except DecodeError:
            raise DBError(f"{source}: is no protodb") from None
        finally:
            file.close()

    def new_cursor(self) -> Cursor:
        return _Cursor(self.protos)

    def new_transaction(self) -> Transaction:
        self._need_writable()
        return _Transaction(self)

    def write(self) -> None:
        """Write all records; the file of that name is complete at any moment."""
        file = NewFile(self.source)
        try:
            file.write(self.protos.SerializeToString())
            file.commit()
        finally:
            file.close()
