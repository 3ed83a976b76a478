"""Where CuPy's results are others than NumPy's, by its algorithm or by what it does not check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices.cores import product

_VIEWS = """
array_split as_strided atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diagonal expand_dims flip hsplit
moveaxis reshape rollaxis sliding_window_view split squeeze swapaxes transpose view vsplit
"""
_ABOUT = "can_cast empty empty_like may_share_memory ndim promote_types result_type shape shares_memory size"
WITHOUT_KERNELS = frozenset([*_VIEWS.split(), *_ABOUT.split()])


def is_advanced(index: Any) -> bool:
    """Whether an index has arrays in it, so that elements are gathered."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, (np.ndarray, list)) for p in parts)


def wrapped(index: Any, shape: tuple[int, ...]) -> Any:
    """The index with its integer arrays modulo the lengths of their axes: CuPy does not check them."""
    if not is_advanced(index):
        return index
    parts = [np.asarray(p) if isinstance(p, list) else p for p in (index if isinstance(index, tuple) else (index,))]
    uses = [
        0 if p is None or p is Ellipsis else p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else 1
        for p in parts
    ]
    made, axis = [], 0
    for part, used in zip(parts, uses):
        if isinstance(part, np.ndarray) and part.dtype.kind in "iu" and shape[axis]:
            part = part % shape[axis]
        made.append(part)
        axis += len(shape) - sum(uses) if part is Ellipsis else used
    return tuple(made)


def same(have: np.ndarray, wanted: Any) -> bool:
    """Whether the elements are what was written to them."""
    if not have.size:
        return True
    expected = np.broadcast_to(np.asarray(wanted), have.shape).astype(have.dtype)
    return bool(((have == expected) | ((have != have) & (expected != expected))).all())


def _take(a: np.ndarray, indices: Any, axis: int | None = None, out: Any = None) -> Any:
    return np.take(a, indices, axis, out=out, mode="wrap")


def _take_along_axis(a: np.ndarray, indices: Any, axis: int) -> Any:
    return np.take_along_axis(a, np.asarray(indices) % a.shape[axis] if a.shape[axis] else indices, axis)


def _repeat(a: np.ndarray, repeats: Any, axis: int | None = None) -> Any:
    if isinstance(repeats, np.ndarray):
        raise TypeError("CuPy's repeat takes a number or a list of numbers, no array")
    return np.repeat(a, repeats, axis)


def _searchsorted(a: np.ndarray, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if isinstance(v, np.generic):
        raise NotImplementedError("CuPy's searchsorted takes Python's numbers or arrays, no NumPy scalar")
    return np.searchsorted(a, v, side, sorter)  # type: ignore[call-overload]


def _add_reduceat(
    array: np.ndarray, indices: np.ndarray, axis: int = 0, dtype: DTypeLike | None = None, out: np.ndarray | None = None
) -> Any:
    """Differences of prefix sums in the type of the array: they lose digits, and Inf and NaN spread to what follows."""
    rows = np.moveaxis(array, axis, 0)
    sums = np.zeros((rows.shape[0] + 1, *rows.shape[1:]), dtype or array.dtype)
    with np.errstate(all="ignore"):
        np.cumsum(rows, axis=0, dtype=sums.dtype, out=sums[1:])
        ends = np.append(indices[1:], rows.shape[0])
        made = np.where(
            (ends > indices).reshape(-1, *(1,) * (rows.ndim - 1)), sums[ends] - sums[indices], rows[indices]
        ).astype(sums.dtype)
    made = np.moveaxis(made, 0, axis)
    if out is None:
        return made
    out[...] = made
    return out


def _product(name: str) -> Callable[..., Any]:
    """A product of matrices, which a GPU adds up in float32 where they are float16, and NumPy without BLAS."""
    real = getattr(np, name)

    def run(a: Any, b: Any, out: np.ndarray | None = None) -> Any:
        if not all(isinstance(m, np.ndarray) and (m.ndim == 2 or (m.ndim > 2 and name == "matmul")) for m in (a, b)):
            return real(a, b) if out is None else real(a, b, out=out)
        half = a.dtype == b.dtype == np.float16
        if half:
            a, b = a.astype(np.float32), b.astype(np.float32)
        if out is None or half:
            made = np.empty(
                (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), np.result_type(a, b)
            )
            product(real, a, b, made)
            if out is None:
                return made.astype(np.float16) if half else made
            out[...] = made
        else:
            product(real, a, b, out)
        return out

    return run


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "take": _take,
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "searchsorted": _searchsorted,
    "matmul": _product("matmul"),
    "dot": _product("dot"),
}


def function(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """What to call in the place of NumPy's function of that name."""
    return _FUNCTIONS[name] if name in _FUNCTIONS and real is getattr(np, name) else real


def method(name: str, array: np.ndarray) -> Callable[..., Any]:
    """What to call in the place of an array's method."""
    if name not in _FUNCTIONS:
        return getattr(array, name)
    return lambda *args, **kwargs: _FUNCTIONS[name](array, *args, **kwargs)


def ufunc_method(ufunc: str, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """What to call in the place of a method of a ufunc."""
    return _add_reduceat if (ufunc, name) == ("add", "reduceat") else getattr(real, name)
