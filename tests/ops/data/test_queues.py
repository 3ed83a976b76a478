"""Queues of blobs: what goes in comes out, once and in order."""

import threading

import numpy as np
import pytest
from session import Session

from caffe2lite.engine.errors import OperatorError


@pytest.fixture
def do():
    session = Session()
    session("CreateBlobsQueue", "", "q", capacity=3, num_blobs=2, field_names=["x", "y"])
    return session


def put(do, k, kind="EnqueueBlobs"):
    do.feed(x=[k], y=[[k, k]])
    return do(kind, "q x y", "x y" if kind == "EnqueueBlobs" else "x y status")


def test_first_in_first_out(do):
    for k in range(3):
        put(do, k)
    assert do.workspace.blobs["x"].value is None  # its content has moved
    for k in range(3):
        x, y = do("DequeueBlobs", "q", "a b")
        assert x.tolist() == [k] and y.tolist() == [[k, k]]


def test_a_closed_queue_gives_what_it_has_and_then_says_so(do):
    put(do, 7)
    do("CloseBlobsQueue", "q")
    put(do, 8)  # there is room for it
    assert not put(do, 9, "SafeEnqueueBlobs")[-1]
    with pytest.raises(OperatorError, match="queue 'q' is closed"):
        put(do, 10)
    assert put(do, 10, "SafeEnqueueBlobs")[-1]
    for k in (7, 8, 9):
        x, _, status = do("SafeDequeueBlobs", "q", "a b status")
        assert x.tolist() == [k] and not status
    assert do("SafeDequeueBlobs", "q", "a b status")[-1]
    with pytest.raises(OperatorError, match="closed and empty"):
        do("DequeueBlobs", "q", "a b")


def test_several_records_become_one(do):
    for k in range(3):
        put(do, k, "SafeEnqueueBlobs")
    do("CloseBlobsQueue", "q")
    x, y, status = do("SafeDequeueBlobs", "q", "a b status", num_records=5)
    assert x.tolist() == [0, 1, 2] and y.shape == (3, 2) and not status


def test_who_waits_for_room_goes_on_when_there_is_some(do):
    for k in range(3):
        put(do, k)
    do.feed(x=[3], y=[[3, 3]])
    waiting = threading.Thread(target=do, args=("EnqueueBlobs", "q x y", "x y"))
    waiting.start()
    assert [do("DequeueBlobs", "q", "a b")[0][0] for _ in range(4)] == [0, 1, 2, 3]
    waiting.join(10)
    assert not waiting.is_alive()


def test_nothing_comes_in_time(do):
    with pytest.raises(OperatorError, match="nothing came in time"):
        do("DequeueBlobs", "q", "a b", timeout_secs=0.01)


def test_queues_drawn_by_weight():
    do = Session()
    for name in "pq":
        do("CreateBlobsQueue", "", name, capacity=50)
        for _ in range(50):
            do.feed(x=[ord(name)])
            do("EnqueueBlobs", f"{name} x", "x")
    for _ in range(20):
        number, x, status = do("WeightedSampleDequeueBlobs", "p q", "i x s", weights=[0.0, 2.0], table_idx_blob=0)
        assert (number[0], x[0], status) == (1, ord("q"), False)
    with pytest.raises(OperatorError, match="1 weights are given for 2 queues"):
        do("WeightedSampleDequeueBlobs", "p q", "x s", weights=[1.0])
    with pytest.raises(OperatorError, match=r"positive sum, found \[0.0, 0.0\]"):
        do("WeightedSampleDequeueBlobs", "p q", "x s", weights=[0.0, 0.0])


def test_a_queue_as_a_database(do):
    from caffe2lite.proto import caffe2_pb2

    record = caffe2_pb2.TensorProtos()
    record.protos.add(data_type=1, dims=[2], float_data=[1, 2])
    do.feed(x=np.array([b"key"], object), y=np.array([record.SerializeToString()], object))
    do("EnqueueBlobs", "q x y", "x y")
    do("CreateBlobsQueueDB", "q", "db", key_blob_index=0, value_blob_index=1)
    assert do("TensorProtosDBInput", "db", "t", batch_size=1)[0].tolist() == [[1, 2]]
    with pytest.raises(OperatorError, match="value_blob_index is 2, and the queue has records of 2"):
        do("CreateBlobsQueueDB", "q", "db", value_blob_index=2)


def test_refusals(do):
    do.feed(x=[1], y=[2])
    do.workspace.create_blob("empty")
    for words, kind, inputs, outputs, args in (
        ("got 0 and 1", "CreateBlobsQueue", "", "new", {"capacity": 0}),
        ("1 field_names are given for 2 blobs", "CreateBlobsQueue", "", "new", {"num_blobs": 2, "field_names": ["a"]}),
        ("a queue 'q' exists already", "CreateBlobsQueue", "", "q", {"enforce_unique_name": 1}),
        ("records of 2 blobs, not 1", "EnqueueBlobs", "q x", "x", {}),
        ("records of 2 blobs, not 3", "DequeueBlobs", "q", "a b c", {}),
        ("'empty' is uninitialised", "EnqueueBlobs", "q empty y", "empty y", {}),
        (r"a queue of blobs .* is needed, found a tensor", "EnqueueBlobs", "x y", "y", {}),
        (r"a queue of blobs .* is needed, found a tensor", "SafeDequeueBlobs", "x", "a s", {}),
        (r"a queue of blobs .* is needed, found a tensor", "CloseBlobsQueue", "x", "", {}),
        (r"num_records.* > 0", "SafeDequeueBlobs", "q", "a b s", {"num_records": 0}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)
