"""Broadcasting of two operands: NumPy's rules, and Caffe2's older ones where the argument `broadcast` is set.

The older rules lay the second operand on the first at `axis` (default: on its last dimensions); the result has the
first operand's shape.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np


def align(
    A: np.ndarray, B: np.ndarray, broadcast: bool, axis: int, axis_str: str, order: str
) -> tuple[np.ndarray, tuple[int, ...]]:
    """B, reshaped to broadcast against A, and the shape of the result."""
    if broadcast:
        return legacy(A, B, axis, axis_str, order), A.shape
    if A.shape == B.shape:
        return B, A.shape
    return B, result_shape(A.shape, B.shape)


def result_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's shape of the result; ValueError where the two do not go together."""
    n = max(len(a), len(b))
    left, right = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    if any(p != q and p != 1 and q != 1 for p, q in zip(left, right)):
        raise ValueError(f"shapes {list(a)} and {list(b)} cannot be broadcast together")
    return tuple(q if p == 1 else p for p, q in zip(left, right))


def legacy(A: np.ndarray, B: np.ndarray, axis: int, axis_str: str, order: str) -> np.ndarray:
    """B with a dimension for each of A's."""
    if axis_str:
        if axis != -1:
            raise ValueError(f"give axis ({axis}) or axis_str ({axis_str!r}), not both")
        if len(axis_str) != 1 or axis_str not in order:
            raise ValueError(f"axis_str={axis_str!r} must be one letter of order={order!r}")
    if B.size == 1:
        return B.reshape((1,) * A.ndim)
    spare = A.ndim - B.ndim
    if axis_str:
        axis = order.index(axis_str)
    elif axis == -1:
        axis = spare
    if not 0 <= axis <= spare:
        raise ValueError(f"a tensor of shape {list(B.shape)} does not fit on axis {axis} of {list(A.shape)}")
    shape = (1,) * axis + B.shape + (1,) * (spare - axis)
    inner = [i for i, d in enumerate(B.shape) if d != 1]
    for i in range(inner[0], inner[-1] + 1):
        if A.shape[axis + i] != B.shape[i]:
            raise ValueError(
                f"broadcast dimension mismatch: axis {axis + i} of {list(A.shape)} against axis {i} of {list(B.shape)}"
            )
    return B.reshape(shape)


def check_gradient(G: np.ndarray, dtype: np.dtype) -> None:
    """ValueError for a gradient of floats that goes to an operand of integers."""
    if dtype.kind != "f" and G.dtype.kind == "f":
        raise ValueError(f"the gradient is {G.dtype}, and goes to an operand of {dtype}, which has none")


def sum_to(xp: ModuleType, G: np.ndarray, aligned: tuple[int, ...], target: np.ndarray) -> np.ndarray:
    """Sum G over the axes in which an operand of shape `aligned` was repeated, into `target`."""
    aligned = (1,) * (G.ndim - len(aligned)) + aligned
    check_gradient(G, target.dtype)
    if len(aligned) != G.ndim or any(d not in (1, g) for d, g in zip(aligned, G.shape)):
        raise ValueError(f"a gradient of the shape {list(G.shape)} is none of an operand of the shape {list(aligned)}")
    axes = tuple(i for i, d in enumerate(aligned) if d == 1 and G.shape[i] != 1)
    if axes:
        return G.sum(axis=axes, keepdims=True, out=target.reshape(aligned))
    target.reshape(aligned)[...] = G
    return target
