"""What NCCL wants to be told, and collectives among the GPUs of one process.

Communicators are CuPy's (`cupy.cuda.nccl`); pointers and streams are numbers there.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from caffe2lite.devices import Array, Device

ID_BYTES = 128
SUM = 0
BYTES = 1  # uint8
_KINDS = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
}


class Communicator(Protocol):
    """What is used of CuPy's NcclCommunicator; buffers and streams are addresses."""

    def broadcast(self, source: int, target: int, count: int, kind: int, root: int, stream: int) -> None: ...
    def allReduce(self, source: int, target: int, count: int, kind: int, op: int, stream: int) -> None: ...
    def reduce(self, source: int, target: int, count: int, kind: int, op: int, root: int, stream: int) -> None: ...
    def reduceScatter(self, source: int, target: int, count: int, kind: int, op: int, stream: int) -> None: ...
    def allGather(self, source: int, target: int, count: int, kind: int, stream: int) -> None: ...
    def send(self, source: int, count: int, kind: int, peer: int, stream: int) -> None: ...
    def recv(self, target: int, count: int, kind: int, peer: int, stream: int) -> None: ...
    def check_async_error(self) -> None: ...
    def abort(self) -> None: ...
    def destroy(self) -> None: ...


def kind(dtype: DTypeLike) -> int:
    """NCCL's number of a type that it can add."""
    name = np.dtype(dtype).name
    if name not in _KINDS:
        raise TypeError(f"NCCL cannot add {name}, only {', '.join(_KINDS)}: use engine GLOO for it")
    return _KINDS[name]


def id_to_wire(made: bytes | tuple[int, ...]) -> bytes:
    """The 128 bytes of an id: CuPy 14 has them as bytes, CuPy 13 as a tuple of signed numbers."""
    return bytes(c % 256 for c in made)


def join(nccl: ModuleType, size: int, wire: bytes, rank: int) -> Communicator:
    """This rank's communicator; waits for the other ranks."""
    try:
        return nccl.NcclCommunicator(size, wire, rank)
    except TypeError:
        return nccl.NcclCommunicator(size, tuple(c - 256 if c > 127 else c for c in wire), rank)


# Communicators are no thread's own, and two collectives that come in another order on each GPU would wait for ever.
_one_at_a_time = threading.Lock()


class Clique:
    """Some GPUs of this process.  Sources and targets are an array a GPU; the work is on the devices' streams."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices, self._nccl = devices, devices[0].nccl
        self._comms = self._nccl.NcclCommunicator.initAll([d.id for d in devices])

    @contextlib.contextmanager
    def _each(self) -> Iterator[Iterator[tuple[int, Communicator, int]]]:
        """(number, communicator, stream) of each GPU, its device being the current one, in one group of calls."""

        def each() -> Iterator[tuple[int, Communicator, int]]:
            for k, device in enumerate(self.devices):
                with device.context():
                    yield k, self._comms[k], device.stream()

        with _one_at_a_time:
            self._nccl.groupStart()
            try:
                yield each()
            finally:
                self._nccl.groupEnd()

    def _at(self, arrays: Sequence[Array]) -> list[int]:
        return [d.pointer(a) for d, a in zip(self.devices, arrays)]

    def allreduce(self, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """Each target = the sum of the sources."""
        at, to, of = self._at(sources), self._at(targets), kind(sources[0].dtype)
        with self._each() as each:
            for k, comm, stream in each:
                comm.allReduce(at[k], to[k], sources[0].size, of, SUM, stream)

    def reduce(self, sources: Sequence[Array], target: Array, root: int) -> None:
        """The target, on GPU `root`, = the sum of the sources."""
        at, of = self._at(sources), kind(sources[0].dtype)
        to = self.devices[root].pointer(target)
        with self._each() as each:
            for k, comm, stream in each:
                comm.reduce(at[k], to if k == root else at[k], sources[0].size, of, SUM, root, stream)

    def broadcast(self, source: Array, targets: Sequence[Array], root: int) -> None:
        """Each target = the source, which is on GPU `root`."""
        to = self._at(targets)
        at = self.devices[root].pointer(source)
        with self._each() as each:
            for k, comm, stream in each:
                comm.broadcast(at if k == root else to[k], to[k], source.nbytes, BYTES, root, stream)

    def allgather(self, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """Each target = all sources, one behind the other."""
        at, to = self._at(sources), self._at(targets)
        with self._each() as each:
            for k, comm, stream in each:
                comm.allGather(at[k], to[k], sources[0].nbytes, BYTES, stream)

    def reduce_scatter(self, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """Target k = part k of the sum of the sources."""
        at, to, of = self._at(sources), self._at(targets), kind(sources[0].dtype)
        with self._each() as each:
            for k, comm, stream in each:
                comm.reduceScatter(at[k], to[k], targets[0].size, of, SUM, stream)


@functools.lru_cache(maxsize=16)
def _clique(devices: tuple[Device, ...]) -> Clique:
    return Clique(devices)


def clique(devices: Sequence[Device]) -> Clique | None:
    """The communicators of these devices, None where they are not several GPUs with NCCL."""
    if len(devices) < 2 or len(set(devices)) != len(devices) or not all(d.nccl for d in devices):
        return None
    return _clique(tuple(devices))
