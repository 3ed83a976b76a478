"""GPUs emulated on the CPU, so that a script for eight GPUs runs, and is tested, on a laptop.

An emulated array carries its device and is as strict as CuPy's: it does not mix with host arrays, does not turn into
one by itself, holds no strings, and knows only the functions and arguments that CuPy has (cupy_names.json).  Where
CuPy's results are others than NumPy's they are here too (imitations.py); where they would be undefined, as with two
values for one element or with work that another GPU may not have done yet (clocks.py), an error is raised.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import pathlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices import imitations
from caffe2lite.devices.base import Array, Device, DeviceError
from caffe2lite.devices.clocks import Clock, History
from caffe2lite.devices.cpu import HOST

_DEFAULT_MEMORY = 16 << 30

Parameters = list[str] | str  # names of a function's arguments, or "ufunc"

_gpus: list[Device] | None = None  # None: as the environment says


@functools.cache
def _names() -> Any:
    return json.loads(pathlib.Path(__file__).with_name("cupy_names.json").read_text())


class EmulatedArray:
    """An array in the memory of an emulated GPU."""

    __slots__ = ("_a", "_history", "base", "device")
    __array_ufunc__ = None  # NumPy's own operators refuse it

    def __init__(self, array: np.ndarray, device: Gpu, base: object = None) -> None:
        self._a = array
        self.device = device
        self.base = base
        self._history: History = base._history if isinstance(base, EmulatedArray) else History(device.clock)

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

    def get(self, *, out: np.ndarray | None = None) -> np.ndarray:
        """A copy on the host, which waits for it."""
        if out is None:
            return self.device.waited_for(self).copy()
        np.copyto(out, self.device.waited_for(self))
        return out

    def set(self, array: np.ndarray) -> None:
        """Copy a host array of the same shape and type here."""
        if not isinstance(array, np.ndarray):
            raise TypeError("only a NumPy array can be set")
        if array.shape != self.shape:
            raise ValueError(f"an array {list(array.shape)} cannot be set to one {list(self.shape)}")
        if array.dtype != self.dtype:
            raise TypeError(f"an array of {array.dtype} cannot be set to one of {self.dtype}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("an array that is not contiguous cannot be set")
        self.device.counts["uploads"] += 1
        self.device.written(self)
        np.copyto(self._a, array)

    def item(self) -> Any:
        """The one element as a Python number."""
        return self.device.waited_for(self).item()

    def tolist(self) -> Any:
        """All elements as Python numbers."""
        return self.device.waited_for(self).tolist()

    def __len__(self) -> int:
        return len(self._a)

    def __bool__(self) -> bool:
        return bool(self.device.waited_for(self))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self._a)))

    def __getitem__(self, index: object) -> EmulatedArray:
        device, where = self.device, imitations.wrapped(self.device.unwrap_index(index), self.shape)
        taken = self._a[where]
        if imitations.is_advanced(where):
            device.launch()
            device.read(self)
        return device.wrap(taken, self)

    def __setitem__(self, index: object, value: object) -> None:
        device, where = self.device, imitations.wrapped(self.device.unwrap_index(index), self.shape)
        device.launch()
        source = device.unwrap(value)
        device.written(self)
        self._a[where] = source
        if imitations.is_advanced(where) and not imitations.same(self._a[where], source):
            raise TypeError(f"several values are written to one element on {device.name}: which one stays is undefined")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _names()["ndarray"]:
            raise AttributeError(f"CuPy's arrays have no {name!r}")
        method = getattr(self._a, name)
        if not callable(method):
            return self.device.wrap(method, self)
        return _Function(self.device, imitations.method(name, self._a), name, _names()["ndarray"][name], self)


def _forward(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: EmulatedArray, other: object) -> Any:
        device = self.device
        device.launch()
        device.read(self)
        return device.wrap(function(self._a, device.unwrap(other)), None)

    return call


def _backward(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: EmulatedArray, other: object) -> Any:
        device = self.device
        device.launch()
        device.read(self)
        return device.wrap(function(device.unwrap(other), self._a), None)

    return call


def _in_place(name: str) -> Callable[..., Any]:
    function = getattr(operator, f"i{name.rstrip('_')}")

    def call(self: EmulatedArray, other: object) -> Any:
        device = self.device
        device.launch()
        operand = device.unwrap(other)
        device.written(self)
        self._a = function(self._a, operand)
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
        lambda self, f=getattr(operator, _name): self.device.call(f, (self,), {}, None),  # noqa: B008 - binds this name
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
    """A function of CuPy's, or a method of an array: arrays of its device in, arrays of its device out."""

    def __init__(
        self,
        device: Gpu,
        real: Callable[..., object],
        name: str,
        parameters: Parameters | None,
        owner: EmulatedArray | None = None,
    ) -> None:
        self._device, self._real, self.__name__ = device, real, name
        self._parameters, self._owner = parameters, owner

    def __call__(self, *args: object, **kwargs: object) -> Any:
        device, name, allowed = self._device, self.__name__, self._parameters
        if isinstance(allowed, list):
            unknown = [k for k in kwargs if k not in allowed]
            if unknown or len(args) > len(allowed):
                raise TypeError(f"CuPy's {name} has no argument {unknown[0] if unknown else len(allowed) + 1!r}")
        elif allowed == "ufunc" and "where" in kwargs:
            raise TypeError(f"CuPy's {name} has no argument 'where'")
        if name in ("asarray", "array", "ascontiguousarray"):
            return device.put(self._real, args, kwargs)
        if name == "copyto" and isinstance(args[1], EmulatedArray) and args[1].device is not device:
            return device.copy(*args)  # type: ignore[arg-type] # CUDA copies between any two devices
        if self._owner is not None:
            (device.written if name in ("fill", "put", "sort", "partition") else device.read)(self._owner)
        return device.call(self._real, args, kwargs, self._owner, name)

    def __getattr__(self, name: str) -> Any:
        works = _names()["methods"].get(name)
        if self._parameters != "ufunc" or (works is None and name != "outer"):
            raise AttributeError(f"CuPy's {self.__name__} has no {name!r}")
        if works is not None and self.__name__ not in works:
            raise NotImplementedError(f"CuPy's {self.__name__}.{name} does not work")
        real = imitations.ufunc_method(self.__name__, name, self._real)
        return lambda *args, **kwargs: self._device.call(real, args, kwargs, None, f"{self.__name__}.{name}")


class _Random:
    """A random generator that makes arrays on its device."""

    def __init__(self, device: Gpu, seed: int | None) -> None:
        self._device = device
        self._real = np.random.Generator(np.random.SFC64(seed))

    def __getattr__(self, name: str) -> Any:
        if name not in _names()["generator"]:
            raise AttributeError(f"CuPy's random generators have no {name!r}")
        method = getattr(self._real, name)

        def drawn(*args: object, **kwargs: object) -> Any:
            made = method(*args, **kwargs)
            return np.asarray(made) if np.isscalar(made) else made  # CuPy's draws are arrays, a single one too

        return _Function(self._device, drawn, name, _names()["generator"][name])


class Gpu(Device[EmulatedArray]):
    """An emulated GPU."""

    type = 1

    def __init__(self, device_id: int, peers: bool) -> None:
        self.id = device_id
        self.name = f"gpu_{device_id}"
        self.peers = peers
        self.clock = Clock(self.name)
        self.counts: Counter[str] = Counter()  # launches, synchronisations, uploads
        self.xp = _Module(self, "", np)

    # ---- what happens when ----

    def launch(self) -> None:
        """Another kernel is put here; DeviceError where another GPU is the current one."""
        if _current.id != self.id:
            raise DeviceError(
                f"{self.name} is to compute, but the current device is gpu_{_current.id}: enter its context"
            )
        self.counts["launches"] += 1
        self.clock.follow(_host)
        self.clock.tick()

    def read(self, array: EmulatedArray) -> None:
        """A kernel here reads the array."""
        array._history.read(self.clock)

    def written(self, array: EmulatedArray) -> None:
        """A kernel here writes the array."""
        array._history.write(self.clock)

    def waited_for(self, array: EmulatedArray) -> np.ndarray:
        """The host waits for the array, and looks at it."""
        self.counts["synchronisations"] += 1
        self.clock.follow(_host)
        self.read(array)
        _host.follow(self.clock)
        return array._a

    def after(self, other: Device) -> None:
        if isinstance(other, Gpu):
            self.clock.follow(other.clock)

    def context(self) -> Any:
        return _Context(self.id)

    def synchronize(self) -> None:
        self.counts["synchronisations"] += 1
        _host.follow(self.clock)

    # ---- between emulated arrays and NumPy's ----

    def unwrap(self, value: object) -> Any:
        """The NumPy value behind an argument; TypeError or DeviceError for what a kernel here could not read."""
        if isinstance(value, EmulatedArray):
            if not (value.device is self or self.reaches(value.device)):
                raise DeviceError(f"{self.name} cannot read an array on {value.device.name}")
            self.read(value)
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
        self,
        function: Callable[..., Any],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        base: object,
        name: str = "",
    ) -> Any:
        """Call a NumPy function on arrays of this device."""
        if name not in imitations.WITHOUT_KERNELS:
            self.launch()
        function = imitations.function(name, function)
        result = function(*[self.unwrap(a) for a in args], **{k: self.unwrap(v) for k, v in kwargs.items()})
        target = kwargs.get("out")
        targets = target if isinstance(target, tuple) else (target,)
        if name == "copyto" or name.endswith(".at"):
            targets = (args[0],)
        for a in targets:
            if isinstance(a, EmulatedArray):
                self.written(a)
        if isinstance(target, EmulatedArray):
            return target
        for a in args:  # an output given by position
            if isinstance(a, EmulatedArray) and result is a._a:
                self.written(a)
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
        if isinstance(args[0], EmulatedArray):
            self.launch()
        else:
            self.counts["uploads"] += 1
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
        if not isinstance(source, EmulatedArray):
            target.set(np.asarray(cast(np.ndarray, source), order="C"))
            return
        with self.context():
            self.after(source.device)
            self.launch()
            self.read(source)
            self.written(target)
            np.copyto(target._a, source._a)
            source.device.after(self)

    def to_host(self, array: EmulatedArray) -> np.ndarray:
        return self.waited_for(array)

    def pointer(self, array: EmulatedArray) -> int:
        if not array.flags.c_contiguous:
            raise ValueError(f"an array on {self.name} is not contiguous")
        return array._a.ctypes.data

    def random(self, seed: int | None) -> _Random:
        return _Random(self, seed)


class _Current(threading.local):
    """The device that a thread computes on, as CUDA has it."""

    id = 0


class _Context:
    """Makes a device the current one."""

    def __init__(self, device_id: int) -> None:
        self._id = device_id

    def __enter__(self) -> None:
        self._before, _current.id = _current.id, self._id

    def __exit__(self, *exception: object) -> None:
        _current.id = self._before


_current = _Current()
_host = Clock("the host")


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
