"""Threads that feed a net."""

import threading

import numpy as np
import pytest
from caffe2.python import data_workers, parallel_workers, workspace
from caffe2.python.model_helper import ModelHelper


def counting(rows):
    """A fetcher of `rows` rows (i, i + 0.5) at a time, counting over all threads."""
    lock, at = threading.Lock(), [0]

    def fetch(worker_id, batch_size):
        with lock:
            first = at[0]
            at[0] += rows
        i = np.arange(first, first + rows)
        return [i.astype("f")[:, None], (i + 0.5).astype("f")]

    return fetch


@pytest.mark.parametrize("workers, rows, batch", [(1, 5, 4), (3, 4, 4), (2, 3, 7)])
def test_batches_hold_every_row_once(workers, rows, batch):
    model = ModelHelper(name="m")
    coordinator = data_workers.init_data_input_workers(
        model, ["data", "label"], counting(rows), batch, num_worker_threads=workers, input_source_name="train"
    )
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    coordinator.start()
    try:
        seen = []
        for _ in range(6):
            workspace.RunNet(model.net)
            data, label = workspace.FetchBlob("data"), workspace.FetchBlob("label")
            assert data.shape == (batch, 1) and label.shape == (batch,)
            np.testing.assert_array_equal(label, data[:, 0] + 0.5)
            seen.extend(data[:, 0])
    finally:
        assert coordinator.stop()
    assert len(seen) == len(set(seen))
    if workers == 1:
        assert seen == list(range(6 * batch))


def test_a_fetcher_that_fails_stops_training():
    def fail(worker_id, batch_size):
        raise ValueError("no more data")

    model = ModelHelper(name="m")
    coordinator = data_workers.init_data_input_workers(model, ["data"], fail, 2, 1, input_source_name="broken")
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    coordinator.start()
    with pytest.raises(RuntimeError):
        workspace.RunNet(model.net)
    coordinator.stop()


def test_workers_run_until_they_are_stopped():
    done = threading.Semaphore(0)

    def work(worker_id):
        done.release()

    ends = []
    coordinator = parallel_workers.init_workers(
        work, num_worker_threads=2, worker_name="test", shutdown_fun=lambda *args: ends.append(args)
    )
    coordinator.start()
    for _ in range(20):
        assert done.acquire(timeout=10)
    assert coordinator.stop()
    assert len(ends) == 1


def test_worker_ids():
    assert list(data_workers.get_worker_ids(3)) == [0, 1, 2]
