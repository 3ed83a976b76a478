"""Axes of tensors, and tensors seen as matrices."""

from __future__ import annotations

import math
from typing import Any


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


def matrix(X: Any, axis: int) -> Any:
    """X as rows: the dimensions before `axis`, and those from it on."""
    at = axis_of(axis, X.ndim)
    return X.reshape(math.prod(X.shape[:at]), math.prod(X.shape[at:]))


def fitted(array: Any, shape: tuple[int, ...], what: str) -> Any:
    """The array in the shape of what it belongs to; ValueError where it has not as many values."""
    if array.size != math.prod(shape):
        raise ValueError(f"{what} must have the {math.prod(shape)} values of the shape {list(shape)}, found {list(array.shape)}")
    return array.reshape(shape)
