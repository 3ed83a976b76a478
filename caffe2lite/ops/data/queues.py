"""Blocking queues of records (one blob a field), and the operators that fill and empty them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.data.databases import Reader
from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, NO_GRADIENT, operator
from caffe2lite.ops.kit.signals import NEVER, StopNet, wait


class BlobsQueue(Object):
    """A queue of records of some blobs each.  They lie in slots, blobs of the workspace; contents are exchanged, not copied.

    What an emptied blob holds is thus what the slot held before, as in Caffe2.
    """

    title = "a queue of blobs (CreateBlobsQueue makes one)"
    type_name = "std::shared_ptr<caffe2::BlobsQueue>"

    def __init__(self, slots: Sequence[Sequence[Any]], name: str, field_names: Sequence[str] = ()) -> None:
        self.name, self.field_names = name, tuple(field_names)
        self._slots = slots
        self._read = self._written = 0  # records since the beginning
        self._lock = locks.lock()
        self._filled, self._emptied = locks.condition(self._lock), locks.condition(self._lock)
        self._closed = False

    def write(self, blobs: Sequence[Any], cancelled: threading.Event = NEVER, block: bool = True) -> bool:
        """Move the blobs' contents in, waiting for room; False where the queue is closed and has none."""
        self.check(blobs)
        with self._lock:
            if block and not self._closed and self._full():
                wait(self._emptied, lambda: self._closed or not self._full(), cancelled)
            if self._full():
                return False
            self._exchange(self._written, blobs)
            self._written += 1
            self._filled.notify()
        return True

    def read(self, blobs: Sequence[Any], cancelled: threading.Event = NEVER, timeout: float = 0.0) -> bool:
        """Move the oldest record into the blobs, waiting for one; False where the queue is closed and empty, or time is up."""
        self.check(blobs)
        with self._lock:
            if not len(self):
                wait(self._filled, lambda: len(self) or self._closed, cancelled, timeout)
                if not len(self):
                    return False
            self._exchange(self._read, blobs)
            self._read += 1
            self._emptied.notify()
        return True

    def _exchange(self, record: int, blobs: Sequence[Any]) -> None:
        for slot, blob in zip(self._slots[record % len(self._slots)], blobs):
            slot.swap(blob)

    def _full(self) -> bool:
        return len(self) >= len(self._slots)

    @property
    def fields(self) -> int:
        """How many blobs a record has."""
        return len(self._slots[0])

    def record(self) -> list[Any]:
        """New blobs, as many as a record has."""
        return [type(slot)(slot.name) for slot in self._slots[0]]

    def check(self, blobs: Sequence[Any]) -> None:
        """ValueError where there are not as many blobs as a record has fields."""
        if len(blobs) != self.fields:
            raise ValueError(f"queue {self.name!r} has records of {self.fields} blobs, not {len(blobs)}")

    def close(self) -> None:
        """No more records come in; everybody who waits wakes up."""
        with self._lock:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()

    def __len__(self) -> int:
        return self._written - self._read


@operator("queue", stateful=True, gradient=NO_GRADIENT)
def CreateBlobsQueue(
    ctx, *, capacity: int = 1, num_blobs: int = 1, enforce_unique_name: int = 0, field_names: list[str] = ()
):
    """A new queue of at most `capacity` records of `num_blobs` blobs.

    queue; no tensors, of any type, are in it yet. ValueError where capacity or num_blobs is below 1, the field_names
    are not as many as the blobs, or the blob must be new and holds a queue.
    """
    if capacity < 1 or num_blobs < 1:
        raise ValueError(f"a queue needs a positive capacity and number of blobs, got {capacity} and {num_blobs}")
    if field_names and len(field_names) != num_blobs:
        raise ValueError(f"{len(field_names)} field_names are given for {num_blobs} blobs")
    if enforce_unique_name and isinstance(ctx.outputs[0].value, BlobsQueue):
        raise ValueError(f"a queue {ctx.op.output[0]!r} exists already")
    if capacity * num_blobs > _MOST_BLOBS:
        raise ValueError(
            f"a queue of {capacity:,} records of {num_blobs:,} blobs; {_MOST_BLOBS:,} blobs at most can be held"
        )
    name = ctx.op.output[0]
    slots = [[ctx.workspace.create_blob(f"{name}_{i}_{k}") for k in range(num_blobs)] for i in range(capacity)]
    return BlobsQueue(slots, name, field_names)


_MOST_BLOBS = 10_000_000  # of a queue: each is there from the beginning
_MOVED = [(i + 1, i) for i in range(64)]


@operator(
    "blobs*",
    stateful=True,
    blocking=True,
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    counts=lambda n, m: m == n - 1,
    mutates=_MOVED,
    traits="enqueues",
)
def EnqueueBlobs(ctx, queue, *blobs):
    """Move the blobs into the queue, waiting for room; the net stops where the queue is closed and full.

    queue, blobs of any type and any shape -> the same blobs, with what the queue's slot held before. ValueError where they
    are not as many as a record has, or one holds nothing; TypeError where the first input is no queue of blobs.
    """
    _all_initialised(ctx, ctx.inputs[1:])
    if not needed(BlobsQueue, queue).write(ctx.inputs[1:], ctx.cancelled):
        raise StopNet(f"queue {queue.name!r} is closed")


def _all_initialised(ctx, blobs) -> None:
    for name, blob in zip(ctx.op.input[1:], blobs):
        if blob.value is None:
            raise ValueError(f"input blob {name!r} is uninitialised: there is nothing to put into the queue")


@operator(
    "blobs* status",
    stateful=True,
    blocking=True,
    num_inputs=(2, MANY),
    num_outputs=(2, MANY),
    counts=lambda n, m: m == n,
    mutates=_MOVED,
    gradient=NO_GRADIENT,
    traits="enqueues",
)
def SafeEnqueueBlobs(ctx, queue, *blobs):
    """As EnqueueBlobs; where the queue is closed and full the last output is true and the net goes on.

    queue, blobs of any type and any shape -> the same blobs, with what the queue's slot held before, and status, a scalar
    bool. ValueError where they are not as many as a record has, or one holds nothing.
    """
    _all_initialised(ctx, ctx.inputs[1:])
    _tell(ctx, not needed(BlobsQueue, queue).write(ctx.inputs[1:], ctx.cancelled))


def _tell(ctx, closed: bool) -> None:
    """Write the status, a bool without dimensions, into the last output."""
    ctx.outputs[-1].resize((), np.bool_)[...] = closed


@operator(
    "blobs*",
    stateful=True,
    blocking=True,
    num_inputs=(1, 1),
    num_outputs=(1, MANY),
    gradient=NO_GRADIENT,
    traits="dequeues",
)
def DequeueBlobs(ctx, queue, *, timeout_secs: float = 0.0):
    """Move the oldest record out of the queue; the net stops where it is closed and empty, or time is up.

    queue -> blobs of any type and any shape. ValueError where the outputs are not as many as a record has; TypeError
    where the input is no queue of blobs.
    """
    if not needed(BlobsQueue, queue).read(ctx.outputs, ctx.cancelled, timeout_secs):
        raise StopNet(f"queue {queue.name!r} is closed and empty, or nothing came in time")


@operator(
    "blobs* status",
    stateful=True,
    blocking=True,
    num_inputs=(1, 1),
    num_outputs=(2, MANY),
    gradient=NO_GRADIENT,
    limits="num_records > 0",
    traits="dequeues",
)
def SafeDequeueBlobs(ctx, queue, *, num_records: int = 1):
    """As DequeueBlobs; at the end of the queue the last output is true.  Several records are joined along axis 0.

    queue -> blobs of any type and any shape, and status, a scalar bool. ValueError where the outputs but the last are
    not as many as a record has, records do not go together, or num_records is not above 0.
    """
    blobs = ctx.outputs[:-1]
    needed(BlobsQueue, queue)
    if num_records == 1:
        _tell(ctx, not queue.read(blobs, ctx.cancelled))
        return
    columns: list[list] = [[] for _ in blobs]
    queue.check(blobs)
    record = queue.record()
    for _ in range(num_records):
        if not queue.read(record, ctx.cancelled):
            break
        for column, blob in zip(columns, record):
            column.append(blob.value.copy())
    if columns[0]:
        for blob, column in zip(blobs, columns):
            blob.reset()
            blob.assign(np.concatenate(column))
    _tell(ctx, not columns[0])


@operator("", stateful=True, num_inputs=(1, 1), gradient=NO_GRADIENT)
def CloseBlobsQueue(ctx, queue):
    """Close the queue: what is in it can still be read.

    queue, whose blobs are of any type; no tensors. TypeError where the input is no queue of blobs.
    """
    needed(BlobsQueue, queue).close()


@operator(
    "blobs* status", stateful=True, blocking=True, num_inputs=(1, MANY), num_outputs=(2, MANY), gradient=NO_GRADIENT
)
def WeightedSampleDequeueBlobs(ctx, *queues, weights: list[float] = (), table_idx_blob: int = -1):
    """Read a record from one of the queues, drawn by weight; the last output tells whether that one is at its end.

    `table_idx_blob` is the output that gets the number of the queue.

    queues -> blobs of any type and any shape, [1] int32 for the number, and status, a scalar bool. ValueError where the
    weights are not as many as the queues, or have no positive sum.
    """
    if weights and len(weights) != len(queues):
        raise ValueError(f"{len(weights)} weights are given for {len(queues)} queues")
    shares = np.cumsum(np.asarray(weights or [1.0] * len(queues)))
    if shares[-1] <= 0:
        raise ValueError(f"the weights must have a positive sum, found {list(weights)}")
    chosen = int(np.searchsorted(shares, float(ctx.rng.random()) * shares[-1], side="right"))
    blobs = list(ctx.outputs[:-1])
    if 0 <= table_idx_blob < len(blobs):
        blobs.pop(table_idx_blob).resize((1,), np.int32)[...] = chosen
    _tell(ctx, not needed(BlobsQueue, queues[chosen]).read(blobs, ctx.cancelled))


class QueueReader(Reader):
    """A reader whose records come out of a queue."""

    def __init__(self, queue: BlobsQueue, key_index: int, value_index: int, timeout: float) -> None:
        self.queue, self.key_index, self.value_index, self.timeout = queue, key_index, value_index, timeout
        self.source = f"queue {queue.name}"

    def next_record(self) -> tuple[bytes, bytes]:
        """The next (key, value)."""
        record = self.queue.record()
        if not self.queue.read(record, timeout=self.timeout):
            raise StopNet(f"queue {self.queue.name!r} is closed and empty, or nothing came in time")
        key = _record_bytes(record[self.key_index].value) if self.key_index >= 0 else b""
        return key, _record_bytes(record[self.value_index].value)


def _record_bytes(value) -> bytes:
    if not isinstance(value, bytes):
        value = value.reshape(-1)[0]
    return value.encode() if isinstance(value, str) else bytes(value)


@operator("reader", stateful=True, gradient=FORBID_GRADIENT)
def CreateBlobsQueueDB(ctx, queue, *, key_blob_index: int = -1, value_blob_index: int = 0, timeout_secs: float = 0.0):
    """A reader whose records are the queue's: blobs of the given indices are key and value.

    queue -> reader; no tensors, but each record's blobs must be strings, or tensors of one. ValueError where an index
    is not below the number of blobs; TypeError where the input is no queue of blobs.
    """
    needed(BlobsQueue, queue)
    for what, index in (("key_blob_index", key_blob_index), ("value_blob_index", value_blob_index)):
        if index >= queue.fields:
            raise ValueError(f"{what} is {index}, and the queue has records of {queue.fields} blobs")
    return QueueReader(queue, key_blob_index, value_blob_index, timeout_secs)
