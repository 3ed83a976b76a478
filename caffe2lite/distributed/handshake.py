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

from caffe2lite.distributed.stores import Store, StoreHandlerTimeoutError, poll


class Session(NamedTuple):
    """A run that all of its processes have confirmed."""

    name: str
    hosts: list[str]  # by rank


def meet(store: Store, prefix: str, rank: int, size: int, timeout: float) -> Session:
    """Wait until all `size` processes are there; StoreHandlerTimeoutError names those that are missing."""
    mine = json.dumps([uuid.uuid4().hex, socket.gethostname(), size, os.getpid()])
    store.set(f"{prefix}/here/{rank}", mine.encode())
    meeting = _Host(store, prefix, size) if rank == 0 else _Guest(store, prefix, rank, mine)

    def step() -> tuple[str, list[str]] | None:
        _alone(store, prefix, rank, mine)
        return meeting.step()

    try:
        name, members = poll(step, timeout, lambda: "")
    except StoreHandlerTimeoutError:
        raise StoreHandlerTimeoutError(
            f"rank {rank} of {size} waited {timeout:g} s in {store} for {meeting.waiting_for}: is it started, with the "
            f"same store and number of shards?"
        ) from None
    sizes = [json.loads(m)[2] for m in members]
    if len(members) != size or set(sizes) != {size}:
        raise RuntimeError(
            f"the shards disagree about their number: {dict(enumerate(sizes))}; this is rank {rank} of {size}"
        )
    return Session(name, [json.loads(m)[1] for m in members])


def _alone(store: Store, prefix: str, rank: int, mine: str) -> None:
    """RuntimeError where another process has come as the same rank: this one tells it, if it was first."""
    told = f"{prefix}/twice/"
    there = store.get(f"{prefix}/here/{rank}").decode()
    if there != mine:
        store.set(told + json.loads(there)[0], mine.encode())
    else:
        first = store.peek(told + json.loads(mine)[0])
        if first is None:
            return
        there = first.decode()
    _, host, _, process = json.loads(there)
    raise RuntimeError(
        f"two processes have the shard id {rank}: this one and process {process} on {host} have both come to {store}; "
        f"give each shard an id of its own, from 0 to num_shards - 1"
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
        absent = [r for r, m in enumerate(found) if m is None]
        if absent:
            self.waiting_for = _ranks(absent)
            return None
        members = [m.decode() for m in found if m is not None]
        if members != self.members:
            self.members, self.name = members, uuid.uuid4().hex
            self.store.set(f"{self.prefix}/session", json.dumps([self.name, members]).encode())
        silent = [r for r in range(1, self.size) if self.store.peek(f"{self.prefix}/ack/{self.name}/{r}") is None]
        if silent:
            self.waiting_for = _ranks(silent)
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
        name, members = json.loads(session)
        if self.rank >= len(members) or members[self.rank] != self.mine:
            return None  # of an earlier run, or from before this process came
        if name not in self.confirmed:
            self.store.set(f"{self.prefix}/ack/{name}/{self.rank}", b"1")
            self.confirmed.add(name)
            self.waiting_for = "rank 0 and the ranks that it waits for"
        return (name, members) if self.store.peek(f"{self.prefix}/go/{name}") else None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
