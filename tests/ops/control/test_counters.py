"""Counters."""

import time

import pytest
from session import Session

from caffe2lite.engine.errors import OperatorError


def test_down_and_up():
    do = Session()
    do("CreateCounter", "", "c", init_count=2)
    assert [bool(do("CountDown", "c", "d")[0]) for _ in range(4)] == [False, False, True, True]
    assert do("CountUp", "c", "before")[0] == -2
    assert do("RetrieveCount", "c", "n")[0] == -1
    assert do("CheckCounterDone", "c", "d")[0]
    assert do("ResetCounter", "c", "before", init_count=1)[0] == -1
    assert not do("CheckCounterDone", "c", "d")[0]
    do("ResetCounter", "c")
    assert do("RetrieveCount", "c", "n")[0] == 0


def test_wall_clock():
    do = Session()
    before = time.time_ns()
    assert before <= do("WallClockTime", "", "t")[0] <= time.time_ns()


@pytest.mark.parametrize("kind", ["CountUp", "CountDown", "CheckCounterDone", "RetrieveCount", "ResetCounter"])
def test_what_is_no_counter(kind):
    with pytest.raises(OperatorError, match=r"a counter \(CreateCounter makes one\) is needed, found a tensor"):
        Session(x=[1])(kind, "x", "y")


def test_a_count_below_nothing():
    with pytest.raises(OperatorError, match=r"init_count.* >= 0"):
        Session()("CreateCounter", "", "c", init_count=-1)
