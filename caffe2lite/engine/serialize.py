"""Blobs as BlobProto messages, in chunks where they are large, and back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite import devices
from caffe2lite.devices import Array
from caffe2lite.engine import wire
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError
from caffe2lite.ops.kit import dtypes
from caffe2lite.ops.kit.objects import Object, by_blob_type
from caffe2lite.proto import caffe2_pb2

_T = caffe2_pb2.TensorProto

# How genuine Caffe2 writes a packed record: the type without contents.
_RECORD = b"\n\x00\x12'std::shared_ptr<std::vector<TensorCPU>>\"\x00"


def data_type(array: Array) -> int:
    """The TensorProto.DataType of an array."""
    if array.dtype != object:
        return dtypes.NUMBERS[array.dtype.name]
    return _T.UNDEFINED if array.size and isinstance(array.reshape(-1)[0], (list, type(None))) else _T.STRING


# ---- writing ---------------------------------------------------------------------------------------------------


def tensor_bytes(
    name: str,
    array: Array,
    device: devices.Device = devices.HOST,
    begin: int = 0,
    end: int | None = None,
    bfloat16: bool = False,
) -> bytes:
    """A serialised TensorProto of elements `begin` to `end` of a tensor, with fields in the order of their numbers.

    With `bfloat16` float32 is rounded to the nearest (ties to even) of that type.
    """
    flat = device.to_host(array).reshape(-1)[begin:end]
    end = begin + flat.size
    first = _T(dims=array.shape, data_type=data_type(array))  # type: ignore[arg-type]
    last = _T()
    last.segment.begin, last.segment.end = begin, end
    named = _T(name=name)
    named.device_detail.device_type = device.type
    if device is not devices.HOST:
        named.device_detail.device_id = device.id
    if first.data_type == _T.FLOAT and bfloat16:
        last.raw_data, last.data_format = _to_bfloat16(flat).tobytes(), _T.FMT_BFLOAT16
    elif first.data_type == _T.FLOAT:
        last.data_format = _T.FMT_PROTOBUF
        data = wire.field(wire.FLOATS, flat.astype("<f4", copy=False).data.cast("B")) if flat.size else b""
        return b"".join((first.SerializeToString(), data, named.SerializeToString(), last.SerializeToString()))
    elif first.data_type == _T.DOUBLE:
        data = wire.field(wire.DOUBLES, flat.astype("<f8", copy=False).data.cast("B")) if flat.size else b""
        return b"".join((first.SerializeToString(), named.SerializeToString(), data, last.SerializeToString()))
    elif first.data_type in (_T.INT64, _T.STRING):
        getattr(first, dtypes.field_of(flat.dtype.name)).extend(flat.tolist())
    elif first.data_type == _T.UNDEFINED:
        first.string_data.extend([_RECORD] * flat.size)
    elif first.data_type == _T.FLOAT16:
        first.int32_data.extend(flat.view(np.uint16).tolist())
    else:
        first.int32_data.extend(flat.astype(np.int32).tolist())
    first.MergeFrom(named)
    first.MergeFrom(last)
    return first.SerializeToString()


def _to_bfloat16(flat: np.ndarray) -> np.ndarray:
    bits = flat.astype("<f4", copy=False).view("<u4").astype("<u8")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(flat), 0x7FC0, rounded).astype("<u2")


def chunks(name: str, blob: Blob, chunk_size: int = 0, bfloat16: bool = False) -> Iterator[tuple[str, bytes]]:
    """(key, serialised BlobProto) of a blob, a tensor in pieces of `chunk_size` elements (0: in one)."""
    value = blob.value
    if blob.storage is None:
        yield name, _object_bytes(name, value)
        return
    yield from tensor_chunks(name, value, chunk_size, blob.device, bfloat16)


def tensor_chunks(
    name: str, array: Array, chunk_size: int = 0, device: devices.Device = devices.HOST, bfloat16: bool = False
) -> Iterator[tuple[str, bytes]]:
    """(key, serialised BlobProto) of a tensor in pieces of `chunk_size` elements (0: in one)."""
    step = chunk_size if chunk_size > 0 else max(1, array.size)
    for number, begin in enumerate(range(0, max(1, array.size), step)):
        end = min(begin + step, array.size)
        tensor = tensor_bytes(name, array, device, begin, end, bfloat16)
        yield f"{name}#%{number}", _head(name, "Tensor") + wire.field(3, tensor)


def blob_bytes(name: str, blob: Blob) -> bytes:
    """The blob as one serialised BlobProto."""
    return next(content for _, content in chunks(name, blob))


def _head(name: str, kind: str) -> bytes:
    return caffe2_pb2.BlobProto(name=name, type=kind).SerializeToString()


def _object_bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return caffe2_pb2.BlobProto(name=name, type="std::string", content=value).SerializeToString()
    if value is None:
        raise EngineError(f"blob {name!r} is uninitialised: there is nothing to serialise")
    kind = getattr(value, "blob_type", None)
    if kind is None or not isinstance(value, Object):
        raise EngineError(
            f"blob {name!r} cannot be serialised: it holds {getattr(value, 'type_name', type(value).__name__)}"
        )
    proto = caffe2_pb2.BlobProto(name=name, type=kind)
    value.write(proto)
    return proto.SerializeToString()


# ---- reading ---------------------------------------------------------------------------------------------------


class Piece:
    """A BlobProto that was read: for a tensor its dims, its elements and where they belong.

    The elements may lie in the very bytes that were read: they are not to be written to.
    """

    def __init__(self, content: bytes | memoryview) -> None:
        try:
            fields, rest = wire.split(memoryview(content), (3,))
            self.proto = caffe2_pb2.BlobProto()
            self.proto.ParseFromString(rest)
        except (ValueError, DecodeError) as e:
            raise EngineError(f"these {len(content)} bytes are no BlobProto: {e}") from None
        self.type = self.proto.type
        self.array: np.ndarray | None = None
        if self.type == "Tensor":
            parts = fields.get(3, [])
            self._read_tensor(parts[0] if len(parts) == 1 else b"".join(parts))
        else:
            for tensor in fields.get(3, ()):
                try:
                    self.proto.tensor.MergeFromString(bytes(tensor))
                except DecodeError as e:
                    raise EngineError(f"these bytes hold no TensorProto: {e}") from None

    def _read_tensor(self, content: bytes | memoryview) -> None:
        try:
            packed, rest = wire.split(memoryview(content), (wire.FLOATS, wire.DOUBLES))
            tensor = _T()
            tensor.ParseFromString(rest)
            floats = wire.numbers(packed.get(wire.FLOATS, []), "<f4")
            doubles = wire.numbers(packed.get(wire.DOUBLES, []), "<f8")
        except (ValueError, DecodeError) as e:
            raise EngineError(f"blob {self.proto.name!r}: its bytes hold no TensorProto: {e}") from None
        # An unpacked writer is legal too; such numbers are in the message.
        floats = np.concatenate([floats, np.array(tensor.float_data, "<f4")]) if tensor.float_data else floats
        doubles = np.concatenate([doubles, np.array(tensor.double_data, "<f8")]) if tensor.double_data else doubles
        self.dims = tuple(tensor.dims)
        self.device = tensor.device_detail
        count = _count(self.proto.name, self.dims)
        segmented = tensor.HasField("segment")
        self.begin, self.end = (tensor.segment.begin, tensor.segment.end) if segmented else (0, count)
        if not 0 <= self.begin <= self.end <= count:
            raise EngineError(
                f"blob {self.proto.name!r}: its segment {self.begin} to {self.end} is not within its {count} elements"
            )
        self.count = count
        self.array = _elements(self.proto.name, tensor, floats, doubles, self.end - self.begin)

    @property
    def whole(self) -> bool:
        """Whether all elements are in this piece."""
        return self.begin == 0 and self.end == self.count


def _count(name: str, dims: tuple[int, ...]) -> int:
    count = 1
    for d in dims:
        if d < 0:
            raise EngineError(f"blob {name!r} has a negative dimension: {list(dims)}")
        count *= d
    if count > 1 << 48:
        raise EngineError(f"blob {name!r} has an absurd shape: {list(dims)}")
    return count


def _elements(
    name: str, tensor: caffe2_pb2.TensorProto, floats: np.ndarray, doubles: np.ndarray, size: int
) -> np.ndarray:
    """The numbers of a TensorProto, of the type and number that it says."""
    kind = dtypes.NUMPY.get(tensor.data_type)
    if tensor.data_type == _T.UNDEFINED and not size:  # a tensor that was made, but never written
        return np.empty(0, np.float32)
    if tensor.data_type == _T.UNDEFINED and all(s == _RECORD for s in tensor.string_data):
        return np.full(size, None)
    if kind is None:
        raise EngineError(f"blob {name!r} has the data type {tensor.data_type}, which no tensor here can have")
    if tensor.data_type == _T.FLOAT and tensor.data_format == _T.FMT_BFLOAT16:
        array = (np.frombuffer(tensor.raw_data, "<u2").astype("<u4") << 16).view("<f4")
    elif tensor.data_type == _T.FLOAT:
        array = floats
    elif tensor.data_type == _T.DOUBLE:
        array = doubles
    elif tensor.data_type == _T.INT64:
        array = np.array(tensor.int64_data, np.int64)
    elif tensor.data_type == _T.STRING:
        array = np.empty(len(tensor.string_data), object)
        array[:] = list(tensor.string_data)
    elif tensor.HasField("byte_data") and kind.itemsize == 1:
        array = np.frombuffer(tensor.byte_data, kind)
    elif tensor.data_type == _T.FLOAT16:
        array = np.array(tensor.int32_data, np.int32).astype(np.uint16).view(np.float16)
    else:
        array = np.array(tensor.int32_data, np.int32).astype(kind)
    if array.size != size:
        raise EngineError(f"blob {name!r}: {size} values of {kind.name} are announced, and {array.size} are there")
    return array


def read(blob: Blob, content: bytes, device: devices.Device | None = None) -> Piece:
    """Put a serialised BlobProto, or a piece of one, into a blob, on the given device or on the one it was saved from.

    Pieces of one blob may come in any order; each is written where it belongs.
    """
    piece = Piece(content)
    if piece.array is None:
        if piece.type == "std::string":
            blob.hold(piece.proto.content)
        else:
            known = by_blob_type.get(piece.type)
            if known is None:
                raise EngineError(f"blob {piece.proto.name!r} is of type {piece.type!r}, which cannot be read here")
            try:
                blob.hold(known.read(piece.proto))
            except (ValueError, TypeError, DecodeError) as e:
                raise EngineError(f"blob {piece.proto.name!r} of type {piece.type!r} cannot be read: {e}") from None
        return piece
    place = device or devices.place(piece.device.device_type, piece.device.device_id)
    present = blob.value
    alike = blob.storage is not None and present.shape == piece.dims and present.dtype == piece.array.dtype
    if piece.whole or not alike or blob.device is not place:
        present = blob.resize(piece.dims, piece.array.dtype, place)
    place.copy(present.reshape(-1)[piece.begin : piece.end], piece.array)
    return piece
