"""Operators on tensors of strings (bytes)."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, operator


def _each(function, X, out, dtype):
    """Write the function of every string."""
    Y = out(X.shape, dtype)
    Y.reshape(-1)[...] = np.fromiter(map(function, X.reshape(-1).tolist()), dtype, X.size)
    return Y


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _object(text: bytes) -> np.ndarray:
    """The string as an operand of NumPy's comparisons, which go over 200,000 strings in 1 ms."""
    made = np.empty((), object)
    made[()] = text
    return made


@operator("prefixes", types="string", infer=like(0), gradient=FORBID_GRADIENT, limits="length >= 0")
def StringPrefix(xp, strings, *, length: int = 3, out):
    """The first `length` bytes of each string.

    strings [...] string -> prefixes of their shape, string. ValueError where the length is negative.
    """
    return _each(itemgetter(slice(length)), strings, out, object)


@operator("suffixes", types="string", infer=like(0), gradient=FORBID_GRADIENT, limits="length >= 0")
def StringSuffix(xp, strings, *, length: int = 3, out):
    """The last `length` bytes of each string.

    strings [...] string -> suffixes of their shape, string. ValueError where the length is negative.
    """
    return _each(itemgetter(slice(-length, None) if length else slice(0)), strings, out, object)


@operator("bools", types="string", infer=like(0, dtype="bool"), gradient=FORBID_GRADIENT)
def StringStartsWith(xp, strings, *, prefix: str = "", out):
    """Whether each string begins with `prefix`.

    strings [...] string -> bools of their shape, bool. TypeError for other types.
    """
    first = _bytes(prefix)
    bools = np.greater_equal(strings, _object(first), out=out(strings.shape, np.bool_))
    head = first.rstrip(b"\xff")
    if head:  # the strings with the prefix are those from it to the next string that is none of its extensions
        bools &= np.less(strings, _object(head[:-1] + bytes([head[-1] + 1])))
    return bools


@operator("bools", types="string", infer=like(0, dtype="bool"), gradient=FORBID_GRADIENT)
def StringEndsWith(xp, strings, *, suffix: str = "", out):
    """Whether each string ends with `suffix`.

    strings [...] string -> bools of their shape, bool. TypeError for other types.
    """
    wanted = _bytes(suffix)
    return _each(lambda s: s.endswith(wanted), strings, out, np.bool_)


@operator("bools", types="string", infer=like(0, dtype="bool"), gradient=FORBID_GRADIENT)
def StringEquals(xp, strings, *, text: str = "", out):
    """Whether each string is `text`.

    strings [...] string -> bools of their shape, bool. TypeError for other types.
    """
    return np.equal(strings, _object(_bytes(text)), out=out(strings.shape, np.bool_))


def _text(value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.floating):
        return f"{value:g}".encode()
    if isinstance(value, (np.int8, np.uint8)):  # a character, as C++ writes it
        return value.tobytes()
    return str(int(value)).encode()


@operator("strings", types="string float32 float64 int8 int16 uint8 uint16 int32 int64 bool")
def StringJoin(xp, input, *, delimiter: str = ",", axis: int = 0, out):
    """The elements of each row (or, with axis 1, of each column), each followed by the delimiter.

    input [N] or [N, M] of string, numbers or bool -> strings [N], with axis 1 [M]. ValueError where the input has other
    dimensions, the axis is none of
    them, or there is nothing in it.
    """
    if input.ndim not in (1, 2) or axis not in (0, 1) or axis >= input.ndim:
        raise ValueError(
            f"the input must have one or two dimensions, and axis be one of them: {list(input.shape)}, {axis}"
        )
    if not input.size:
        raise ValueError(f"there is nothing to join in an input of the shape {list(input.shape)}")
    rows = input.reshape(input.shape[0], -1)
    if axis == 1:
        rows = rows.T
    Y = out((rows.shape[0],), object)
    end = _bytes(delimiter)
    if rows.dtype.kind in "iu" and rows.itemsize > 1:
        end = end.decode("latin-1")
        made = ((end.join(map(str, row)) + end).encode("latin-1") for row in rows.tolist())
    else:
        made = (end.join(map(_text, row)) + end for row in rows)
    Y[...] = np.fromiter(made, object, len(rows))
    return Y
