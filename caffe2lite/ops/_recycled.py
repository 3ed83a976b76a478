"""Intermediate results of kernels in memory that is kept, as CuPy's memory pool does on GPUs.

The plain kernels are formulas: `xp.exp(X) * a - b`.  An operator with large operands gives them to its kernel as
`Recycled` arrays.  What NumPy makes of these lies in buffers of a pool, and a buffer is used again as soon as no array
refers to it any more; so a warmed net allocates nothing, and no kernel has to say so.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

LEAST = 1 << 14  # bytes of the largest operand from which on its operator recycles; the allocator is quick below
SMALL = 1 << 9  # results with no more bytes than this are ordinary arrays
KEPT = 1 << 28  # bytes that the pool of a thread keeps at most

_array = np.ndarray.__new__


class _Pool(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[int, list[np.ndarray]] = {}
        self.size = 0

    def take(self, size: int) -> np.ndarray:
        """A buffer of at least `size` bytes that no array refers to."""
        step = 1 << max(size.bit_length() - 4, 6)
        size = -(-size // step) * step
        buffers = self.buffers.get(size)
        if buffers is None:
            buffers = self.buffers[size] = []
        place = _idle(buffers)
        if place is None:
            place = len(buffers)
            if self.size + size > KEPT:
                self.buffers.clear()
                self.size, place = 0, 0
                buffers = self.buffers[size] = []
            buffers.append(np.empty(size, np.uint8))
            self.size += size
        return buffers[place]


def _idle(buffers: list[np.ndarray]) -> int | None:
    for i in range(len(buffers)):
        if sys.getrefcount(buffers[i]) <= _UNUSED:
            return i
    return None


_UNUSED = 0
while _idle([np.empty(0)]) is None:  # how many references getrefcount counts where there is none but the list's
    _UNUSED += 1

_pool = _Pool()


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array with undefined values, in kept memory on the CPU; its memory is free again when it is dropped."""
    if xp is not np:
        return xp.empty(shape, dtype)
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size <= SMALL or size > KEPT or dtype.hasobject:
        return np.empty(shape, dtype)
    return _array(Recycled, shape, dtype, _pool.take(size))


def recycled(operand: Any) -> Any:
    """The operand as an array whose results are recycled."""
    return operand.view(Recycled) if type(operand) is np.ndarray and operand.dtype != object else operand


def worthwhile(operands: list[Any]) -> bool:
    """Whether an operator of these operands is to recycle."""
    return any(a.nbytes >= LEAST for a in operands if type(a) is np.ndarray)


def _plain(a: Any) -> Any:
    return a.view(np.ndarray) if type(a) is Recycled else a


class Recycled(np.ndarray):
    """An array of which functions, methods and operators make recycled ones."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        inputs = tuple([_plain(a) for a in inputs])
        run = getattr(ufunc, method)
        out = options.get("out")
        if out is not None:
            options["out"] = tuple([_plain(a) for a in out])
            result = run(*inputs, **options)
            return result if type(result) is tuple else out[0]
        known = method in _SHAPES and ufunc.nout == 1 and isinstance(inputs[0], _OPERANDS)
        shape = _SHAPES[method](ufunc, inputs, options) if known else None
        if not shape:
            return run(*inputs, **options)
        kinds = tuple([(a.dtype, not a.ndim) if isinstance(a, np.ndarray) else type(a) for a in inputs])
        target = empty(np, shape, _dtype(ufunc, method, kinds, options.get("dtype")))
        run(*inputs, **options, out=target.view(np.ndarray))
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        known = _FUNCTIONS.get(function)
        return known(*args, **options) if known else super().__array_function__(function, types, args, options)

    def __getitem__(self, index: Any) -> Any:
        place = index if type(index) is tuple else (index,)
        axis = len(place) - 1
        if isinstance(place[-1], np.ndarray) and all([p == slice(None) for p in place[:-1] if type(p) is slice]):
            if all([type(p) is slice for p in place[:-1]]) and place[-1].dtype.kind in "iu" and place[-1].ndim:
                return _take(self, place[-1], axis)
        return super().__getitem__(index)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        if not options.get("copy", True) and self.dtype == dtype:
            return self
        target = empty(np, self.shape, dtype)
        np.copyto(_plain(target), _plain(self), casting="unsafe")
        return target

    def copy(self, order: str = "C") -> Any:
        return self.astype(self.dtype)

    def flatten(self, order: str = "C") -> Any:
        return self.copy().reshape(-1)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        if not self.flags.c_contiguous and self.nbytes > SMALL and not options:
            try:
                return super().reshape(*shape, copy=False)
            except TypeError:  # NumPy before 2.1 cannot say whether it would copy
                pass
            except ValueError:
                return self.copy().reshape(*shape)
        return super().reshape(*shape, **options)

    def ravel(self, order: str = "C") -> Any:
        return self.reshape(-1)

    def dot(self, b: Any, out: Any = None) -> Any:
        return _dot(self, b, out)

    def argmax(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return self._extreme(np.ndarray.argmax, axis, out, options)

    def argmin(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return self._extreme(np.ndarray.argmin, axis, out, options)

    def _extreme(self, find: Any, axis: Any, out: Any, options: Any) -> Any:
        if axis is None or out is not None or options:
            return find(_plain(self), axis, out, **options)
        target = empty(np, _reduced(None, (self,), {"axis": axis}), np.intp)
        find(_plain(self), axis, _plain(target))
        return target

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        if axis is None:
            return self.reshape(-1).repeat(repeats, 0)
        if not isinstance(repeats, (int, np.integer)):
            return super().repeat(repeats, axis)
        at = axis % self.ndim
        target = empty(np, (*self.shape[: at + 1], int(repeats), *self.shape[at + 1 :]), self.dtype)
        np.copyto(_plain(target), np.expand_dims(_plain(self), at + 1))
        return target.reshape(*self.shape[:at], -1, *self.shape[at + 1 :])


# ---- what a result will be ---------------------------------------------------------------------------------------

_OPERANDS = (np.ndarray, np.generic, int, float)


def _called(ufunc: Any, inputs: Any, options: Any) -> tuple[int, ...] | None:
    arrays = [a for a in inputs if isinstance(a, np.ndarray)]
    if any([not isinstance(a, _OPERANDS) for a in inputs]):
        return None
    if ufunc.signature:
        if ufunc is not np.matmul or min([a.ndim for a in arrays]) < 2 or options:
            return None
        a, b = arrays
        return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    first = arrays[0].shape
    return first if all([a.shape == first for a in arrays]) else np.broadcast(*arrays).shape


def _reduced(ufunc: Any, inputs: Any, options: Any) -> tuple[int, ...] | None:
    shape, axis = inputs[0].shape, options.get("axis", 0)
    if axis is None:
        return None
    axes = [a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))] if shape else []
    if options.get("keepdims"):
        return tuple([1 if k in axes else d for k, d in enumerate(shape)])
    return tuple([d for k, d in enumerate(shape) if k not in axes])


def _reduced_at(ufunc: Any, inputs: Any, options: Any) -> tuple[int, ...]:
    shape, axis = inputs[0].shape, options.get("axis", 0) % inputs[0].ndim
    return (*shape[:axis], len(inputs[1]), *shape[axis + 1 :])


_SHAPES: dict[str, Callable[..., Any]] = {
    "__call__": _called,
    "reduce": _reduced,
    "reduceat": _reduced_at,
    "accumulate": lambda ufunc, inputs, options: inputs[0].shape,
}


@functools.cache
def _dtype(ufunc: Any, method: str, kinds: Any, dtype: Any) -> Any:
    """The dtype of a result: that of the same function of ones."""
    shape = (1, 1) if ufunc.signature else (1,)
    ones = [np.ones(() if k[1] else shape, k[0]) if type(k) is tuple else k(1) for k in kinds]
    if method == "reduceat":
        ones[1] = np.zeros(1, np.intp)
    options = {} if dtype is None else {"dtype": dtype}
    return getattr(ufunc, method)(*ones, **options).dtype


# ---- functions ---------------------------------------------------------------------------------------------------


def _where(condition: Any, *choices: Any) -> Any:
    if not choices:
        return np.where(_plain(condition))
    condition, a, b = _plain(condition), *map(_plain, choices)
    shape = np.broadcast_shapes(condition.shape, np.shape(a), np.shape(b))
    target = empty(np, shape, np.result_type(a, b))
    plain = _plain(target)
    np.copyto(plain, b)
    np.copyto(plain, a, where=condition.astype(bool, copy=False))
    return target


def _concatenate(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    arrays = [np.asarray(_plain(a)) for a in arrays]
    if out is not None:
        np.concatenate(arrays, axis, out=_plain(out))
        return out
    first, at = arrays[0].shape, axis % arrays[0].ndim
    shape = (*first[:at], sum([a.shape[at] for a in arrays]), *first[at + 1 :])
    target = empty(np, shape, np.result_type(*arrays))
    np.concatenate(arrays, axis, out=_plain(target))
    return target


def _stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    arrays = [np.asarray(_plain(a)) for a in arrays]
    if out is not None:
        np.stack(arrays, axis, out=_plain(out))
        return out
    shape = list(arrays[0].shape)
    shape.insert(axis % (len(shape) + 1), len(arrays))
    target = empty(np, tuple(shape), np.result_type(*arrays))
    np.stack(arrays, axis, out=_plain(target))
    return target


def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    a, indices = _plain(a), _plain(np.asarray(indices))
    if axis is None:
        a, axis = a.reshape(-1), 0
    count = a.shape[axis]
    if mode == "raise":  # NumPy would make a copy of the output
        if not indices.size or not count or indices.max() >= count or indices.min() < -count:
            return np.take(a, indices, axis, out)
        mode = "wrap"
    if out is None:
        at = axis % a.ndim
        out = empty(np, (*a.shape[:at], *indices.shape, *a.shape[at + 1 :]), a.dtype)
    np.take(a, indices, axis, _plain(out), mode)
    return out


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    a, b = _plain(a), _plain(b)
    if out is None and a.ndim == b.ndim == 2:
        out = empty(np, (a.shape[0], b.shape[1]), np.result_type(a, b))
    if out is None:
        return np.dot(a, b)
    np.dot(a, b, _plain(out))
    return out


def _like(fill: Any) -> Callable[..., Any]:
    def make(a: Any, *value: Any, dtype: Any = None, **options: Any) -> Any:
        target = empty(np, a.shape, dtype or a.dtype)
        if fill is not None or value:
            target[...] = value[0] if value else fill
        return target

    return make


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.take: _take,
    np.dot: _dot,
    np.empty_like: _like(None),
    np.zeros_like: _like(0),
    np.ones_like: _like(1),
    np.full_like: _like(None),
}
