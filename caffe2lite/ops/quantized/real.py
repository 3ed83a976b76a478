"""Int8 operators that compute with the numbers that the bytes stand for: Caffe2 has them for its engine DNNLOWP."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.segments import check_indices
from caffe2lite.ops.nn.linear import BatchMatMul
from caffe2lite.ops.quantized.packed import above_zero, quantize
from caffe2lite.ops.quantized.tensors import Int8Tensor, need


@operator("Y")
def Int8Mul(xp, A, B, *, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Y = A * B, element by element, of one shape.

    A and B, Int8 tensors [...] of one shape, uint8 -> Y alike. ValueError where the shapes differ; TypeError where one
    is no Int8 tensor.
    """
    need(A, B)
    if A.shape != B.shape:
        raise ValueError(f"both inputs must have one shape, got {list(A.shape)} and {list(B.shape)}")
    return quantize(A.real() * B.real(), np.float32(Y_scale), Y_zero_point)


@operator("Y", types={"w": "float32", "b": "float32"})
def Int8ElementwiseLinear(xp, X, w, b, *, axis: int = 1, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Y = X * w + b, where w and b have a value for each place of a row, the dimensions from `axis` on.

    X, an Int8 tensor [N, D, ...] of uint8, w [D, ...] float32, b alike -> Y of X's shape. ValueError where w and b have
    not the size of a row; TypeError where X is no Int8 tensor.
    """
    need(X)
    if w.size != b.size or w.size != np.prod(X.shape[axis:], dtype=int):
        raise ValueError(
            f"w and b must have one value for each place of a row of {list(X.shape)}, from axis {axis} on; found {list(w.shape)} "
            f"and {list(b.shape)}"
        )
    row = X.shape[axis:]
    return quantize(X.real() * w.reshape(row) + b.reshape(row), np.float32(Y_scale), Y_zero_point)


@operator("Y", types={"indices": "int32 int64"})
def Int8Gather(xp, X, indices):
    """Rows of X by their indices; scale and zero point stay.

    X, an Int8 tensor [N, ...] of uint8, indices [K, ...] int32 or int64 -> Y [K, ..., ...]. ValueError where an index
    is not in [0, N); TypeError where X is no Int8 tensor.
    """
    need(X)
    check_indices(indices.reshape(-1), X.shape[0])
    return Int8Tensor(X.data[indices], X.scale, X.zero_point)


@operator("Y")
def Int8BatchMatMul(
    xp,
    A,
    B,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    broadcast: bool = False,
    Y_scale: float = 1.0,
    Y_zero_point: int = 0,
):
    """The products of the matrices in the last two dimensions.

    A, an Int8 tensor [..., M, K] of uint8, B [..., K, N] -> Y [..., M, N]; trans_a and trans_b turn the last two
    dimensions. ValueError where the shapes do not fit; TypeError where one is no Int8 tensor.
    """
    need(A, B)
    product = BatchMatMul(xp, A.real(), B.real(), trans_a=trans_a, trans_b=trans_b, broadcast=broadcast)
    return quantize(product, np.float32(Y_scale), Y_zero_point)


def _bn_op(name, relu):
    def kernel(
        xp,
        X,
        scale,
        bias,
        mean,
        var,
        *,
        epsilon: float = 1e-5,
        order: str = "NCHW",
        Y_scale: float = 1.0,
        Y_zero_point: int = 0,
    ):
        need(X)
        channels = X.shape[1 if order == "NCHW" else -1]
        if any(p.shape != (channels,) for p in (scale, bias, mean, var)):
            found = [list(p.shape) for p in (scale, bias, mean, var)]
            raise ValueError(
                f"scale, bias, mean and var must have one value for each of {channels} channels, found {found}"
            )
        factor = scale / np.sqrt(var + np.float32(epsilon))
        offset = bias - mean * factor
        around = (1, channels, *(1,) * (X.data.ndim - 2)) if order == "NCHW" else (channels,)
        Y = X.real() * factor.reshape(around) + offset.reshape(around)
        if relu:
            Y_scale, Y_zero_point = above_zero(Y_scale, Y_zero_point)  # what is below 0 becomes 0 by itself
        return quantize(Y, np.float32(Y_scale), Y_zero_point)

    doc = f"""Y = (X - mean) / sqrt(var + epsilon) * scale + bias for each channel{", and none below 0" * relu}.

    X, an Int8 tensor [N, C, ...] of uint8 (NHWC: channels last), scale, bias, mean, var [C] float32 -> Y of X's shape.
    ValueError where there is not one value for each channel; TypeError where X is no Int8 tensor.
    """
    operator("Y", name=name, types=dict.fromkeys(("scale", "bias", "mean", "var"), "float32"), doc=doc)(kernel)


_bn_op("Int8SpatialBN", relu=False)
_bn_op("Int8SpatialBNRelu", relu=True)
