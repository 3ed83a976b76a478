"""Real GPUs, by CuPy."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices.base import Array, Device, GpuArray, Stream


class CudaStream(Stream):
    """A stream of the current device that does not wait for the default one by itself."""

    def __init__(self, cuda: ModuleType) -> None:
        self._cuda = cuda
        self._stream = cuda.Stream(non_blocking=True)
        self.handle = self._stream.ptr

    def follow(self) -> None:
        event = self._cuda.Event(disable_timing=True)
        event.record(self._cuda.get_current_stream())
        self._stream.wait_event(event)

    def mark(self) -> Callable[[], bool]:
        event = self._cuda.Event(disable_timing=True)
        event.record(self._stream)
        return lambda: event.done


class _Place:
    """Makes a device and its default stream the current ones, also where threads have default streams of their own."""

    __slots__ = ("_device", "_stream")

    def __init__(self, cuda: ModuleType, device_id: int) -> None:
        self._device, self._stream = cuda.Device(device_id), cuda.Stream.null

    def __enter__(self) -> None:
        self._device.__enter__()
        self._stream.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._stream.__exit__(*exception)
        self._device.__exit__(*exception)


class Cuda(Device[GpuArray]):
    """One CUDA device."""

    type = 1

    def __init__(self, cupy: ModuleType, device_id: int) -> None:
        self.xp = cupy
        self.id = device_id
        self.name = f"gpu_{device_id}"
        self._device = cupy.cuda.Device(device_id)
        self._generator: Any = None

    def empty(self, count: int, dtype: DTypeLike) -> Any:
        if np.dtype(dtype) == object:
            raise TypeError("strings cannot be on a GPU")
        with self._device:
            return self.xp.empty(count, dtype)

    def owns(self, array: object) -> bool:
        return isinstance(array, self.xp.ndarray) and array.device.id == self.id

    def reaches(self, other: Device) -> bool:
        return bool(self.xp.cuda.runtime.deviceCanAccessPeer(self.id, other.id))

    def properties(self) -> dict[str, Any]:
        found = self.xp.cuda.runtime.getDeviceProperties(self.id)
        name = found["name"]
        return {
            "name": name.decode() if isinstance(name, bytes) else name,
            "major": found["major"],
            "minor": found["minor"],
            "totalGlobalMem": found["totalGlobalMem"],
        }

    def memory(self) -> tuple[int, int]:
        return self._device.mem_info

    def reads(self, array: object) -> bool:
        if not isinstance(array, self.xp.ndarray):
            return False
        peer = array.device.id
        return peer == self.id or bool(self.xp.cuda.runtime.deviceCanAccessPeer(self.id, peer))

    def copy(self, target: GpuArray, source: Array) -> None:
        with self.context():
            if isinstance(source, np.ndarray):
                target.set(np.asarray(source, order="C"))  # a scalar stays one
                return
            peer = cast(GpuArray, source).device.id
            if peer != self.id:
                self._follow(peer)
            self.xp.copyto(target, source)
        if peer != self.id:
            devices()[peer].after(self)  # what comes there next may overwrite the source

    def after(self, other: Device) -> None:
        if isinstance(other, Cuda):
            with self.context():
                self._follow(other.id)

    def _follow(self, peer: int) -> None:
        """This device's stream, which is the current one, waits for what is on the peer's."""
        cuda = self.xp.cuda
        with _Place(cuda, peer):
            event = cuda.Event(disable_timing=True)
            event.record()
        cuda.get_current_stream().wait_event(event)

    def to_host(self, array: GpuArray) -> np.ndarray:
        with self.context():
            return self.xp.asnumpy(array)

    @property
    def nccl(self) -> Any:  # type: ignore[override]
        return _nccl()

    def pinned(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        memory = self.xp.cuda.alloc_pinned_memory(max(1, count * np.dtype(dtype).itemsize))
        return np.frombuffer(memory, dtype, count).reshape(shape)

    def fetch(self, host: np.ndarray, array: GpuArray) -> None:
        with self.context():
            array.get(out=host)

    def pointer(self, array: GpuArray) -> int:
        return array.data.ptr

    def stream(self) -> int:
        with self.context():
            return self.xp.cuda.get_current_stream().ptr

    def side_stream(self) -> Stream:
        with self._device:
            return CudaStream(self.xp.cuda)

    def random(self, seed: int | None) -> Any:
        """A generator takes megabytes of the GPU: those who do not ask for a seed of their own share one."""
        with self.context():
            if seed is not None:
                return self.xp.random.default_rng(seed)
            if self._generator is None:
                self._generator = self.xp.random.default_rng()
            return self._generator

    def context(self) -> Any:
        return _Place(self.xp.cuda, self.id)

    def synchronize(self) -> None:
        self._device.synchronize()


@functools.cache
def _nccl() -> Any:
    """CuPy's module, None where NCCL's library is missing."""
    # Connections are then made when a communicator is, and no later call blocks the host for a dead peer.
    os.environ.setdefault("NCCL_RUNTIME_CONNECT", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy's own advice on how to install it
        try:
            from cupy.cuda import nccl
        except ImportError:
            return None
    return nccl if nccl.available else None


@functools.cache
def devices() -> list[Device]:
    """The CUDA devices, none where CuPy or a GPU is missing."""
    try:
        import cupy
    except ImportError:
        return []
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return []
    return [Cuda(cupy, i) for i in range(count)]


def version() -> int:
    """CUDA's version as its runtime tells it, 0 where there is none."""
    here = devices()
    return int(here[0].xp.cuda.runtime.runtimeGetVersion()) if here else 0
