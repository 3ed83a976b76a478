"""Store handlers: what one process sets the others get; a key that nobody sets is an error of its own type."""

import os

import numpy as np
import pytest
from caffe2.distributed.python import StoreHandlerTimeoutError
from caffe2.distributed.store_ops_test_util import StoreOpsTests
from caffe2.python import core, workspace

from caffe2lite.distributed import rendezvous


@pytest.fixture
def handler(tmp_path):
    def create():
        op = core.CreateOperator("FileStoreHandlerCreate", [], ["store"], path=str(tmp_path), prefix="test")
        workspace.RunOperatorOnce(op)
        return "store"

    workspace.ResetWorkspace()
    yield create
    workspace.ResetWorkspace()


def test_counters_and_blobs(handler):
    store = handler()
    for expected in (2, 4):
        op = core.CreateOperator("StoreAdd", [store], ["count"], blob_name="counter", add_value=2)
        workspace.RunOperatorOnce(op)
        assert workspace.FetchBlob("count").tolist() == [expected]
    workspace.FeedBlob("x", np.array([1.0, 2.0]))
    workspace.RunOperatorOnce(core.CreateOperator("StoreSet", [store, "x"], [], blob_name="x"))
    workspace.RunOperatorOnce(core.CreateOperator("StoreWait", [store], [], blob_names=["x"]))
    workspace.RunOperatorOnce(core.CreateOperator("StoreGet", [store], ["y"], blob_name="x"))
    assert workspace.FetchBlob("y").tolist() == [1.0, 2.0]


def test_a_key_that_nobody_sets(handler):
    with pytest.raises(StoreHandlerTimeoutError, match=r"never set.*\n.*StoreGet"):
        StoreOpsTests.test_get_timeout(handler)


def test_a_store_handler_that_nobody_made():
    workspace.ResetWorkspace()
    op = core.CreateOperator("CreateCommonWorld", ["store_handler"], ["world"], size=2, rank=0)
    with pytest.raises(RuntimeError, match=r"'store_handler' does not exist(.|\n)*FileStoreHandlerCreate, RedisStore"):
        workspace.RunOperatorOnce(op)


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "8"}, (3, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # a batch script
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),  # mpirun in it
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}, (0, 3)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
    ],
)
def test_the_rendezvous_of_a_launcher(variables, expected, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SLURM", "PMI", "OMPI")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = rendezvous()
    assert (found and (found["shard_id"], found["num_shards"])) == expected


def test_a_status_blob_tells_of_peers_that_do_not_come(handler):
    net = core.Net("meet")
    net.CreateCommonWorld([handler()], ["world"], size=2, rank=0, status_blob="status", timeout_ms=300)
    workspace.CreateNet(net)
    assert not workspace.RunNet(net, allow_fail=True)
    assert workspace.FetchBlob("status").tolist() == [1]
    with pytest.raises(RuntimeError, match="rank 1"):
        workspace.RunNetOnce(net)
