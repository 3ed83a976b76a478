"""Stores that vanish, are full, are silent, or hold what others have left: one clear error, in time, or no harm at all."""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import socket
import stat
import subprocess
import sys
import time

import pytest
from caffe2.python import core, workspace

from caffe2lite.distributed import handshake
from caffe2lite.distributed.stores import FileStore, RedisStore, Store, StoreError, StoreHandlerTimeoutError

DEADLINE = 1.5


def meet(folder, rank, size, deadline=DEADLINE):
    """What a process gets, or the error that it raises."""
    try:
        return handshake.meet(FileStore(str(folder)), "job", rank, size, deadline)
    except RuntimeError as e:
        return e


def all_meet(*calls):
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: meet(*call), calls))


def test_a_folder_that_vanishes_is_an_error_at_once(tmp_path):
    folder = tmp_path / "store"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        waiting = pool.submit(meet, folder, 0, 2, 20)
        while not list(folder.glob("*here*")):
            time.sleep(0.01)
        shutil.rmtree(folder)
        error = waiting.result()
    assert isinstance(error, StoreError) and str(folder) in str(error), error
    assert time.monotonic() - start < 10


def test_a_folder_that_is_emptied_is_an_error(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(meet, tmp_path, 0, 2, 20)
        while not list(tmp_path.glob("*here*")):
            time.sleep(0.01)
        for file in tmp_path.iterdir():
            file.unlink()
        assert "was emptied" in str(waiting.result())


def test_a_silent_redis_is_an_error_within_the_deadline():
    pytest.importorskip("redis", reason="the extra redis is not installed")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        store = RedisStore("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(StoreError, match="does not answer"):
            handshake.meet(store, "job", 0, 2, DEADLINE)
        assert time.monotonic() - start < DEADLINE + 2


def test_no_redis_at_all():
    pytest.importorskip("redis", reason="the extra redis is not installed")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    with pytest.raises(StoreError, match=f"127.0.0.1:{port} does not answer"):
        RedisStore("127.0.0.1", port)


def test_a_store_that_cannot_be_made_or_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(StoreError, match="cannot make or open the store"):
            FileStore(str(path))
    with pytest.raises(StoreError, match="cannot write to the store, folder /proc/self"):
        FileStore("/proc/self").set("key", b"value")  # a folder in which nobody can make files, root included


_FULL = """
import resource, signal, sys
from caffe2lite.distributed.stores import FileStore, StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
try:
    FileStore(sys.argv[1]).set("key", b"more than 4 bytes")
except StoreError as e:
    print(e)
"""


def test_a_store_that_is_full(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert "cannot write to the store" in told and not list(tmp_path.iterdir()), told


def test_folders_and_files_are_for_their_owner_only(tmp_path):
    mask = os.umask(0)
    try:
        store = FileStore(str(tmp_path / "store"))
        store.set("key", b"value")
        store.add("counter", 1)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in store.folder.iterdir()} == {0o600}


JUNK = [b"", b"\xff\xfe", b"null", b"[]", b'"text"', b"{}", b"[1, 2, 3, 4, 5]", b'["a", "b", 2, 3]', b"[" * 5000,
        json.dumps(["n" * 32, "elsewhere", 2, 1, "0.1.0"]).encode()]  # fmt: skip


@pytest.mark.parametrize("junk", JUNK)
def test_what_others_have_left_does_no_harm(junk, tmp_path):
    store = FileStore(str(tmp_path))
    for key in ("job/here/0", "job/here/1", "job/session"):
        store.set(key, junk)
    first, second = all_meet((tmp_path, 0, 2, 10), (tmp_path, 1, 2, 10))
    assert first == second and len(first.hosts) == 2


def test_what_others_have_left_is_no_member(tmp_path):
    FileStore(str(tmp_path)).set("job/here/1", b'["nonce", "host", 2, 17]')
    error = meet(tmp_path, 0, 2)
    assert isinstance(error, StoreHandlerTimeoutError)
    assert "rank 1" in str(error) and "another version of caffe2lite" in str(error), error


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_shards_of_another_size(sizes, tmp_path):
    for error in all_meet((tmp_path, 0, sizes[0]), (tmp_path, 1, sizes[1])):
        assert isinstance(error, RuntimeError), error
        assert "disagree about their number" in str(error) or "number of shards" in str(error)


def whole_or_none(ranks, outcomes):
    """A run is met by all of its ranks, or by none; the others say that the store is not theirs alone, or waited."""
    sessions = collections.defaultdict(list)
    for rank, outcome in zip(ranks, outcomes):
        if isinstance(outcome, Exception):
            assert re.search("each job a store of its own|waited", str(outcome)), outcome
        else:
            sessions[outcome.name].append(rank)
    assert all(sorted(met) == sorted(set(ranks)) for met in sessions.values()), outcomes


def test_two_jobs_in_one_folder(tmp_path):
    ranks = (0, 1, 0, 1)
    whole_or_none(ranks, all_meet(*((tmp_path, rank, 2) for rank in ranks)))


class Slow(Store):
    """Keys in memory; each question takes its time, at random."""

    def __init__(self, values, seed):
        self.values, self.random = values, random.Random(seed)

    def _wait(self):
        time.sleep(self.random.choice((0, 0, 0.001, 0.004)))

    def set(self, key, value):
        self._wait()
        self.values[key] = value

    def peek(self, key):
        self._wait()
        return self.values.get(key)


@pytest.mark.parametrize("ranks", [(0, 1, 0, 1), (0, 1, 1), (0, 0, 1), (0, 1, 2, 0, 1, 2), (0, 1, 2, 2)])
def test_who_comes_when_does_not_matter(ranks, monkeypatch):
    """Two jobs, or parts of them, that come to one store in any order."""
    monkeypatch.setattr(handshake, "_SILENCE", 0.5)

    def one(values, seed, rank):
        try:
            return handshake.meet(Slow(values, seed), "job", rank, max(ranks) + 1, 1)
        except RuntimeError as e:
            return e

    with concurrent.futures.ThreadPoolExecutor(10 * len(ranks)) as pool:
        rounds = []
        for trial in range(30):
            values = {}
            rounds.append([pool.submit(one, values, (trial * 10 + k), rank) for k, rank in enumerate(ranks)])
        for tried in rounds:
            whole_or_none(ranks, [f.result() for f in tried])


def test_two_jobs_that_wait_in_one_folder(tmp_path):
    outcomes = all_meet(*((tmp_path, rank, 3) for rank in (0, 1, 0, 1)))
    assert all("each job a store of its own" in str(o) for o in outcomes), outcomes


def test_nothing_from_a_store_is_unpickled(tmp_path):
    """A pickle that would run a command is a blob that cannot be read, or no member."""
    flag = tmp_path / "ran"
    pickled = b"cos\nsystem\n(S'touch " + str(flag).encode() + b"'\ntR."
    workspace.ResetWorkspace()
    folder = str(tmp_path / "store")
    workspace.RunOperatorOnce(core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=folder))
    store = FileStore(folder)
    store.set("x", pickled)
    with pytest.raises(RuntimeError, match="key 'x'"):
        workspace.RunOperatorOnce(core.CreateOperator("StoreGet", ["store"], ["x"]))
    for key in ("job/here/1", "job/session"):
        store.set(key, pickled)
    assert isinstance(meet(folder, 0, 2, 0.5), StoreHandlerTimeoutError)
    assert not flag.exists()
    sources = pathlib.Path(handshake.__file__).parent.glob("*.py")
    assert not [f for f in sources if "pickle" in f.read_text() and f.name != "stores.py"]


def test_who_waits_in_a_store_says_so(tmp_path, monkeypatch, caplog):
    from caffe2lite.distributed import stores

    monkeypatch.setattr(stores, "_SPEAKS_AFTER", 0.2)
    meet(tmp_path, 0, 3, 1)
    assert "waiting for ranks 1, 2, as rank 0 of 3 in folder" in caplog.text
