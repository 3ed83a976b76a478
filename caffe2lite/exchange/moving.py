"""Tensors from Caffe2's files to those of others, and back."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from caffe2lite import db as databases
from caffe2lite.engine.serialize import Piece, tensor_chunks
from caffe2lite.exchange.fills import fill_of, made_by
from caffe2lite.exchange.formats import FORMATS, CannotHold, beside, format_of, found_in
from caffe2lite.inspect.checkpoint import each_tensor
from caffe2lite.inspect.files import File, read
from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2

_CHUNK = 1_000_000  # elements of a record, as Save writes them
_NUMBERS = set(dtypes.NUMBERS)
TARGETS = ("minidb", "lmdb", "init-net")


class Moved(NamedTuple):
    """What went over: how many tensors and bytes, and the blobs that stayed behind with what they are."""

    tensors: int
    bytes: int
    left: dict[str, str]


def tensors_of(file: File, left: dict[str, str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of a checkpoint, an export, an init net or a blob; what else is there is noted in `left`."""
    if file.kind in ("minidb", "lmdb"):
        for name, array, kind in each_tensor(file.path, file.kind):
            if array is None:
                left[name] = kind
            else:
                yield name, array
    elif file.kind == "net":
        yield from made_by(file.message)
    elif file.kind in ("blob", "tensor", "tensors"):
        yield from _of_message(file)
    else:
        raise CannotHold(f"{file.path} is a {file.kind}: it holds no tensors")


def _of_message(file: File) -> Iterator[tuple[str, np.ndarray]]:
    message = file.message
    protos = {"blob": lambda: [message.tensor], "tensor": lambda: [message], "tensors": lambda: message.protos}[
        file.kind
    ]()
    name = message.name if file.kind == "blob" else pathlib.Path(file.path).stem
    for i, tensor in enumerate(protos):
        title = str(tensor.name or (name if len(protos) == 1 else f"{name}_{i}"))
        array = Piece(caffe2_pb2.BlobProto(name=title, type="Tensor", tensor=tensor).SerializeToString()).array
        yield title, np.asarray(array).reshape(tuple(tensor.dims))


def export_tensors(
    path: str | os.PathLike[str], out: str | os.PathLike[str], to: str | None = None, leave: Collection[str] = ()
) -> Moved:
    """Write the tensors of a file of Caffe2's, but for those to `leave`.

    `to` is "npz", "safetensors" or "torch-state-dict"; by the ending of `out` where it is not said.
    """
    out = os.fspath(out)
    to = to or format_of(out)
    if to not in FORMATS:
        raise ValueError(f"tensors go to {', '.join(FORMATS)}, not to {to or os.path.basename(out)}")
    file = read(path)
    left: dict[str, str] = {}
    count: collections.Counter[str] = collections.Counter()

    def arrays() -> Iterator[tuple[str, np.ndarray]]:
        count.clear()
        for name, array in tensors_of(file, left):
            if name not in leave:
                count["tensors"] += 1
                count["bytes"] += array.nbytes
                yield name, array

    FORMATS[to][0](out, arrays)
    return Moved(count["tensors"], count["bytes"], left)


def import_tensors(path: str | os.PathLike[str], out: str | os.PathLike[str], to: str = "minidb") -> Moved:
    """Write the tensors of an npz, a safetensors file or a state dict as a "minidb", an "lmdb" or an "init-net"."""
    path, out = os.fspath(path), os.fspath(out)
    kind = found_in(path)
    if kind not in FORMATS:
        raise CannotHold(f"{path} is none of {', '.join(FORMATS)}")
    if to not in TARGETS:
        raise ValueError(f"tensors come into {', '.join(TARGETS)}, not into {to}")
    arrays = ((name, _ours(name, array)) for name, array in FORMATS[kind][1](path))
    if to == "init-net":
        return _into_net(arrays, out)
    tensors = size = 0
    db = databases.open_db(to, out, databases.Mode.new)
    try:
        transaction = db.new_transaction()
        for name, array in arrays:
            for key, content in tensor_chunks(name, array, _CHUNK):
                transaction.put(key.encode(), content)
            tensors, size = tensors + 1, size + array.nbytes
            if to == "lmdb":  # its transactions stay in memory; a minidb appears when it is complete
                transaction.commit()
        transaction.commit()
    finally:
        db.close()
    return Moved(tensors, size, {})


def _into_net(arrays: Iterator[tuple[str, np.ndarray]], out: str) -> Moved:
    net = caffe2_pb2.NetDef(name="init")
    size = 0
    for name, array in arrays:
        net.op.append(fill_of(name, array))
        net.external_output.append(name)
        size += array.nbytes
    with beside(out) as new:
        pathlib.Path(new).write_bytes(net.SerializeToString())
    return Moved(len(net.op), size, {})


def _ours(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array of a type that Caffe2 has."""
    if array.dtype.kind in "SU":
        made = np.empty(array.size, object)
        made[:] = [v if isinstance(v, bytes) else v.encode() for v in array.reshape(-1).tolist()]
        return made.reshape(array.shape)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name not in _NUMBERS:
        raise CannotHold(f"array {name!r} is of type {array.dtype.name}, which Caffe2 does not have")
    return array
