"""However a rank ends, the others end as they should: well where its work was done, with an error where it was not."""

import pathlib
import re
import signal
import sys
import time

import pytest

pytest.importorskip("mpi4py", reason="shards need the extra mpi")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import launch

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(launch.MPIEXEC is None, reason="mpiexec is not there: pip install 'caffe2lite[mpi]'"),
]
OPTIONS = {"who": "1", "timeout_ms": "4000"}


@pytest.mark.parametrize("what", ["exit0", "exit3", "skip"])
def test_a_script_that_ends_amid_the_job_is_told_at_once(what, tmp_path):
    """Also where it ends without an error, having left out a collective."""
    for end in launch.by_hand("ending", 2, tmp_path, what=what, who="1", timeout_ms="60000"):
        assert end.status == 1 and end.seconds < 30, end
        assert "the script of rank 1 has ended before Allreduce(x)" in end.output, end.output


@pytest.mark.parametrize("what", ["exit0", "exit3"])
def test_a_script_that_ends_amid_a_launched_job_is_told_at_once(what):
    end = launch.launched("ending", 2, what=what, who="1", timeout_ms="60000")
    assert end.status == 1 and end.seconds < 30, end
    assert "the script of rank 1 has ended before Allreduce(x)" in end.output, end.output


@pytest.mark.parametrize(
    "what, status", [("SIGKILL", -signal.SIGKILL), ("SIGSTOP", -signal.SIGKILL), ("_exit late", 0)]
)
def test_a_peer_that_is_gone_when_all_work_is_done_hurts_nobody(what, status, tmp_path):
    ends = launch.by_hand("ending", 2, tmp_path, stopped=[1] if what == "SIGSTOP" else [], what=what, **OPTIONS)
    assert [end.status for end in ends] == [0, status] and "rank is done" in ends[0].output, ends


def test_a_peer_that_stops_when_all_work_is_done_ends_a_launched_job_in_time():
    end = launch.launched("ending", 2, what="SIGSTOP", limit=40, **OPTIONS)
    assert end.status == 1 and "MPI rank 1 does not answer for 4 s" in end.output, end


def test_a_peer_that_works_on_is_waited_for_by_a_launched_job():
    """It answers, so it may take longer than any deadline."""
    end = launch.launched("ending", 2, what="works on", seconds="4", who="1", timeout_ms="2000")
    assert end.status == 0 and end.output.count("rank is done") == 2, end


@pytest.mark.parametrize("what", ["_exit", "SIGKILL"])
def test_a_launched_job_is_no_success_when_a_rank_is_gone_without_a_word(what):
    end = launch.launched("ending", 2, what=what, limit=40, **OPTIONS)
    assert end.status == 1 and "rank 1 has ended without a word" in end.output, end


def test_a_forked_child_leaves_its_parents_mpi_alone(tmp_path):
    by_hand = launch.by_hand("ending", 2, tmp_path, what="fork", **OPTIONS)
    for end in (launch.launched("ending", 2, what="fork", **OPTIONS), *by_hand):
        assert end.status == 0 and "rank is done" in end.output, end
    assert "the child says" in by_hand[1].output and "was forked" in by_hand[1].output


def test_who_waits_says_for_whom():
    """Rank 2 comes late; of the two that wait, each says that it is rank 2, and that the other waits as well."""
    end = launch.launched("ending", 3, what="late", who="2", seconds="2.5", speaks_after="1")
    assert end.status == 0, end.output
    line = r"rank (\d) of common world 'world' waits for rank (\d), .*; rank (\d) waits in world: Allreduce\(x\)"
    said = re.findall(line, end.output)
    assert sorted(said) == [("0", "2", "1"), ("1", "2", "0")], end.output


@pytest.mark.parametrize("what", ["SIGKILL", "SIGSTOP"])
def test_no_shared_memory_stays_where_a_peer_fails_before_it_has_met_the_others(what):
    end = launch.launched("fault", 2, who="1", what=what, when="before", late="1", timeout_ms="2000")
    assert end.status != 0
    files = set(map(pathlib.Path, re.findall("/dev/shm/mpich_shm_\\w+", end.output)))
    assert files or sys.platform != "linux", end.output
    deadline = time.monotonic() + 10
    while any(file.exists() for file in files):  # a guardian removes it, when the job has ended
        assert time.monotonic() < deadline, files
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["by hand", "mpiexec"])
def test_a_rank_of_another_version(how, tmp_path):
    if how == "mpiexec":
        ends = [launch.launched("fault", 2, odd_version="1", timeout_ms="4000")]
    else:
        ends = launch.by_hand("fault", 2, tmp_path, odd_version="1", timeout_ms="4000")
    for end in ends:
        assert end.status == 1 and "0.0.1" in end.output and "all runs done" not in end.output, end.output
