"""Which work of which GPU is certain to be over: vector clocks for emulated GPUs.

What is put on a GPU runs later, and after nothing but what was put there before.  So a kernel may touch what another
GPU has written, or still reads, only after an event (`Clock.follow`), or after the host has waited for that GPU.
"""

from __future__ import annotations

from caffe2lite.devices.base import DeviceError


class Clock:
    """The time of one GPU, or of the host, and how much of the others' work is over for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.now = 0
        self.seen: dict[Clock, int] = {}

    def follow(self, other: Clock) -> None:
        """What comes here from now on waits for what the other has been given by now."""
        for clock, time in (*other.seen.items(), (other, other.now)):
            if time > self.seen.get(clock, 0):
                self.seen[clock] = time

    def tick(self) -> None:
        """One more piece of work."""
        self.now += 1

    def after(self, other: Clock, time: int) -> bool:
        """Whether what the other was given at a time is over here."""
        return other is self or self.seen.get(other, 0) >= time


class History:
    """Who has written a piece of memory last, and who has read it since."""

    __slots__ = ("readers", "writer")

    def __init__(self, writer: Clock) -> None:
        self.writer = (writer, writer.now)
        self.readers: dict[Clock, int] = {}

    def read(self, by: Clock) -> None:
        """DeviceError where the last write may not be over."""
        if not by.after(*self.writer):
            raise DeviceError(
                f"{by.name} reads what {self.writer[0].name} writes, and does not wait for it: `Device.after` orders them"
            )
        self.readers[by] = by.now

    def write(self, by: Clock) -> None:
        """DeviceError where the last write, or a read of what it wrote, may not be over."""
        if not by.after(*self.writer):
            raise DeviceError(f"{by.name} overwrites what {self.writer[0].name} writes, and does not wait for it")
        for reader, time in self.readers.items():
            if not by.after(reader, time):
                raise DeviceError(f"{by.name} overwrites what {reader.name} still reads, and does not wait for it")
        self.writer, self.readers = (by, by.now), {}
