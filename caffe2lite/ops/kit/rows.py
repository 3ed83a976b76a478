"""Rows named by indices, with duplicates: Caffe2's sparse optimizers go through them one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np


def check_range(values: np.ndarray, end: int, what: str) -> None:
    """Raise a ValueError where one of the values is not from 0 to end - 1; `what` names one of them."""
    if not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= end:
        must = f"must be from 0 to {end - 1}" if end else "has nothing to point to"
        raise ValueError(f"{what} is {low if low < 0 else high}; it {must}")


def check_indices(indices: np.ndarray, rows: int, what: str = "the parameter") -> np.ndarray:
    """The indices as a vector; ValueError where one is outside of the rows."""
    flat = indices.reshape(-1)
    if flat.size:
        low, high = int(flat.min()), int(flat.max())
        if low < 0 or high >= rows:
            raise ValueError(f"index {low if low < 0 else high} is outside of {what}, which has {rows} rows")
    return flat


def sweeps(xp: ModuleType, indices: np.ndarray) -> Iterator[np.ndarray | slice]:
    """Positions into `indices` in groups that name each row once; later duplicates come in later groups."""
    n = indices.size
    if not n:
        return
    order = xp.argsort(indices, kind="stable")
    ordered = indices[order]
    first = xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]])
    if first.all():
        yield slice(None)
        return
    place = xp.arange(n)
    rank = xp.empty(n, place.dtype)
    rank[order] = place - place[first][xp.cumsum(first) - 1]
    for turn in range(int(rank.max()) + 1):
        yield xp.nonzero(rank == turn)[0]


def within(xp: ModuleType, indices: np.ndarray, size: int, wrap: bool) -> np.ndarray:
    """Indices within the axis; ValueError for others.  With `wrap`, negative ones count from the end."""
    if not indices.size:
        return indices
    low, high = int(indices.min()), int(indices.max())
    if high >= size or low < (-size if wrap else 0):
        raise ValueError(
            f"index {high if high >= size else low} is outside of the data, which have {size} entries there"
        )
    return xp.where(indices < 0, indices + size, indices) if low < 0 else indices


def last_of_each(xp: ModuleType, indices: np.ndarray) -> np.ndarray | slice:
    """The last position of each index.  Several values that are written to one place at once leave any of them on a GPU."""
    if xp is np or not indices.size:
        return slice(None)
    order = xp.argsort(indices, kind="stable")
    ordered = indices[order]
    return order[xp.concatenate([ordered[1:] != ordered[:-1], xp.ones(1, bool)])]


def gradient_rows(param: np.ndarray, indices: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """The gradient as one row of values an index; ValueError where the shapes do not fit."""
    if not param.ndim:
        raise ValueError("the parameter must have rows, found a scalar")
    width = param.size // param.shape[0] if param.shape[0] else grad.size // max(indices.size, 1)
    if grad.size != indices.size * width or math.prod(grad.shape[indices.ndim :]) != width:
        raise ValueError(
            f"the gradient {list(grad.shape)} must have a row of {width} values for each of {indices.size} indices "
            f"into {list(param.shape)}"
        )
    return grad.reshape(indices.size, width)
