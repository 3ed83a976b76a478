"""Axes of tensors, tensors seen as matrices, and sizes that must agree."""

from __future__ import annotations

import math

import numpy as np


def axis_of(axis: int, ndim: int) -> int:
    """The axis as a number from 0 on, where a negative one counts from the end; ValueError where there is none such."""
    at = axis + ndim if axis < 0 else axis
    if not 0 <= at < ndim:
        raise ValueError(f"axis {axis} is out of range: the tensor has {ndim} dimensions")
    return at


def end_axis(axis: int, ndim: int) -> int:
    """The axis as a number from 0 on, where -1 alone means the last one, as in TopK and ArgMax."""
    at = ndim - 1 if axis == -1 else axis
    if not 0 <= at < ndim:
        raise ValueError(f"axis {axis} is none of {ndim} dimensions (-1 is the last)")
    return at


def split_axis(axis: int, ndim: int, least: int = 0) -> int:
    """As `axis_of`, of the place at which a shape is cut in two: from `least` to `ndim`."""
    at = axis + ndim if axis < 0 else axis
    if not least <= at <= ndim:
        raise ValueError(f"axis {axis} is out of range for {ndim} dimensions")
    return at


def matrix(X: np.ndarray, axis: int) -> np.ndarray:
    """X as rows: the dimensions before `axis`, and those from it on."""
    at = axis_of(axis, X.ndim)
    return X.reshape(math.prod(X.shape[:at]), math.prod(X.shape[at:]))


def rows_of(X: np.ndarray) -> np.ndarray:
    """X as a matrix with its first dimension as rows, of which there may be none."""
    return X.reshape(X.shape[0], math.prod(X.shape[1:]))


def resized(size: int, scale: float) -> int:
    """Size times scale in single precision, rounded down; ValueError where that is no size of a tensor."""
    with np.errstate(over="ignore", invalid="ignore"):
        count = np.float32(size) * np.float32(scale)
    if not count < 2**31:
        raise ValueError(f"{size} pixels times the scale {scale} are {count}; a side must be below 2^31")
    return int(count)


def check_order(order: str) -> None:
    """ValueError for an order of dimensions that does not exist."""
    if order not in ("NCHW", "NHWC"):
        raise ValueError(f"order must be NCHW or NHWC, got {order!r}")


def one(operand: np.ndarray, what: str) -> np.ndarray:
    """The value of a one-element tensor, as a 0-d array."""
    if operand.size != 1:
        raise ValueError(f"{what} must be one value, found the shape {list(operand.shape)}")
    return operand.reshape(())


def check_sizes(**operands: np.ndarray) -> None:
    """ValueError where operands differ in size from the first one."""
    (first, reference), *others = operands.items()
    for what, operand in others:
        if operand.size != reference.size:
            raise ValueError(
                f"{what} {list(operand.shape)} must have as many elements as {first} {list(reference.shape)}"
            )


def fitted(array: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The array in the shape of what it belongs to; ValueError where it has not as many values."""
    if array.size != math.prod(shape):
        raise ValueError(
            f"{what} must have the {math.prod(shape)} values of the shape {list(shape)}, found {list(array.shape)}"
        )
    return array.reshape(shape)
