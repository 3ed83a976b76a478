"""Intermediate results of kernels in memory that is kept, as CuPy's memory pool does on GPUs.

The plain kernels are formulas: `xp.exp(X) * a - b`.  An operator with large operands gives them to its kernel as
`Recycled` arrays.  What NumPy makes of these lies in buffers of a pool, and a buffer is used again as soon as no array
refers to it any more; so a warmed net allocates nothing, and no kernel has to say so.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from caffe2lite.devices.cpu import owned
from caffe2lite.ops._scratch import blocks, scratch

LEAST = 1 << 17  # bytes of the largest operand from which on its operator recycles: below, the C library keeps memory itself
SMALL = 1 << 9  # results with no more bytes than this are ordinary arrays
KEPT = 1 << 28  # bytes that the pool of a thread keeps at most

_HELD = 32  # buffers of one size that are in use: more than a kernel needs, so blobs hold them
_MASK = 70  # working memory of this module
_ndarray, _array = np.ndarray, np.ndarray.__new__


class _Shelf:
    """The buffers of one size.

    Each owns its memory: of what an array is a view, NumPy remembers the owner only.
    """

    __slots__ = ("begins", "buffers", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.buffers: list[np.ndarray] = []
        self.begins: list[int] = []  # the first byte in each that is at a cache line

    def clear(self) -> None:
        """Give the buffers up; arrays keep theirs."""
        self.buffers.clear()
        self.begins.clear()

    def take(self, kind: Any, shape: Any, dtype: Any) -> Any:
        """An array in a buffer to which no other array refers."""
        _pool.taken += 1
        for buffer, begin in zip(self.buffers, self.begins):
            if getrefcount(buffer) <= _UNUSED:
                return _array(kind, shape, dtype, buffer, begin)
        return _array(kind, shape, dtype, *_pool.buy(self))


class _Pool(threading.local):
    def __init__(self) -> None:
        self.shelves: dict[int, _Shelf] = {}
        self.plans: dict[Any, tuple[tuple[int, ...], Any, _Shelf]] = {}  # of calls of ufuncs: what they make
        self.size = 0
        self.taken = 0  # how often a buffer was asked for

    def shelf(self, size: int) -> _Shelf:
        """The buffers of at least `size` bytes."""
        step = 1 << max(size.bit_length() - 4, 6)
        size = -(-size // step) * step
        shelf = self.shelves.get(size)
        if shelf is None:
            shelf = self.shelves[size] = _Shelf(size)
        return shelf

    def buy(self, shelf: _Shelf) -> tuple[np.ndarray, int]:
        """A new buffer for a shelf.  Others are given up where there are too many, or all of this size are held."""
        if len(shelf.buffers) >= _HELD:
            self.size -= len(shelf.buffers) * shelf.size
            shelf.clear()
        if self.size + shelf.size > KEPT:
            for other in self.shelves.values():
                other.clear()
            self.size = 0
        buffer, begin = owned(shelf.size)
        shelf.buffers.append(buffer)
        shelf.begins.append(begin)
        self.size += shelf.size
        return buffer, begin


_pool = _Pool()


def _references(buffers: list[np.ndarray], begins: list[int]) -> int:
    for buffer, _begin in zip(buffers, begins):
        return getrefcount(buffer)
    return 0


_UNUSED = _references([np.empty(0)], [0])  # as `take` counts them where there is none but the shelf's


def empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array with undefined values, in kept memory on the CPU; its memory is free again when it is dropped."""
    if xp is not np:
        return xp.empty(shape, dtype)
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    if size <= SMALL or size > KEPT or dtype.hasobject:
        return np.empty(shape, dtype)
    return _pool.shelf(size).take(Recycled, shape, dtype)


def taken() -> int:
    """How many arrays this thread has recycled so far."""
    return _pool.taken


def zeros(xp: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros, as `empty`."""
    made = empty(xp, shape, dtype)
    made[...] = 0
    return made


def contiguous(xp: Any, a: Any) -> Any:
    """The array, or a copy in kept memory where it is not contiguous."""
    if type(a) is not Recycled:
        return xp.ascontiguousarray(a)
    return a if a.flags.c_contiguous else a.copy()


_numbers = np.arange(0)


def arange(xp: Any, count: int) -> Any:
    """0, 1, 2, … as int64; read-only."""
    global _numbers
    if xp is not np:
        return xp.arange(count)
    numbers = _numbers
    if numbers.size < count:
        numbers = np.arange(max(count, 2 * numbers.size, 1 << 14))
        numbers.flags.writeable = False
        _numbers = numbers
    return recycled(numbers[:count])


def recycled(operand: Any) -> Any:
    """The operand as an array whose results are recycled."""
    return operand.view(Recycled) if type(operand) is np.ndarray and operand.dtype != object else operand


def worthwhile(operands: list[Any]) -> bool:
    """Whether an operator of these operands is to recycle."""
    return any(a.nbytes >= LEAST for a in operands if type(a) is np.ndarray)


def _plain(a: Any) -> Any:
    return a.view(np.ndarray) if type(a) is Recycled else a


def _as(a: Any, dtype: Any) -> Any:
    """The plain array, or a copy in kept memory where it has another dtype."""
    if a.dtype == dtype:
        return _plain(a)
    return _plain(a.view(Recycled).astype(dtype))


class Recycled(np.ndarray):
    """An array of which functions, methods and operators make recycled ones."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        key = (ufunc, method, *[(a.shape, a.dtype) if isinstance(a, _ndarray) else a.__class__ for a in inputs])
        inputs = tuple([a.view(_ndarray) if type(a) is Recycled else a for a in inputs])
        if not options:
            plan = _pool.plans.get(key)
            if plan is not None:
                shape, dtype, shelf = plan
                target = shelf.take(_ndarray, shape, dtype)
                ufunc(*inputs, out=target)
                return target.view(Recycled)
        run = getattr(ufunc, method)
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(_plain(a) for a in out)
            result = run(*inputs, **options)
            return result if type(result) is tuple else out[0]
        known = method in _SHAPES and ufunc.nout == 1 and isinstance(inputs[0], _OPERANDS)
        if method == "reduceat":
            inputs = (inputs[0], np.asarray(inputs[1]))
        shape = _SHAPES[method](ufunc, inputs, options) if known else None
        if not shape:
            return run(*inputs, **options)
        kinds = tuple((a.dtype, not a.ndim) if isinstance(a, np.ndarray) else type(a) for a in inputs)
        dtype = _dtype(ufunc, method, kinds, options.get("dtype"))
        target = empty(np, shape, dtype)
        if not options and method == "__call__" and type(target) is Recycled:
            if len(_pool.plans) > 10_000:  # shapes that depend on data would pile up
                _pool.plans.clear()
            _pool.plans[key] = (shape, dtype, _pool.shelf(target.nbytes))
        if method != "__call__":  # other dtypes would be converted in memory of NumPy's own
            inputs = (_as(inputs[0], dtype) if method != "reduce" else inputs[0], *(_as(a, np.intp) for a in inputs[1:]))
        run(*inputs, **options, out=target.view(np.ndarray))
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        known = _FUNCTIONS.get(function)
        made = known(*args, **options) if known else super().__array_function__(function, types, args, options)
        return made.view(Recycled) if type(made) is np.ndarray else made

    def __getitem__(self, index: Any) -> Any:
        place = index if type(index) is tuple else (index,)
        last = place[-1] if place else None
        if isinstance(last, np.ndarray) and last.dtype.kind in "iu" and self.nbytes > SMALL:
            if all(type(p) is slice and p == slice(None) for p in place[:-1]):
                return _take(self, last, len(place) - 1)
            if all(isinstance(p, np.ndarray) and p.dtype.kind in "iu" for p in place):
                return _pick(self, place)
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
            except TypeError:  # NumPy before 2.1 cannot say whether it copies
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
    if any(not isinstance(a, _OPERANDS) for a in inputs):
        return None
    if ufunc.signature:
        if ufunc is not np.matmul or min(a.ndim for a in arrays) < 2 or options:
            return None
        a, b = arrays
        return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    first = arrays[0].shape
    return first if all(a.shape == first for a in arrays) else np.broadcast(*arrays).shape


def _reduced(ufunc: Any, inputs: Any, options: Any) -> tuple[int, ...] | None:
    shape, axis = inputs[0].shape, options.get("axis", 0)
    if axis is None:
        return None
    axes = [a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))] if shape else []
    if options.get("keepdims"):
        return tuple(1 if k in axes else d for k, d in enumerate(shape))
    return tuple(d for k, d in enumerate(shape) if k not in axes)


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
    dtype = np.result_type(a, b)
    shape = np.broadcast_shapes(condition.shape, np.shape(a), np.shape(b))
    target = empty(np, shape, dtype)
    if condition.dtype != bool or dtype.itemsize not in (1, 2, 4, 8):
        np.copyto(target, b)
        np.copyto(target, a, where=condition.astype(bool, copy=False))
        return target
    # Bit by bit, which needs no branches and is several times quicker than np.where: b ^ ((a ^ b) & -condition).
    bits = np.dtype(f"i{dtype.itemsize}")
    parts = [condition, *(_as(np.asarray(v), dtype).view(bits) for v in (a, b)), _plain(target).view(bits)]
    if all(p.size == 1 or p.flags.c_contiguous and p.shape == shape for p in parts):
        parts = [p.reshape(-1) for p in parts]
        for part in blocks(np, target.size):  # within the cache
            _choose(*(p[part] if p.size > 1 else p for p in parts))
    else:
        _choose(*parts)
    return target


def _choose(condition: Any, a: Any, b: Any, chosen: Any) -> None:
    mask = scratch(np, condition.shape, chosen.dtype, _MASK)
    np.copyto(mask, condition)
    np.negative(mask, mask)
    np.bitwise_xor(a, b, chosen)
    np.bitwise_and(chosen, mask, chosen)
    np.bitwise_xor(chosen, b, chosen)


def _concatenate(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    arrays = [np.asarray(_plain(a)) for a in arrays]
    if out is not None:
        np.concatenate(arrays, axis, out=_plain(out))
        return out
    first, at = arrays[0].shape, axis % arrays[0].ndim
    shape = (*first[:at], sum(a.shape[at] for a in arrays), *first[at + 1 :])
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
    a, indices = _plain(a), _as(np.asarray(indices), np.intp)
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
    if not a.flags.c_contiguous:  # NumPy would make a copy
        a = _plain(a.view(Recycled).copy())
    np.take(a, indices, axis, _plain(out), mode)
    return out


def _pick(a: Any, places: Sequence[Any]) -> Any:
    """a[places], of an index array for each of the first dimensions."""
    sizes = a.shape[: len(places)]
    if any(not p.size or p.min() < 0 or p.max() >= d for p, d in zip(places, sizes)):
        return _plain(a)[tuple(places)]  # negative ones, and the error of others
    flat = places[0].view(Recycled)
    for p, d in zip(places[1:], sizes[1:]):
        flat = flat * d + p
    return _take(a.reshape(-1, *a.shape[len(places) :]), flat, 0, None, "clip")


def _take_along_axis(a: Any, indices: Any, axis: int) -> Any:
    places = [arange(np, d).reshape(-1, *(1,) * (a.ndim - 1 - k)) for k, d in enumerate(a.shape)]
    places[axis] = indices
    return _pick(a, places)


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
    np.take_along_axis: _take_along_axis,
    np.dot: _dot,
    np.empty_like: _like(None),
    np.zeros_like: _like(0),
    np.ones_like: _like(1),
    np.full_like: _like(None),
}
