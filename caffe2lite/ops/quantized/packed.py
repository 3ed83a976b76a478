"""Weights that are quantized and packed before a layer uses them, and quantization by the range of the data.

Caffe2 has these for its engine DNNLOWP; sums are scaled in floating point there, and halves go to the even byte.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.quantized.tensors import Int8Tensor, need


class PackedWeights(Object):
    """Quantized weights, and the bias in steps of the scales of weights and input."""

    operand = True

    def __init__(self, weights: Int8Tensor, bias: Int8Tensor | None) -> None:
        self.weights, self.bias = weights, bias


class PackedFCWeights(PackedWeights):
    """Those of Int8FC."""

    type_name = "caffe2::Int8FCDNNLowPPackedWeightBlob"


class PackedConvWeights(PackedWeights):
    """Those of Int8Conv."""

    type_name = "caffe2::Int8ConvDNNLowPPackedWeightBlob"


def quantize(values: np.ndarray, scale: np.float32, zero_point: int) -> Int8Tensor:
    """Return the bytes nearest to the values."""
    steps = np.rint(values * (np.float32(1) / np.float32(scale))) + zero_point
    return Int8Tensor(np.clip(steps, 0, 255).astype(np.uint8), scale, zero_point)


def above_zero(scale: float, zero_point: int) -> tuple[np.float32, int]:
    """Return (scale, zero point) that give all bytes to the part of a range that is not below 0, as after a Relu."""
    return np.float32((255 - zero_point) * np.float32(scale) / 255), 0


def by_range(values: np.ndarray) -> Int8Tensor:
    """Return the values quantized so that the smallest value becomes 0 and the largest 255; 0 is met exactly."""
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise ValueError(
            f"values with NaN or infinity have no range to be quantized by: {count} of {values.size} are such"
        )
    low = min(float(values.min(initial=0)), 0.0)
    high = max(float(values.max(initial=0)), 0.0)
    scale = (high - low) / 255 or 0.1
    return quantize(values, np.float32(scale), int(np.rint(np.clip(-low / scale, 0, 255))))


@operator("Y", types="float32", host="X", infer=like(0, dtype="uint8"))
def Quantize(xp, X, *, Y_scale: float = 0.0, Y_zero_point: int = 0):
    """X as an Int8 tensor with the given scale, or (without one) by the range of its values.

    X [...] float32 -> Y, an Int8 tensor of its shape, uint8. TypeError for other types.
    """
    return quantize(X, np.float32(Y_scale), Y_zero_point) if Y_scale else by_range(X)


@operator("Y", infer=like(0, dtype="float32"))
def Dequantize(xp, X):
    """The numbers that the bytes stand for, float32.

    X, an Int8 tensor [...] of uint8 -> Y of its shape. TypeError where X is none.
    """
    need(X)
    return X.real()


def _bias(b, scale, in_scale):
    """Return a float bias as int32 in steps of the products; one that is int32 already as it is."""
    if b is None or isinstance(b, Int8Tensor):
        return b
    if b.dtype != "float32":
        raise TypeError(f"the bias must be of float32, or an Int8 tensor, found {b.dtype}{list(b.shape)}")
    step = np.float32(in_scale) * np.float32(scale)
    return Int8Tensor(np.rint(b / step).astype(np.int32), step, 0)


def _packed(kind, W, b, in_scale):
    if not isinstance(W, Int8Tensor) and (W.dtype != "float32" or W.ndim < 2):
        raise TypeError(f"the weights must be a matrix of float32, found {W.dtype}{list(W.shape)}")
    if b is not None and not isinstance(b, Int8Tensor) and in_scale <= 0:
        raise ValueError("in_scale, the scale of the layer's input, must be given with a bias")
    weights = W if isinstance(W, Int8Tensor) else by_range(W)
    if b is not None and not isinstance(b, Int8Tensor):
        if b.size < W.shape[0]:
            raise ValueError(f"a bias for each of {W.shape[0]} outputs is needed, found {list(b.shape)}")
        b = np.where(np.arange(b.size) < W.shape[0], b.reshape(-1), b.dtype.type(0))  # more are 0, as in Caffe2
    return kind(weights, _bias(b, weights.scale, in_scale))


@operator("W_q B_q?", counts=lambda n, m: n == 2 or m == 1)
def Int8FCPackWeight(xp, W, b=None, *, in_scale: float = 0.0):
    """Quantize weights for Int8FC, and the bias for an input of scale `in_scale`.

    W [M, K] float32, or an Int8 tensor of uint8, b [M] float32, or an Int8 tensor of int32 -> W_q, packed, B_q [M], an
    Int8 tensor of int32. ValueError where there is a bias and in_scale is not above 0; TypeError where W is no matrix
    of float32.
    """
    packed = _packed(PackedFCWeights, W, b, in_scale)
    return packed, packed.bias


@operator("W_q")
def Int8ConvPackWeight(xp, W, b=None, *, in_scale: float = 0.0):
    """Quantize a filter for Int8Conv, and the bias for an input of scale `in_scale`.

    W [M, KH, KW, C] float32, or an Int8 tensor of uint8, b [M] float32, or an Int8 tensor of int32 -> W_q, packed.
    ValueError where there is a bias and in_scale is not above 0; TypeError where W is not of float32.
    """
    return _packed(PackedConvWeights, W, b, in_scale)
