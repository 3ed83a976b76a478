"""Who a collective is, and what the ranks decide where they come to different ones.

Every collective says which operator of which net it is, in which run of it, and what it is about to do.  Ranks that say
the same take part in one another's collective, all others do not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from caffe2lite.distributed.world import WorldError

Lines = Callable[[], Sequence[str]]


class Disagreement(WorldError):
    """The ranks are about to do different things; nothing has been sent or written."""


class Identity:
    """What all ranks must have alike: where a call is made, its kind and blob, and `lines` of what is sent, one a tensor."""

    __slots__ = ("digest", "in_order", "lines", "name", "net", "place")

    def __init__(
        self, world: str, name: str, lines: Lines, place: str = "", net: str = "", in_order: bool = False
    ) -> None:
        self.name, self.lines = name, lines
        self.place = place or name  # what the ranks find each other's calls by
        self.net, self.in_order = net, in_order  # whether the net comes to its next call when this one is done
        text = json.dumps([world, name, place, net, in_order, *lines()])
        self.digest = hashlib.blake2b(text.encode(), digest_size=16).digest()


class Call(NamedTuple):
    """A run of a collective; `number` counts the runs of its net."""

    identity: Identity
    number: int = 0
    notes: dict[Any, Any] = {}  # what calls of the same net tell each other; empty where there is none

    def card(self, inline: bool) -> bytes:
        """What is compared with the other ranks: equal but for the last byte where they do the same."""
        return self.identity.digest + self.number.to_bytes(8, "little") + (b"\1" if inline else b"\0")

    def __str__(self) -> str:
        place, name = self.identity.place, self.identity.name
        return f"{name}, {place}, run {self.number}" if place is not name else name

    def facts(self) -> list[Any]:
        """What the others are told of it while the ranks look for something that they all wait for."""
        identity = self.identity
        return [identity.place, self.number, identity.digest.hex(), identity.net, identity.in_order]


CARD_BYTES = 25  # of Call.card
SAME_BYTES = CARD_BYTES - 1
_FEW_RANKS = 4  # whose calls fit in one line of an error


def plain(world: str, name: str) -> Call:
    """The call of something that is no operator."""
    return Call(Identity(world, name, lambda: ()))


class Decision(NamedTuple):
    """What comes next: the place in this rank's list of the call that all ranks wait for, or why there is none."""

    turn: int | None = None
    conflict: str = ""  # the place where the ranks differ
    why: str = ""


def decide(offers: Sequence[Sequence[Sequence[Any]]], rank: int) -> Decision | None:
    """What the ranks do next, from the facts of all calls that wait on each of them; None: something may still come.

    All ranks decide the same, since all have the same facts.
    """
    common = set.intersection(*({tuple(o) for o in offer} for offer in offers))
    for fact in offers[0]:  # the order of rank 0
        if tuple(fact) in common:
            return Decision(turn=[tuple(o) for o in offers[rank]].index(tuple(fact)))
    runs: dict[str, tuple[int, str]] = {}
    positions: dict[str, tuple[str, int]] = {}
    for offer in offers:
        for place, number, digest, net, in_order in offer:
            known = runs.setdefault(place, (number, digest))
            if known[1] != digest:
                return Decision(conflict=place, why="do not agree on what they send")
            if known[0] != number:
                return Decision(conflict=place, why="are in different runs, one of them has failed or left one out")
            if in_order and positions.setdefault(net, (place, number)) != (place, number):
                return Decision(conflict=place, why="do not agree on the next collectives")
    return None


def sides(told: Sequence[tuple[str, Sequence[str]]]) -> str:
    """What each rank has: its call and the lines of that, of which the first that differs is shown."""
    names = [name for name, _ in told]
    plans = [lines for _, lines in told]
    if len(set(names)) == 1:
        at = next((i for i in range(max(map(len, plans))) if len({p[i] if i < len(p) else "" for p in plans}) > 1), 0)
        number = f" (number {at + 1} of it)" if max(map(len, plans)) > 1 else ""
        shown = [f"{p[at]}{number}" if at < len(p) else f"nothing more after {len(p)}" for p in plans]
        head = f": {names[0]}"
    else:
        shown = [": ".join([name, *lines[:1]]).rstrip(": ") for name, lines in told]
        head = ""
        if len(names) <= _FEW_RANKS:
            head = f": {', '.join(f'{name} on rank {r}' for r, name in enumerate(names))}"
    return head + "".join(f"\n    rank {r}: {text}" for r, text in enumerate(shown))
