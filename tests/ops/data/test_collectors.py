"""Vectors of tensors, and the last rows of a stream."""

import numpy as np
import pytest
from running import definition
from session import Session

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.proto import caffe2_pb2


def test_a_vector_of_tensors():
    do = Session(x=np.ones((2, 3), "f"))
    do("CreateTensorVector", "", "v")
    assert do("TensorVectorSize", "v", "n")[0] == 0
    with pytest.raises(OperatorError, match="the vector is empty"):
        do("ConcatTensorVector", "v", "y")
    do("CollectTensor", "v x", "v", num_to_collect=5)
    do.feed(x=np.zeros((1, 3), "f"))
    do("CollectTensor", "v x", "v", num_to_collect=5)
    assert do("TensorVectorSize", "v", "n")[0] == 2
    np.testing.assert_array_equal(do("ConcatTensorVector", "v", "y")[0], [[1] * 3] * 2 + [[0] * 3])


def test_collections_are_bounded_and_go_together():
    do = Session(x=[0], y=[0])
    do("CreateTensorVector", "", "v")
    do("CreateTensorVector", "", "w")
    op = definition("CollectTensor", ["v", "w", "x", "y"], ["v", "w"], {"num_to_collect": 4})
    net = runner.create_net(do.workspace, caffe2_pb2.NetDef(name="collecting", op=[op]))
    for k in range(20):
        do.feed(x=[k], y=[-k])
        net.run()
    xs, ys = do("ConcatTensorVector", "v", "a")[0], do("ConcatTensorVector", "w", "b")[0]
    assert len(xs) == 4 and set(xs) <= set(range(20))
    np.testing.assert_array_equal(ys, -xs)


@pytest.mark.parametrize("with_count", [False, True])
def test_the_last_rows_stay_in_a_ring(with_count):
    do = Session(last=np.zeros((0, 1)), next=np.array(0, "int32"), count=np.array([0]))
    do("CreateMutex", "", "mutex")
    inputs, outputs = (
        ("last next data mutex count", "last next count") if with_count else ("last next data", "last next")
    )
    seen = []
    for size in (2, 1, 3, 9, 0, 1):
        new = np.arange(len(seen), len(seen) + size, dtype=float)
        seen += new.tolist()
        do.feed(data=new.reshape(-1, 1))
        do("LastNWindowCollector", inputs, outputs, num_to_collect=4)
        assert sorted(do["last"].reshape(-1)) == seen[-4:]
        if len(seen) >= 4:
            ring = np.roll(do["last"].reshape(-1), -int(do["next"]))
            assert ring.tolist() == seen[-4:]
    assert do["count"] == (16 if with_count else 0)


def test_refusals():
    do = Session(last=np.zeros((2, 3)), next=np.array(0, "int32"), data=np.zeros((2, 4)), x=np.zeros(1))
    with pytest.raises(OperatorError, match=r"rows like those kept, float64\[3\]; found float64\[2, 4\]"):
        do("LastNWindowCollector", "last next data", "last next", num_to_collect=4)
    with pytest.raises(OperatorError, match=r"num_to_collect.* > 0"):
        do("LastNWindowCollector", "last next data", "last next", num_to_collect=0)
    with pytest.raises(OperatorError, match=r"a mutex .* is needed, found a tensor"):
        do("LastNWindowCollector", "last next data x", "last next", num_to_collect=4)
    with pytest.raises(OperatorError, match=r"must be the vectors, \['x'\]"):
        do("CollectTensor", "x x", "y")
    with pytest.raises(OperatorError, match=r"a vector of tensors .* is needed, found a tensor"):
        do("CollectTensor", "x x", "x")
