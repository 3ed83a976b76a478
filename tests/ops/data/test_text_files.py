"""Files of rows as inputs of a net."""

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from session import Session

from caffe2lite.engine.errors import OperatorError


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


def test_what_cannot_be_read(tmp_path):
    do = Session(x=np.zeros(1))
    (tmp_path / "rows.txt").write_text("word\n")
    with pytest.raises(OperatorError, match=r"FLOAT \(1\) or STRING \(4\) for each field, got \[2\]"):
        do("CreateTextFileReader", "", "reader", filename=str(tmp_path / "rows.txt"), field_types=[2])
    with pytest.raises(OperatorError, match="No such file"):
        do("CreateTextFileReader", "", "reader", filename=str(tmp_path / "none"), field_types=[1])
    with pytest.raises(OperatorError, match=r"a reader of text .* is needed, found a tensor"):
        do("TextFileReaderRead", "x", "a")
    do("CreateTextFileReader", "", "reader", filename=str(tmp_path / "rows.txt"), field_types=[1])
    with pytest.raises(OperatorError, match="1 fields, and 2 outputs"):
        do("TextFileReaderRead", "reader", "a b")
    with pytest.raises(OperatorError, match=r"a field that is no number: .*word"):
        do("TextFileReaderRead", "reader", "a")
