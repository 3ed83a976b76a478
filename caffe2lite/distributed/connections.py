"""MPI's connections to other hosts, watched from outside.

MPICH crashes when it sends to a peer whose connection has failed, instead of telling.  So nothing must be sent once a
connection has closed, and it is the kernel that knows: it is asked about copies of MPI's own sockets.
"""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import time
from typing import NamedTuple

_SCAN_SECONDS = 0.1
_CLOSED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0


def sockets() -> dict[int, int]:
    """The file descriptors of this process that are sockets, and the sockets' own numbers."""
    found = {}
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            known = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISSOCK(known.st_mode):
            found[int(name)] = known.st_ino
    return found


def _copy(fd: int) -> socket.socket | None:
    """A copy of a TCP socket, None where it is of another kind."""
    try:
        copy = socket.socket(fileno=os.dup(fd))
    except OSError:
        return None
    if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM:
        return copy
    copy.close()
    return None


def listeners(before: dict[int, int]) -> str:
    """Where MPI listens: addresses of TCP sockets that were not there `before`, and the host, as JSON."""
    found = []
    for fd, number in sockets().items():
        copy = _copy(fd) if before.get(fd) != number else None
        if copy is not None:
            with copy:
                if copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.append(list(copy.getsockname()[:2]))
    return json.dumps([socket.gethostname(), found])


class _Connection(NamedTuple):
    copy: socket.socket
    host: str  # the peer's address
    ranks: frozenset[int]  # the MPI ranks that it may be


class Watch:
    """Says when a peer's connections have closed.  `told` is what the ranks say of themselves, by `listeners`."""

    def __init__(self, told: list[str], rank: int) -> None:
        members = [json.loads(t) for t in told]
        self._mine = {tuple(a) for a in members[rank][1]}
        self._rank_at = {tuple(a): r for r, (_, addresses) in enumerate(members) for a in addresses if r != rank}
        self._seen: set[int] = set()
        self._live: dict[int, _Connection] = {}  # by the copy's descriptor
        several_hosts = len({host for host, _ in members}) > 1
        self._poll = select.epoll() if several_hosts and _CLOSED else None
        self._next_scan = 0.0

    def closed(self) -> str:
        """Whose connections have closed, empty where nobody's have."""
        if self._poll is None:
            return ""
        now = time.monotonic()
        events = self._poll.poll(0)
        if events or now > self._next_scan:
            self._next_scan = now + _SCAN_SECONDS
            self._scan()
        gone = []
        for fd, _ in events:
            connection = self._live.pop(fd)
            self._poll.unregister(fd)
            connection.copy.close()
            # Two peers that connect to each other at the same time keep one of the two connections.
            if not any(c.ranks & connection.ranks for c in self._live.values()):
                who = " or ".join(map(str, sorted(connection.ranks)))
                gone.append(f"MPI rank {who} on {connection.host}")
        return ", ".join(gone)

    def _scan(self) -> None:
        """Look for connections that MPI has made since."""
        assert self._poll is not None
        for fd, number in sockets().items():
            if number in self._seen:
                continue
            self._seen.add(number)
            copy = _copy(fd)
            if copy is None:
                continue
            try:
                here, there = copy.getsockname()[:2], copy.getpeername()[:2]
            except OSError:  # it is closed, or listens
                here = there = ("", 0)
            if there in self._rank_at:
                ranks = frozenset([self._rank_at[there]])
            elif here in self._mine:
                ranks = frozenset(r for (host, _), r in self._rank_at.items() if host == there[0])
            else:
                ranks = frozenset()
            if ranks:
                self._live[copy.fileno()] = _Connection(copy, there[0], ranks)
                self._poll.register(copy.fileno(), _CLOSED)
            else:
                copy.close()  # not MPI's

    def stop(self) -> None:
        """Let go of the copies, so that MPI can close its connections."""
        if self._poll is not None:
            for connection in self._live.values():
                connection.copy.close()
            self._poll.close()
            self._poll = None
