"""Reservoir sampling: what a stream leaves behind."""

import numpy as np
import pytest

from caffe2lite.engine import runner, serialize
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core

INT32, INT64 = caffe2_pb2.TensorProto.INT32, caffe2_pb2.TensorProto.INT64


def started(**blobs):
    workspace = Workspace()
    runner.run_operator(workspace, core.CreateOperator("CreateMutex", [], ["mutex"]))
    runner.run_operator(workspace, core.CreateOperator("CreateMap", [], ["map"], key_dtype=INT64, value_dtype=INT32))
    start = {"kept": np.zeros(0, "f"), "visited": np.array(0), "ids_kept": np.zeros(0, np.int64)}
    for name, value in {**start, **blobs}.items():
        workspace.feed(name, value)
    return workspace


def sample(workspace, data, ids=None, most=3, seed=1):
    workspace.feed("data", data)
    inputs, outputs = ["kept", "visited", "data", "mutex"], ["kept", "visited"]
    if ids is not None:
        workspace.feed("ids", np.array(ids))
        inputs, outputs = [*inputs, "ids", "map", "ids_kept"], [*outputs, "map", "ids_kept"]
    device = core.DeviceOption(0, random_seed=seed)
    runner.run_operator(
        workspace, core.CreateOperator("ReservoirSampling", inputs, outputs, num_to_collect=most, device_option=device)
    )
    return workspace.fetch("kept"), workspace.fetch("visited").item()


def test_the_first_rows_stay_until_it_is_full():
    workspace = started()
    kept, visited = sample(workspace, np.arange(4.0).reshape(2, 2))
    assert kept.tolist() == [[0, 1], [2, 3]] and visited == 2
    kept, visited = sample(workspace, np.array([[4.0, 5.0]]))
    assert kept.tolist() == [[0, 1], [2, 3], [4, 5]] and visited == 3
    assert sample(workspace, np.zeros((0, 2)))[1] == 3


def test_every_row_stays_as_often():
    counts = np.zeros(10)
    for seed in range(1, 1001):
        workspace = started()
        sample(workspace, np.arange(6), seed=seed)
        kept, visited = sample(workspace, np.arange(6, 10), seed=seed + 5000)
        assert visited == 10
        counts[kept] += 1
    assert np.abs(counts / 1000 - 0.3).max() < 0.06  # four deviations


def test_identifiers_come_once_and_the_map_follows():
    workspace = started()
    kept, visited = sample(workspace, np.arange(5.0), [3, 5, 3, 3, 5])
    assert kept.tolist() == [0, 1] and visited == 2
    kept, visited = sample(workspace, np.arange(10.0, 13.0), [5, 7, 7])
    assert kept.tolist() == [0, 1, 11] and visited == 3 and workspace.fetch("ids_kept").tolist() == [3, 5, 7]
    kept, visited = sample(workspace, np.arange(100.0, 200.0), np.arange(100, 200))
    ids = workspace.fetch("ids_kept").tolist()
    assert visited == 103 and workspace.get_blob("map").value.items == {k: i for i, k in enumerate(ids)}
    assert all(value == key for key, value in zip(ids, kept.tolist()) if key >= 100)


def test_a_reservoir_of_records_that_was_saved_begins_anew():
    workspace = started(x=np.arange(4.0))
    runner.run_operator(workspace, core.CreateOperator("PackRecords", ["x"], ["packed"], fields=["x"]))
    inputs, outputs = ["kept", "visited", "packed", "mutex"], ["kept", "visited"]
    op = core.CreateOperator("ReservoirSampling", inputs, outputs, num_to_collect=3)
    runner.run_operator(workspace, op)
    runner.run_operator(workspace, core.CreateOperator("UnPackRecords", ["kept"], ["y"], fields=["x"]))
    assert workspace.fetch("visited") == 4 and set(workspace.fetch("y")) <= {0, 1, 2, 3}
    blob = workspace.get_blob("kept")
    serialize.read(blob, serialize.blob_bytes("kept", blob))
    with pytest.raises(OperatorError, match="packed records that are saved"):
        runner.run_operator(workspace, core.CreateOperator("UnPackRecords", ["kept"], ["y"], fields=["x"]))
    runner.run_operator(workspace, op)
    assert workspace.fetch("visited") == 4


@pytest.mark.parametrize(
    ("blobs", "data", "ids", "words"),
    [
        ({"kept": np.ones((1, 3)), "visited": np.array(1)}, np.ones((2, 2)), None, r"rows of float64\[3\]"),
        ({"kept": np.ones((2, 2)), "visited": np.array(5)}, np.ones((2, 2)), None, "2 rows, of 5 visited"),
        ({"kept": np.ones((1, 2)), "visited": np.array(-1)}, np.ones((2, 2)), None, "one number from 0"),
        ({}, np.ones(3), [1, 2], "one identifier for each of the 3 rows"),
    ],
)
def test_refusals(blobs, data, ids, words):
    with pytest.raises(OperatorError, match=words):
        sample(started(**blobs), data, ids)


@pytest.mark.parametrize("kind", ["ReservoirSampling", "LastNWindowCollector"])
def test_a_blob_without_a_tensor_is_an_empty_reservoir(kind):
    workspace = started(x=np.ones((2, 2), "f"), visited=np.array(0, "q" if kind[0] == "R" else "i"))
    workspace.remove_blob("kept")
    workspace.create_blob("kept")
    mutex = ["mutex"] if kind[0] == "R" else []
    runner.run_operator(
        workspace, core.CreateOperator(kind, ["kept", "visited", "x", *mutex], ["kept", "visited"], num_to_collect=3)
    )
    assert workspace.fetch("kept").tolist() == [[1, 1], [1, 1]] and workspace.fetch("visited") == 2
