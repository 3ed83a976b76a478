"""A common world of MPI processes: non-blocking calls that are polled until a deadline."""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from caffe2lite import __version__
from caffe2lite.devices import Array, Device
from caffe2lite.distributed import calls, connections, links
from caffe2lite.distributed import world as worlds
from caffe2lite.distributed.calls import Call
from caffe2lite.distributed.collective import Announced, CommonWorld
from caffe2lite.distributed.stores import Store
from caffe2lite.distributed.turns import Turns
from caffe2lite.distributed.world import WorldError

_SPIN_SECONDS = 1.0  # a sleeping wait would hold up the rounds of a collective; a straggler is worth a sleep
_NAP_SECONDS = 0.0005
_LISTEN_SECONDS = 0.05  # how often somebody who waits looks whether another has given up
_ASKED_SECONDS = 1.0  # by then a thread that asks the other ranks has heard what they say
_SPEAKS_AFTER = 5.0  # seconds of waiting, about which the user hears
_ANSWERED_AFTER = 0.5
_GRACE_SECONDS = 1.0  # that a collective may still take when a rank has ended, which has done its part
_LATE = "A peer has died, was stopped, or is late by more than the timeout; restart the job from its last checkpoint"
_LEFT = "All ranks must take part in the same collectives, in whatever order"
_ADDRESS_BYTES = 2048
_NOTHING = np.empty(0, np.uint8)
_TAGS = 1 << 20  # of messages, and as many numbers beyond them, under which their contents go over MPI_COMM_WORLD
_numbers = itertools.count()  # of this process's messages
_HEAD_NUMBERS = 3 + 64  # number, type, and shape of a message
_SENT_TYPES = {np.dtype(k).num: np.dtype(k) for k in ("f2", "f4", "f8", *"bBhHiIlLqQ?")}


log = logging.getLogger("caffe2lite")


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
        self._turns = Turns(name, rank, size, timeout, self._gather)
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

        threading.Thread(target=work, daemon=True).start()
        self.until(lambda: bool(done or errors), what)
        if errors:
            raise WorldError(f"{what}: {errors[0]}") from errors[0]
        return done[0]

    def _dead(self, why: str, ask: bool = True, advice: str = _LATE) -> WorldError:
        """The error; it tells what the other ranks say when they are asked."""
        ask = ask and not self.world.broken
        self.world.declare_dead(why)
        peers = self.world.messages.roll_call(f"{self.name}: {why}") if ask else {}
        known = "".join(
            f"\n    rank {r} waits as well ({peers[m]})" if m in peers else f"\n    no answer from rank {r}"
            for r, m in enumerate(self.ranks)
            if ask and r != self.rank
        )
        self.world.verdict = self.world.verdict or (
            f"rank {self.rank} of common world {self.name!r}: {why}. {advice}{known}"
        )
        return WorldError(self.world.verdict)

    def _wait(self, request: Request, what: str, *buffers: object) -> Any:
        """Wait for a request; its buffers stay alive if it never ends, for MPI may still write to them."""
        status = self.world.mpi.Status()
        try:
            if not request.Test(status):  # what is small is often done by now
                self.until(lambda: request.Test(status), what, request, *buffers)
        except self.world.mpi.Exception as e:
            raise self._dead(f"{what} failed: {e}") from e
        return status

    def until(self, done: Callable[[], bool], what: str, *kept: object) -> None:
        """Poll until it is done; after the deadline the world is dead, and what is `kept` stays alive for ever."""
        begin = time.monotonic()
        listen, ask, speak = _LISTEN_SECONDS, _SPEAKS_AFTER - _ANSWERED_AFTER, _SPEAKS_AFTER
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
                    self._listen(what, waited)
                    if waited > ask:
                        self.world.messages.ask_where()
                        ask = math.inf
                    if waited > speak:
                        self._say_for_whom(what, waited)
                        speak = math.inf
                if waited < _SPIN_SECONDS:
                    os.sched_yield()
                else:
                    time.sleep(_NAP_SECONDS)
        except BaseException as e:
            self.world.kept.append(kept)
            if not isinstance(e, WorldError):  # what was left amid a collective would meet the next one
                self.world.declare_dead(f"{what} was interrupted by {type(e).__name__}")
            raise

    def _listen(self, what: str, waited: float) -> None:
        """Hear whether another rank has given up or has ended; tell those who ask that this one waits."""
        messages = self.world.messages
        plight = f"{self.name}: {what}"
        call = messages.given_up(plight)
        if call:
            raise self._dead(f"MPI rank {call[0]} has given up during {what} here: {call[1]}", ask=False)
        messages.listen()
        messages.tell_where(plight)
        now = time.monotonic()
        ended = [r for r, m in enumerate(self.ranks) if now - messages.ended.get(m, now) > _GRACE_SECONDS]
        if ended and waited > _GRACE_SECONDS:
            raise self._dead(f"the script of rank {', '.join(map(str, ended))} has ended before {what}", advice=_LEFT)

    def _say_for_whom(self, what: str, waited: float) -> None:
        """Tell the user for whom this rank waits: those that do not say that they wait as well."""
        waits = self.world.messages.who_waits()
        others = [r for r, m in enumerate(self.ranks) if r != self.rank and m not in waits]
        log.warning(
            "rank %d of common world %r waits for rank %s, for %.0f s of %g by now: %s%s",
            self.rank,
            self.name,
            ", ".join(map(str, others)) or "none alone",
            waited,
            self.timeout,
            what,
            "".join(f"; rank {self.ranks.index(m)} waits in {w}" for m, w in waits.items()),
        )

    # ---- collectives -----------------------------------------------------------------------------------------

    def _gather(self, mine: Array, all_of: Array, what: str) -> None:
        self._wait(self.comm.Iallgather(mine, all_of), what, mine, all_of)

    def take(
        self, call: Call, array: Array, from_cards: Callable[[np.ndarray], None], by_mpi: Callable[[], None]
    ) -> None:
        """Do the work of a call when all ranks are there, as `Turns.take`."""
        self.alive()
        self._turns.take(call, array, from_cards, by_mpi)

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        def from_cards(rows: np.ndarray) -> None:
            self.check_root(root)
            if self.rank != root:
                array.reshape(-1)[...] = rows[root]

        self.take(call, array, from_cards, lambda: self.now_broadcast(call, array, root))

    def now_broadcast(self, call: Call, array: Array, root: int) -> None:
        """As `broadcast`, within the work of a call that `take` was given."""
        self.check_root(root)
        buffer = _bytes(array)
        self._wait(self.comm.Ibcast(buffer, root), f"{call}, {array.nbytes:,} bytes", buffer)

    def allreduce(self, call: Call, array: Array) -> None:
        self.take(call, array, lambda rows: _sum(rows, array), lambda: self.now_allreduce(call, array))

    def now_allreduce(self, call: Call, array: Array) -> None:
        """As `allreduce`, within the work of a call that `take` was given."""
        work = _summable(array)
        request = self.comm.Iallreduce(self.world.mpi.IN_PLACE, work)
        self._wait(request, f"{call}, {array.nbytes:,} bytes", work)
        if work is not array:
            array[...] = work

    def reduce(self, call: Call, array: Array, root: int) -> None:
        def from_cards(rows: np.ndarray) -> None:
            self.check_root(root)
            if self.rank == root:
                _sum(rows, array)

        def by_mpi() -> None:
            self.check_root(root)
            work = _summable(array)
            if self.rank == root:
                request = self.comm.Ireduce(self.world.mpi.IN_PLACE, work, root=root)
            else:
                request = self.comm.Ireduce(work, None, root=root)
            self._wait(request, f"{call}, {array.nbytes:,} bytes", work)
            if work is not array and self.rank == root:
                array[...] = work

        self.take(call, array, from_cards, by_mpi)

    def allgather(self, call: Call, array: Array, result: Array) -> None:
        def from_cards(rows: np.ndarray) -> None:
            result.reshape((self.size, array.size))[...] = rows

        self.take(
            call,
            array,
            from_cards,
            lambda: self._gather(_bytes(array), _bytes(result), f"{call}, {array.nbytes:,} bytes"),
        )

    def reduce_scatter(self, call: Call, array: Array) -> None:
        def from_cards(rows: np.ndarray) -> None:
            part = self.part(array)
            total = np.empty_like(array).reshape(-1)
            _sum(rows, total)
            array.reshape(-1)[:part] = total[self.rank * part : (self.rank + 1) * part]

        def by_mpi() -> None:
            self.part(array)
            work = _summable(array)
            request = self.comm.Ireduce_scatter_block(self.world.mpi.IN_PLACE, work)
            self._wait(request, f"{call}, {array.nbytes:,} bytes", work)
            if work is not array:
                array[...] = work

        self.take(call, array, from_cards, by_mpi)

    def barrier(self, call: Call) -> None:
        self.together(call, lambda: None)  # the cards are the barrier

    def together(self, call: Call, work: Callable[[], None]) -> None:
        """Work, when all ranks are at this call."""
        self.take(call, _NOTHING, lambda rows: work(), work)

    # ---- messages ----------------------------------------------------------------------------------------------

    def announce(self, array: Array, to: int, tag: int) -> int:
        self.alive()
        if not 0 <= tag < _TAGS:
            raise ValueError(f"a tag must be within 0 to {_TAGS - 1}, got {tag}")
        number = next(_numbers) % _TAGS
        head = np.zeros(_HEAD_NUMBERS, np.int64)
        head[: 3 + array.ndim] = number, array.dtype.num, array.ndim, *array.shape
        self._wait(self.comm.Isend(head, to, tag), f"announcing {array.nbytes:,} bytes to rank {to}", head)
        return number

    def expect(self, source: int, tag: int) -> Announced:
        self.alive()
        mpi = self.world.mpi
        head = np.zeros(_HEAD_NUMBERS, np.int64)
        request = self.comm.Irecv(head, mpi.ANY_SOURCE if source < 0 else source, mpi.ANY_TAG if tag < 0 else tag)
        status = self._wait(request, f"receiving from {f'rank {source}' if source >= 0 else 'any rank'}", head)
        number, kind, ndim = map(int, head[:3])
        return Announced(
            status.Get_source(), status.Get_tag(), number, _SENT_TYPES[kind], tuple(map(int, head[3 : 3 + ndim]))
        )

    def send(self, array: Array, to: int, number: int) -> None:
        buffer = _bytes(array)
        request = self.world.comm.Isend(buffer, self.ranks[to], _TAGS + number)
        self._wait(request, f"sending {array.nbytes:,} bytes to rank {to}", buffer)

    def receive(self, array: Array, source: int, number: int) -> None:
        buffer = _bytes(array)
        request = self.world.comm.Irecv(buffer, self.ranks[source], _TAGS + number)
        self._wait(request, f"receiving {array.nbytes:,} bytes from rank {source}", buffer)

    def close(self) -> None:
        super().close()
        for link in self._links.values():
            link.close()


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _summable(array: Array) -> Array:
    """The array itself, or one of a type that MPI can add."""
    _check_sum(array)
    return array[...].astype(np.float32) if array.dtype == np.float16 else array


def _check_sum(array: Array) -> None:
    if array.dtype.kind in "bO":
        raise ValueError(f"{array.dtype} cannot be summed over shards")


def _sum(rows: np.ndarray, result: Array) -> None:
    """The sum of the ranks' arrays, a row each, in the order of the ranks."""
    _check_sum(result)
    total = result.reshape(-1)
    if result.dtype == np.float16:
        total[...] = np.add.reduce(rows, axis=0, dtype=np.float32)
    elif len(rows) == 2:
        np.add(rows[0], rows[1], out=total)
    else:
        np.add.reduce(rows, axis=0, dtype=result.dtype, out=total)


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
            version = calls.Identity(first.name, "the exchange of shard ids", lambda: [f"by caffe2lite {__version__}"])
            first.allgather(Call(version), np.array([rank]), told)
            if sorted(told) != list(range(size)):
                raise WorldError(
                    f"the shard ids must be 0 to {size - 1}, each once; the processes have {told.tolist()}"
                )
            addresses = np.zeros((size, _ADDRESS_BYTES), np.uint8)
            here = world.listeners.encode().ljust(_ADDRESS_BYTES)
            first.allgather(
                calls.plain(first.name, "the exchange of addresses"), np.frombuffer(here, np.uint8), addresses
            )
            worlds.unlink_shared_memory()
            world.watch = connections.Watch([bytes(a).decode() for a in addresses], world.comm.Get_rank())
            _shards.extend(int(np.argwhere(told == s)[0, 0]) for s in range(size))
        return _shards
