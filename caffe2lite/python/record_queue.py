"""A queue that steps of its own fill from a reader."""

from __future__ import annotations

from caffe2lite.python import core, workspace
from caffe2lite.python.dataio import Reader, Writer
from caffe2lite.python.schema import Field, Struct, from_column_list


class _QueueReader(Reader):
    def __init__(self, blobs_queue, schema, name=None):
        super().__init__(schema)
        self.blobs_queue = blobs_queue
        self.name = name

    def read(self, read_net):
        with core.NameScope(read_net.NextName(self.name)):
            status = read_net.NextName()
            *fields, status = read_net.SafeDequeueBlobs(self.blobs_queue, [*self._schema.field_names(), status])
            return status, fields


class _QueueWriter(Writer):
    def __init__(self, blobs_queue, schema):
        self.schema = schema
        self.blobs_queue = blobs_queue

    def write(self, writer_net, fields):
        blobs = fields.field_blobs() if isinstance(fields, Field) else fields
        writer_net.CheckDatasetConsistency(blobs, [], fields=self.schema.field_names())
        writer_net.SafeEnqueueBlobs([self.blobs_queue, *blobs], [*blobs, writer_net.NextName()])


class RecordQueue:
    """A queue of records of `fields` (a schema or column names), made in the current workspace at once."""

    def __init__(self, fields, name=None, capacity=1, enforce_unique_name=False, num_threads=1):
        if isinstance(fields, list):
            fields = from_column_list(fields)
        if not isinstance(fields, Struct):
            raise AssertionError(f"fields must be either a Struct or a list of raw field names, got {fields!r}")
        self.schema = fields
        self.name = name or "queue"
        self.num_threads = num_threads
        init_net = core.Net(self.name + "/init_net")
        self.blobs_queue = init_net.CreateBlobsQueue(
            [],
            1,
            capacity=capacity,
            num_blobs=len(fields.field_names()),
            enforce_unique_name=enforce_unique_name,
        )
        workspace.RunNetOnce(init_net)
        self.writer = _QueueWriter(self.blobs_queue, self.schema)
        self.reader = _QueueReader(self.blobs_queue, self.schema, self.name + "_reader")
        exit_net = core.Net(self.name + "/exit_net")
        exit_net.CloseBlobsQueue(self.blobs_queue, 0)
        self.exit_step = core.execution_step(f"{exit_net}_close_step", exit_net)

    def build(self, reader, process=None):
        """Fill the queue from `reader`, through `process(net, record)` where given.

        Return (reader of the queue, step that fills it, step that closes it, schema); the step that fills it has to
        run beside the one that reads.
        """
        producers = []
        for i in range(self.num_threads):
            read_net = core.Net(f"reader_{i}")
            should_stop, record = reader.read_record(read_net)
            write_net = core.Net(f"queue_writer{i}")
            if process:
                record = process(write_net, record)
            self.writer.write(write_net, record.field_blobs())
            steps = [
                core.execution_step(f"reader_{i}", read_net),
                core.execution_step(f"queue_writer{i}", write_net),
            ]
            producers.append(core.execution_step(f"producer_{i}", steps, should_stop_blob=should_stop))
        producer_step = core.execution_step("producers", producers, concurrent_substeps=True)
        return self.reader, producer_step, self.exit_step, self.schema
