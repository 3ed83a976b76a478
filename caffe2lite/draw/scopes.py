"""Blocks of operators within name scopes: a scope in a scope is a frame in a frame, and items side by side share no ground."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

_DEEPEST = 4  # frames in each other; what is deeper has its scopes in one name
_GAP, _PAD = 34.0, 14.0


class Block(Protocol):
    """What stands in a scope: rows from `first` to `last`, and a width."""

    first: int
    last: int
    width: float


class Placed(NamedTuple):
    """An item at x, from the left edge of what it is in; a label makes a frame."""

    x: float
    label: str
    item: Block | Group


class Group:
    """A scope with more than one item in it."""

    def __init__(self, members: Sequence[tuple[list[str], Block]], level: int) -> None:
        items = nested(members, level + 1)
        self.items, self.width = side_by_side(items, _PAD)
        self.first, self.last = min(item.first for _, item in items), max(item.last for _, item in items)
        self.depth = 1 + max((depth_of(label, item) for label, item in items), default=0)


def nested(members: Sequence[tuple[list[str], Block]], level: int = 0) -> list[tuple[str, Block | Group]]:
    """Return (label, item) of blocks with their scopes."""
    heads: dict[str, list[tuple[list[str], Block]]] = {}
    found: list[tuple[str, Block | Group]] = []
    for parts, block in members:
        if not parts or level >= _DEEPEST:
            found.append(("/".join(parts), block))
        else:
            heads.setdefault(parts[0], []).append((parts[1:], block))
    for head, inner in heads.items():
        levels = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*(parts for parts, _ in inner)))
        common = [names[0] for names in levels]  # the scopes that all have
        label = "/".join([head, *common])
        if len(inner) == 1:
            found.append((label, inner[0][1]))
        else:
            found.append((label, Group([(parts[len(common) :], block) for parts, block in inner], level)))
    return found


def depth_of(label: str, item: Block | Group) -> int:
    """Return how many frames an item has around it and in it, one in the other."""
    return item.depth if isinstance(item, Group) else int(bool(label))


def side_by_side(items: Sequence[tuple[str, Block | Group]], margin: float = 0.0) -> tuple[list[Placed], float]:
    """Return (items with their places, width of all): those in one column share no row, nor do their frames meet."""
    columns: list[list[tuple[str, Block | Group]]] = []
    for label, item in sorted(items, key=lambda i: (i[1].first, i[1].last)):
        deep = depth_of(label, item) > 1
        for column in columns:
            above, last = column[-1]
            if last.last + (deep or depth_of(above, last) > 1) < item.first:
                column.append((label, item))
                break
        else:
            columns.append([(label, item)])
    placed, x = [], margin
    for column in columns:
        placed += [Placed(x, label, item) for label, item in column]
        x += max(item.width for _, item in column) + _GAP
    return placed, x - _GAP + margin


def blocks_of(placed: Sequence[Placed], x: float) -> Iterator[tuple[float, Block]]:
    """Yield (x, block) of all blocks, also those in groups."""
    for one in placed:
        if isinstance(one.item, Group):
            yield from blocks_of(one.item.items, x + one.x)
        else:
            yield x + one.x, one.item
