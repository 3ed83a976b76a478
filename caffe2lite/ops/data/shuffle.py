"""The order into which C++'s std::shuffle puts things with a new std::default_random_engine, as Caffe2 does.

The engine is Park and Miller's minimal standard generator (1988) with multiplier 16807; the numbers are drawn, and two of
them at once where the engine's range allows it, as in GNU's C++ library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_MODULUS, _MULTIPLIER = 2**31 - 1, 16807
_RANGE = _MODULUS - 2


def _generator() -> Callable[[int], int]:
    """Return a function that gives the next number of 0 to n - 1."""
    state = 1

    def below(n: int) -> int:
        nonlocal state
        width = _RANGE // n
        while True:
            state = state * _MULTIPLIER % _MODULUS
            if state - 1 < width * n:  # else it would not be fair
                return (state - 1) // width

    return below


def shuffled(count: int) -> np.ndarray:
    """Return which of `count` things comes first, second and so on (int64)."""
    order = list(range(count))
    below = _generator()

    def swap(i: int, j: int) -> None:
        order[i], order[j] = order[j], order[i]

    i = 1
    if count and _RANGE // count >= count:
        if count % 2 == 0:
            swap(1, below(2))
            i = 2
        while i < count:
            first, second = divmod(below((i + 1) * (i + 2)), i + 2)
            swap(i, first)
            swap(i + 1, second)
            i += 2
    while i < count:
        swap(i, below(i + 1))
        i += 1
    return np.array(order, np.int64)
