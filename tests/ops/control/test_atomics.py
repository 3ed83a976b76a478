"""Mutexes, flags, counters and appends that threads share."""

import threading

import numpy as np
import pytest
from session import Session

from caffe2lite.engine.errors import OperatorError


@pytest.mark.parametrize(("kind", "dtype"), [("AtomicFetchAdd", "int32"), ("AtomicFetchAdd64", "int64")])
def test_fetch_and_add(kind, dtype):
    do = Session(total=np.array([5], dtype), more=np.array([3], dtype))
    do("CreateMutex", "", "m")
    total, before = do(kind, "m total more", "total before")
    np.testing.assert_array_equal(total, np.array([8], dtype), strict=True)
    np.testing.assert_array_equal(before, np.array(5, dtype), strict=True)


def test_no_addition_is_lost_among_threads():
    do = Session(total=np.array([0], "int32"), one=np.array([1], "int32"))
    do("CreateMutex", "", "m")
    add = lambda k: [do("AtomicFetchAdd", "m total one", f"total before{k}") for _ in range(50)]
    threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert do["total"] == 200


def test_a_flag_is_set_once_and_stays():
    do = Session(no=[False], yes=[True])
    do("CreateAtomicBool", "", "flag")
    for condition, want in (("no", False), ("yes", True), ("no", True)):
        do("ConditionalSetAtomicBool", f"flag {condition}")
        assert do("CheckAtomicBool", "flag", "y")[0].tolist() == [want]


def test_append():
    do = Session(a=[1, 2], b=np.empty((0, 2), "f"), c=[3], d=np.ones((1, 2), "f"), none=np.empty(0, "int64"))
    do("CreateMutex", "", "m")
    a, b = do("AtomicAppend", "m a b c d", "a b")
    assert a.tolist() == [1, 2, 3] and b.tolist() == [[1, 1]]
    assert do("AtomicAppend", "m a none", "a")[0].tolist() == [1, 2, 3]


def test_refusals():
    do = Session(x=[1, 2], y=np.array([1, 2], "int32"), z=np.array([1], "int32"), one=np.array([1], "int32"))
    do("CreateMutex", "", "m")
    do("CreateAtomicBool", "", "flag")
    for words, kind, inputs, outputs in (
        (r"the value must be one value, found the shape \[2\]", "AtomicFetchAdd", "m y z", "y b"),
        (r"a mutex .* is needed, found a tensor", "AtomicFetchAdd", "x z one", "z b"),
        (r"one bool, found int64\[2\]", "ConditionalSetAtomicBool", "flag x", ""),
        (r"an atomic flag .* is needed, found a Mutex", "CheckAtomicBool", "m", "b"),
        ("pairs of tensors, got 3 tensors", "AtomicAppend", "m x y z", "x"),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs)
