"""Collectives of one kind that follow each other in a net, sent together.

Many parameters are small, and a message costs as much as a few hundred KB.  In a net that runs in order the first of
several Broadcasts or Allreduces of one common world does the work of all: they are compared with the other ranks' once,
small tensors travel in messages of many, large ones alone and without a copy.  The others find their work done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2lite.distributed.calls import Disagreement

_SMALL = 32 << 10  # bytes from which on a tensor travels alone
_MESSAGE = 1 << 20


def _root(op: Any) -> int:
    return next((a.i for a in op.arg if a.name == "root"), 0)


class Batch:
    """Collectives `begin` to `end - 1` of a net: the blobs, and the messages that bring them."""

    def __init__(self, ctx: Any) -> None:
        first = ctx.op
        self.begin = self.end = ctx.position
        self.sent = False  # in this run of the net
        self.identity: Any = None  # of the collective that they are together
        self.blobs: list[Any] = []
        self.operators: list[Any] = []
        for op in ctx.siblings[self.begin :]:
            alike = op.type == first.type and len(op.input) == 2 and op.input[0] == first.input[0]
            if not alike or _root(op) != _root(first):
                break
            self.operators.append(op)
            self.blobs.append(ctx.workspace.get_blob(op.input[1]))
            self.end += 1
        self._sums = first.type == "Allreduce"
        self._arrays: list[Any] = []
        self._messages: list[tuple[list[int], list[np.ndarray], np.ndarray]] = []

    def describe(self, one: Callable[[Any, Any], str]) -> Sequence[str] | None:
        """A line for each tensor where they are others than in the last run; None where one cannot be sent like this.

        Empty where nothing has changed.
        """
        arrays = [b.value for b in self.blobs]
        if len(arrays) == len(self._arrays) and all(map(lambda a, b: a is b, arrays, self._arrays)):
            return ()
        refused = "Ob" if self._sums else "O"
        if not all(b.is_tensor and b.device.in_host_memory and b.value.dtype.kind not in refused for b in self.blobs):
            return None
        if self._sums and _overlap(arrays):
            return None  # the second sum is of the first one's result
        same = [(a.shape, a.dtype) for a in arrays] == [(a.shape, a.dtype) for a in self._arrays]
        self._arrays = arrays
        self._plan()
        return () if same else [one(op, a) for op, a in zip(self.operators, arrays)]

    def _plan(self) -> None:
        """Small tensors share messages: with others of their type where they are summed, else as bytes."""
        self._messages = []
        flat = [a.reshape(-1) if self._sums else a.reshape(-1).view(np.uint8) for a in self._arrays]
        room = np.empty(_MESSAGE, np.uint8)
        small: dict[Any, list[int]] = {}
        filled: dict[Any, int] = {}

        def close(kind: Any) -> None:
            members = small.pop(kind, [])
            if members:
                message = room[: filled.pop(kind)].view(kind)
                self._messages.append((members, [flat[i] for i in members], message))

        for i, view in enumerate(flat):
            kind = view.dtype
            if view.nbytes > _SMALL:
                self._messages.append(([i], [view], view))
                continue
            if filled.get(kind, 0) + view.nbytes > _MESSAGE:
                close(kind)
            small.setdefault(kind, []).append(i)
            filled[kind] = filled.get(kind, 0) + view.nbytes
        for kind in list(small):
            close(kind)

    def run(self, world: Any, call: Any, root: int) -> None:
        """Send all when all ranks are there; where that fails, no blob keeps half of it."""
        done = 0

        def work() -> None:
            nonlocal done
            for _, views, message in self._messages:
                if self._sums:
                    _through(message, views, True, True, lambda m: world.now_allreduce(call, m))
                else:
                    mine = world.rank == root
                    _through(message, views, mine, not mine, lambda m: world.now_broadcast(call, m, root))
                done += 1

        try:
            world.together(call, work)
        except Exception as e:
            if not isinstance(e, Disagreement):  # else nothing was written yet
                for members, _, _ in self._messages[done:]:
                    for i in members:
                        self.blobs[i].reset()
            raise


def _through(
    message: np.ndarray, views: Sequence[np.ndarray], gives: bool, takes: bool, send: Callable[[np.ndarray], None]
) -> None:
    """Send tensors in one message: filled with those that this rank gives, and emptied into those that it takes."""
    if views[0] is message:
        send(message)
        return
    if gives:
        np.concatenate(views, out=message)
    send(message)
    at = 0
    for view in views if takes else ():
        view[:] = message[at : at + view.size]
        at += view.size


def _overlap(arrays: Sequence[np.ndarray]) -> bool:
    """Whether two of them share memory."""
    spans = sorted((a.__array_interface__["data"][0], a.nbytes) for a in arrays if a.nbytes)
    return any(begin + size > after for (begin, size), (after, _) in itertools.pairwise(spans))
