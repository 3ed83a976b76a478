"""Broadcasts that follow each other in a net, sent together.

Many parameters are small, and a message costs as much as a few hundred KB.  In a net that runs in order the first of
several Broadcasts of one common world and root does the work of all: small tensors travel in messages of many, large ones
alone and without a copy.  The others find their work done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_SMALL = 32 << 10  # bytes from which on a tensor travels alone
_MESSAGE = 1 << 20


def _root(op: Any) -> int:
    return next((a.i for a in op.arg if a.name == "root"), 0)


class Batch:
    """Broadcasts `begin` to `end - 1` of a net: the blobs, and the messages that bring them."""

    def __init__(self, ctx: Any) -> None:
        first = ctx.op
        self.begin = self.end = ctx.position
        self.sent = False  # in this run of the net
        self.blobs: list[Any] = []
        self.operators: list[Any] = []
        for op in ctx.siblings[self.begin :]:
            alike = op.type == first.type and len(op.input) == 2 and op.input[0] == first.input[0]
            if not alike or _root(op) != _root(first):
                break
            self.operators.append(op)
            self.blobs.append(ctx.workspace.get_blob(op.input[1]))
            self.end += 1
        self._arrays: list[Any] = []
        self._messages: list[tuple[list[int], list[np.ndarray], np.ndarray]] = []

    def describe(self, one: Callable[[Any, Any], str]) -> Sequence[str] | None:
        """A line for each tensor where they are others than in the last run; None where one cannot be sent like this.

        Empty where nothing has changed.
        """
        arrays = [b.value for b in self.blobs]
        if len(arrays) == len(self._arrays) and all(map(lambda a, b: a is b, arrays, self._arrays)):
            return ()
        if not all(b.is_tensor and b.device.in_host_memory and b.value.dtype != object for b in self.blobs):
            return None
        same = [(a.shape, a.dtype) for a in arrays] == [(a.shape, a.dtype) for a in self._arrays]
        self._arrays = arrays
        self._plan()
        return () if same else [one(op, a) for op, a in zip(self.operators, arrays)]

    def _plan(self) -> None:
        self._messages = []
        small: list[int] = []
        room = np.empty(_MESSAGE, np.uint8)
        views = [a.reshape(-1).view(np.uint8) for a in self._arrays]

        def close() -> None:
            if small:
                size = sum(views[i].size for i in small)
                self._messages.append((list(small), [views[i] for i in small], room[:size]))
                small.clear()

        filled = 0
        for i, view in enumerate(views):
            if view.size > _SMALL:
                self._messages.append(([i], [view], view))
                continue
            if filled + view.size > _MESSAGE:
                close()
                filled = 0
            small.append(i)
            filled += view.size
        close()

    def run(self, world: Any, root: int) -> None:
        """Send all; where that fails, no blob keeps half of it."""
        done = 0
        try:
            for members, views, message in self._messages:
                if len(views) == 1:
                    world.broadcast(views[0], root, f" ({self.blobs[members[0]].name})")
                else:
                    names = f" ({self.blobs[members[0]].name} to {self.blobs[members[-1]].name})"
                    if world.rank == root:
                        np.concatenate(views, out=message)
                    world.broadcast(message, root, names)
                    if world.rank != root:
                        at = 0
                        for view in views:
                            view[:] = message[at : at + view.size]
                            at += view.size
                done += 1
        except Exception:
            for members, _, _ in self._messages[done:]:
                for i in members:
                    self.blobs[i].reset()
            raise
