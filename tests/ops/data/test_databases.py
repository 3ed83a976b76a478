"""Databases of tensors as inputs of a net."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from session import Session

from caffe2lite import db as databases
from caffe2lite.db import Mode
from caffe2lite.engine.errors import OperatorError


def test_records_of_a_database_become_batches_and_begin_again(tmp_path):
    path = str(tmp_path / "records.minidb")
    db = workspace.C.create_db("minidb", path, workspace.C.Mode.write)
    transaction = db.new_transaction()
    for k in range(3):
        record = caffe2_pb2.TensorProtos()
        record.protos.add(data_type=caffe2_pb2.TensorProto.FLOAT, dims=[2], float_data=[k, k + 0.5])
        record.protos.add(data_type=caffe2_pb2.TensorProto.STRING, dims=[], string_data=[b"%d" % k])
        transaction.put(str(k), record.SerializeToString())
    transaction.commit()
    del transaction, db
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], ["db"], db=path, db_type="minidb"))
    for expected in ([0, 1], [2, 0]):
        workspace.RunOperatorOnce(core.CreateOperator("TensorProtosDBInput", ["db"], ["x", "s"], batch_size=2))
        np.testing.assert_array_equal(workspace.FetchBlob("x"), [[k, k + 0.5] for k in expected])
        assert workspace.FetchBlob("s").tolist() == [b"%d" % k for k in expected]


def store(path, *records):
    """A database with these records, as key 0, 1, ..."""
    db = databases.open_db("minidb", str(path), Mode.new)
    transaction = db.new_transaction()
    for k, record in enumerate(records):
        content = record if isinstance(record, bytes) else tensors(*record).SerializeToString()
        transaction.put(b"%d" % k, content)
    transaction.commit()
    db.close()
    return str(path)


def tensors(*values):
    made = caffe2_pb2.TensorProtos()
    for value in values:
        made.protos.add(data_type=caffe2_pb2.TensorProto.INT64, dims=np.shape(value), int64_data=np.ravel(value))
    return made


def test_without_a_batch_and_by_shards(tmp_path):
    path = store(tmp_path / "db", *[[k] for k in range(5)])
    for shard, want in ((0, [0, 2, 4, 0]), (1, [1, 3, 1, 3])):
        do = Session()
        do("CreateDB", "", "db", db=path, db_type="minidb", num_shards=2, shard_id=shard)
        have = [do("TensorProtosDBInput", "db", "x")[0] for _ in want]
        assert [h.tolist() for h in have] == want and have[0].shape == ()


@pytest.mark.parametrize(
    ("records", "outputs", "words"),
    [
        ([[1, 2]], "x", "holds 2 tensors, and there are 1 outputs"),
        ([[[1, 2]], [[1, 2, 3]]], "x", r"tensor 0 is int64 \[2\] in the first and int64 \[3\] in another"),
        ([b"\xff\xff"], "x", "the record b'0' holds no TensorProtos"),
        ([], "x", "holds no records"),
    ],
)
def test_records_that_do_not_fit(tmp_path, records, outputs, words):
    do = Session()
    do("CreateDB", "", "db", db=store(tmp_path / "db", *records), db_type="minidb")
    with pytest.raises(OperatorError, match=words):
        do("TensorProtosDBInput", "db", outputs, batch_size=2)


def test_what_is_no_database(tmp_path):
    do = Session(x=np.zeros(1))
    with pytest.raises(OperatorError, match="within 0 to 1, got 2"):
        do("CreateDB", "", "db", db=str(tmp_path), db_type="minidb", num_shards=2, shard_id=2)
    with pytest.raises(OperatorError, match="none"):
        do("CreateDB", "", "db", db=str(tmp_path / "none"), db_type="minidb")
    with pytest.raises(OperatorError, match=r"a reader .* is needed, found a tensor"):
        do("TensorProtosDBInput", "x", "y")
