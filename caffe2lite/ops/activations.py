"""Activation functions."""

from __future__ import annotations

import functools

from caffe2lite.ops.gradient import single
from caffe2lite.ops.infer import like
from caffe2lite.ops.registry import operator


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    cuda_types="float32 float16",
    infer=like(0),
    gradient=single("ReluGradient", "O0 GO0 -> GI0"),
)
def Relu(xp, X, *, out):
    """Y = max(X, 0), element by element."""
    return xp.maximum(X, X.dtype.type(0), out=out(X.shape, X.dtype))


@Relu.bind
def _relu_again(xp, inputs, outputs, args):
    (X,), (Y,) = inputs, outputs
    return functools.partial(xp.maximum, X, xp.zeros((), X.dtype), out=Y)


@operator("dX", inplace={1: 0}, types={"Y": "float32", "dY": "=Y"}, cuda_types={"Y": "float32 float16"}, infer=like(0))
def ReluGradient(xp, Y, dY, *, out):
    """dX = dY where Y > 0, else 0."""
    return xp.multiply(dY, Y > 0, out=out(Y.shape, Y.dtype))
