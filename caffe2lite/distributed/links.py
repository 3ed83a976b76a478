"""How blobs in the memory of a GPU take part in a common world: by MPI, or by NCCL.

Links have the methods of a common world, on arrays of their device.  None of this has run on several real GPUs yet:
NCCL is tested with a stand-in, as strict as CuPy's, between emulated ones.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from caffe2lite.devices import Array, Device
from caffe2lite.distributed import calls, nccl
from caffe2lite.distributed.calls import Call
from caffe2lite.distributed.collective import CommonWorld
from caffe2lite.distributed.world import World, WorldError

T = TypeVar("T")


class LinkedWorld(CommonWorld):
    """A common world over MPI, as far as links need one."""

    world: World

    def alive(self) -> None:
        """WorldError where nothing can be sent over this world any more."""
        raise NotImplementedError

    def take(
        self, call: Call, array: Array, from_cards: Callable[[np.ndarray], None], by_mpi: Callable[[], None]
    ) -> None:
        """Do the work of a call when all ranks are there, as `Turns.take`."""
        raise NotImplementedError

    def bounded(self, call: Callable[[], T], what: str) -> T:
        """The result of a blocking call, on a thread that is left alone when time is up."""
        raise NotImplementedError

    def until(self, done: Callable[[], bool], what: str, *kept: object) -> None:
        """Poll until it is done; after the deadline the world is dead, and what is `kept` stays alive for ever."""
        raise NotImplementedError


class MPILink:
    """MPI on a GPU's memory: directly where the library can, else through a copy in pinned host memory."""

    def __init__(self, world: LinkedWorld, device: Device) -> None:
        self.world, self.device = world, device

    @contextlib.contextmanager
    def _seen_by_mpi(self, array: Array, read: bool = True, written: bool = True) -> Iterator[Any]:
        with self.device.context():
            if self.world.world.takes_gpu_memory:
                self.device.synchronize()  # MPI does not know of streams
                yield array
                return
            host = self.device.pinned(array.shape, array.dtype)
            if read:
                self.device.fetch(host, array)
            yield host
            if written:
                self.device.copy(array, host)
                self.device.synchronize()  # the pinned memory is used again

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        mine = self.world.rank == root
        with self._seen_by_mpi(array, read=mine, written=not mine) as buffer:
            self.world.broadcast(call, buffer, root)

    def allreduce(self, call: Call, array: Array) -> None:
        with self._seen_by_mpi(array) as buffer:
            self.world.allreduce(call, buffer)

    def reduce(self, call: Call, array: Array, root: int) -> None:
        with self._seen_by_mpi(array, written=self.world.rank == root) as buffer:
            self.world.reduce(call, buffer, root)

    def reduce_scatter(self, call: Call, array: Array) -> None:
        with self._seen_by_mpi(array) as buffer:
            self.world.reduce_scatter(call, buffer)

    def allgather(self, call: Call, array: Array, result: Array) -> None:
        with self._seen_by_mpi(array, written=False) as mine, self._seen_by_mpi(result, read=False) as all_of:
            self.world.allgather(call, mine, all_of)

    def send(self, array: Array, to: int, number: int) -> None:
        with self._seen_by_mpi(array, written=False) as buffer:
            self.world.send(buffer, to, number)

    def receive(self, array: Array, source: int, number: int) -> None:
        with self._seen_by_mpi(array, read=False) as buffer:
            self.world.receive(buffer, source, number)

    def close(self) -> None:
        """Nothing is held."""


class NcclLink:
    """NCCL between one GPU of each rank.  Its first use is collective: rank 0 makes an id, which travels over MPI."""

    def __init__(self, world: LinkedWorld, device: Device) -> None:
        self.world, self.device, self._nccl = world, device, device.nccl
        self._lock = threading.Lock()  # NCCL wants one order of calls on all ranks
        # Of its own: on a stream that is shared, another common world's turn could come first on another rank.
        self._stream = device.side_stream()
        wire = np.zeros(nccl.ID_BYTES, np.uint8)
        failure = None
        if world.rank == 0:
            try:
                wire[:] = np.frombuffer(nccl.id_to_wire(self._nccl.get_unique_id()), np.uint8)
            except Exception as e:  # told below, when the others know
                failure = e
        world.broadcast(calls.plain(world.name, "the first use of NCCL"), wire, 0)
        if failure or not wire.any():  # rank 0 has sent zeros: it has no id
            raise WorldError(f"{self._words('the first use of NCCL')}: rank 0 could not make an id: {failure or ''}")
        self._comm: nccl.Communicator | None = self._guarded(
            lambda: nccl.join(self._nccl, world.size, wire.tobytes(), world.rank), "to join NCCL"
        )

    def _words(self, what: str) -> str:
        world = self.world
        return f"rank {world.rank} of {world.size} of common world {world.name!r}, NCCL on {self.device.name}: {what}"

    def _guarded(self, call: Callable[[], T], what: str) -> T:
        """A call that may block the host, on a thread, until the deadline."""

        def here() -> T:
            with self.device.context():
                return call()

        return self.world.bounded(here, self._words(what))

    def _run(self, what: str, call: Callable[[nccl.Communicator, int], None], may_block: bool = False) -> None:
        """Put work on the stream and wait for it until the deadline."""
        with self._lock:
            self.world.alive()
            if self._comm is None:
                raise WorldError(self._words("its communicator was given up"))
            comm, stream = self._comm, self._stream.handle
            try:
                with self.device.context():
                    self._stream.follow()
                    if may_block:
                        self._guarded(lambda: call(comm, stream), what)
                    else:
                        call(comm, stream)
                    done = self._stream.mark()
                self.world.until(lambda: self._checked(comm, done, what), self._words(what))
            except Exception:
                self._give_up(comm)
                raise

    def _checked(self, comm: nccl.Communicator, done: Callable[[], bool], what: str) -> bool:
        ended = done()
        try:
            comm.check_async_error()
        except RuntimeError as e:
            why = self._words(f"{what} failed: {e}")
            self.world.world.declare_dead(why)
            raise WorldError(f"{why}. A peer has died or its network has failed; restart the job") from e
        return ended

    def _give_up(self, comm: nccl.Communicator) -> None:
        """Take back what is on the stream, which would wait forever for dead peers."""
        self._comm = None
        threading.Thread(target=comm.abort, daemon=True).start()  # it may take its time, the error should not

    def _together(self, call: Call, array: Array, work: Callable[[nccl.Communicator, int, int], None]) -> None:
        """Do the work on (communicator, pointer to the array, stream) when all ranks are at this call."""
        at = self.device.pointer(array)
        what = f"{call}, {array.nbytes:,} bytes"
        self.world.take(
            call, array, lambda rows: None, lambda: self._run(what, lambda comm, stream: work(comm, at, stream))
        )

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        def work(comm: nccl.Communicator, at: int, stream: int) -> None:
            self.world.check_root(root)
            comm.broadcast(at, at, array.nbytes, nccl.BYTES, root, stream)

        self._together(call, array, work)

    def allreduce(self, call: Call, array: Array) -> None:
        def work(comm: nccl.Communicator, at: int, stream: int) -> None:
            comm.allReduce(at, at, array.size, nccl.kind(array.dtype), nccl.SUM, stream)

        self._together(call, array, work)

    def reduce(self, call: Call, array: Array, root: int) -> None:
        def work(comm: nccl.Communicator, at: int, stream: int) -> None:
            self.world.check_root(root)
            comm.reduce(at, at, array.size, nccl.kind(array.dtype), nccl.SUM, root, stream)

        self._together(call, array, work)

    def reduce_scatter(self, call: Call, array: Array) -> None:
        def work(comm: nccl.Communicator, at: int, stream: int) -> None:
            part = self.world.part(array)
            mine = at + self.world.rank * part * array.dtype.itemsize  # where NCCL works in place
            comm.reduceScatter(at, mine, part, nccl.kind(array.dtype), nccl.SUM, stream)

        self._together(call, array, work)
        if self.world.rank:
            part = self.world.part(array)
            flat = array.reshape(-1)
            with self.device.context():
                self.device.copy(flat[:part], flat[self.world.rank * part : (self.world.rank + 1) * part])

    def allgather(self, call: Call, array: Array, result: Array) -> None:
        target = self.device.pointer(result)
        self._together(
            call, array, lambda comm, at, stream: comm.allGather(at, target, array.nbytes, nccl.BYTES, stream)
        )

    def send(self, array: Array, to: int, number: int) -> None:
        """NCCL knows no tags or numbers: the order of messages between two ranks tells them apart."""
        at = self.device.pointer(array)
        self._run(
            f"sending {array.nbytes:,} bytes to rank {to}",
            lambda comm, stream: comm.send(at, array.nbytes, nccl.BYTES, to, stream),
            may_block=True,
        )

    def receive(self, array: Array, source: int, number: int) -> None:
        at = self.device.pointer(array)
        self._run(
            f"receiving {array.nbytes:,} bytes from rank {source}",
            lambda comm, stream: comm.recv(at, array.nbytes, nccl.BYTES, source, stream),
            may_block=True,
        )

    def close(self) -> None:
        if self._comm is not None:
            comm, self._comm = self._comm, None
            comm.destroy()
