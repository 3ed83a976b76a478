"""What is in a database of blobs, read one blob at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.engine.serialize import Piece
from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2, metanet_pb2
from caffe2lite.proto.names import check_names

_NUMBERS = set(dtypes.NUMBERS) - {"object"}


class Stored(NamedTuple):
    """A saved blob.  Numbers are over its finite elements; None where it has none, or is no tensor of numbers."""

    name: str
    kind: str  # dtype of a tensor, else the type that it was saved under
    shape: tuple[int, ...]
    bytes: int
    least: float | None
    most: float | None
    mean: float | None
    nan: int
    inf: int
    missing: int  # elements that the pieces in the file do not hold

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor of numbers."""
        return self.kind in _NUMBERS


_LARGEST_EXAMPLE = 1 << 24  # bytes of a record of training data
_BLOCK = 1 << 20  # elements that are in memory at a time


class _Sum:
    def __init__(self, piece: Piece) -> None:
        array = piece.array  # the piece itself, which may be large, is not kept
        self.kind = piece.type if array is None else _kind(array)
        self.shape, self.count = ((), 0) if array is None else (piece.dims, piece.count)
        self.held = self.bytes = self.nan = self.inf = self.finite = 0
        self.least, self.most, self.total = np.inf, -np.inf, 0.0

    def add(self, piece: Piece) -> None:
        array = piece.array
        if array is None:
            self._add_other(piece.proto)
            return
        self.held += array.size
        if array.dtype == object:
            self.bytes += sum(len(text) for text in array.flat if text is not None)
        else:
            self.bytes += array.nbytes
            for start in range(0, array.size, _BLOCK):
                self._add(array[start : start + _BLOCK])

    def _add_other(self, proto: caffe2_pb2.BlobProto) -> None:
        """A blob that is no tensor; one of int8 numbers is told in the numbers that they stand for."""
        self.bytes += len(proto.content) or len(proto.qtensor.data)
        if proto.HasField("qtensor"):
            self.shape = tuple(proto.qtensor.dims)
            self._add((np.array(proto.qtensor.data, np.float64) - proto.qtensor.bias) * proto.qtensor.scale)

    def _add(self, array: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            values = array.astype(np.float64) if array.dtype.itemsize < 8 else array
            good = values[np.isfinite(values)]
        self.nan += int(np.isnan(values).sum())
        self.inf += int(np.isinf(values).sum())
        self.finite += good.size
        if good.size:
            self.least, self.most = min(self.least, float(good.min())), max(self.most, float(good.max()))
            self.total += float(good.sum())

    def stored(self, name: str) -> Stored:
        some = self.finite > 0
        return Stored(
            name=name,
            kind=self.kind,
            shape=self.shape,
            bytes=self.bytes,
            least=self.least if some else None,
            most=self.most if some else None,
            mean=self.total / self.finite if some else None,
            nan=self.nan,
            inf=self.inf,
            missing=self.count - self.held,
        )


def stored_in(message: Any) -> list[Stored]:
    """Return the tensors of a BlobProto, TensorProto or TensorProtos, as those of a database."""
    protos = [message] if isinstance(message, caffe2_pb2.BlobProto) else []
    for tensor in message.protos if isinstance(message, caffe2_pb2.TensorProtos) else [message] if not protos else []:
        protos.append(caffe2_pb2.BlobProto(name=tensor.name, type="Tensor", tensor=tensor))
    found = []
    for proto in protos:
        try:
            piece = Piece(proto.SerializeToString())
        except RuntimeError:
            found.append(Stored(proto.name, "(broken)", (), proto.ByteSize(), None, None, None, 0, 0, 0))
            continue
        sums = _Sum(piece)
        sums.add(piece)
        found.append(sums.stored(proto.name))
    return found


_EXPORT = "!!META_NET_DEF"  # the blob of a predictor export that holds its nets


def predictor_of(path: str, db_type: str, held: Iterable[Stored]) -> Any:
    """Return the MetaNetDef of a predictor export among the blobs `held` of a database; None where it is none."""
    if not any(blob.name.startswith(_EXPORT) for blob in held):
        return None
    meta = metanet_pb2.MetaNetDef()
    for key, content in records(path, db_type):
        if key.decode("utf-8", "replace").startswith(_EXPORT):
            try:
                meta.ParseFromString(Piece(content).proto.content)
                for net in meta.nets:
                    check_names(net.value)
            except (RuntimeError, DecodeError, ValueError):
                return None
            return meta if meta.IsInitialized() else None
    return None


def stored(path: str, db_type: str = "minidb") -> list[Stored]:
    """Return the blobs of a database, in the order of their first pieces.

    Records of training data (TensorProtos) come as one line for all of the same shapes; what is neither is named as such.
    """
    sums: dict[str, _Sum] = {}
    others: list[Stored] = []
    examples: dict[str, list[int]] = {}
    for cursor in _walk(path, db_type):
        name = _blob_of(cursor.key())
        content = cursor.value()
        shapes = _example(content) if name not in sums else ""
        if shapes:
            tally = examples.setdefault(shapes, [0, 0])
            tally[0] += 1
            tally[1] += len(content)
            continue
        try:
            piece = Piece(content)
        except RuntimeError:
            others.append(Stored(name, "(no blob)", (), len(content), None, None, None, 0, 0, 0))
            continue
        sums.setdefault(name, _Sum(piece)).add(piece)
    for shapes, (number, size) in examples.items():
        name = f"({number:,} records: {shapes})"
        others.append(Stored(name, "TensorProtos", (), size, None, None, None, 0, 0, 0))
    return [s.stored(n) for n, s in sums.items()] + others


def _example(content: bytes) -> str:
    """`FLOAT[3, 32, 32] INT32[1]` for a record of training data; "" for any other."""
    if len(content) > _LARGEST_EXAMPLE or content[:1] != b"\x0a":
        return ""
    protos = caffe2_pb2.TensorProtos()
    try:
        protos.ParseFromString(content)
    except DecodeError:
        return ""
    if not protos.protos or len(UnknownFieldSet(protos)) or any(t.name or not t.data_type for t in protos.protos):
        return ""
    names = caffe2_pb2.TensorProto.DataType.Name
    try:
        return " ".join(f"{names(t.data_type)}{list(t.dims)}" for t in protos.protos)
    except ValueError:
        return ""


def records(path: str, db_type: str = "minidb") -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of every record of a database."""
    for cursor in _walk(path, db_type):
        yield cursor.key(), cursor.value()


def _walk(path: str, db_type: str) -> Iterator[databases.Cursor]:
    """Yield a cursor at every record, one after the other."""
    db = databases.open_db(db_type, path, Mode.read)
    try:
        cursor = db.new_cursor()
        while cursor.valid():
            yield cursor
            cursor.next()
    finally:
        db.close()


def digests(path: str, db_type: str = "minidb") -> dict[str, dict[bytes, bytes]]:
    """For each blob of a database a digest of each of its records, by key."""
    found: dict[str, dict[bytes, bytes]] = {}
    for cursor in _walk(path, db_type):
        digest = hashlib.blake2b(cursor.value(), digest_size=16).digest()
        found.setdefault(_blob_of(cursor.key()), {})[cursor.key()] = digest
    return found


def tensors(path: str, db_type: str = "minidb", only: Container[str] | None = None) -> dict[str, np.ndarray]:
    """Return the tensors of a database, put together from their pieces: all, or those named in `only`."""
    found: dict[str, np.ndarray] = {}
    for cursor in _walk(path, db_type):
        name = _blob_of(cursor.key())
        if only is not None and name not in only:
            continue
        try:
            piece = Piece(cursor.value())
        except RuntimeError:
            continue
        if piece.array is None:
            continue
        if name not in found:
            found[name] = np.zeros(piece.count, piece.array.dtype).reshape(piece.dims)
        found[name].reshape(-1)[piece.begin : piece.end] = piece.array.reshape(-1)
    return found


def each_tensor(path: str, db_type: str = "minidb") -> Iterator[tuple[str, np.ndarray | None, str]]:
    """Yield (name, tensor, "") of a database, each as soon as its last piece is read; (name, None, type) of another blob.

    The tensor is not to be written to.
    """
    parts: dict[str, tuple[np.ndarray, int]] = {}
    done: set[str] = set()
    for cursor in _walk(path, db_type):
        name = _blob_of(cursor.key())
        piece = Piece(cursor.value())
        if piece.array is None:
            yield name, None, piece.type
            continue
        if name in done:
            raise RuntimeError(f"blob {name!r} of {path} has more pieces than elements")
        if piece.whole:
            done.add(name)
            yield name, piece.array.reshape(piece.dims), ""
        else:
            array, held = parts.pop(name) if name in parts else (_empty(name, piece, piece.array.dtype), 0)
            if array.shape != piece.dims or array.dtype != piece.array.dtype:
                raise RuntimeError(f"the pieces of blob {name!r} of {path} do not fit together")
            array.reshape(-1)[piece.begin : piece.end] = piece.array.reshape(-1)
            held += piece.array.size
            if held < array.size:
                parts[name] = array, held
            else:
                done.add(name)
                yield name, array, ""
                del array
    if parts:
        name, (array, held) = next(iter(parts.items()))
        raise RuntimeError(
            f"of blob {name!r} of {path} only {held:,} of {array.size:,} elements are there: the file is truncated"
        )


def _empty(name: str, piece: Piece, dtype: np.dtype) -> np.ndarray:
    try:
        return np.empty(piece.dims, dtype)
    except (MemoryError, ValueError):
        raise RuntimeError(
            f"blob {name!r} is said to have {piece.count:,} elements, more than memory can hold"
        ) from None


def _blob_of(key: bytes) -> str:
    """Return the blob that a record is a piece of: their keys are NAME#%0, NAME#%1, …"""
    return key.decode("utf-8", "backslashreplace").rsplit("#%", 1)[0]


def _kind(array: np.ndarray) -> str:
    return "string" if array.dtype == object else array.dtype.name
