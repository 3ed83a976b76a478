"""Files of rows, and databases of tensors, as inputs of a net."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


def test_rows_come_in_batches_pass_after_pass_and_then_no_more(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("a\t1.5\nb\t2\nc\t3\n")
    types = [caffe2_pb2.TensorProto.STRING, caffe2_pb2.TensorProto.FLOAT]
    create = core.CreateOperator(
        "CreateTextFileReader", [], ["reader"], filename=str(path), num_passes=2, field_types=types
    )
    workspace.RunOperatorOnce(create)
    seen = []
    for _ in range(3):
        workspace.RunOperatorOnce(core.CreateOperator("TextFileReaderRead", ["reader"], ["s", "x"], batch_size=4))
        seen.append((workspace.FetchBlob("s").tolist(), workspace.FetchBlob("x").tolist()))
    assert seen == [([b"a", b"b", b"c", b"a"], [1.5, 2, 3, 1.5]), ([b"b", b"c"], [2, 3]), ([], [])]


@pytest.mark.parametrize(("text", "why"), [("a\n", "row 1 of .* has 1 fields"), ("a\t1", "has no end of line")])
def test_a_malformed_row_is_told(tmp_path, text, why):
    path = tmp_path / "rows.txt"
    path.write_text(text)
    workspace.RunOperatorOnce(
        core.CreateOperator("CreateTextFileReader", [], ["reader"], filename=str(path), field_types=[4, 1])
    )
    with pytest.raises(RuntimeError, match=why):
        workspace.RunOperatorOnce(core.CreateOperator("TextFileReaderRead", ["reader"], ["s", "x"]))


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
