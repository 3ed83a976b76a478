"""Queues of single elements, which come out in batches of another size than they went in."""

from __future__ import annotations

import collections
import threading

import numpy as np

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.signals import StopNet, wait


class RebatchingQueue(Object):
    """A queue of at most `capacity` elements, each one tensor for each of `components`."""

    title = "a rebatching queue (CreateRebatchingQueue makes one)"
    type_name = "std::unique_ptr<caffe2::RebatchingQueue>"

    def __init__(self, capacity: int, components: int) -> None:
        self.capacity, self.components = capacity, components
        self._elements: collections.deque = collections.deque()
        self._changed = locks.condition()
        self._closed = False

    def put(self, element, cancelled: threading.Event) -> bool:
        """Add an element, waiting for room; False where the queue is closed."""
        with self._changed:
            wait(self._changed, lambda: self._closed or len(self._elements) < self.capacity, cancelled)
            if self._closed:
                return False
            self._elements.append(element)
            self._changed.notify_all()
        return True

    def get(self, count: int, cancelled: threading.Event):
        """Up to `count` elements: fewer only at the end of a closed queue."""
        found = []
        with self._changed:
            while len(found) < count:
                wait(self._changed, lambda: self._closed or self._elements, cancelled)
                if not self._elements:
                    break
                found.append(self._elements.popleft())
                self._changed.notify_all()
        return found

    def close(self) -> None:
        """No more elements come in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


@operator("queue", stateful=True, gradient=NO_GRADIENT)
def CreateRebatchingQueue(ctx, *, capacity: int = 1, num_blobs: int = 1):
    """A new queue of at most `capacity` elements of `num_blobs` tensors.

    queue; no tensors, of any type, are in it yet. ValueError where capacity or num_blobs is below 1.
    """
    if capacity < 1 or num_blobs < 1:
        raise ValueError(f"a queue needs a positive capacity and number of blobs, got {capacity} and {num_blobs}")
    return RebatchingQueue(capacity, num_blobs)


@operator("", stateful=True, blocking=True, num_inputs=(2, MANY), gradient=NO_GRADIENT, traits="enqueues")
def EnqueueRebatchingQueue(ctx, queue, *tensors, enqueue_batch: int = 0):
    """Put one element, or with `enqueue_batch` each row of the tensors, into the queue.

    queue, tensors [...], or with enqueue_batch [rows, ...], of any type. ValueError where they are not as many as an
    element has, or differ in rows; TypeError where the first input is no such queue.
    """
    if len(tensors) != needed(RebatchingQueue, queue).components:
        raise ValueError(f"the queue has elements of {queue.components} tensors, not {len(tensors)}")
    if not enqueue_batch:
        if not queue.put([np.array(t) for t in tensors], ctx.cancelled):
            raise StopNet("the queue is closed")
        return
    rows = {t.shape[0] if t.ndim else -1 for t in tensors}
    if len(rows) != 1 or -1 in rows:
        raise ValueError(f"tensors of a batch must have one number of rows, got {[list(t.shape) for t in tensors]}")
    for row in range(rows.pop()):
        if not queue.put([np.array(t[row]) for t in tensors], ctx.cancelled):
            raise StopNet("the queue is closed")


@operator(
    "tensors*",
    stateful=True,
    blocking=True,
    num_inputs=(1, 1),
    num_outputs=(1, MANY),
    gradient=NO_GRADIENT,
    traits="dequeues",
)
def DequeueRebatchingQueue(ctx, queue, *, num_elements: int = 1):
    """Take up to `num_elements` elements out, stacked along a new first axis.

    queue -> tensors [elements, ...] of any type. ValueError where the outputs are not as many as an element has
    tensors, or the elements differ in shape; TypeError where the input is no such queue.
    """
    if len(ctx.outputs) != needed(RebatchingQueue, queue).components:
        raise ValueError(f"the queue has elements of {queue.components} tensors, not {len(ctx.outputs)}")
    found = queue.get(num_elements, ctx.cancelled)
    if not found:
        raise StopNet("the queue is closed and empty")
    for i, blob in enumerate(ctx.outputs):
        column = [element[i] for element in found]
        blob.assign(np.stack(column))


@operator("", stateful=True, num_inputs=(1, 1), gradient=NO_GRADIENT)
def CloseRebatchingQueue(ctx, queue):
    """Close the queue: what is in it can still be read.

    queue, whose tensors are of any type; no tensors. TypeError where the input is no such queue.
    """
    needed(RebatchingQueue, queue).close()
