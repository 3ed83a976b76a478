"""From NumPy arrays and strings to blobs, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite import devices
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError
from caffe2lite.proto import caffe2_pb2

_KINDS = frozenset(
    np.dtype(k)
    for k in ("float32", "float64", "float16", "int32", "int64", "int8", "int16", "uint8", "uint16", "bool", "object")
)


OBJECT = np.dtype(object)

Value = np.ndarray | np.generic | str | bytes  # what can be fed


def feed(blob: Blob, value: Value, option: caffe2_pb2.DeviceOption | None = None) -> None:
    """Put a copy of a NumPy array, or a string, into the blob, on the device of a DeviceOption (default: CPU)."""
    if isinstance(value, (str, bytes)):
        blob.hold(value.encode() if isinstance(value, str) else value)
        return
    if not isinstance(value, (np.ndarray, np.generic)):
        raise EngineError(
            f"cannot feed a {type(value).__name__} to blob {blob.name!r}: only NumPy arrays and strings can be fed"
        )
    array = np.asarray(value)
    if array.dtype.kind in "SU" or array.dtype == object:
        array = strings(array, blob.name)
    if array.dtype not in _KINDS:
        raise EngineError(
            f"blob {blob.name!r} cannot hold {array.dtype}: feed float32, float64, float16, int8 to int64, uint8, "
            f"uint16, bool or strings (array.astype('float32'), say)"
        )
    place = devices.HOST if option is None else devices.place(option.device_type, option.device_id)
    if array.dtype == object and place is not devices.HOST:
        raise EngineError(f"blob {blob.name!r}: strings can only be on the CPU, not on {place.name}")
    blob.assign(array, place)


def strings(array: np.ndarray, name: str) -> np.ndarray:
    """An array of objects that are all bytes."""
    out = np.empty(array.shape, object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1).tolist() if array.dtype.kind in "SU" else array.reshape(-1)):
        if isinstance(item, str):
            item = item.encode()
        if not isinstance(item, bytes):
            raise EngineError(
                f"blob {name!r}: element {i} of an array of objects is a {type(item).__name__}; only strings can be fed"
            )
        flat[i] = item
    return out


def fetch(blob: Blob) -> Any:
    """A copy of the blob's value as NumPy array or bytes; for other objects bytes that name their type."""
    value = blob.value
    if blob.storage is not None:
        if value.dtype is OBJECT and value.size and isinstance(value.flat[0], list):
            raise EngineError(f"blob {blob.name!r} holds packed records, which have no NumPy form: UnPackRecords them")
        return np.array(blob.device.to_host(value))
    if isinstance(value, bytes):
        return value
    fetcher = getattr(type(value), "fetch", None)  # Int8Tensor and others that have a NumPy form
    if fetcher is not None:
        return fetcher(value)
    kind = "nullptr (uninitialized)" if value is None else getattr(value, "type_name", type(value).__name__)
    return f"{blob.name}, a C++ native class of type {kind}.".encode()
