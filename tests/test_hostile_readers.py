"""Databases that are damaged or hold something else: a clear error, and the reader goes on."""

import os

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


def tensor(value, **fields):
    proto = caffe2_pb2.TensorProto(data_type=caffe2_pb2.TensorProto.FLOAT, dims=[2], float_data=[value, value])
    for name, content in fields.items():
        if isinstance(content, list):
            getattr(proto, name)[:] = content
        else:
            setattr(proto, name, content)
    return proto


def record(*tensors):
    return caffe2_pb2.TensorProtos(protos=tensors).SerializeToString()


def database(path, kind, records):
    db = workspace.C.create_db(kind, str(path), workspace.C.Mode.new)
    transaction = db.new_transaction()
    for k, content in enumerate(records):
        transaction.put(f"{k:05}", content)
    transaction.commit()
    del transaction
    db.close()


def open_reader(path, kind):
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], ["reader"], db=str(path), db_type=kind))


def read(outputs=("x", "y"), batch_size=1):
    op = core.CreateOperator("TensorProtosDBInput", ["reader"], list(outputs), batch_size=batch_size)
    workspace.RunOperatorOnce(op)
    return [workspace.FetchBlob(o) for o in outputs]


GOOD = record(tensor(1.0), tensor(2.0))
BAD = {
    "no proto": (b"\xff\xff\xff", "holds no TensorProtos"),
    "cut": (GOOD[:-3], "holds no TensorProtos|holds 1 tensors|a tensor of"),
    "one tensor": (record(tensor(1.0)), "holds 1 tensors, and there are 2 outputs"),
    "three tensors": (record(*[tensor(1.0)] * 3), "holds 3 tensors, and there are 2 outputs"),
    "too few values": (record(tensor(1.0, dims=[3]), tensor(1.0)), r"a tensor of 2 values for the shape \[3\]"),
    "absurd shape": (record(tensor(1.0, dims=[1 << 40, 1 << 40]), tensor(1.0)), "a tensor of 2 values for the shape"),
    "negative shape": (record(tensor(1.0, dims=[-2, -1]), tensor(1.0)), "shape"),
    "ragged raw data": (record(tensor(1.0, raw_data=b"12345"), tensor(1.0)), "5 bytes|buffer size|raw"),
    "empty": (b"", "holds 0 tensors, and there are 2 outputs"),
}


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
@pytest.mark.parametrize("what", BAD)
def test_a_record_of_something_else(what, kind, tmp_path):
    if kind == "lmdb":
        pytest.importorskip("lmdb", reason="needs the extra caffe2lite[lmdb]")
    content, message = BAD[what]
    database(tmp_path / "db", kind, [content, GOOD])
    open_reader(tmp_path / "db", kind)
    with pytest.raises(RuntimeError, match=f"(?s)(?:{message}).*TensorProtosDBInput"):
        read()
    x, y = read()  # the record after it
    assert (x[0, 0], y[0, 0]) == (1, 2)


def test_a_minidb_that_was_cut_off_is_read_up_to_there(tmp_path):
    database(tmp_path / "db", "minidb", [GOOD] * 3)
    content = (tmp_path / "db").read_bytes()
    (tmp_path / "db").write_bytes(content[: len(content) - 5])
    open_reader(tmp_path / "db", "minidb")
    assert read()[0][0, 0] == 1
    with pytest.raises(RuntimeError, match="the file is truncated, or not a minidb"):
        for _ in range(3):
            read()
    open_reader(tmp_path / "db", "minidb")
    assert read()[1][0, 0] == 2


@pytest.mark.parametrize("left", [0, 100, 5000, 12000])
def test_an_lmdb_that_was_cut_off_is_refused(left, tmp_path):
    pytest.importorskip("lmdb", reason="needs the extra caffe2lite[lmdb]")
    database(tmp_path / "db", "lmdb", [record(tensor(1.0), tensor(2.0, raw_data=os.urandom(3000)))] * 20)
    os.truncate(tmp_path / "db" / "data.mdb", left)
    with pytest.raises(RuntimeError, match=r"db.*(truncated|no lmdb|cannot be opened|holds no records)"):
        open_reader(tmp_path / "db", "lmdb")
        read()


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_what_is_no_database(kind, tmp_path):
    if kind == "lmdb":
        pytest.importorskip("lmdb", reason="needs the extra caffe2lite[lmdb]")
    (tmp_path / "file").write_bytes(np.random.RandomState(0).bytes(5000))
    for name in ("file", "absent"):
        with pytest.raises(RuntimeError, match=name):
            open_reader(tmp_path / name, kind)
            read()


def test_a_queue_reader_says_what_came_and_goes_on():
    for op in (
        core.CreateOperator("CreateBlobsQueue", [], ["queue"], capacity=5, num_blobs=1),
        core.CreateOperator("CreateBlobsQueueDB", ["queue"], ["reader"], value_blob_index=0, timeout_secs=0.2),
    ):
        workspace.RunOperatorOnce(op)
    for content in (b"no record", GOOD):
        workspace.FeedBlob("record", np.array([content], object))
        workspace.RunOperatorOnce(core.CreateOperator("EnqueueBlobs", ["queue", "record"], ["record"]))
    with pytest.raises(RuntimeError, match=r"holds no TensorProtos|tensors"):
        read()
    assert read()[0][0, 0] == 1
