"""What is in a database of blobs, read one blob at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.engine.serialize import NUMPY_TYPES, Piece
from caffe2lite.proto import metanet_pb2
from caffe2lite.proto.names import check_names

_NUMBERS = {kind.name for kind in NUMPY_TYPES.values()} - {"object"}


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


class _Sum:
    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.held = self.bytes = self.nan = self.inf = self.finite = 0
        self.least, self.most, self.total = np.inf, -np.inf, 0.0

    def add(self, piece: Piece) -> None:
        array = piece.array
        if array is None:
            return
        self.held += array.size
        self.bytes += array.nbytes
        if array.dtype == object or not array.size:
            return
        values = array.astype(np.float64) if array.dtype.itemsize < 8 else array
        with np.errstate(all="ignore"):
            good = values[np.isfinite(values)]
        self.nan += int(np.isnan(values).sum())
        self.inf += int(np.isinf(values).sum())
        self.finite += good.size
        if good.size:
            self.least, self.most = min(self.least, float(good.min())), max(self.most, float(good.max()))
            self.total += float(good.sum())

    def stored(self, name: str) -> Stored:
        first = self.piece
        some = self.finite > 0
        return Stored(
            name=name,
            kind=first.type if first.array is None else _kind(first.array),
            shape=() if first.array is None else first.dims,
            bytes=self.bytes,
            least=self.least if some else None,
            most=self.most if some else None,
            mean=self.total / self.finite if some else None,
            nan=self.nan,
            inf=self.inf,
            missing=0 if first.array is None else first.count - self.held,
        )


_EXPORT = "!!META_NET_DEF"  # the blob of a predictor export that holds its nets


def predictor_of(path: str, db_type: str, held: Iterable[Stored]) -> Any:
    """The MetaNetDef of a predictor export among the blobs `held` of a database; None where it is none."""
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
    """The blobs of a database, in the order of their first pieces.  A record that is no blob is named as such."""
    sums: dict[str, _Sum] = {}
    others: list[Stored] = []
    for key, content in records(path, db_type):
        name = _blob_of(key)
        try:
            piece = Piece(content)
        except RuntimeError:
            others.append(Stored(name, "(no blob)", (), len(content), None, None, None, 0, 0, 0))
            continue
        sums.setdefault(name, _Sum(piece)).add(piece)
    return [s.stored(n) for n, s in sums.items()] + others


def records(path: str, db_type: str = "minidb") -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of every record of a database."""
    db = databases.open_db(db_type, path, Mode.read)
    try:
        cursor = db.new_cursor()
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
    finally:
        db.close()


def tensors(path: str, db_type: str = "minidb") -> dict[str, np.ndarray]:
    """All tensors of a database, put together from their pieces."""
    found: dict[str, np.ndarray] = {}
    for key, content in records(path, db_type):
        name = _blob_of(key)
        try:
            piece: Any = Piece(content)
        except RuntimeError:
            continue
        if piece.array is None:
            continue
        if name not in found:
            found[name] = np.zeros(piece.count, piece.array.dtype).reshape(piece.dims)
        found[name].reshape(-1)[piece.begin : piece.end] = piece.array.reshape(-1)
    return found


def _blob_of(key: bytes) -> str:
    """The blob that a record is a piece of: their keys are NAME#%0, NAME#%1, …"""
    return key.decode("utf-8", "replace").rsplit("#%", 1)[0]


def _kind(array: np.ndarray) -> str:
    return "string" if array.dtype == object else array.dtype.name
