"""GPUs emulated on the CPU, so that a script for eight GPUs runs, and is tested, on a laptop.

An emulated array carries its device and is as strict as CuPy's: it does not mix with host arrays, does not turn into
one by itself, holds no strings, and knows only the functions that CuPy has (cupy_names.json).
"""

from __future__ import annotations

import functools
import json
import operator
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices.base import Array, Device, DeviceError
from caffe2lite.devices.cpu import HOST

_DEFAULT_MEMORY = 16 << 30

Parameters = list[str] | str  # names of a function's arguments, or "ufunc"

_gpus: list[Device] | None = None  # None: as the environment says


@functools.cache
def _names() -> Any:
    return json.loads(pathlib.Path(__file__).with_name("cupy_names.json").read_text())


class EmulatedArray:
    """An array in the memory of an emulated GPU."""

    __slots__ = ("_a", "base", "device")
    __array_ufunc__ = None  # NumPy's own operators refuse it

    def __init__(self, array: np.ndarray, device: Gpu, base: object = None) -> None:
        self._a = array
        self.device = device
        self.base = base

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(
            f"an array on {self.device.name} does not turn into a NumPy array by itself: copy it to the host first"
        )

    def __repr__(self) -> str:
        return f"array on {self.device.name}: {self._a!r}"

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    size = property(lambda self: self._a.size)
    ndim = property(lambda self: self._a.ndim)
    strides = property(lambda self: self._a.strides)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    flags = property(lambda self: self._a.flags)
    __cuda_array_interface__ = property(lambda self: self._a.__array_interface__)  # CUDA-aware MPI takes it by this
    T = property(lambda self: EmulatedArray(self._a.T, self.device, self))

    def get(self) -> np.ndarray:
        """A copy on the host."""
        return self._a.copy()

    def set(self, array: np.ndarray) -> None:
        """Copy a host array of the same shape here."""
        np.copyto(self._a, array)

    def item(self, *index: int) -> Any:
        """One element as a Python number."""
        return self._a.item(*index)

    def tolist(self) -> Any:
        """All elements as Python numbers."""
        return self._a.tolist()

    def __len__(self) -> int:
        return len(self._a)

    def __bool__(self) -> bool:
        return bool(self._a)

    def __int__(self) -> int:
        return int(self._a)

    def __float__(self) -> float:
        return float(self._a)

    def __index__(self) -> int:
        return operator.index(self._a.item())

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self._a)))

    def __getitem__(self, index: object) -> EmulatedArray:
        return self.device.wrap(self._a[self.device.unwrap_index(index)], self)

    def __setitem__(self, index: object, value: object) -> None:
        self._a[self.device.unwrap_index(index)] = self.device.unwrap(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _names()["ndarray"]:
            raise AttributeError(f"CuPy's arrays have no {name!r}")
        method = getattr(self._a, name)
        if not callable(method):
            return self.device.wrap(method, self)

        def call(*args: object, **kwargs: object) -> Any:
            return self.device.call(method, args, kwargs, self)

        return call


def _forward(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: EmulatedArray, other: object) -> Any:
        return self.device.wrap(function(self._a, self.device.unwrap(other)), None)

    return call


def _backward(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: EmulatedArray, other: object) -> Any:
        return self.device.wrap(function(self.device.unwrap(other), self._a), None)

    return call


def _in_place(name: str) -> Callable[..., Any]:
    function = getattr(operator, f"i{name.rstrip('_')}")

    def call(self: EmulatedArray, other: object) -> Any:
        self._a = function(self._a, self.device.unwrap(other))
        return self

    return call


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
):
    _bare = _name.rstrip("_")
    setattr(EmulatedArray, f"__{_bare}__", _forward(_name))
    setattr(EmulatedArray, f"__r{_bare}__", _backward(_name))
    setattr(EmulatedArray, f"__i{_bare}__", _in_place(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(EmulatedArray, f"__{_name}__", _forward(_name))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(
        EmulatedArray,
        f"__{_name}__",
        lambda self, f=getattr(operator, _name): self.device.wrap(f(self._a), None),  # noqa: B008 - binds this name
    )
EmulatedArray.__hash__ = None  # type: ignore[assignment]


class _Module:
    """The array module of an emulated GPU: CuPy's names, NumPy's work."""

    def __init__(self, device: Gpu, path: str, real: ModuleType) -> None:
        self._device, self._path, self._real = device, path, real
        self._table = _names()["modules"][path]
        self.ndarray = EmulatedArray

    def __getattr__(self, name: str) -> Any:
        made: Any
        if name in self._table:
            real = getattr(self._real, name, None)
            if real is None:
                raise AttributeError(f"{name!r} of CuPy is not emulated here")
            made = _Function(self._device, real, name, self._table[name])
        elif self._path == "" and name in ("linalg", "fft"):
            made = _Module(self._device, name, getattr(np, name))
        elif self._path == "" and name == "lib":
            made = _Module.__new__(_Module)
            made.stride_tricks = _Module(self._device, "lib.stride_tricks", np.lib.stride_tricks)
        else:
            value = getattr(self._real, name, None)
            if not isinstance(value, (type, float, type(None))) or (value is None and name != "newaxis"):
                raise AttributeError(f"CuPy has no {self._path}{'.' if self._path else ''}{name}")
            made = value  # a dtype or a constant
        setattr(self, name, made)
        return made


class _Function:
    """A function of CuPy's: arrays of its device in, arrays of its device out."""

    def __init__(self, device: Gpu, real: Callable[..., object], name: str, parameters: Parameters) -> None:
        self._device, self._real, self.__name__ = device, real, name
        self._parameters = parameters

    def __call__(self, *args: object, **kwargs: object) -> Any:
        allowed = self._parameters
        if isinstance(allowed, list):
            unknown = [k for k in kwargs if k not in allowed]
            if unknown:
                raise TypeError(f"CuPy's {self.__name__} has no argument {unknown[0]!r}")
        elif allowed == "ufunc" and "where" in kwargs:
            raise TypeError(f"CuPy's {self.__name__} has no argument 'where'")
        if self.__name__ in ("asarray", "array", "ascontiguousarray"):
            return self._device.put(self._real, args, kwargs)
        if self.__name__ == "copyto" and isinstance(args[1], EmulatedArray):  # CUDA copies between any two devices
            return self._device.copy(*args)  # type: ignore[arg-type]
        return self._device.call(self._real, args, kwargs, None)

    def __getattr__(self, name: str) -> Any:
        if self._parameters != "ufunc" or name not in ("at", "reduce", "accumulate", "outer", "reduceat"):
            raise AttributeError(f"CuPy's {self.__name__} has no {name!r}")
        if name == "at" and self.__name__ not in _names()["at"]:
            raise AttributeError(f"CuPy's {self.__name__}.at does not exist")
        return lambda *args, **kwargs: self._device.call(getattr(self._real, name), args, kwargs, None)


class _Random:
    """A random generator that makes arrays on its device."""

    def __init__(self, device: Gpu, seed: int | None) -> None:
        self._device = device
        self._real = np.random.Generator(np.random.SFC64(seed))

    def __getattr__(self, name: str) -> Any:
        if name not in _names()["generator"]:
            raise AttributeError(f"CuPy's random generators have no {name!r}")
        method = getattr(self._real, name)
        return lambda *args, **kwargs: self._device.call(method, args, kwargs, None)


class Gpu(Device[EmulatedArray]):
    """An emulated GPU."""

    type = 1

    def __init__(self, device_id: int, peers: bool) -> None:
        self.id = device_id
        self.name = f"gpu_{device_id}"
        self.peers = peers
        self.xp = _Module(self, "", np)

    # ---- between emulated arrays and NumPy's ----

    def unwrap(self, value: object) -> Any:
        """The NumPy value behind an argument; TypeError or DeviceError for what a kernel here could not read."""
        if isinstance(value, EmulatedArray):
            if not (value.device is self or self.reaches(value.device)):
                raise DeviceError(f"{self.name} cannot read an array on {value.device.name}")
            return value._a
        if isinstance(value, np.ndarray):
            raise TypeError(f"a kernel on {self.name} cannot read a NumPy array in host memory")
        if isinstance(value, (list, tuple)):
            return type(value)(self.unwrap(v) for v in value)
        return value

    def unwrap_index(self, index: object) -> Any:
        """As `unwrap`, for what stands in brackets."""
        if isinstance(index, tuple):
            return tuple(self.unwrap_index(i) for i in index)
        return self.unwrap(index)

    def wrap(self, value: object, base: object) -> Any:
        """Arrays and NumPy scalars as arrays on this device."""
        if isinstance(value, np.ndarray):
            if value.dtype == object or value.dtype.kind in "SU":
                raise TypeError(f"{self.name} cannot hold {value.dtype}")
            return EmulatedArray(value, self, base if value.base is not None else None)
        if isinstance(value, np.generic):
            return EmulatedArray(np.asarray(value), self)
        if isinstance(value, tuple):
            return tuple(self.wrap(v, None) for v in value)
        if isinstance(value, list):
            return [self.wrap(v, None) for v in value]
        return value

    def call(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object], base: object
    ) -> Any:
        """Call a NumPy function on arrays of this device."""
        target = kwargs.get("out")
        result = function(*[self.unwrap(a) for a in args], **{k: self.unwrap(v) for k, v in kwargs.items()})
        if isinstance(target, EmulatedArray):
            return target
        for a in args:  # an output given by position
            if isinstance(a, EmulatedArray) and result is a._a:
                return a
        return self.wrap(result, base)

    def put(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> EmulatedArray:
        """Bring an array or numbers here, as `asarray` does."""
        first = args[0]._a if isinstance(args[0], EmulatedArray) else args[0]
        if isinstance(args[0], EmulatedArray):
            self.unwrap(args[0])
        made = function(first, *args[1:], **kwargs)
        if isinstance(args[0], EmulatedArray) and made is first:
            return args[0]
        return self.wrap(made if isinstance(args[0], EmulatedArray) else np.array(made), None)

    # ---- Device ----

    def empty(self, count: int, dtype: DTypeLike) -> EmulatedArray:
        if np.dtype(dtype) == object:
            raise TypeError("strings cannot be on a GPU")
        return EmulatedArray(HOST.empty(count, dtype), self)

    def owns(self, array: object) -> bool:
        return isinstance(array, EmulatedArray) and array.device is self

    def reads(self, array: object) -> bool:
        return isinstance(array, EmulatedArray) and (array.device is self or self.reaches(array.device))

    def reaches(self, other: Device) -> bool:
        return other is self or self.peers

    def properties(self) -> dict[str, Any]:
        return {"name": f"emulated GPU {self.id}", "major": 0, "minor": 0, "totalGlobalMem": _DEFAULT_MEMORY}

    def memory(self) -> tuple[int, int]:
        return _DEFAULT_MEMORY, _DEFAULT_MEMORY

    def copy(self, target: EmulatedArray, source: Array) -> None:
        np.copyto(target._a, source._a if isinstance(source, EmulatedArray) else cast(np.ndarray, source))

    def to_host(self, array: EmulatedArray) -> np.ndarray:
        return array._a

    def pointer(self, array: EmulatedArray) -> int:
        if not array.flags.c_contiguous:
            raise ValueError(f"an array on {self.name} is not contiguous")
        return array._a.ctypes.data

    def random(self, seed: int | None) -> _Random:
        return _Random(self, seed)


def use(count: int, peers: bool = True) -> None:
    """Emulate `count` GPUs from now on (0: none); without `peers` none may read another's memory."""
    global _gpus
    _gpus = [Gpu(i, peers) for i in range(count)]


def devices() -> list[Device]:
    """The emulated GPUs."""
    if _gpus is None:
        use(_asked(), os.environ.get("CAFFE2LITE_EMULATED_PEERS", "1") != "0")
    return _gpus or []


def _asked() -> int:
    """How many GPUs the environment asks for."""
    text = os.environ.get("CAFFE2LITE_EMULATED_GPUS") or "0"
    if not text.isdecimal():
        raise DeviceError(f"CAFFE2LITE_EMULATED_GPUS is the number of GPUs to emulate, 0 or more, and not {text!r}")
    return int(text)
