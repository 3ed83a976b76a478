"""Recycled arrays: as NumPy computes, in memory that is used again, but never while an array refers to it."""

import numpy as np
import pytest

from caffe2lite.ops import _recycled
from caffe2lite.ops._recycled import Recycled, arange, contiguous, empty, recycled, zeros

RNG = np.random.RandomState(0)
X = RNG.randn(120, 90).astype("f")
IDS = RNG.randint(-120, 120, 50)

EXPRESSIONS = {
    "arithmetic": lambda x: (x * 2 + x) / np.float32(3) - x.mean(axis=0),
    "compare": lambda x: (x > 0) & ~(x > 1),
    "where": lambda x: np.where(x > 0, x, np.float32(7)),
    "where of integers": lambda x: np.where(x[:, :1] > 0, arange(np, 90), -1),
    "where of doubles": lambda x: np.where(x > 0, x.astype("d"), x),
    "sums": lambda x: np.concatenate([x.sum(axis=0), x.max(axis=1), x.var(axis=0), np.cumsum(x, axis=1)[:, 3]]),
    "sum of flags": lambda x: np.cumsum(x > 0, axis=0),
    "rows": lambda x: x[IDS] + x[:, arange(np, 90)[::-1]][IDS],
    "places": lambda x: x[abs(IDS) % 100, abs(IDS) % 70],
    "along": lambda x: np.take_along_axis(x, x.argsort(axis=1), axis=1) + x.argmin(axis=1)[:, None],
    "transposed": lambda x: x.T.reshape(-1) + contiguous(np, x.T).reshape(-1),
    "products": lambda x: x @ x.T + x.dot(x.T),
    "repeat": lambda x: x.repeat(3, 0) + np.stack([x, x, x], axis=1).reshape(360, 90),
    "segments": lambda x: np.add.reduceat(x, [0, 5, 50], axis=0),
    "in place": lambda x: np.add(x, 1, out=zeros(np, x.shape, "f")),
    "rounded": lambda x: np.clip(x, -1, 1).astype("int32").copy().flatten(),
    "like": lambda x: np.full_like(x, 3) + np.ones_like(x) + np.zeros_like(x),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_numpy(name):
    with np.errstate(all="ignore"):
        have, want = (EXPRESSIONS[name](x) for x in (recycled(X), X))
    np.testing.assert_array_equal(np.asarray(have), np.asarray(want))
    assert have.dtype == want.dtype


@pytest.mark.parametrize("count", [100, 100_000], ids=["small", "large"])  # large buffers begin at a cache line
@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a.view(np.ndarray), lambda a: a[1:], lambda a: a.reshape(2, -1)])
def test_memory_that_is_held_is_not_used_again(count, hold):
    held = [hold(recycled(np.full(count, k, "d")) + 0) for k in range(5)]
    for k, array in enumerate(held):
        assert (array == k).all()


def test_memory_that_is_dropped_is_used_again():
    places = {(recycled(X) + k).ctypes.data for k in range(10)}
    assert len(places) == 1


def test_the_pool_has_an_end(monkeypatch):
    monkeypatch.setattr(_recycled, "KEPT", 1 << 20)
    arrays = [empty(np, (100, 100 + k), "d") for k in range(40)]
    assert all(type(a) is Recycled for a in arrays)
    assert _recycled._pool.size <= 1 << 20


def test_many_that_are_held_leave_the_pool():
    arrays = [empty(np, 1000, "d") for _ in range(200)]
    for k, a in enumerate(arrays):
        a[...] = k
    assert [int(a[5]) for a in arrays] == list(range(200))
