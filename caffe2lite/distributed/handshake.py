"""Agreeing on a fresh run over a store that may hold keys of earlier ones.

Every process writes a number that nobody has used before.  Rank 0, the host, writes a session, made of all these numbers,
and writes it anew whenever one changes; the others confirm only a session that holds their own number.  What dead
processes have left can therefore never complete it.

It is the host alone that decides whether a session is a run (two-phase commit: J. Gray, "Notes on Data Base Operating
Systems", 1978).  Who has confirmed waits for its word, whoever else may come to the store meanwhile: a run is met by all
of its ranks or by none, also where two jobs share a store by mistake.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from typing import NamedTuple

from caffe2lite import __version__
from caffe2lite.distributed.stores import Store, StoreError, StoreHandlerTimeoutError, poll

_SILENCE = 2.0  # seconds without a word after which the host of a session is taken for dead, where another has come


class Session(NamedTuple):
    """A run that all of its processes have confirmed."""

    name: str
    hosts: list[str]  # by rank


class _Member(NamedTuple):
    """What a process says of itself.  Keys that are not understood are left by another version, or another program."""

    nonce: str
    host: str
    size: int
    process: int
    version: str

    @classmethod
    def read(cls, content: bytes | str | None) -> _Member | None:
        try:
            words = json.loads(content or "null")
        except (ValueError, RecursionError):
            return None
        if not isinstance(words, list) or len(words) != len(cls._fields):
            return None
        fits = [isinstance(w, int if f in ("size", "process") else str) for f, w in zip(cls._fields, words)]
        return cls(*words) if all(fits) else None


def meet(store: Store, prefix: str, rank: int, size: int, timeout: float) -> Session:
    """Wait until all `size` processes are there; StoreHandlerTimeoutError names those that are missing."""
    store.hasten(timeout)
    me = _Member(uuid.uuid4().hex, socket.gethostname(), size, os.getpid(), __version__)
    mine = json.dumps(me)
    store.set(f"{prefix}/here/{rank}", mine.encode())
    meeting = _Host(store, prefix, size, mine) if rank == 0 else _Guest(store, prefix, rank, mine)

    def step() -> tuple[str, list[str]] | None:
        if not meeting.bound:
            _alone(store, prefix, rank, me)
        return meeting.step()

    try:
        name, told = poll(step, timeout, lambda: f"{meeting.waiting_for}, as rank {rank} of {size} in {store}")
    except RuntimeError as e:
        meeting.leave()
        if not isinstance(e, StoreHandlerTimeoutError):
            raise
        raise StoreHandlerTimeoutError(
            f"rank {rank} of {size} waited {timeout:g} s in {store} for {meeting.waiting_for}: is it started, with the "
            f"same store and number of shards?"
        ) from None
    members = [m for m in map(_Member.read, told) if m is not None]
    if len(members) != size or {m.size for m in members} != {size}:
        sizes = {r: m.size for r, m in enumerate(members)}
        raise RuntimeError(f"the shards disagree about their number: {sizes}; this is rank {rank} of {size}")
    if len({m.version for m in members}) > 1:
        versions = ", ".join(f"{m.version} as rank {r}" for r, m in enumerate(members))
        raise RuntimeError(f"the shards must run the same version of caffe2lite; they have {versions}")
    return Session(name, [m.host for m in members])


def _alone(store: Store, prefix: str, rank: int, me: _Member) -> None:
    """RuntimeError where another process has come as the same rank: this one tells it, if it was first."""
    told = f"{prefix}/twice/"
    there = store.peek(f"{prefix}/here/{rank}")
    if there is None:
        raise StoreError(f"{store} was emptied while rank {rank} waited in it: give each job a store of its own")
    other = _Member.read(there)
    if other == me:
        other = _Member.read(store.peek(told + me.nonce))
        if other is None:
            return
    elif other is None:
        raise StoreError(f"another program, or another version of caffe2lite, writes to {store} as rank {rank}, too")
    else:
        store.set(told + other.nonce, json.dumps(me).encode())
    raise RuntimeError(
        f"two processes have the shard id {rank}: this one and process {other.process} on {other.host} have both come to "
        f"{store}; give each shard an id of its own, from 0 to num_shards - 1, and each job a store of its own"
    )


class _Host:
    """Rank 0."""

    bound = False

    def __init__(self, store: Store, prefix: str, size: int, mine: str) -> None:
        self.store, self.prefix, self.size, self.mine = store, prefix, size, mine
        self.name = ""
        self.members: list[str] = []
        self.waiting_for = "the other ranks"

    def step(self) -> tuple[str, list[str]] | None:
        found = [self.mine.encode(), *(self.store.peek(f"{self.prefix}/here/{r}") for r in range(1, self.size))]
        absent = [r for r, m in enumerate(found) if _Member.read(m) is None]
        if absent:
            odd = [r for r in absent if found[r] is not None]
            self.waiting_for = _ranks(absent)
            if odd:
                self.waiting_for += f" ({_ranks(odd)} was here with another version of caffe2lite)"
            return None
        members = [m.decode() for m in found if m is not None]
        if members != self.members:
            self.members, self.name = members, uuid.uuid4().hex
            self.store.set(f"{self.prefix}/session", json.dumps([self.name, members]).encode())
        silent = [r for r in range(1, self.size) if self.store.peek(f"{self.prefix}/ack/{self.name}/{r}") is None]
        if silent:
            sizes = {
                r: member.size for r in silent if (member := _Member.read(members[r])) and member.size != self.size
            }
            others = ", ".join(f"rank {r} was started as one of {n}" for r, n in sizes.items())
            self.waiting_for = _ranks(silent) + (f" ({others})" if others else "")
            return None
        self.store.set(f"{self.prefix}/go/{self.name}", b"1")
        return self.name, members

    def leave(self) -> None:
        """Tell those who have confirmed that there will be no run."""
        with contextlib.suppress(StoreError):
            self.store.set(f"{self.prefix}/left/{_nonce(self.mine)}", b"1")


class _Guest:
    """Any other rank."""

    def __init__(self, store: Store, prefix: str, rank: int, mine: str) -> None:
        self.store, self.prefix, self.rank, self.mine = store, prefix, rank, mine
        self.session: tuple[str, list[str]] = ("", [])  # what it has confirmed
        self.bound = False  # until its host has decided
        self.another: float | None = None  # since when there is the session of another host
        self.waiting_for = "rank 0"

    def step(self) -> tuple[str, list[str]] | None:
        found = self._found()
        if self.bound:
            name, members = self.session
            if self.store.peek(f"{self.prefix}/go/{name}"):
                return self.session
            if found is not None and found[0] == name:
                return None
            if found is not None and found[1][:1] != members[:1] and not self._gone(members[0]):
                return None
            self.bound, self.another = False, None  # its host has begun anew, or is gone, or the store was emptied
        if found is None or self.rank >= len(found[1]) or found[1][self.rank] != self.mine:
            return None  # of an earlier run, or from before this process came
        self.session, self.bound = found, True
        self.store.set(f"{self.prefix}/ack/{found[0]}/{self.rank}", b"1")
        self.waiting_for = "rank 0 and the ranks that it waits for"
        return None

    def _found(self) -> tuple[str, list[str]] | None:
        try:
            name, members = json.loads(self.store.peek(f"{self.prefix}/session") or "null")
        except (TypeError, ValueError, RecursionError):
            return None
        well_formed = isinstance(name, str) and isinstance(members, list) and all(isinstance(m, str) for m in members)
        return (name, members) if well_formed else None

    def _gone(self, host: str) -> bool:
        """Whether the host has left, or has been silent for long since another one came."""
        now = time.monotonic()
        self.another = self.another or now
        return now - self.another > _SILENCE or self.store.peek(f"{self.prefix}/left/{_nonce(host)}") is not None

    def leave(self) -> None:
        """Nobody waits for the word of a guest."""


def _nonce(member: str) -> str:
    known = _Member.read(member)
    return known.nonce if known is not None else ""


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
