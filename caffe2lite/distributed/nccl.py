"""What NCCL wants to be told, and collectives among the GPUs of one process.

Communicators are CuPy's (`cupy.cuda.nccl`); pointers and streams are numbers there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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


def kind(dtype: Any) -> int:
    """NCCL's number of a type that it can add."""
    name = np.dtype(dtype).name
    if name not in _KINDS:
        raise TypeError(f"NCCL cannot add {name}, only {', '.join(_KINDS)}: use engine GLOO for it")
    return _KINDS[name]


def id_to_wire(made: Any) -> bytes:
    """The 128 bytes of an id: CuPy 14 has them as bytes, CuPy 13 as a tuple of signed numbers."""
    return bytes(c % 256 for c in made)


def join(nccl: Any, size: int, wire: bytes, rank: int) -> Any:
    """This rank's communicator; waits for the other ranks."""
    try:
        return nccl.NcclCommunicator(size, wire, rank)
    except TypeError:
        return nccl.NcclCommunicator(size, tuple(c - 256 if c > 127 else c for c in wire), rank)


class Clique:
    """Some GPUs of this process.  Sources and targets are an array a GPU; the work is on the devices' streams."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices, self._nccl = devices, devices[0].nccl
        self._comms = self._nccl.NcclCommunicator.initAll([d.id for d in devices])

    @contextlib.contextmanager
    def _each(self) -> Iterator[Iterator[tuple[int, Any, int]]]:
        """(number, communicator, stream) of each GPU, its device being the current one, in one group of calls."""

        def each() -> Iterator[tuple[int, Any, int]]:
            for k, device in enumerate(self.devices):
                with device.context():
                    yield k, self._comms[k], device.stream()

        self._nccl.groupStart()
        try:
            yield each()
        finally:
            self._nccl.groupEnd()

    def _at(self, arrays: Sequence[Any]) -> list[int]:
        return [d.pointer(a) for d, a in zip(self.devices, arrays)]

    def allreduce(self, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Each target = the sum of the sources."""
        at, to, of = self._at(sources), self._at(targets), kind(sources[0].dtype)
        with self._each() as each:
            for k, comm, stream in each:
                comm.allReduce(at[k], to[k], sources[0].size, of, SUM, stream)

    def reduce(self, sources: Sequence[Any], target: Any, root: int) -> None:
        """The target, on GPU `root`, = the sum of the sources."""
        at, of = self._at(sources), kind(sources[0].dtype)
        to = self.devices[root].pointer(target)
        with self._each() as each:
            for k, comm, stream in each:
                comm.reduce(at[k], to if k == root else at[k], sources[0].size, of, SUM, root, stream)

    def broadcast(self, source: Any, targets: Sequence[Any], root: int) -> None:
        """Each target = the source, which is on GPU `root`."""
        to = self._at(targets)
        at = self.devices[root].pointer(source)
        with self._each() as each:
            for k, comm, stream in each:
                comm.broadcast(at if k == root else to[k], to[k], source.nbytes, BYTES, root, stream)

    def allgather(self, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Each target = all sources, one behind the other."""
        at, to = self._at(sources), self._at(targets)
        with self._each() as each:
            for k, comm, stream in each:
                comm.allGather(at[k], to[k], sources[0].nbytes, BYTES, stream)

    def reduce_scatter(self, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Target k = part k of the sum of the sources."""
        at, to, of = self._at(sources), self._at(targets), kind(sources[0].dtype)
        with self._each() as each:
            for k, comm, stream in each:
                comm.reduceScatter(at[k], to[k], targets[0].size, of, SUM, stream)


@functools.lru_cache(maxsize=16)
def _clique(devices: tuple[Any, ...]) -> Clique:
    return Clique(devices)


def clique(devices: Sequence[Any]) -> Clique | None:
    """The communicators of these devices, None where they are not several GPUs with NCCL."""
    if len(devices) < 2 or len(set(devices)) != len(devices) or not all(d.nccl for d in devices):
        return None
    return _clique(tuple(devices))
