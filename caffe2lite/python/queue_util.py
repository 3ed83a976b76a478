"""Queues of records as pipes between tasks."""

from __future__ import annotations

import logging

from caffe2lite.python import core, dataio
from caffe2lite.python.task import TaskGroup

logger = logging.getLogger(__name__)


class _QueueReader(dataio.Reader):
    def __init__(self, wrapper, num_dequeue_records=1):
        if wrapper.schema() is None:
            raise AssertionError(f"{wrapper} has no schema to read records by")
        super().__init__(wrapper.schema())
        self._wrapper = wrapper
        self._num_dequeue_records = num_dequeue_records

    def setup_ex(self, init_net, exit_net):
        exit_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def read_ex(self, local_init_net, local_finish_net):
        self._wrapper._new_reader(local_init_net)
        dequeue_net = core.Net("dequeue")
        names = self.schema().field_names()
        fields, status = dequeue(
            dequeue_net,
            self._wrapper.queue(),
            len(names),
            field_names=names,
            num_records=self._num_dequeue_records,
        )
        return [dequeue_net], status, fields

    def read(self, net):
        nets, _, fields = self.read_ex(net, None)
        return nets, fields


class _QueueWriter(dataio.Writer):
    def __init__(self, wrapper):
        self._wrapper = wrapper

    def setup_ex(self, init_net, exit_net):
        exit_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def write_ex(self, fields, local_init_net, local_finish_net, status):
        self._wrapper._new_writer(self.schema(), local_init_net)
        net = core.Net("enqueue")
        enqueue(net, self._wrapper.queue(), fields, status)
        return [net]


class QueueWrapper(dataio.Pipe):
    """The queue in blob `handler` as a pipe."""

    def __init__(self, handler, schema=None, num_dequeue_records=1):
        super().__init__(schema, TaskGroup.LOCAL_SETUP)
        self._num_dequeue_records = num_dequeue_records
        self._queue = handler

    def queue(self):
        """Return the blob of the queue."""
        return self._queue

    def writer(self):
        return _QueueWriter(self)

    def reader(self):
        return _QueueReader(self, self._num_dequeue_records)


class Queue(QueueWrapper):
    """A queue of at most `capacity` records, made before the tasks of its node; the first writer gives the schema."""

    def __init__(self, capacity, schema=None, name="queue", num_dequeue_records=1):
        net = core.Net(name)  # its name is unique, and so is the blob's
        super().__init__(net.AddExternalInput(net.NextName("handler")), schema, num_dequeue_records)
        self.capacity = capacity
        self._setup_done = False

    def setup(self, global_init_net):
        if not self._schema:
            raise AssertionError("this queue has no schema to write records by")
        self._setup_done = True
        names = self._schema.field_names()
        global_init_net.CreateBlobsQueue(
            [], [self._queue], capacity=self.capacity, num_blobs=len(names), field_names=names
        )


def enqueue(net, queue, data_blobs, status=None):
    """Put blobs into a queue; return the blob that says whether the queue was closed."""
    if status is None:
        status = net.NextName("status")
    blobs = []
    for blob in data_blobs:
        if blob in blobs:  # enqueuing moves the content away: a blob can go only once
            logger.warning("Need to copy blob %s to enqueue", blob)
            blob = net.Copy(blob)
        blobs.append(blob)
    return net.SafeEnqueueBlobs([queue, *blobs], [*blobs, status])[-1]


def dequeue(net, queue, num_blobs, status=None, field_names=None, num_records=1):
    """Take `num_records` records out of a queue; return (blobs, blob that says whether the queue was closed)."""
    if field_names is None:
        names = [net.NextName("data", i) for i in range(num_blobs)]
    else:
        if len(field_names) != num_blobs:
            raise AssertionError(f"{num_blobs} blobs got {len(field_names)} names")
        names = [net.NextName(name) for name in field_names]
    if status is None:
        status = net.NextName("status")
    *blobs, status = net.SafeDequeueBlobs(queue, [*names, status], num_records=num_records)
    return blobs, status


def close_queue(step, *queues):
    """`step`, and then the queues are closed."""
    close_net = core.Net("close_queue_net")
    for queue in queues:
        close_net.CloseBlobsQueue([queue], 0)
    close_step = core.execution_step(f"{close_net}_step", close_net)
    return core.execution_step(f"{close_net}_wraper_step", [step, close_step])
