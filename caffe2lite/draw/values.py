"""What a tensor holds, in few numbers: for the panel of a page and for notebooks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BINS = 24
_FIRST = 6  # entries that are shown


class Values(NamedTuple):
    """A tensor in few numbers; those of its finite entries are None where it has none, or holds no numbers."""

    kind: str
    shape: tuple[int, ...]
    least: float | None
    mean: float | None
    most: float | None
    odd: int  # entries that are NaN or infinite
    bins: list[int]  # how many entries lie in each part of the way from the least to the most
    first: list[str]


def values_of(array: Any) -> Values:
    """Return the Values of an array."""
    array = np.asarray(array)
    kind = "strings" if array.dtype == object else array.dtype.name
    first = [_said(v) for v in array.reshape(-1)[:_FIRST]] + ["…"] * (array.size > _FIRST)
    nothing = Values(kind, array.shape, None, None, None, 0, [], first)
    if array.dtype.kind not in "fiub" or not array.size:
        return nothing
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        good = flat[np.isfinite(flat)]
    else:
        good = flat if array.dtype.kind != "b" else flat.view(np.uint8)
    if not good.size:
        return nothing._replace(odd=array.size)
    least, most = float(good.min()), float(good.max())
    with np.errstate(over="ignore"):
        mean = float(good.mean(dtype=np.float64))
        wide = most - least
    bins: list[int] = []
    if 0 < wide < np.inf:
        bins = np.bincount(
            ((good.astype(np.float64) - least) / wide * (BINS - 1e-9)).astype(int), minlength=BINS
        ).tolist()
    return Values(kind, array.shape, least, mean, most, int(flat.size - good.size), bins, first)


def _said(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value[:40])[1:]
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value)[:40]
