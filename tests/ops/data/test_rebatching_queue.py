"""Queues whose elements come out in other batches than they went in."""

import threading

import numpy as np
import pytest
from session import Session

from caffe2lite.engine.errors import OperatorError


def started(**args):
    do = Session(x=np.arange(6).reshape(3, 2), y=np.array([b"a", b"b", b"c"], object))
    do("CreateRebatchingQueue", "", "q", num_blobs=2, **args)
    return do


def test_batches_of_another_size():
    do = started(capacity=10)
    for _ in range(2):
        do("EnqueueRebatchingQueue", "q x y", enqueue_batch=1)
    do("CloseRebatchingQueue", "q")
    seen = [do("DequeueRebatchingQueue", "q", "a b", num_elements=4) for _ in range(2)]
    np.testing.assert_array_equal(np.concatenate([a for a, _ in seen]), np.tile(do["x"], (2, 1)))
    assert [len(a) for a, _ in seen] == [4, 2] and seen[1][1].tolist() == [b"b", b"c"]
    with pytest.raises(OperatorError, match="closed and empty"):
        do("DequeueRebatchingQueue", "q", "a b")
    with pytest.raises(OperatorError, match="the queue is closed"):
        do("EnqueueRebatchingQueue", "q x y")


def test_one_element_gets_a_first_axis():
    do = started()
    do("EnqueueRebatchingQueue", "q x y")
    assert do("DequeueRebatchingQueue", "q", "a b")[0].shape == (1, 3, 2)


def test_a_batch_that_is_larger_than_the_queue():
    do = started(capacity=1)
    filling = threading.Thread(target=do, args=("EnqueueRebatchingQueue", "q x y"), kwargs={"enqueue_batch": 1})
    filling.start()
    np.testing.assert_array_equal(do("DequeueRebatchingQueue", "q", "a b", num_elements=3)[0], do["x"])
    filling.join(10)
    assert not filling.is_alive()


def test_refusals():
    do = started()
    do.feed(short=[1])
    for words, kind, inputs, outputs, args in (
        ("got 1 and 0", "CreateRebatchingQueue", "", "new", {"num_blobs": 0}),
        ("elements of 2 tensors, not 1", "EnqueueRebatchingQueue", "q x", "", {}),
        (
            r"one number of rows, got \[\[3, 2\], \[1\]\]",
            "EnqueueRebatchingQueue",
            "q x short",
            "",
            {"enqueue_batch": 1},
        ),
        ("elements of 2 tensors, not 1", "DequeueRebatchingQueue", "q", "a", {}),
        (r"a rebatching queue .* is needed, found a tensor", "DequeueRebatchingQueue", "x", "a", {}),
        (r"a rebatching queue .* is needed, found a tensor", "CloseRebatchingQueue", "x", "", {}),
    ):
        with pytest.raises(OperatorError, match=words):
            do(kind, inputs, outputs, **args)
