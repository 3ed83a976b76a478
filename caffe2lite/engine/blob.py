"""Blobs: named places that hold a tensor or another object.

A tensor is a view of the blob's storage, a flat array with room for the largest tensor that was in it, so that a
blob which changes shape from run to run allocates once.  Two blobs share memory only when they share the storage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices import HOST, Array, Device
from caffe2lite.ops.kit.memory import check_result

_LARGE = 1 << 20  # elements from which on it is asked whether a tensor may be so large
_SMALL = 1 << 12  # bytes of a tensor that is copied sooner than its nets are bound anew


class Content(NamedTuple):
    """What was in a blob, on its way to another."""

    value: Any
    storage: Any
    device: Device


class Part(NamedTuple):
    """Of which tensor a blob shows a part, from which element on, and as which view."""

    whole: Any
    begin: int
    value: Any


class Blob:
    """A value and its storage.

    value    the tensor (an array), another object, or None: uninitialised
    storage  the flat array that a tensor is a view of; None for other objects
    """

    __slots__ = ("_part", "_views", "alone", "device", "name", "storage", "tokens", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self.storage: Any = None
        self.device: Device = HOST
        self._views: dict[Any, Any] = {}
        self.tokens: list[list[bool]] = []
        self.alone = True  # whether no other blob has ever had part in a storage of this one
        self._part: Part | None = None

    @property
    def is_tensor(self) -> bool:
        """Whether a tensor is in it."""
        return self.storage is not None

    def show(self, value: Array) -> None:
        """Make `value`, a view of the storage, the blob's tensor."""
        if value is not self.value:
            self.value = value
            self.changed()

    def listen(self, token: list[bool]) -> None:
        """Void the token when the blob gets another array."""
        tokens = self.tokens
        if len(tokens) & (len(tokens) - 1) == 0:  # from time to time: a loop's blob may have thousands
            tokens[:] = [t for t in tokens if t[0]]
        tokens.append(token)

    def changed(self) -> None:
        """Tell the nets that have bound this blob's array that it is another now."""
        if self.tokens:
            told, self.tokens = self.tokens, []
            for token in told:  # one that stays interested puts itself back
                token[0] = False

    def resize(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device = HOST) -> Any:
        """A tensor of that shape and dtype, in the present storage where it fits; its values are undefined."""
        storage = self.storage
        if storage is None or storage.dtype != dtype or self.device is not device:
            view = self._allocate(shape, np.dtype(dtype), device)
        else:
            view = self._views.get(shape)
            if view is None:
                count = 1
                for d in shape:
                    count *= d
                if count > storage.size or shape and min(shape) < 0:
                    view = self._allocate(shape, storage.dtype, device)
                else:
                    if len(self._views) > 32:  # shapes that depend on data would pile up
                        self._views.clear()
                    view = self._views[shape] = storage[:count].reshape(shape)
        if view is not self.value:
            self.value = view
            self.changed()
        return view

    def _allocate(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device) -> Any:
        count = 1
        for d in shape:
            if d < 0:
                raise ValueError(f"blob {self.name!r} cannot have the shape {shape}")
            count *= d
        if count > _LARGE or not count:
            check_result(shape, dtype)
        try:
            self.storage = device.empty(count, dtype)
        except (MemoryError, ValueError) as e:
            size = count * np.dtype(dtype).itemsize
            raise MemoryError(f"no memory for blob {self.name!r}: shape {shape} of {dtype}, {size:,} bytes") from e
        self.device = device
        view = self.storage.reshape(shape)
        self._views = {shape: view}
        return view

    def assign(self, array: Array, device: Device = HOST) -> None:
        """Put a copy of the array's values in, into the present storage where they fit."""
        view = self.value
        if self.storage is None or view.shape != array.shape or view.dtype != array.dtype or self.device is not device:
            view = self.resize(array.shape, array.dtype, device)
        device.copy(view, array)

    def owns(self, array: Array) -> bool:
        """Whether the array is a view that `resize` handed out for the present storage."""
        return self._views.get(array.shape) is array

    def adopt(self, array: Array, device: Device = HOST) -> None:
        """Make an array that nobody else holds the tensor; copies where it is a view or not contiguous."""
        if array.base is None and array.flags.c_contiguous and getattr(array.flags, "writeable", True):
            self.borrow(array, device)
        else:
            self.assign(array, device)

    def borrow(self, array: Array, device: Device = HOST) -> None:
        """Make a contiguous array the tensor, whoever else holds it: what one writes the other reads."""
        self.alone = array.base is None and self.alone
        self.storage = array.reshape(-1)
        self.device = device
        self.value = array
        self._views = {array.shape: array}
        self.changed()

    def hold(self, value: object) -> None:
        """Put an object in that is no tensor."""
        self.storage = None
        self._views = {}
        self.value = value
        self.changed()

    def share(self, other: Blob, shape: tuple[int, ...] | None = None) -> Any:
        """Become a second name of the other blob's storage."""
        self.alone = other.alone = False
        self.storage, self.device = other.storage, other.device
        shape = other.value.shape if shape is None else shape
        count = 1
        for d in shape:
            count *= d
        self.value = self.storage[:count].reshape(shape)
        self._views = {shape: self.value}
        self.changed()
        return self.value

    def _take(self) -> Content:
        """Move the content out, which leaves the blob uninitialised."""
        content = Content(self.value, self.storage, self.device)
        self.reset()
        return content

    def swap(self, other: Blob) -> None:
        """Exchange the contents.  Small tensors alike are copied: nets that have bound the arrays remain so."""
        mine, theirs = self.value, other.value
        if (
            self.alone
            and other.alone
            and self.storage is not None
            and other.storage is not None
            and mine.nbytes <= _SMALL
            and mine.shape == theirs.shape
            and mine.dtype == theirs.dtype
            and self.device is HOST
            and other.device is HOST
        ):
            kept = mine.copy()
            mine[...] = theirs
            theirs[...] = kept
            return
        contents = other._take(), self._take()
        for blob, (value, storage, device) in zip((self, other), contents):
            blob.value, blob.storage, blob.device = value, storage, device
            blob._views = {} if storage is None else {value.shape: value}
            blob.changed()

    def view(self, other: Blob, begin: int, shape: tuple[int, ...]) -> Any:
        """Become a name for a part of the other blob's tensor: `begin` is the first element."""
        whole, value, part = other.value, self.value, self._part
        if (
            part is not None
            and part.value is value
            and part.whole is whole
            and part.begin == begin
            and value.shape == shape
        ):
            return value
        self.alone = other.alone = False
        count = 1
        for d in shape:
            count *= d
        if not 0 <= begin <= begin + count <= whole.size:
            raise ValueError(f"{list(shape)} elements from {begin} on are no part of {list(whole.shape)}")
        self.storage, self.device = whole.reshape(-1)[begin : begin + count], other.device
        self.value = value = self.storage.reshape(shape)
        self._views = {shape: value}
        self._part = Part(whole, begin, value)
        self.changed()
        return value

    def reset(self) -> None:
        """Back to uninitialised."""
        self.value = self.storage = self._part = None
        self._views = {}
        self.changed()
