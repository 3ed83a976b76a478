"""Common worlds: collectives between shards, each with a deadline.

A common world is known by its name, so that shards may create several in any order.  Its ranks are shard ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2lite.devices import Array, Device
from caffe2lite.distributed.world import WorldError


class CommonWorld:
    """What the operators use, and what a size of 1 needs.  `timeout` is in seconds; arrays are contiguous."""

    type_name = "std::shared_ptr<gloo::Context>"

    def __init__(self, name: str, rank: int, size: int, timeout: float) -> None:
        self.name, self.rank, self.size, self.timeout = name, rank, size, timeout
        self.closed = False

    def broadcast(self, array: Array, root: int, of: str = "") -> None:
        """Rank `root`'s values come to all ranks, in place.  An error says what they are `of`."""

    def allreduce(self, array: Array) -> None:
        """The sum over all ranks comes to all ranks, in place."""

    def reduce(self, array: Array, root: int) -> None:
        """The sum over all ranks comes to rank `root`, in place."""

    def allgather(self, array: Array, result: Array) -> None:
        """`result` gets the arrays of all ranks, one after the other."""
        result.reshape(-1)[...] = array.reshape(-1)

    def reduce_scatter(self, array: Array) -> None:
        """Rank r's array begins with part r of the sum; what comes after it is undefined."""

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def send(self, array: Array, to: int, tag: int) -> None:
        """Send to one rank."""
        raise WorldError(f"common world {self.name!r} has one rank: there is nobody to send to")

    def receive(self, array: Array, source: int, tag: int) -> tuple[int, int]:
        """Receive from one rank (-1: any); (its rank, its tag)."""
        raise WorldError(f"common world {self.name!r} has one rank: there is nobody to receive from")

    def compare(self, plan: Sequence[str]) -> None:
        """WorldError on every rank where the ranks are about to do different things, a line each."""

    def link(self, device: Device, nccl: bool) -> Any:
        """What has the collectives' methods for arrays on a device; `nccl` asks for NCCL between GPUs."""
        return self

    def clone(self, name: str) -> CommonWorld:
        """Another world of the same ranks."""
        return type(self)(name, self.rank, self.size, self.timeout)

    def close(self) -> None:
        """Nothing is sent any more."""
        self.closed = True
