"""A fully connected layer with weights packed before, in half precision, as fbgemm does (CPU only)."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import operator


class PackedMatrix(Object):
    """The weights [inputs, outputs], rounded to half precision and kept as the floats that they became."""

    operand = True
    type_name = "std::unique_ptr<fbgemm::PackedGemmMatrixB<short unsigned int> >"

    def __init__(self, weights: np.ndarray) -> None:
        if weights.ndim != 2:
            raise ValueError(f"a matrix is needed, got shape {list(weights.shape)}")
        self.weights = np.ascontiguousarray(weights.astype(np.float16).astype(np.float32))


@operator("Y", types="float32", host="X")
def FbGemmPack(xp, X):
    """Pack weights [outputs, inputs].

    X [outputs, inputs]; float32; Y is a packed matrix.  ValueError where X is no matrix.
    """
    return PackedMatrix(X.T)


@operator("Y", types="float32", host="X")
def FbGemmPackTranspose(xp, X):
    """Pack weights [inputs, outputs].

    X [inputs, outputs]; float32; Y is a packed matrix.  ValueError where X is no matrix.
    """
    return PackedMatrix(X)


@operator("Y", types={"X": "float32", "b": "float32"})
def FbFCPacked(xp, X, W, b, *, axis: int = 1, axis_w: int = 1, out):
    """Y = X W + b with packed weights; X is seen as a matrix from `axis` on.

    X [..., K ...], W a packed matrix of K inputs and M outputs, b [M], Y [..., M]; float32.  ValueError where K or
    the bias does not fit; TypeError where W is no packed matrix.
    """
    if not isinstance(W, PackedMatrix):
        raise TypeError("the second input must be a matrix that FbGemmPack has made")
    inputs, outputs = W.weights.shape
    inner = math.prod(X.shape[axis:])
    if inner != inputs or b.size != outputs:
        raise ValueError(
            f"X {list(X.shape)} has rows of {inner} values and b {b.size}; the weights take {inputs} and give {outputs}"
        )
    Y = out((*X.shape[:axis], outputs), X.dtype)
    flat = Y.reshape(-1, outputs)
    xp.matmul(X.reshape(-1, inputs), W.weights, out=flat)
    flat += b
    return Y
