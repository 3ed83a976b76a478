"""Python functions that read data on threads and feed it to a net in batches.

    coordinator = init_data_input_workers(model, ["data", "label"], fetch, batch_size=32)   # fetch(worker_id, 32)
    coordinator.start()
    …                                                       # each run of model.net takes a batch
    coordinator.stop()

A function returns one array an input, of any number of examples: they are put together to batches.
"""

from __future__ import annotations

import logging
import queue as Queue
import threading
import time

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, scope, utils, workspace
from caffe2lite.python.parallel_workers import (
    GlobalWorkerCoordinator,
    Metrics,
    State,
    Worker,
    WorkerCoordinator,
    run_worker,
)

log = logging.getLogger("data_workers")
log.setLevel(logging.INFO)
LOG_INT_SECS = 60
_POLL_SECS = 0.5  # how soon a waiting thread sees that it is to stop
_SLOW_SECS = 10.0


def get_worker_ids(num_workers):
    """Return the numbers of so many workers."""
    return list(range(num_workers))


def init_data_input_workers(
    net,
    input_blob_names,
    fetch_fun,
    batch_size,
    num_worker_threads=2,
    input_source_name="train",
    max_buffered_batches=800,
    init_fun=None,
    external_loggers=None,
    dont_rebatch=False,
    batch_columns=None,
    timeout=600,
):
    """Add to `net` the operators that take a batch, and prepare the threads that feed them.

    fetch_fun(worker_id, batch_size) returns one array an input.  dont_rebatch: each return is a batch as it is.
    batch_columns: the axis of the examples, one an input (default 0).  timeout: seconds a run waits for a batch.
    Return the global coordinator, to be started.
    """
    device_option = scope.CurrentDeviceScope()
    if device_option is None:
        device_option = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)
    metrics = Metrics(external_loggers)
    feeder = BatchFeeder(
        net,
        input_blob_names,
        batch_size,
        device_option,
        scope.CurrentNameScope(),
        input_source_name,
        global_coordinator.get_queue(input_source_name, max_buffered_batches),
        metrics,
        dont_rebatch,
        batch_columns,
        timeout=timeout,
    )
    worker_ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(input_source_name, worker_ids, init_fun, feeder)
    coordinator._workers = [
        threading.Thread(
            target=run_worker,
            name=f"data_workers fetcher id {worker_id}",
            args=[coordinator, DataWorker(coordinator, worker_id, fetch_fun, metrics, batch_size, feeder)],
        )
        for worker_id in worker_ids
    ]
    coordinator._workers.append(
        threading.Thread(
            target=enqueuer,
            name=f"Enqueuer {input_source_name} {scope.CurrentNameScope()}",
            args=[coordinator, feeder],
        )
    )
    global_coordinator.add(coordinator)
    return global_coordinator


class BatchFeeder(State):
    """Puts chunks of examples together to batches, and batches into Caffe2 queues that the net takes them from."""

    def __init__(
        self,
        net,
        input_blob_names,
        batch_size,
        device_option,
        namescope,
        input_source_name,
        queue,
        metrics,
        dont_rebatch,
        batch_columns,
        timeout=600,
    ):
        self._counter = 0
        self._input_blob_names = input_blob_names
        self._batch_size = batch_size
        self._internal_queue = queue
        self._queues = []
        self._device_option = device_option
        self._namescope = namescope
        self._timeout = timeout
        self._input_source_name = input_source_name
        self._c2_queue_capacity = 4
        self._create_caffe2_queues(net)
        self._create_caffe2_ops(net)
        self._inputs = 0
        self._prev_seconds = 0
        self._last_warning = time.time()
        self._dont_rebatch = dont_rebatch
        self._leftover = None
        self._init_scratch()
        self._metrics = metrics
        self._batch_columns = [0] * len(input_blob_names) if batch_columns is None else batch_columns

    def start(self):
        self._inputs = 0
        self._prev_seconds = time.time()

    def stop(self):
        """Close the queues: a net that waits for a batch fails."""
        try:
            for queue in self._queues:
                workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", [queue], []))
        finally:
            self._log_inputs_per_interval(0, force=True)

    def cleanup(self):
        utils.ResetBlobs(self._scratch_blob.values())
        utils.ResetBlobs(self._scratch_status.values())

    def _get(self, data_input_coordinator):
        """Return the next chunk, or None when all is to stop."""
        started = warned = time.time()
        while data_input_coordinator.is_active():
            try:
                return self._internal_queue.get(block=True, timeout=_POLL_SECS)
            except Queue.Empty:
                if time.time() - warned > _SLOW_SECS:
                    log.warning("** Data input is slow: (still) no data in %.0f secs.", time.time() - started)
                    warned = time.time()
        return None

    def _validate_chunk(self, chunk):
        if chunk is None:
            log.warning("A fetcher returned None instead of a list of arrays")
            return False
        if len(chunk) != len(self._input_blob_names):
            raise AssertionError(f"Expecting data blob for each input: {self._input_blob_names}, got {len(chunk)}")
        for array in chunk:
            if not isinstance(array, np.ndarray):
                raise AssertionError(f"Fetcher function must return a numpy array, not {type(array).__name__}")
        if not self._dont_rebatch:
            lengths = [array.shape[axis] for array, axis in zip(chunk, self._batch_columns)]
            if len(set(lengths)) != 1:
                raise AssertionError(f"Each returned input must have equal number of samples, not {lengths}")
        return True

    def put(self, chunk, data_input_coordinator):
        """Buffer what a worker has read; wait while the buffer is full."""
        if not self._validate_chunk(chunk):
            return
        while data_input_coordinator.is_active():
            size = self._internal_queue.qsize()
            if size < 2 and time.time() - self._last_warning > LOG_INT_SECS:
                log.warning("Data loading lags behind: queue size=%d, name=%s", size, self._input_source_name)
                self._last_warning = time.time()
            try:
                self._internal_queue.put(chunk, block=True, timeout=_POLL_SECS)
            except Queue.Full:
                log.debug("The queue is full: fetchers wait")
                continue
            self._counter += 1
            self._log_inputs_per_interval(chunk[0].shape[0])
            return

    def _enqueue_batch_direct(self, data_input_coordinator):
        data = self._get(data_input_coordinator)
        if data is not None:
            self._enqueue_all(data, data_input_coordinator)

    def _enqueue_batch(self, data_input_coordinator):
        """Collect chunks until they make a batch, and keep what is over for the next."""
        if self._dont_rebatch:
            self._enqueue_batch_direct(data_input_coordinator)
            return
        first = self._batch_columns[0]
        chunks = [self._leftover] if self._leftover else []
        count = sum(chunk[0].shape[first] for chunk in chunks)
        while count < self._batch_size:
            chunk = self._get(data_input_coordinator)
            if chunk is None:
                return
            chunks.append(chunk)
            count += chunk[0].shape[first]

        started = time.time()
        try:
            batch = [np.concatenate(parts, axis=axis) for parts, axis in zip(zip(*chunks), self._batch_columns)]
            split = [np.split(a, [self._batch_size], axis=axis) for a, axis in zip(batch, self._batch_columns)]
            batch = [np.ascontiguousarray(head) for head, _ in split]
            self._leftover = [rest for _, rest in split] if count > self._batch_size else None
            self._enqueue_all(batch, data_input_coordinator)
        finally:
            self._metrics.put_metric("enqueue_time", time.time() - started)

    def _enqueue_all(self, arrays, data_input_coordinator):
        if data_input_coordinator.is_active():
            for name, queue, array in zip(self._input_blob_names, self._queues, arrays):
                self._enqueue(name, queue, array)

    def _init_scratch(self):
        """Make the blobs that batches go through: here rather than on the threads, which would race for it."""
        self._scratch_blob = {}
        self._scratch_status = {}
        for name in self._input_blob_names:
            scratch = f"{self._namescope}{name}_scratch_{self._input_source_name}"
            self._scratch_blob[name] = core.BlobReference(scratch)
            self._scratch_status[name] = core.BlobReference(scratch + "_status")
        for blob in (*self._scratch_blob.values(), *self._scratch_status.values()):
            workspace.FeedBlob(blob, np.array([], dtype=np.float32))

    def _enqueue(self, blob_name, queue, data_arr):
        scratch, status = self._scratch_blob[blob_name], self._scratch_status[blob_name]
        workspace.FeedBlob(scratch, data_arr, device_option=self._device_option)
        op = core.CreateOperator(
            "SafeEnqueueBlobs", [queue, scratch], [scratch, status], device_option=self._device_option
        )
        workspace.RunOperatorOnce(op)

    def _create_caffe2_queues(self, net):
        for name in self._input_blob_names:
            queue = core.ScopedBlobReference(f"{name}_c2queue_{self._input_source_name}")
            workspace.RunOperatorOnce(
                core.CreateOperator("CreateBlobsQueue", [], [queue], num_blobs=1, capacity=self._c2_queue_capacity)
            )
            self._queues.append(queue)

    def _create_caffe2_ops(self, net):
        for queue, name in zip(self._queues, self._input_blob_names):
            net.DequeueBlobs(queue, name, timeout_secs=float(self._timeout))

    def _log_inputs_per_interval(self, inputs, force=False):
        """Count what has been read, and logs it once in a while."""
        self._inputs += inputs
        seconds = time.time() - self._prev_seconds
        if not force and seconds < LOG_INT_SECS:
            return
        rate, size = int(self._inputs / max(seconds, 1e-9)), self._internal_queue.qsize()
        log.info("%s/%s: %d inputs/sec", self._input_source_name, self._namescope, rate)
        log.info("-- queue: %d batches", size)
        for key, value in (("inputs_per_sec", rate), ("queue_size", size), ("time_elapsed", seconds)):
            self._metrics.put_metric(key, value, False)
        self._metrics.log_metrics()
        self._metrics.reset_metrics()
        self._inputs = 0
        self._prev_seconds = time.time()


class GlobalCoordinator(GlobalWorkerCoordinator):
    """All data inputs, with one buffer each."""

    def __init__(self):
        super().__init__()
        self._queues = {}

    def get_queue(self, queue_name, max_buffered_batches):
        """Return the buffer of that name."""
        if not isinstance(max_buffered_batches, int):
            raise AssertionError(f"max_buffered_batches is a number, got {max_buffered_batches!r}")
        return self._queues.setdefault(queue_name, Queue.Queue(maxsize=max_buffered_batches))

    def reset_data_input(self, namescope, name, net, batch_size):
        """Let a new net take batches, of a new size, from a running data input."""
        log.info("Reset data input %s, batch size %s", name, batch_size)
        for coordinator in self._coordinators:
            feeder = coordinator._state
            if coordinator._worker_name == name and feeder._namescope == namescope:
                feeder._batch_size = batch_size
                feeder._create_caffe2_ops(net)


class DataWorker(Worker):
    """Reads, and hands what it has read to the feeder."""

    def __init__(self, coordinator, worker_id, worker_fun, metrics, batch_size, batch_feeder):
        super().__init__(coordinator, worker_id, worker_fun=worker_fun, metrics=metrics)
        self._batch_size = batch_size
        self._batch_feeder = batch_feeder

    def run(self):
        chunk = self._worker_fun(self._worker_id, self._batch_size)
        self._batch_feeder.put(chunk, self._coordinator)

    def finish(self):
        self._metrics.put_metric("fetcher_time", time.time() - self._start_time)
        self._metrics.log_metrics()


global_coordinator = GlobalCoordinator()


def enqueuer(coordinator, batch_feeder):
    """What the feeding thread does."""
    while coordinator.is_active():
        batch_feeder._enqueue_batch(coordinator)
