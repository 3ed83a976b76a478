"""Whose turn it is on a common world: each rank's threads wait with their calls until all ranks have come to the same.

One thread of a rank exchanges cards with the others, on behalf of all that wait.  A card says who the call is and holds
the tensor itself where it is small: then nothing more need be sent.  Where the cards differ, the ranks tell each other
all calls that wait, and go on with one that all of them have; a dag may come to its collectives in any order.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.distributed import calls
from caffe2lite.distributed.calls import CARD_BYTES, SAME_BYTES, Call, Disagreement
from caffe2lite.distributed.world import WorldError

ROOM = 1024  # bytes of a tensor that travels within the card
_HEAD_BYTES = 32  # the card, filled up so that the tensor behind it is aligned
_MANY_RANKS = 16  # from which on the cards of all ranks would be larger than what a sum of small tensors sends
_LEAST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02


class _Offer:
    """A call that waits for the other ranks."""

    __slots__ = ("by_mpi", "call", "done", "error", "from_cards", "payload")

    def __init__(
        self, call: Call, payload: np.ndarray | None, from_cards: Callable[[Any], None], by_mpi: Callable[[], None]
    ) -> None:
        self.call, self.payload, self.from_cards, self.by_mpi = call, payload, from_cards, by_mpi
        self.error: BaseException | None = None
        self.done = False

    def end(self, error: BaseException | None = None) -> None:
        self.error, self.done = error, True


class Turns:
    """The calls of one rank on one common world.  `gather(mine, all_of, what)` is an allgather with a deadline."""

    def __init__(
        self, name: str, rank: int, size: int, timeout: float, gather: Callable[[np.ndarray, np.ndarray, str], None]
    ) -> None:
        self.name, self.rank, self.size, self.timeout = name, rank, size, timeout
        self._gather = gather
        self._room = ROOM if size < _MANY_RANKS else 0
        self._mine = np.zeros(_HEAD_BYTES + self._room, np.uint8)
        self._cards = np.zeros((size, self._mine.size), np.uint8)
        self._head = memoryview(self._mine.data)[:CARD_BYTES]
        self._tensors: dict[np.dtype, tuple[np.ndarray, np.ndarray]] = {}  # what is behind the heads, by its type
        self._waiting: list[_Offer] = []
        self._driver = threading.Lock()  # held by the thread that exchanges cards
        self._change = threading.Condition(threading.Lock())

    def take(
        self, call: Call, array: Any, from_cards: Callable[[np.ndarray], None], by_mpi: Callable[[], None]
    ) -> None:
        """Wait until all ranks are at this call, then do its work.

        That is `from_cards`, with each rank's array as a row, where it travelled within the cards, else `by_mpi`.
        Disagreement on all ranks where they come to different calls.
        """
        failed = call.notes.get(self)
        if failed is not None and failed[0] == call.number:
            raise failed[1]  # an earlier call of this run: the other ranks will not come to this one, either
        small = type(array) is np.ndarray and array.nbytes <= self._room
        offer = _Offer(call, array.reshape(-1) if small else None, from_cards, by_mpi)
        self._waiting.append(offer)
        if self._driver.acquire(blocking=False) or self._comes_to_drive(offer):
            self._drive(offer)
        if offer.error is not None:
            raise offer.error

    def _comes_to_drive(self, offer: _Offer) -> bool:
        """Wait until the thread that exchanges cards has done this call, too (False), or leaves it to this one."""
        try:
            with self._change:
                self._change.notify_all()  # it may look for another call than its own
                self._change.wait_for(lambda: offer.done or self._driver.acquire(blocking=False))  # it has a deadline
        except BaseException:  # interrupted: nobody waits for it any more
            if offer in self._waiting:
                self._waiting.remove(offer)
            raise
        return not offer.done

    def _drive(self, offer: _Offer) -> None:
        """Exchange cards until this thread's call is done."""
        turn = offer
        try:
            while not offer.done:
                if not self._exchange(turn):
                    turn = self._agree()
                    continue
                if turn in self._waiting:
                    self._waiting.remove(turn)
                if turn is not offer:
                    self._notify()
                    turn = offer
        except BaseException as e:
            error = e if isinstance(e, Exception) else WorldError(f"interrupted by {type(e).__name__}")
            while self._waiting:  # none of them can be done
                self._waiting.pop().end(error)
            self._notify()
            if error is not e:
                raise
        finally:
            self._driver.release()
            if self._waiting:
                self._notify()

    def _notify(self) -> None:
        with self._change:
            self._change.notify_all()

    def _exchange(self, offer: _Offer) -> bool:
        """Show the card of a call and do its work; False where the others show another card."""
        payload = offer.payload
        self._head[:] = card = offer.call.card(payload is not None)
        if payload is not None:
            mine, rows = self._behind_heads(payload.dtype)
            mine[: payload.size] = payload
        self._gather(self._mine, self._cards, offer.call.identity.name)
        told = self._cards[:, :CARD_BYTES].tobytes()
        same = told == card * self.size
        if not same and self._cards[:, :SAME_BYTES].tobytes() != card[:SAME_BYTES] * self.size:
            return False
        try:
            if same and payload is not None:
                offer.from_cards(rows[:, : payload.size])
            else:
                offer.by_mpi()
        except WorldError:
            raise  # nothing works any more
        except Exception as e:
            offer.end(e)
        else:
            offer.end()
        return True

    def _behind_heads(self, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """What is behind the heads of this rank's card and of all cards, as numbers of this type."""
        views = self._tensors.get(kind)
        if views is None:
            views = self._mine[_HEAD_BYTES:].view(kind), self._cards[:, _HEAD_BYTES:].view(kind)
            self._tensors[kind] = views
        return views

    # ---- where the cards differ ------------------------------------------------------------------------------

    def _agree(self) -> _Offer:
        """The call that all ranks wait for.  Where there can be none, all calls that wait end with Disagreement."""
        end = time.monotonic() + self.timeout
        pause = _LEAST_PAUSE
        while True:
            offers = list(self._waiting)
            late = time.monotonic() > end
            told = self._tell([late, [o.call.facts() for o in offers]])
            decision = calls.decide([t[1] for t in told], self.rank)
            if decision is None and any(t[0] for t in told):
                decision = calls.Decision(
                    why=f"wait for different collectives, and no other came within {self.timeout:g} s"
                )
            if decision is None:
                with self._change:
                    if len(self._waiting) == len(offers):
                        self._change.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if decision.turn is not None:
                return offers[decision.turn]
            shown = next((o.call for o in offers if o.call.identity.place == decision.conflict), offers[0].call)
            sides = calls.sides(self._tell([str(shown), list(shown.identity.lines())]))
            error = Disagreement(f"common world {self.name!r}: the ranks {decision.why}{sides}")
            for offer in offers:
                if offer.call.identity.net:
                    offer.call.notes[self] = offer.call.number, error
            raise error

    def _tell(self, content: Any) -> list[Any]:
        """What each rank tells all others."""
        mine = np.frombuffer(json.dumps(content).encode(), np.uint8)
        sizes = np.zeros((self.size, 1), np.int64)
        what = "the comparison of the next collectives"
        self._gather(np.array([mine.size], np.int64), sizes, what)
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[: mine.size] = mine
        texts = np.zeros((self.size, padded.size), np.uint8)
        self._gather(padded, texts, what)
        return [json.loads(bytes(t[: int(n)])) for t, n in zip(texts, sizes[:, 0])]
