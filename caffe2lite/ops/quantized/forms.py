"""Row-wise quantisation: each row with a scale and a bias (its minimum) of its own, stored behind its values."""

from __future__ import annotations

from typing import Any, NamedTuple


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


def parameters(xp: Any, rows: Any, form: Format) -> tuple[Any, Any, Any]:
    """Return (scale, bias, 1 / scale) as columns, for rows [n, width] of float32."""
    low, high = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
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
        scale, bias, inverse = parameters(xp, rows, form)
    values = xp.clip(xp.rint((rows - bias) * inverse), 0, form.levels).astype("uint8")
    made = Y.reshape(-1, packed + form.tail)
    made[:, :packed] = pack(xp, values, form)
    if form.parameter == "float16" or form.bits == 8:
        pair = xp.concatenate([scale, bias], axis=1).astype(form.parameter)
    else:  # rounded to half floats, kept as floats
        pair = xp.concatenate([scale, bias], axis=1)
    made[:, packed:] = xp.ascontiguousarray(pair).view("uint8")
    return Y


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


def dequantise(xp: Any, rows: Any, form: Format) -> Any:
    """Return the values of quantised rows, float32."""
    values, scale, bias = unpack(xp, rows, form)
    return values * scale + bias
