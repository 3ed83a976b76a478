"""Rows named by indices, with duplicates: Caffe2's sparse optimizers go through them one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import numpy.typing as npt

from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.memory import check_result

_U = np.uint64  # of places in arrays: signed ones might count from the end


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
            raise ValueError(outside(low if low < 0 else high, rows, what))
    return flat


def outside(index: int, rows: int, what: str = "the parameter") -> str:
    """What is said of an index that is no row."""
    return f"index {index} is outside of {what}, which has {rows} rows"


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
        raise ValueError(outside(high if high >= size else low, size, "the data"))
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


# ---- rows that move ------------------------------------------------------------------------------------------------


def owners(xp: ModuleType, counts: np.ndarray) -> np.ndarray:
    """For each row the run that it is in: [1, 0, 2] becomes [0, 2, 2]."""
    check_result((int(counts.sum()),), "int64")
    return xp.repeat(xp.arange(counts.shape[0]), counts if xp is np else counts.tolist())


def copy_runs(
    xp: ModuleType, source: np.ndarray, begins: np.ndarray, target: np.ndarray, places: np.ndarray, counts: np.ndarray
) -> None:
    """Copy runs of rows: run k is `counts[k]` rows of the source from `begins[k]` on, into the target at `places[k]`.

    Runs lie within both tensors, whose rows are alike; that has been checked.
    """
    if not source.size or not target.size or not counts.size:
        return
    if pays(xp, source):
        words = _words(source)
        move = (begins.astype(np.uint64), places.astype(np.uint64), counts.astype(np.uint64))
        _copy_runs(source.reshape(-1).view(words), target.reshape(-1).view(words), *move, _width(source, words))
        return
    within = xp.cumsum(counts) - counts
    run = owners(xp, counts)
    row = xp.arange(run.shape[0])
    rows, goals = row + (begins - within)[run], row + (places - within)[run]
    target[goals] = source[rows]


def take_rows(xp: ModuleType, source: np.ndarray, rows: np.ndarray, target: np.ndarray) -> None:
    """target[i] = source[rows[i]]; the rows are within the source, that has been checked."""
    if not target.size:
        return
    if pays(xp, source if source.size > target.size else target):
        words = _words(source)
        _take_rows(
            source.reshape(-1).view(words), rows.reshape(-1), target.reshape(-1).view(words), _width(source, words)
        )
    elif xp is np:
        np.take(source, rows, axis=0, out=target, mode="clip")  # "raise" would go through a buffer
    else:
        xp.take(source, rows, axis=0, out=target)


def put_rows(target: np.ndarray, rows: np.ndarray, source: np.ndarray) -> None:
    """target[rows[i]] = source[i], the last of several; in a loop that is compiled, for what `pays`."""
    words = _words(target)
    _put_rows(target.reshape(-1).view(words), rows, source.reshape(-1).view(words), _width(target, words))


def _words(rows: np.ndarray) -> npt.DTypeLike:
    """The largest type of which a row is a whole number: a loop is compiled for few types, not for each."""
    size = rows.itemsize * (rows.size // rows.shape[0])
    return np.uint64 if size % 8 == 0 else np.uint32 if size % 4 == 0 else np.uint8


def _width(rows: np.ndarray, words: npt.DTypeLike) -> np.uint64:
    return _U(rows.nbytes // rows.shape[0] // np.dtype(words).itemsize)


@loop
def _copy_runs(source, target, begins, places, counts, width):  # type: ignore[no-untyped-def]
    for k in range(counts.size):
        begin, place = begins[k] * width, places[k] * width
        for j in range(counts[k] * width):
            target[place + j] = source[begin + j]


@loop
def _put_rows(target, rows, source, width):  # type: ignore[no-untyped-def]
    for i in range(_U(rows.size)):
        place, begin = _U(rows[i]) * width, i * width
        for j in range(width):
            target[place + j] = source[begin + j]


@loop
def _take_rows(source, rows, target, width):  # type: ignore[no-untyped-def]
    for i in range(_U(rows.size)):
        begin, place = _U(rows[i]) * width, i * width
        for j in range(width):
            target[place + j] = source[begin + j]
