"""The formats of others: how a stream of named arrays is written into each, and read from it.

A writer takes a function that starts the stream anew, since safetensors says all sizes before the first value.
"""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from caffe2lite.extras import install

Arrays = Callable[[], Iterator[tuple[str, np.ndarray]]]


class CannotHold(ValueError):
    """A type or a name that the other format does not have."""


@contextmanager
def beside(path: str) -> Iterator[str]:
    """A name for a new file beside `path`, which takes its place at the end, if all went well."""
    handle, name = tempfile.mkstemp(
        prefix=os.path.basename(path) + ".", suffix=".tmp", dir=os.path.dirname(os.path.abspath(path))
    )
    os.close(handle)
    try:
        yield name
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


# ---- npz ---------------------------------------------------------------------------------------------------------


def write_npz(path: str, arrays: Arrays) -> None:
    """Write NumPy's archive; strings become arrays of bytes."""
    for name, array in arrays():
        if array.dtype == object:
            _fixed(name, array)
    with beside(path) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                array = _fixed(name, array) if array.dtype == object else array
                np.lib.format.write_array(member, array, allow_pickle=False)


def _fixed(name: str, array: np.ndarray) -> np.ndarray:
    values = list(array.flat)
    if not all(isinstance(v, bytes) for v in values):
        raise CannotHold(f"blob {name!r} holds records, which npz has no type for: leave it out (--leave {name})")
    if any(v.endswith(b"\0") for v in values):
        raise CannotHold(
            f"blob {name!r} holds strings that end in NUL bytes, which npz drops: leave it out (--leave {name})"
        )
    return array.astype("S")


def read_npz(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of an archive; Python objects in it are refused."""
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                array = archive[name]
            except ValueError as e:
                raise CannotHold(f"array {name!r} of {path} cannot be read: {e}") from None
            yield name, array


# ---- safetensors -------------------------------------------------------------------------------------------------

_SAFE = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint8": "U8", "uint16": "U16", "bool": "BOOL",
}  # fmt: skip
_FROM_SAFE = {**{safe: np.dtype(name) for name, safe in _SAFE.items()}, "BF16": np.dtype("<u2")}
_LARGEST_HEADER = 100_000_000  # bytes; the format's own limit


def write_safetensors(path: str, arrays: Arrays) -> None:
    """Hugging Face's format: a header in JSON, then the values."""
    header, at = {}, 0
    for name, array in arrays():
        kind = _SAFE.get(array.dtype.name)
        if kind is None:
            raise CannotHold(_refused(name, array, "safetensors"))
        if name == "__metadata__":
            raise CannotHold("safetensors keeps the name __metadata__ for itself: rename the blob")
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with beside(path) as new, open(new, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in arrays():
            flat = array.reshape(-1)
            for start in range(0, flat.size, 1 << 20):
                part = flat[start : start + (1 << 20)]
                file.write(part.astype(part.dtype.newbyteorder("<"), copy=False).data)


def read_safetensors(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of a file; those in bfloat16 come as float32, which holds them exactly."""
    with open(path, "rb") as file:
        header, begin = _safe_header(path, file)
        size = os.fstat(file.fileno()).st_size - begin
        for name, said in header.items():
            try:
                kind, shape, (start, end) = (
                    said["dtype"],
                    tuple(map(int, said["shape"])),
                    map(int, said["data_offsets"]),
                )
            except (KeyError, TypeError, ValueError):
                raise CannotHold(f"{path}: the header's entry of {name!r} is broken") from None
            dtype = _FROM_SAFE.get(kind)
            if dtype is None:
                raise CannotHold(f"tensor {name!r} is of type {kind}, which Caffe2 does not have")
            if (
                min(shape, default=0) < 0
                or not 0 <= start <= end <= size
                or end - start != math.prod(shape) * dtype.itemsize
            ):
                raise CannotHold(
                    f"{path}: tensor {name!r} does not fit: {kind} {list(shape)} at bytes {start} to {end} of {size}"
                )
            file.seek(begin + start)
            array = np.fromfile(file, dtype, (end - start) // dtype.itemsize)
            yield name, (widened(array) if kind == "BF16" else array).reshape(shape)


def _safe_header(path: str, file: IO[bytes]) -> tuple[dict[str, Any], int]:
    head = file.read(8)
    length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
    if not 2 <= length <= _LARGEST_HEADER:
        raise CannotHold(f"{path} is no safetensors file")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        raise CannotHold(f"{path}: the header of this safetensors file is broken") from None
    if not isinstance(header, dict):
        raise CannotHold(f"{path}: the header of this safetensors file is broken")
    header.pop("__metadata__", None)
    return header, 8 + length


def widened(bits: np.ndarray) -> np.ndarray:
    """bfloat16, given as its bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


# ---- torch -------------------------------------------------------------------------------------------------------


def write_torch(path: str, arrays: Arrays) -> None:
    """A state dict, as torch.load(weights_only=True) takes it."""
    torch = _torch()
    tensors = {}
    for name, array in arrays():
        if array.dtype == object:
            raise CannotHold(_refused(name, array, "a torch tensor"))
        try:
            tensors[name] = torch.from_numpy(array.copy())
        except TypeError:
            raise CannotHold(_refused(name, array, f"a tensor of torch {torch.__version__}")) from None
    with beside(path) as new:
        torch.save(tensors, new)


def read_torch(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of a state dict, or of a checkpoint that has one under "state_dict"; no code in it is run."""
    torch = _torch()
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # torch raises what pickle, zipfile and its own reader raise
        raise CannotHold(
            f"{path} cannot be read as a state dict without running code of it: {str(e).splitlines()[0]}"
        ) from None
    held = held.get("state_dict", held) if isinstance(held, dict) else held
    if not isinstance(held, dict):
        raise CannotHold(f"{path} holds a {type(held).__name__}, and no state dict")
    for name, value in held.items():
        if not isinstance(value, torch.Tensor):
            continue  # what is beside the tensors: epochs, options
        value = value.detach()
        if value.is_sparse or value.is_quantized:
            raise CannotHold(f"tensor {name!r} is sparse or quantized: make it dense first")
        array = (
            (value.float() if value.dtype is torch.bfloat16 else value).numpy()
            if value.dtype in _holds(torch)
            else None
        )
        if array is None:
            raise CannotHold(f"tensor {name!r} is of type {value.dtype}, which Caffe2 does not have")
        yield str(name), np.ascontiguousarray(array).reshape(tuple(value.shape))


def _holds(torch: Any) -> set[Any]:
    return {getattr(torch, name) for name in (*_SAFE, "bfloat16") if hasattr(torch, name)}


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise CannotHold(f"torch's files need torch: {install('torch')}") from None
    return torch


# ---- all of them -------------------------------------------------------------------------------------------------

FORMATS = {
    "npz": (write_npz, read_npz),
    "safetensors": (write_safetensors, read_safetensors),
    "torch-state-dict": (write_torch, read_torch),
}
_ENDINGS = {
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".pt": "torch-state-dict",
    ".pth": "torch-state-dict",
    ".onnx": "onnx",
}


def format_of(path: str) -> str | None:
    """Return what a file of this name is meant to be: "npz", "safetensors", "torch-state-dict", "onnx", or None."""
    return _ENDINGS.get(os.path.splitext(path)[1].lower())


def found_in(path: str) -> str:
    """Return what a file is, by its content."""
    if os.path.isdir(path):
        raise CannotHold(f"{path} is a folder")
    with open(path, "rb") as file:
        head = file.read(9)
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile as e:
            raise CannotHold(f"{path} is a broken archive: {e}") from None
        return "torch-state-dict" if any(n.endswith("data.pkl") for n in names) else "npz"
    if len(head) == 9 and head[8:] == b"{" and struct.unpack("<Q", head[:8])[0] <= _LARGEST_HEADER:
        return "safetensors"
    return "torch-state-dict" if head[:1] == b"\x80" else "onnx"


def _refused(name: str, array: np.ndarray, what: str) -> str:
    kind = "strings" if array.dtype == object else array.dtype.name
    return f"blob {name!r} holds {kind}, which {what} cannot hold: leave it out (--leave {name}), or export to npz"
