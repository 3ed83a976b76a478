"""Agreeing on a fresh run over a store that may hold keys of earlier ones.

Every process writes a number that nobody has used before.  The first one writes a session, made of all these numbers,
and writes it anew whenever one changes; the others confirm only a session that holds their own number.  What dead
processes have left can therefore never complete it.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from typing import NamedTuple

from caffe2lite import __version__
from caffe2lite.distributed.stores import Store, StoreError, StoreHandlerTimeoutError, poll


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
    meeting = _Host(store, prefix, size) if rank == 0 else _Guest(store, prefix, rank, mine)

    def step() -> tuple[str, list[str]] | None:
        _alone(store, prefix, rank, me)
        return meeting.step()

    try:
        name, told = poll(step, timeout, lambda: f"{meeting.waiting_for}, as rank {rank} of {size} in {store}")
    except StoreHandlerTimeoutError:
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

    def __init__(self, store: Store, prefix: str, size: int) -> None:
        self.store, self.prefix, self.size = store, prefix, size
        self.name = ""
        self.members: list[str] = []
        self.waiting_for = "the other ranks"

    def step(self) -> tuple[str, list[str]] | None:
        found = [self.store.peek(f"{self.prefix}/here/{r}") for r in range(self.size)]
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


class _Guest:
    """Any other rank."""

    def __init__(self, store: Store, prefix: str, rank: int, mine: str) -> None:
        self.store, self.prefix, self.rank, self.mine = store, prefix, rank, mine
        self.confirmed: set[str] = set()
        self.waiting_for = "rank 0"

    def step(self) -> tuple[str, list[str]] | None:
        session = self.store.peek(f"{self.prefix}/session")
        if session is None:
            return None
        try:
            name, members = json.loads(session)
        except (TypeError, ValueError, RecursionError):
            return None
        if self.rank >= len(members) or members[self.rank] != self.mine:
            return None  # of an earlier run, or from before this process came
        if name not in self.confirmed:
            self.store.set(f"{self.prefix}/ack/{name}/{self.rank}", b"1")
            self.confirmed.add(name)
            self.waiting_for = "rank 0 and the ranks that it waits for"
        return (name, members) if self.store.peek(f"{self.prefix}/go/{name}") else None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
