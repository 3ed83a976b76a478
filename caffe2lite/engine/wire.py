"""The packed numbers of a large TensorProto, read and written without a Python object for each.

Protocol buffers store a packed field as tag, length, and then floats as they lie in memory; see
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import numpy as np

FLOATS, DOUBLES = 3, 9  # fields of TensorProto that are packed numbers of a fixed size


def varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes | memoryview) -> bytes:
    """A length-delimited field."""
    return b"".join((varint(number << 3 | 2), varint(len(content)), content))


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number of more than 64 bits")


def split(data: memoryview, wanted: tuple[int, ...]) -> tuple[dict[int, list[memoryview]], bytes]:
    """({field: contents of its length-delimited occurrences}, all other fields as bytes).

    ValueError where the bytes are no message.
    """
    found: dict[int, list[memoryview]] = {}
    rest = []
    at, end = 0, len(data)
    try:
        while at < end:
            start = at
            key, at = _read_varint(data, at)
            kind = key & 7
            if kind == 0:
                _, at = _read_varint(data, at)
            elif kind == 1:
                at += 8
            elif kind == 5:
                at += 4
            elif kind == 2:
                size, at = _read_varint(data, at)
                at += size
                if key >> 3 in wanted and at <= end:
                    found.setdefault(key >> 3, []).append(data[at - size : at])
                    continue
            else:
                raise ValueError(f"a field of wire type {kind}")
            if at > end:
                raise ValueError("truncated")
            rest.append(data[start:at])
    except IndexError:
        raise ValueError("truncated") from None
    return found, b"".join(rest)


def numbers(pieces: list[memoryview], dtype: str) -> np.ndarray:
    """The packed numbers of a field that may come in several pieces."""
    size = np.dtype(dtype).itemsize
    if any(len(p) % size for p in pieces):
        raise ValueError("a packed field of a length that is no multiple of its element's")
    if len(pieces) == 1:
        return np.frombuffer(pieces[0], dtype)  # where it lies
    return np.concatenate([np.frombuffer(p, dtype) for p in pieces]) if pieces else np.empty(0, dtype)
