"""A common world of MPI processes: non-blocking calls that are polled until a deadline."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from caffe2lite.devices import Array, Device
from caffe2lite.distributed import connections, links
from caffe2lite.distributed import world as worlds
from caffe2lite.distributed.collective import CommonWorld
from caffe2lite.distributed.stores import Store
from caffe2lite.distributed.world import WorldError

_SPIN_SECONDS = 1.0  # a sleeping wait would hold up the rounds of a collective; a straggler is worth a sleep
_NAP_SECONDS = 0.0005
_LISTEN_SECONDS = 0.05  # how often somebody who waits looks whether another has given up
_ASKED_SECONDS = 1.0  # by then a thread that asks the other ranks has heard what they say
_ADDRESS_BYTES = 2048


T = TypeVar("T")


class Request(Protocol):
    """What is used of mpi4py's requests."""

    def Test(self, status: object) -> bool: ...  # noqa: N802 - mpi4py's name


class MPIWorld(links.LinkedWorld):
    """A common world of MPI processes."""

    def __init__(
        self, name: str, rank: int, size: int, timeout: float, world: worlds.World, ranks: Sequence[int]
    ) -> None:
        super().__init__(name, rank, size, timeout)
        self.world = world
        self.ranks = list(ranks)  # MPI ranks by shard id
        self.alive()
        group = world.comm.Get_group().Incl(self.ranks)
        tag = zlib.crc32(name.encode()) & 0x3FFF
        self.comm = self.bounded(lambda: world.comm.Create_group(group, tag), f"to create common world {name!r}")
        self.comm.Set_errhandler(world.mpi.ERRORS_RETURN)
        self._lock = threading.Lock()  # one collective at a time: their order is what matches them
        self._links: dict[Any, Any] = {}
        self._links_lock = threading.Lock()

    def link(self, device: Device, nccl: bool) -> Any:
        if device.in_host_memory:
            return self
        key = device, nccl
        with self._links_lock:
            if key not in self._links:
                self._links[key] = links.NcclLink(self, device) if nccl and device.nccl else links.MPILink(self, device)
            return self._links[key]

    def clone(self, name: str) -> CommonWorld:
        return MPIWorld(name, self.rank, self.size, self.timeout, self.world, self.ranks)

    # ---- waiting ---------------------------------------------------------------------------------------------

    def alive(self) -> None:
        """WorldError where nothing can be sent over this world any more."""
        if self.world.broken:
            raise WorldError(
                f"common world {self.name!r}: no collective is possible any more, since {self.world.broken}"
            )
        if self.closed:
            raise WorldError(f"common world {self.name!r} was destroyed")
        self._check_connections("before this")

    def _check_connections(self, when: str) -> None:
        gone = self.world.watch.closed() if self.world.watch else ""
        if gone:
            raise self._dead(f"the connection to {gone} was lost {when}", ask=False)

    def bounded(self, call: Callable[[], T], what: str) -> T:
        """The result of a blocking call, on a thread that is left alone when time is up."""
        done: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                done.append(call())
            except BaseException as e:  # carried to the caller's thread
                errors.append(e)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if errors:
            raise WorldError(f"{what}: {errors[0]}") from errors[0]
        if not done:
            raise self._dead(f"the other ranks of {self.size} did not answer within {self.timeout:g} s {what}")
        return done[0]

    def _dead(self, why: str, ask: bool = True) -> WorldError:
        """The error; it tells what the other ranks say when they are asked."""
        ask = ask and not self.world.broken
        self.world.declare_dead(why)
        peers = self.world.roll_call(f"{self.name}: {why}") if ask else {}
        known = "".join(
            f"\n    rank {r} waits as well ({peers[m]})" if m in peers else f"\n    no answer from rank {r}"
            for r, m in enumerate(self.ranks)
            if ask and r != self.rank
        )
        self.world.verdict = self.world.verdict or (
            f"rank {self.rank} of common world {self.name!r}: {why}. A peer has died, was stopped, or is late by more "
            f"than the timeout; restart the job from its last checkpoint{known}"
        )
        return WorldError(self.world.verdict)

    def _wait(self, request: Request, what: str, *buffers: object) -> Any:
        """Wait for a request; its buffers stay alive if it never ends, for MPI may still write to them."""
        status = self.world.mpi.Status()
        try:
            self.until(lambda: request.Test(status), what, request, *buffers)
        except self.world.mpi.Exception as e:
            raise self._dead(f"{what} failed: {e}") from e
        return status

    def until(self, done: Callable[[], bool], what: str, *kept: object) -> None:
        """Poll until it is done; after the deadline the world is dead, and what is `kept` stays alive for ever."""
        begin = time.monotonic()
        listen = _LISTEN_SECONDS
        try:
            while True:
                self._check_connections(f"during {what}")
                if done():
                    return
                waited = time.monotonic() - begin
                if self.world.verdict:  # another thread of this process has found it out
                    raise WorldError(self.world.verdict)
                if waited > self.timeout and not self.world.broken or waited > self.timeout + _ASKED_SECONDS:
                    raise self._dead(f"{what} did not complete within {self.timeout:g} s")
                if waited > listen:
                    listen = waited + _LISTEN_SECONDS
                    self._check_calls(what)
                if waited < _SPIN_SECONDS:
                    os.sched_yield()
                else:
                    time.sleep(_NAP_SECONDS)
        except WorldError:
            self.world.kept.append(kept)
            raise

    def _check_calls(self, what: str) -> None:
        call = self.world.given_up(f"{self.name}: {what}")
        if call:
            raise self._dead(f"MPI rank {call[0]} has given up during {what} here: {call[1]}", ask=False)

    # ---- collectives -----------------------------------------------------------------------------------------

    def broadcast(self, array: Array, root: int, of: str = "") -> None:
        with self._lock:
            self.alive()
            buffer = _bytes(array)
            self._wait(self.comm.Ibcast(buffer, root), f"a broadcast of {array.nbytes:,} bytes{of}", buffer)

    def allreduce(self, array: Array) -> None:
        with self._lock:
            self.alive()
            work = _summable(array)
            self._wait(self.comm.Iallreduce(self.world.mpi.IN_PLACE, work), f"a sum of {array.nbytes:,} bytes", work)
            if work is not array:
                array[...] = work

    def reduce(self, array: Array, root: int) -> None:
        with self._lock:
            self.alive()
            work = _summable(array)
            if self.rank == root:
                request = self.comm.Ireduce(self.world.mpi.IN_PLACE, work, root=root)
            else:
                request = self.comm.Ireduce(work, None, root=root)
            self._wait(request, f"a sum of {array.nbytes:,} bytes", work)
            if work is not array and self.rank == root:
                array[...] = work

    def allgather(self, array: Array, result: Array) -> None:
        with self._lock:
            self.alive()
            mine, all_of = _bytes(array), _bytes(result)
            self._wait(self.comm.Iallgather(mine, all_of), f"a gathering of {array.nbytes:,} bytes", mine, all_of)

    def reduce_scatter(self, array: Array) -> None:
        with self._lock:
            self.alive()
            work = _summable(array)
            request = self.comm.Ireduce_scatter_block(self.world.mpi.IN_PLACE, work)
            self._wait(request, f"a sum of {array.nbytes:,} bytes", work)
            if work is not array:
                array[...] = work

    def barrier(self) -> None:
        with self._lock:
            self.alive()
            self._wait(self.comm.Ibarrier(), "a barrier")

    def send(self, array: Array, to: int, tag: int) -> None:
        self.alive()
        buffer = _bytes(array)
        self._wait(self.comm.Isend(buffer, to, tag), f"sending {array.nbytes:,} bytes to rank {to}", buffer)

    def receive(self, array: Array, source: int, tag: int) -> tuple[int, int]:
        self.alive()
        mpi = self.world.mpi
        buffer = _bytes(array)
        request = self.comm.Irecv(buffer, mpi.ANY_SOURCE if source < 0 else source, mpi.ANY_TAG if tag < 0 else tag)
        status = self._wait(request, f"receiving {array.nbytes:,} bytes from rank {source}", buffer)
        return status.Get_source(), status.Get_tag()

    def compare(self, plan: Sequence[str]) -> None:
        content = "\n".join(plan).encode()
        mine = np.frombuffer(hashlib.sha256(content).digest() + len(content).to_bytes(8, "little"), np.uint8)
        cards = np.empty((self.size, mine.size), np.uint8)
        with self._lock:
            self.alive()
            what = f"comparing the next collectives ({plan[0]}, …) with those of the other ranks"
            self._wait(self.comm.Iallgather(mine, cards), what, mine, cards)
            if (cards == mine).all():
                return
            sizes = cards[:, -8:].copy().view("<u8")[:, 0]  # the ranks differ: now each tells all
            padded = np.zeros(int(sizes.max()), np.uint8)
            padded[: len(content)] = np.frombuffer(content, np.uint8)
            texts = np.empty((self.size, padded.size), np.uint8)
            self._wait(self.comm.Iallgather(padded, texts), "comparing the next collectives", padded, texts)
        plans = [bytes(t[: int(n)]).decode(errors="replace").split("\n") for t, n in zip(texts, sizes)]
        raise WorldError(f"common world {self.name!r}: the ranks do not agree on the next collectives\n{_table(plans)}")

    def close(self) -> None:
        super().close()
        for link in self._links.values():
            link.close()


def _table(plans: Sequence[Sequence[str]]) -> str:
    """What each rank has where the plans first differ."""
    at = next(i for i in range(max(map(len, plans))) if len({p[i] if i < len(p) else "" for p in plans}) > 1)
    lines = [f"    rank {r}: {p[at] if at < len(p) else 'nothing more'}" for r, p in enumerate(plans)]
    if max(map(len, plans)) > 1:
        lines = [f"{line} (number {at + 1} of {len(p)})" for line, p in zip(lines, plans)]
    return "\n".join(lines)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _summable(array: Array) -> Array:
    """The array itself, or one of a type that MPI can add."""
    if array.dtype == np.float16:
        return array[...].astype(np.float32)
    if array.dtype == np.bool_ or array.dtype == object:
        raise ValueError(f"{array.dtype} cannot be summed over shards")
    return array


def create(name: str, rank: int, size: int, store: Store | None, timeout: float, interface: str = "") -> CommonWorld:
    """The common world of that name; WorldError where the shards cannot meet, or disagree about their number.

    The first one that is created starts MPI, on the given network interface where one is named.
    """
    if not 0 <= rank < size:
        raise WorldError(f"common world {name!r}: rank {rank} is not within its size {size}")
    if size == 1:
        return CommonWorld(name, rank, size, timeout)
    world = worlds.get(store, rank, size, timeout, interface)
    have = world.comm.Get_size()
    if size != have:
        raise WorldError(
            f"common world {name!r} has {size} shards (num_shards), and {have} processes were started: give both the same"
        )
    return MPIWorld(name, rank, size, timeout, world, _by_shard(world, rank, size, timeout))


_shards: list[int] = []
_shards_lock = threading.Lock()


def _by_shard(world: worlds.World, rank: int, size: int, timeout: float) -> list[int]:
    """The MPI ranks by shard id; all ranks tell theirs once."""
    with _shards_lock:
        if not _shards:
            first = MPIWorld("shard ids", world.comm.Get_rank(), size, timeout, world, range(size))
            told = np.empty(size, np.int64)
            first.allgather(np.array([rank]), told)
            if sorted(told) != list(range(size)):
                raise WorldError(
                    f"the shard ids must be 0 to {size - 1}, each once; the processes have {told.tolist()}"
                )
            addresses = np.zeros((size, _ADDRESS_BYTES), np.uint8)
            here = world.listeners.encode().ljust(_ADDRESS_BYTES)
            first.allgather(np.frombuffer(here, np.uint8), addresses)
            world.unlink_shared_memory()
            world.watch = connections.Watch([bytes(a).decode() for a in addresses], world.comm.Get_rank())
            _shards.extend(int(np.argwhere(told == s)[0, 0]) for s in range(size))
        return _shards
