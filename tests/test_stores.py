"""Store handlers: what one process sets the others get; a key that nobody sets is an error of its own type."""

import numpy as np
import pytest
from caffe2.distributed.python import StoreHandlerTimeoutError
from caffe2.distributed.store_ops_test_util import StoreOpsTests
from caffe2.python import core, workspace


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
