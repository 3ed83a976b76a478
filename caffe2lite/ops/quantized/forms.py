"""Row-wise quantisation: each row with a scale and a bias (its minimum) of its own, stored behind its values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from caffe2lite.ops.kit.compiled import loop, narrow, prefetch, widen
from caffe2lite.ops.kit.extremes import row_bounds

_U = np.uint64  # of places in arrays: signed ones might count from the end


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
    """Raise a ValueError where rows of X cannot be packed."""
    if X.ndim < 1 or X.shape[-1] < 1:
        raise ValueError(f"the input must have rows of at least one value, got shape {list(X.shape)}")
    if X.shape[-1] % form.per_byte:
        raise ValueError(f"rows have {X.shape[-1]} values; {form.per_byte} go into a byte")


def parameters(xp: Any, low: Any, high: Any, form: Format) -> tuple[Any, Any, Any]:
    """Return (scale, bias, 1 / scale) as columns, for rows of float32 with these bounds."""
    if form is EIGHT:
        span = high - low
        return span / xp.float32(255), low, xp.float32(255) / (span + xp.float32(1e-8))
    return _narrow(xp, low, high, form)


def _narrow(xp: Any, low: Any, high: Any, form: Format) -> tuple[Any, Any, Any]:
    """Return (scale, bias, 1 / scale) as half floats hold them."""
    bias = low.astype("float16").astype("float32")
    span = high - bias
    scale = xp.where(span == 0, xp.float32(1), span / xp.float32(form.levels)).astype("float16").astype("float32")
    scale = xp.where(scale == 0, xp.float32(1), scale)
    inverse = 1 / scale
    broken = xp.isinf(inverse)
    return xp.where(broken, xp.float32(1), scale), bias, xp.where(broken, xp.float32(1), inverse)


def greedy(xp: Any, rows: Any, form: Format, bins: int = 200, ratio: float = 0.16) -> tuple[Any, Any]:
    """Return (minimum, maximum) of each row, narrowed step by step as long as the squared error falls.

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
    """Return rows of uint8: the packed values, then scale and bias."""
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


def pack(xp: Any, values: Any, form: Format) -> Any:
    """Return several values a byte, the first in its lowest bits."""
    if form.per_byte == 1:
        return values
    groups = values.reshape(values.shape[0], -1, form.per_byte)
    total = groups[..., 0].copy()
    for k in range(1, form.per_byte):
        total |= groups[..., k] << (k * form.bits)
    return total


def unpack(xp: Any, rows: Any, form: Format) -> tuple[Any, Any, Any]:
    """Return (values as float32, scale, bias) of quantised rows [n, bytes]."""
    packed = rows.shape[1] - form.tail
    if packed < 0:
        raise ValueError(f"rows have {rows.shape[1]} bytes, fewer than the {form.tail} of scale and bias")
    pair = xp.ascontiguousarray(rows[:, packed:]).view(form.parameter).astype("float32")
    data = rows[:, :packed]
    if form.per_byte > 1:
        shifts = [(data >> (k * form.bits)) & form.levels for k in range(form.per_byte)]
        data = xp.stack(shifts, axis=2).reshape(rows.shape[0], packed * form.per_byte)
    return data.astype("float32"), pair[:, :1], pair[:, 1:]


def dequantise(xp: Any, rows: Any, form: Format, weights: Any = None) -> Any:
    """Return the values of quantised rows, float32; scale and bias times the row's weight, where there are weights."""
    values, scale, bias = unpack(xp, rows, form)
    if weights is not None:  # as Caffe2 does: an infinite weight makes NaN of a value of 0
        scale, bias = scale * weights[:, None], bias * weights[:, None]
    return values * scale + bias


# ---- compiled ------------------------------------------------------------------------------------------------------


def quantise_compiled(X: Any, form: Format, out: Any) -> Any:
    """`quantise` of float32 without a search."""
    check_rows(X, form)
    width = X.shape[-1]
    packed = width // form.per_byte
    Y = out((*X.shape[:-1], packed + form.tail), "uint8")
    if Y.size:
        rows, made = X.reshape(-1, width), Y.reshape(-1, packed + form.tail)
        low, high = row_bounds(rows)
        half = form.parameter == "float16"
        _pack_rows(
            rows.reshape(-1), low.reshape(-1), high.reshape(-1), made.reshape(-1), form.bits, form.per_byte, half
        )
    return Y


@loop
def _put(data, at, bits, count):  # type: ignore[no-untyped-def]
    for i in range(_U(count)):
        data[at + i] = np.uint8(bits >> (np.uint32(8) * np.uint32(i)) & np.uint32(0xFF))


@loop
def _pack_rows(rows, low, high, made, bits, per_byte, half):  # type: ignore[no-untyped-def]
    """As `parameters` and `pack` do it."""
    levels, width, one = np.float32((1 << bits) - 1), _U(rows.size // low.size), np.float32(1)
    packed, second = width // _U(per_byte), _U(2) if half else _U(4)
    values = np.empty(width, np.uint8)
    for k in range(_U(low.size)):
        begin, to, b = k * width, k * (packed + _U(2) * second), low[k]
        if half:
            b = widen(narrow(b))
            span = high[k] - b
            scale = widen(narrow(span / levels if span != 0 else one))
            scale = scale if scale != 0 else one
            inverse = one / scale
            if np.isinf(inverse):
                scale = inverse = one
            _put(made, to + packed, np.uint32(narrow(scale)), 2)
            _put(made, to + packed + second, np.uint32(narrow(b)), 2)
        else:
            span = high[k] - b
            scale, inverse = span / levels, levels / (span + np.float32(1e-8))
            _put(made, to + packed, np.float32(scale).view(np.uint32), 4)
            _put(made, to + packed + second, np.float32(b).view(np.uint32), 4)
        for j in range(width):
            x = np.rint((rows[begin + j] - b) * inverse)
            x = x if x > 0 else np.float32(0)
            values[j] = np.uint8(np.int32(x if x < levels else levels))
        if per_byte == 1:
            for j in range(width):
                made[to + j] = values[j]
        elif per_byte == 2:
            for j in range(packed):
                made[to + j] = values[_U(2) * j] | values[_U(2) * j + _U(1)] << 4
        else:
            for j in range(packed):
                v = values[_U(4) * j] | values[_U(4) * j + _U(1)] << 2
                made[to + j] = v | values[_U(4) * j + _U(2)] << 4 | values[_U(4) * j + _U(3)] << 6


def dequantise_compiled(rows: Any, form: Format, made: Any) -> None:
    """`dequantise` into `made`, float32."""
    _unpack_rows(rows.reshape(-1), made, form.bits, form.per_byte, form.parameter == "float16")


@loop
def _parameter(data, at, half):  # type: ignore[no-untyped-def]
    """The scale or bias that begins at that byte."""
    low = np.uint32(data[at]) | np.uint32(data[at + _U(1)]) << np.uint32(8)
    if half:
        return widen(np.uint16(low))
    high = np.uint32(data[at + _U(2)]) | np.uint32(data[at + _U(3)]) << np.uint32(8)
    return np.uint32(low | high << np.uint32(16)).view(np.float32)


@loop
def _unpack_rows(data, made, bits, per_byte, half):  # type: ignore[no-untyped-def]
    packed, second = _U(made.shape[1] // per_byte), _U(2) if half else _U(4)
    mask = np.uint8((1 << bits) - 1)
    for k in range(_U(made.shape[0])):
        row, y = k * (packed + _U(2) * second), made[k]
        scale, bias = _parameter(data, row + packed, half), _parameter(data, row + packed + second, half)
        if per_byte == 1:
            for j in range(packed):
                y[j] = np.float32(data[row + j]) * scale + bias
        elif per_byte == 2:
            for j in range(packed):
                y[_U(2) * j] = np.float32(data[row + j] & mask) * scale + bias
                y[_U(2) * j + _U(1)] = np.float32(data[row + j] >> np.uint8(4)) * scale + bias
        else:
            for j in range(packed):
                for i in range(_U(4)):
                    y[_U(4) * j + i] = np.float32(data[row + j] >> (_U(2) * i) & mask) * scale + bias


def sum_rows_compiled(DATA: Any, weights: Any, indices: Any, lengths: Any, form: Format, mean: bool, Y: Any) -> None:
    """Y[k] = sum, or mean, of the values of the rows of segment k.  Indices and lengths have been checked."""
    half = form.parameter == "float16"
    _sum_rows(DATA.reshape(-1), weights, indices, lengths, Y.reshape(-1), form.bits, form.per_byte, half, mean)


@loop(reorder=True)
def _sum_rows(data, weights, indices, lengths, Y, bits, per_byte, half, mean):  # type: ignore[no-untyped-def]
    """Two rows at a time, so that a sum is read and written once for both; prefetched, since rows lie at random.

    Values in one place of their bytes are added up together, and put side by side at the end of a segment.
    """
    places, packed = _U(per_byte), _U(Y.size // (lengths.size * per_byte))
    second = _U(2) if half else _U(4)
    width = packed + _U(2) * second
    mask = np.uint8((1 << bits) - 1)
    sums = np.empty(places * packed, np.float32)
    last = _U(max(indices.size, 1) - 1)
    i = _U(0)
    for k in range(_U(lengths.size)):
        sums[:] = 0
        level = np.float32(0)
        end = i + _U(lengths[k])
        while i < end:
            both = i + _U(1) < end
            next_one = i + _U(1) if both else i
            for s in range(_U(2)):
                soon = _U(indices[min(i + s + _U(16), last)]) * width
                prefetch(data, soon)
                prefetch(data, soon + width - _U(1))
            a, b = _U(indices[i]) * width, _U(indices[next_one]) * width
            scale_a, bias_a = _parameter(data, a + packed, half), _parameter(data, a + packed + second, half)
            scale_b, bias_b = _parameter(data, b + packed, half), _parameter(data, b + packed + second, half)
            if weights.size:
                scale_a, bias_a = scale_a * weights[i], bias_a * weights[i]
                scale_b, bias_b = scale_b * weights[next_one], bias_b * weights[next_one]
            if not both:
                scale_b = bias_b = np.float32(0)
            level += bias_a + bias_b
            if per_byte == 1:
                for j in range(packed):
                    sums[j] += np.float32(data[a + j]) * scale_a + np.float32(data[b + j]) * scale_b
                places_left = _U(0)
            else:
                places_left = places
            for place in range(places_left):
                shift, target = np.uint8(place * _U(bits)), place * packed
                for j in range(packed):
                    of_a, of_b = data[a + j] >> shift & mask, data[b + j] >> shift & mask
                    sums[target + j] += np.float32(of_a) * scale_a + np.float32(of_b) * scale_b
            i += _U(2)
        i = end
        share = np.float32(1) / np.float32(max(lengths[k], 1)) if mean else np.float32(1)
        y = k * places * packed
        for place in range(places):
            for j in range(packed):
                Y[y + j * places + place] = (sums[place * packed + j] + level) * share
