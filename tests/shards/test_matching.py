"""What one rank sends lands in no other operator's sum: other orders are right, and whatever else differs is an error."""

import pathlib
import re
import sys

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="shards need the extra mpi")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import launch
import shard_programs

from caffe2lite.distributed import calls

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(launch.MPIEXEC is None, reason="mpiexec is not there: pip install 'caffe2lite[mpi]'"),
]

DIFFERENCES = {
    "shape": ["Allreduce(a)", "rank 0: float32[4]", "rank 1: float32[6]"],
    "smaller": ["Allreduce(a)", "rank 0: float32[4]", "rank 1: float32[2]"],
    "dtype": ["Allreduce(a)", "rank 0: float32[4]", "rank 1: int32[4]"],
    "large": ["Allreduce(l)", "rank 0: float32[90000]", "rank 1: float32[90001]"],
    "broadcast dtype": ["Broadcast(c)", "rank 0: float32[4] root=0", "rank 1: int32[4] root=0"],
    "broadcast shape": ["Broadcast(c)", "rank 0: float32[4] root=0", "rank 1: float32[6] root=0"],
    "many": ["Allreduce(m1)", "rank 0: Allreduce(m1) float32[5]", "rank 1: Allreduce(m1) float32[7]"],
    "root": ["Broadcast(r)", "rank 0: float32[4] root=0", "rank 1: float32[4] root=1"],
    "kind": ["Allreduce(k)", "Broadcast(k)"],
    "order": ["Allreduce(a)", "of net 'A'", "Allreduce(b)", "of net 'B'"],
    "mixed": ["Allreduce(a)", "of net 'A'", "Broadcast(c)", "of net 'C'"],
    "left out": ["Allreduce(a)", "run 1 on rank 0", "run 2 on rank 1", "one of them has failed or left one out"],
}


def test_what_differs_in_a_later_run_is_one_error_on_every_rank():
    """Each difference in turn, in one job: after such an error the world goes on."""
    end = launch.launched("differences", 2, cases=",".join(DIFFERENCES), timeout_ms="1500")
    assert end.status == 0, end.output
    for case, words in DIFFERENCES.items():
        said = re.findall(f"^{case} on rank (\\d): (.*)$", end.output, re.MULTILINE)
        assert sorted(rank for rank, _ in said) == ["0", "1"], (case, end.output)
        for _, text in said:
            assert all(word in text for word in words), (case, text)
    assert end.output.count("afterwards all is right") == 2, end.output


@pytest.mark.parametrize("kind", ["dag", "async_scheduling"])
def test_collectives_of_a_graph_in_an_order_that_each_ranks_timing_decides(kind):
    end = launch.launched("graph", 2, net=kind)
    assert end.status == 0 and end.output.count("graph is right") == 2, end.output


def test_messages_of_several_threads_under_one_tag():
    end = launch.launched("messages", 2, timeout_ms="8000")
    assert end.status == 0 and end.output.count("messages are right") == 2 and "refused" in end.output, end.output


def test_programs():
    """A short run of the generator; `tools/shard_programs.py` is the long one."""
    told = []
    failed, _, faults = shard_programs.run(range(12), sizes=(2, 3), tell=told.append)
    assert not faults, told
    assert sum(failed.values()) > 1  # there are twists among them


def facts(place, number=1, digest="d", net="", in_order=False):
    return [place, number, digest, net, in_order]


def test_what_ranks_decide():
    a, b, c = facts("a"), facts("b"), facts("c")
    assert calls.decide([[a, b], [b, c]], 0) == calls.Decision(turn=1)
    assert calls.decide([[a, b], [b, c]], 1) == calls.Decision(turn=0)
    assert calls.decide([[a], [b]], 0) is None  # something may still come
    assert "they send" in calls.decide([[a], [facts("a", digest="e")]], 0).why
    assert "different runs" in calls.decide([[a], [b], [facts("a", 2)]], 2).why
    first, second = facts("first", net="n", in_order=True), facts("second", net="n", in_order=True)
    assert "next collectives" in calls.decide([[first], [second]], 0).why
    assert calls.decide([[facts("first", net="n")], [facts("second", net="n")]], 0) is None


def test_every_rank_decides_the_same():
    rng = np.random.RandomState(0)
    for _ in range(3000):
        names = [facts(str(rng.randint(4)), int(rng.randint(2)), str(rng.randint(2)), str(rng.randint(2)), bool(rng.randint(2)))
                 for _ in range(5)]  # fmt: skip
        offers = [[names[i] for i in rng.choice(5, rng.randint(1, 4), replace=False)] for _ in range(3)]
        decisions = [calls.decide(offers, r) for r in range(3)]
        if decisions[0] is None or decisions[0].turn is None:
            assert decisions == [decisions[0]] * 3
        else:
            assert len({str(offers[r][d.turn]) for r, d in enumerate(decisions)}) == 1
