"""Threads of an operator: by the size of its work, the load of the machine, and what else runs in the graph."""

import os

import pytest

from caffe2lite.devices import cores

LARGE = cores.LEAST


@pytest.fixture(autouse=True)
def two_quiet_cores(monkeypatch):
    monkeypatch.setattr(cores, "cores", lambda: 2)
    monkeypatch.setattr(cores, "fixed", lambda: None)
    monkeypatch.setattr(cores, "crowded", lambda: False)


def test_size():
    assert cores.wanted(LARGE - 1) == 1
    assert cores.wanted(LARGE) == 2


def test_load(monkeypatch):
    monkeypatch.setattr(cores, "crowded", lambda: True)
    assert cores.wanted(LARGE) == 1


def test_lanes_of_a_graph_share_the_cores():
    with cores.lane():
        assert cores.wanted(LARGE) == 2
        with cores.lane():
            assert cores.wanted(LARGE) == 1
    assert cores.wanted(LARGE) == 2


@pytest.mark.parametrize(("others", "crowded"), [(0.0, False), (0.3, False), (1.0, True), (2.0, True)])
def test_work_of_other_processes(others, crowded, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(cores, "cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    clock, busy, own = iter([0.0, 10.0]), iter([100.0, 100.0 + 10 * (others + 1.5)]), iter([3.0, 18.0])
    monkeypatch.setattr(cores._Load, "seen", None)
    monkeypatch.setattr(cores, "_worked", lambda: next(busy))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.process_time", lambda: next(own))
    monkeypatch.setattr(os, "getloadavg", lambda: (0, 0, 0), raising=False)
    assert not cores.crowded()
    assert cores.crowded() == crowded


@pytest.mark.parametrize("text", ["0", "two", "-1"])
def test_what_is_no_number_is_refused(text, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("CAFFE2LITE_THREADS", text)
    with pytest.raises(ValueError, match="CAFFE2LITE_THREADS must be a number of threads"):
        cores.fixed.__wrapped__()
