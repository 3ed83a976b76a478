"""Row-wise quantisation: each row with a scale and a bias (its minimum) of its own, stored behind its values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit.compiled import loop, prefetch, widen


class Format(NamedTuple):
    """How a row is stored: bits a value, values a byte, and the type of scale and bias."""

    bits: int
    per_byte: int
    parameter: str

    @property
    def tail(self) -> int:
        """Bytes of scale and bias."""
        return 8 if self.parameter == "float32" else 4

    @property
    def levels(self) -> int:
        """The largest quantised value."""
        return (1 << self.bits) - 1


EIGHT = Format(8, 1, "float32")
EIGHT_HALF = Format(8, 1, "float16")
FOUR = Format(4, 2, "float16")
TWO = Format(2, 4, "float16")
FOUR_FAKE = Format(4, 1, "float32")
TWO_FAKE = Format(2, 1, "float32")


def check_rows(X: Any, form: Format) -> None:
    """ValueError where rows of X cannot be packed."""
    if X.ndim < 1 or X.shape[-1] < 1:
        raise ValueError(f"the input must have rows of at least one value, got shape {list(X.shape)}")
    if X.shape[-1] % form.per_byte:
        raise ValueError(f"rows have {X.shape[-1]} values; {form.per_byte} go into a byte")


def parameters(xp: Any, low: Any, high: Any, form: Format) -> tuple[Any, Any, Any]:
    """(scale, bias, 1 / scale) as columns, for rows float32 with these bounds."""
    if form is EIGHT:
        span = high - low
        return span / xp.float32(255), low, xp.float32(255) / (span + xp.float32(1e-8))
    return _narrow(xp, low, high, form)


def _narrow(xp: Any, low: Any, high: Any, form: Format) -> tuple[Any, Any, Any]:
    """Scale and bias as half floats hold them."""
    bias = low.astype("float16").astype("float32")
    span = high - bias
    scale = xp.where(span == 0, xp.float32(1), span / xp.float32(form.levels)).astype("float16").astype("float32")
    scale = xp.where(scale == 0, xp.float32(1), scale)
    inverse = 1 / scale
    broken = xp.isinf(inverse)
    return xp.where(broken, xp.float32(1), scale), bias, xp.where(broken, xp.float32(1), inverse)


def greedy(xp: Any, rows: Any, form: Format, bins: int = 200, ratio: float = 0.16) -> tuple[Any, Any]:
    """(minimum, maximum) of each row, narrowed step by step as long as the squared error falls.

    The greedy search of Guan et al., Post-Training 4-bit Quantization on Embedding Tables, 2019.
    """
    low, high = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
    step = (high - low) / xp.float32(bins)
    least = step * int(bins * (1 - xp.float32(ratio)))
    best, best_low, best_high = _loss(xp, rows, low, high, form), low, high
    now, now_low, now_high = best, low, high
    while True:
        going = now_low + least < now_high
        if not bool(going.any()):
            return best_low, best_high
        left, right = _loss(xp, rows, now_low + step, now_high, form), _loss(xp, rows, now_low, now_high - step, form)
        better = going & (now < left) & (now < right) & (now < best)
        best = xp.where(better, now, best)
        best_low, best_high = xp.where(better, now_low, best_low), xp.where(better, now_high, best_high)
        from_left = going & (left < right)
        from_right = going & ~(left < right)
        now_low = xp.where(from_left, now_low + step, now_low)
        now_high = xp.where(from_right, now_high - step, now_high)
        now = xp.where(from_left, left, xp.where(from_right, right, now))


def _loss(xp: Any, rows: Any, low: Any, high: Any, form: Format) -> Any:
    scale, bias, inverse = _narrow(xp, low, high, form)
    error = rows - (xp.clip(xp.rint((rows - bias) * inverse), 0, form.levels) * scale + bias)
    return xp.sqrt((error * error).sum(axis=1, keepdims=True))


def quantise(xp: Any, X: Any, form: Format, out: Any, search: bool = False) -> Any:
    """Rows of uint8: the packed values, then scale and bias."""
    check_rows(X, form)
    width = X.shape[-1]
    packed = width // form.per_byte
    Y = out((*X.shape[:-1], packed + form.tail), "uint8")
    if not Y.size or not X.size:
        return Y
    rows = X.reshape(-1, width).astype("float32")
    if search:
        scale, bias, inverse = _narrow(xp, *greedy(xp, rows, form), form)
    else:
        bounds = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
        scale, bias, inverse = parameters(xp, *bounds, form)
    made = Y.reshape(-1, packed + form.tail)
    steps = rows - bias
    steps *= inverse
    made[:, :packed] = pack(xp, xp.clip(xp.rint(steps, out=steps), 0, form.levels, out=steps).astype("uint8"), form)
    _put_parameters(xp, made[:, packed:], scale, bias, form)
    return Y


def _put_parameters(xp: Any, tails: Any, scale: Any, bias: Any, form: Format) -> None:
    if form.parameter == "float16" or form.bits == 8:
        pair = xp.concatenate([scale, bias], axis=1).astype(form.parameter)
    else:  # rounded to half floats, kept as floats
        pair = xp.concatenate([scale, bias], axis=1)
    tails[...] = xp.ascontiguousarray(pair).view("uint8")


# ---- compiled ------------------------------------------------------------------------------------------------------


def quantise_compiled(X: Any, form: Format, out: Any) -> Any:
    """`quantise` of float32 without a search."""
    check_rows(X, form)
    width = X.shape[-1]
    packed = width // form.per_byte
    Y = out((*X.shape[:-1], packed + form.tail), "uint8")
    if Y.size:
        rows, made = X.reshape(-1, width), Y.reshape(-1, packed + form.tail)
        low, high = np.empty((2, rows.shape[0], 1), np.float32)
        _bounds(rows, low, high)
        scale, bias, inverse = parameters(np, low, high, form)
        _pack_rows(rows, bias, inverse, form.bits, form.per_byte, made)
        _put_parameters(np, made[:, packed:], scale, bias, form)
    return Y


@loop
def _bounds(rows, low, high):  # type: ignore[no-untyped-def]
    """Sixteen columns at a time, which fit the processor's vectors."""
    width = rows.shape[1]
    least, most = np.empty(16, np.float32), np.empty(16, np.float32)
    for k in range(rows.shape[0]):
        row = rows[k]
        least[:] = row[0]
        most[:] = row[0]
        for j in range(width // 16):
            part = row[16 * j : 16 * j + 16]
            for i in range(16):
                least[i] = part[i] if part[i] < least[i] else least[i]
                most[i] = part[i] if part[i] > most[i] else most[i]
        for j in range(width // 16 * 16, width):
            least[0] = row[j] if row[j] < least[0] else least[0]
            most[0] = row[j] if row[j] > most[0] else most[0]
        a, b, odd = least[0], most[0], False
        for i in range(1, 16):
            a, b = min(a, least[i]), max(b, most[i])
        for j in range(width):
            odd |= row[j] != row[j]
        low[k, 0], high[k, 0] = (np.float32(np.nan), np.float32(np.nan)) if odd else (a, b)


@loop
def _pack_rows(rows, bias, inverse, bits, per_byte, made):  # type: ignore[no-untyped-def]
    levels = np.float32((1 << bits) - 1)
    values = np.empty(rows.shape[1], np.uint8)
    for k in range(rows.shape[0]):
        row, b, scale, to = rows[k], bias[k, 0], inverse[k, 0], made[k]
        target = to if per_byte == 1 else values
        for j in range(row.size):
            x = np.rint((row[j] - b) * scale)
            x = x if x > 0 else np.float32(0)
            target[j] = np.uint8(np.int32(x if x < levels else levels))
        if per_byte == 2:
            for j in range(row.size // 2):
                to[j] = values[2 * j] | values[2 * j + 1] << 4
        elif per_byte == 4:
            for j in range(row.size // 4):
                v = values[4 * j] | values[4 * j + 1] << 2
                to[j] = v | values[4 * j + 2] << 4 | values[4 * j + 3] << 6


def dequantise_compiled(rows: Any, form: Format, made: Any) -> None:
    """`dequantise` into `made`, float32."""
    _unpack_rows(rows, made, form.bits, form.per_byte, form.parameter == "float16")


@loop
def _parameter(row, at, half):  # type: ignore[no-untyped-def]
    """The scale or bias that begins at that byte."""
    low = np.uint32(row[at]) | np.uint32(row[at + 1]) << np.uint32(8)
    if half:
        return widen(np.uint16(low))
    high = np.uint32(row[at + 2]) | np.uint32(row[at + 3]) << np.uint32(8)
    return np.uint32(low | high << np.uint32(16)).view(np.float32)


@loop
def _unpack_rows(rows, made, bits, per_byte, half):  # type: ignore[no-untyped-def]
    packed = made.shape[1] // per_byte
    mask = np.uint8((1 << bits) - 1)
    for k in range(rows.shape[0]):
        row, y = rows[k], made[k]
        scale, bias = _parameter(row, packed, half), _parameter(row, packed + (2 if half else 4), half)
        if per_byte == 1:
            for j in range(packed):
                y[j] = np.float32(row[j]) * scale + bias
        elif per_byte == 2:
            for j in range(packed):
                y[2 * j] = np.float32(row[j] & mask) * scale + bias
                y[2 * j + 1] = np.float32(row[j] >> np.uint8(4)) * scale + bias
        else:
            for j in range(packed):
                for i in range(4):
                    y[4 * j + i] = np.float32(row[j] >> np.uint8(2 * i) & mask) * scale + bias


def sum_rows_compiled(DATA: Any, weights: Any, indices: Any, lengths: Any, form: Format, mean: bool, Y: Any) -> None:
    """Y[k] = sum, or mean, of the values of the rows of segment k.  Indices and lengths have been checked."""
    _sum_rows(DATA.reshape(-1), weights, indices, lengths, Y, form.bits, form.per_byte, form.parameter == "float16", mean)


@loop(reorder=True)
def _sum_rows(data, weights, indices, lengths, Y, bits, per_byte, half, mean):  # type: ignore[no-untyped-def]
    """Values in one place of their bytes are added up together, and put side by side at the end of a segment."""
    packed = Y.shape[1] // per_byte
    width = packed + (4 if half else 8)
    mask = np.uint8((1 << bits) - 1)
    sums = np.empty((4, packed), np.float32)
    first, second, third, fourth = sums[0], sums[1], sums[2], sums[3]
    last = indices.size - 1
    at = 0
    for k in range(lengths.size):
        sums[:] = 0
        level = np.float32(0)
        for i in range(at, at + lengths[k]):
            soon = np.intp(indices[min(i + 16, last)]) * width
            prefetch(data, soon)
            prefetch(data, soon + 64)
            begin = np.intp(indices[i]) * width
            row = data[begin : begin + width]
            scale, bias = _parameter(row, packed, half), _parameter(row, packed + (2 if half else 4), half)
            if weights.size:
                scale, bias = scale * weights[i], bias * weights[i]
            level += bias
            if per_byte == 1:
                for j in range(packed):
                    first[j] += np.float32(row[j]) * scale
            elif per_byte == 2:
                for j in range(packed):
                    first[j] += np.float32(row[j] & mask) * scale
                    second[j] += np.float32(row[j] >> np.uint8(4)) * scale
            else:
                for j in range(packed):
                    first[j] += np.float32(row[j] & mask) * scale
                    second[j] += np.float32(row[j] >> np.uint8(2) & mask) * scale
                    third[j] += np.float32(row[j] >> np.uint8(4) & mask) * scale
                    fourth[j] += np.float32(row[j] >> np.uint8(6)) * scale
        at += lengths[k]
        share = np.float32(1) / np.float32(max(lengths[k], 1)) if mean else np.float32(1)
        y = Y[k]
        for j in range(packed):
            for i in range(per_byte):
                y[per_byte * j + i] = (sums[i, j] + level) * share


def pack(xp: Any, values: Any, form: Format) -> Any:
    """Several values a byte, the first in its lowest bits."""
    if form.per_byte == 1:
        return values
    groups = values.reshape(values.shape[0], -1, form.per_byte)
    total = groups[..., 0].copy()
    for k in range(1, form.per_byte):
        total |= groups[..., k] << (k * form.bits)
    return total


def unpack(xp: Any, rows: Any, form: Format) -> tuple[Any, Any, Any]:
    """(values as float32, scale, bias) of quantised rows (n, bytes)."""
    packed = rows.shape[1] - form.tail
    if packed < 0:
        raise ValueError(f"rows have {rows.shape[1]} bytes, fewer than the {form.tail} of scale and bias")
    pair = xp.ascontiguousarray(rows[:, packed:]).view(form.parameter).astype("float32")
    data = rows[:, :packed]
    if form.per_byte > 1:
        shifts = [(data >> (k * form.bits)) & form.levels for k in range(form.per_byte)]
        data = xp.stack(shifts, axis=2).reshape(rows.shape[0], packed * form.per_byte)
    return data.astype("float32"), pair[:, :1], pair[:, 1:]


def dequantise(xp: Any, rows: Any, form: Format) -> Any:
    """The values of quantised rows, float32."""
    values, scale, bias = unpack(xp, rows, form)
    return values * scale + bias
