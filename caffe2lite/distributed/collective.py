"""Common worlds: collectives between shards, each with a deadline.

A common world is known by its name, so that shards may create several in any order.  Its ranks are shard ids.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from caffe2lite.devices import Array, Device
from caffe2lite.distributed.calls import Call
from caffe2lite.distributed.world import WorldError


class Announced(NamedTuple):
    """A message that is to come."""

    source: int
    tag: int
    number: int
    dtype: np.dtype
    shape: tuple[int, ...]


class CommonWorld:
    """What the operators use, and what a size of 1 needs.  `timeout` is in seconds; arrays are contiguous."""

    type_name = "std::shared_ptr<gloo::Context>"

    def __init__(self, name: str, rank: int, size: int, timeout: float) -> None:
        self.name, self.rank, self.size, self.timeout = name, rank, size, timeout
        self.closed = False

    # Each collective is given who it is; the ranks do only what all of them have come to.

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        """Rank `root`'s values come to all ranks, in place."""
        self.check_root(root)

    def allreduce(self, call: Call, array: Array) -> None:
        """The sum over all ranks comes to all ranks, in place."""

    def reduce(self, call: Call, array: Array, root: int) -> None:
        """The sum over all ranks comes to rank `root`, in place."""
        self.check_root(root)

    def allgather(self, call: Call, array: Array, result: Array) -> None:
        """`result` gets the arrays of all ranks, one after the other."""
        result.reshape(-1)[...] = array.reshape(-1)

    def reduce_scatter(self, call: Call, array: Array) -> None:
        """Rank r's array begins with part r of the sum; what comes after it is undefined."""

    def barrier(self, call: Call) -> None:
        """Wait until all ranks are here."""

    def check_root(self, root: int) -> None:
        """ValueError where there is no such rank."""
        if not 0 <= root < self.size:
            raise ValueError(f"root must be a rank within 0 to {self.size - 1}, got {root}")

    def part(self, array: Array) -> int:
        """The number of elements that each rank gets of an array."""
        if array.size % self.size:
            raise ValueError(f"{array.size} elements cannot be divided among {self.size} shards")
        return int(array.size // self.size)

    # A message is announced under its tag, with its type and shape and a number of its own, and sent under that number.

    def announce(self, array: Array, to: int, tag: int) -> int:
        """Tell a rank that an array will come; its number."""
        raise WorldError(f"common world {self.name!r} has one rank: there is nobody to send to")

    def expect(self, source: int, tag: int) -> Announced:
        """Wait for an announcement from one rank (-1: any) under a tag (-1: any)."""
        raise WorldError(f"common world {self.name!r} has one rank: there is nobody to receive from")

    def send(self, array: Array, to: int, number: int) -> None:
        """Send what was announced."""

    def receive(self, array: Array, source: int, number: int) -> None:
        """Receive what was announced."""

    def link(self, device: Device, nccl: bool) -> Any:
        """What has the collectives' methods for arrays on a device; `nccl` asks for NCCL between GPUs."""
        return self

    def clone(self, name: str) -> CommonWorld:
        """Another world of the same ranks."""
        return type(self)(name, self.rank, self.size, self.timeout)

    def close(self) -> None:
        """Nothing is sent any more."""
        self.closed = True
