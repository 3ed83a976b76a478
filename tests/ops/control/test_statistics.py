"""Statistics and timers."""

import numpy as np
import pytest
from running import definition
from session import Session

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.proto import caffe2_pb2


@pytest.fixture
def do():
    session = Session()
    session("StatRegistryExport", "", "k v t")  # begins anew
    return session


def exported(do, handle="", **args):
    keys, values, times = do("StatRegistryExport", handle, "keys_out values_out times_out", **args)
    assert keys.tolist() == sorted(keys.tolist()) and times.dtype == "int64"
    return {k.decode(): v for k, v in zip(keys, values.tolist()) if v}


def test_sums_counts_and_deviations(do):
    for value in (2.5, -1.0, 4.0):
        do.feed(x=[value])
        do("IncrementPut", "x", stat_name="i", magnitude_expand=10)
        do("AveragePut", "x", stat_name="a", magnitude_expand=10)
    assert exported(do, reset=0) == {"i/stat_value": 55, "a/stat_value/sum": 55, "a/stat_value/count": 3}
    assert exported(do) == exported(do, reset=0) | {"i/stat_value": 55, "a/stat_value/sum": 55, "a/stat_value/count": 3}
    assert exported(do) == {}


def test_deviation_from_the_first_value(do):
    do.feed(x=[0])
    op = definition("StdDevPut", ["x"], [], {"stat_name": "s"})
    net = runner.create_net(do.workspace, caffe2_pb2.NetDef(name="n", op=[op]))
    for value in (5, 7, 2):
        do.feed(x=[value])
        net.run()
    found = exported(do)
    assert found == {
        "s/stat_value/count": 3,
        "s/stat_value/sum": 14,
        "s/stat_value/sumoffset": -1,
        "s/stat_value/sumsqoffset": 13,
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8", "int16", "uint8", "uint16"])
def test_every_number_counts(do, dtype):
    do.feed(x=np.array([3, 9], dtype))
    do("IncrementPut", "x")
    assert exported(do) == {"x/stat_value": 3}


def test_a_statistic_wraps_around_as_an_int64_does(do):
    do.feed(x=[1e30])
    for _ in range(2):
        do("IncrementPut", "x", stat_name="large", bound=1)
    assert exported(do) == {"large/stat_value": -2}


def test_a_registry_of_ones_own(do):
    do.feed(keys=np.array([b"a", b"b"], object), values=[3, 4])
    do("StatRegistryCreate", "", "mine")
    for _ in range(2):
        do("StatRegistryUpdate", "keys values mine")
    assert exported(do, "mine") == {"a": 6, "b": 8}
    assert exported(do) == {}
    do("StatRegistryUpdate", "keys values")
    assert exported(do) == {"a": 3, "b": 4}


def test_timers(do):
    do("TimerBegin", "", "t", counter_name="clock")
    first, second = do("TimerGet", "t", "n")[0], do("TimerGet", "t", "n")[0]
    assert 0 <= first <= second and first.shape == ()
    total = do("TimerGetAndEnd", "t", "n")[0]
    assert total.shape == (1,) and total >= second
    assert exported(do) == {"clock/time_ns/sum": total[0], "clock/time_ns/count": 1}
    with pytest.raises(OperatorError, match="the timer 'clock' has ended"):
        do("TimerEnd", "t")
    do("TimerBegin", "", "t")
    do("TimerEnd", "t")
    assert exported(do)["t/time_ns/count"] == 1


def test_refusals(do):
    do.feed(nan=[np.nan], large=[1e30], none=[], x=[1.0], keys=np.array([b"a"], object), values=[1, 2])
    for words, kind, inputs, outputs, args in (
        ("the value is NaN", "IncrementPut", "nan", "", {"bound": 1}),
        (
            r"1e\+30 times magnitude_expand=2 does not fit into 64 bits",
            "AveragePut",
            "large",
            "",
            {"magnitude_expand": 2},
        ),
        ("no default_value", "IncrementPut", "none", "", {}),
        (r"found \[1\] and \[2\]", "StatRegistryUpdate", "keys values", "", {}),
        (r"a registry of statistics .* is needed, found a tensor", "StatRegistryExport", "x", "k v t", {}),
        (r"a timer .* is needed, found a tensor", "TimerGet", "x", "n", {}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)
