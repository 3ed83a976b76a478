"""Tensors of 8 bits with a scale and a zero point, and the fixed-point arithmetic of their operators (CPU only).

A stored byte q stands for the number scale * (q - zero_point).  Rounding is that of QNNPACK, which Caffe2 uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.infer import Infer, Spec
from caffe2lite.ops.kit.objects import Object
from caffe2lite.proto import caffe2_pb2

_TYPES = {caffe2_pb2.TensorProto.UINT8: np.uint8, caffe2_pb2.TensorProto.INT32: np.int32}


class Int8Tensor(Object):
    """Bytes (or, for biases, int32) with the scale and the zero point that they all share."""

    type_name = "caffe2::int8::Int8TensorCPU"
    operand = True
    blob_type = "Int8TensorCPU"

    def __init__(self, data: np.ndarray, scale: float, zero_point: int) -> None:
        self.data = data
        self.scale = float(np.float32(scale))
        self.zero_point = zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the data."""
        return self.data.shape

    @property
    def zero(self) -> int:
        """The zero point as QNNPACK sees it, which takes a byte: others lose what is above."""
        return self.zero_point & 255

    def real(self) -> np.ndarray:
        """The numbers that it stands for, float32."""
        if self.data.dtype == np.uint8:
            steps = np.arange(256, dtype=np.int32) - np.int32(self.zero_point)
            return look_up(steps.astype(np.float32) * np.float32(self.scale), self.data)
        steps = self.data.astype(np.int32) - np.int32(self.zero_point)
        return steps.astype(np.float32) * np.float32(self.scale)

    def fetch(self) -> tuple[np.ndarray, float, int]:
        """As scripts see it."""
        return self.data.copy(), self.scale, self.zero_point

    def write(self, proto: Any) -> None:
        """Fill a BlobProto."""
        kind = caffe2_pb2.TensorProto.UINT8 if self.data.dtype == np.uint8 else caffe2_pb2.TensorProto.INT32
        q = proto.qtensor
        q.name, q.precision, q.scale, q.bias, q.is_signed = proto.name, 8, self.scale, self.zero_point, False
        q.data_type = kind
        q.dims.extend(self.shape)
        q.data.extend(self.data.reshape(-1).tolist())

    @classmethod
    def read(cls, proto: Any) -> Int8Tensor:
        """The tensor of a BlobProto."""
        q = proto.qtensor
        if q.data_type not in _TYPES:
            raise ValueError(f"an Int8 tensor holds UINT8 or INT32, and this one says data_type {q.data_type}")
        if math.prod(q.dims) != len(q.data) or any(d < 0 for d in q.dims):
            raise ValueError(f"{len(q.data)} values are given for the shape {list(q.dims)}")
        data = np.array(q.data, np.int64).astype(_TYPES[q.data_type])
        return cls(data.reshape(tuple(q.dims)), q.scale, int(q.bias))


def look_up(table: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The table's entry for each byte."""
    if not pays(np, data):
        return np.take(table, data)
    made = np.empty(data.shape, table.dtype)
    _look_up(table, data.reshape(-1), made.reshape(-1))
    return made


@loop
def _look_up(table, data, made):  # type: ignore[no-untyped-def]
    for i in range(data.size):
        made[i] = table[data[i]]


def need(*values: Any, bias: Int8Tensor | None = None) -> None:
    """Raise a TypeError unless all are Int8 tensors: of bytes, and the bias of int32."""
    kinds = ["uint8"] * len(values) + ["int32"] * (bias is not None)
    for i, (value, kind) in enumerate(zip((*values, bias), kinds)):
        if not isinstance(value, Int8Tensor):
            found = f"a tensor of {value.dtype}" if hasattr(value, "dtype") else f"a {type(value).__name__}"
            raise TypeError(f"input {i} must be an Int8 tensor, and it is {found}; Int8Quantize makes one")
        if value.data.dtype != kind:
            raise TypeError(f"input {i} must be an Int8 tensor of {kind}, and it holds {value.data.dtype}")


def same_scale(X: Int8Tensor, scale: float, zero_point: int) -> None:
    """Raise a ValueError unless the output is to have the scale and the zero point of the input."""
    if np.float32(scale) != np.float32(X.scale) or zero_point != X.zero_point:
        raise ValueError(
            f"Y_scale and Y_zero_point must be those of the input, {X.scale:.6g} and {X.zero_point}; "
            f"got {scale:.6g} and {zero_point}"
        )


def ratio(X: Int8Tensor, scale: float, least: int = -8) -> np.float32:
    """Return the scale of X over scale of Y; ValueError beyond 2**least to 2**8."""
    r = np.float32(X.scale) / np.float32(scale)
    if not 2.0**least <= r < 256:
        raise ValueError(f"scale of the input over Y_scale is {r:.6g}; it must be from 2**{least} to below 2**8")
    return r


def check_byte(*zero_points: int) -> None:
    """Raise a ValueError unless the zero points are from 0 to 255."""
    for zero_point in zero_points:
        if not 0 <= zero_point < 256:
            raise ValueError(f"the zero points must be from 0 to 255 here, found {zero_point}")


def lowest(zero_point: int, relu: bool) -> int:
    """Return the lowest byte of a result: 0, or with `relu` the one that is nearest to its zero point."""
    return min(max(zero_point, 0), 255) if relu else 0


def saturate(values: Any, zero_point: int, relu: bool = False) -> np.ndarray:
    """Return bytes of whole numbers that are to have the zero point, a byte; with `relu` none is below it."""
    return np.clip(values + (zero_point & 255), lowest(zero_point, relu), 255).astype(np.uint8)


def shift_right(values: np.ndarray, bits: int) -> np.ndarray:
    """Return values / 2**bits, rounded to the nearest, halves away from zero."""
    if bits == 0:
        return values
    mask = (1 << bits) - 1
    rest = (values & mask) - (values < 0)
    return (values >> bits) + (rest > mask >> 1)


def multiplier(scale: np.float32) -> tuple[int, int]:
    """Return the factor of 31 bits, and the shift after it, of a scale."""
    if not 2.0**-32 <= scale < 1:
        raise ValueError(
            f"the scales of input and filter over Y_scale are {scale:.6g}; that must be below 1: use a larger Y_scale"
        )
    fraction, exponent = np.frexp(np.float64(scale))
    return int(fraction * 2**31), -int(exponent)


def requantize(sums: np.ndarray, scale: np.float32) -> np.ndarray:
    """Return sums * scale as whole numbers: a product of 31 bits, rounded, and a shift, rounded once more."""
    factor, bits = multiplier(scale)
    return shift_right((sums.astype(np.int64) * factor + (1 << 30)) >> 31, bits)


def bytes_as(plain: str, **fixed: Any) -> Infer:
    """Return the inference of the plain operator, for bytes; `fixed` are arguments that the Int8 form does not have."""

    def infer(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
        record = registry.find(plain)
        made = record.infer({**{a.name: a.default for a in record.args.values()}, **args, **fixed}, inputs)
        return [Spec(s.shape, "uint8") for s in made[:1]]

    return infer
