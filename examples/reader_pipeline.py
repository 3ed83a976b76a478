"""Records read by two threads, worked on through a queue, and written to a data set: tasks of one session.

python reader_pipeline.py
"""

import numpy as np
from caffe2.python import core, workspace
from caffe2.python.dataset import Dataset
from caffe2.python.net_builder import ops
from caffe2.python.pipeline import pipe
from caffe2.python.queue_util import Queue
from caffe2.python.schema import FeedRecord, FetchRecord, InitEmptyRecord, NewRecord, Struct
from caffe2.python.session import LocalSession
from caffe2.python.task import TaskGroup

RECORDS = 1000


def main():
    init_net = core.Net("init")
    wanted = Struct(("uid", np.arange(RECORDS)), ("value", np.linspace(0, 1, RECORDS)))
    source_record = NewRecord(init_net, wanted)
    result_record = InitEmptyRecord(init_net, wanted.clone_schema())
    counter, one = init_net.Const(0), init_net.Const(1)

    def square(record):
        """Each value squared; the uid goes along."""
        with core.NameScope("square"):
            out = NewRecord(ops, record)
        out.uid.set(blob=record.uid(), unsafe=True)
        ops.Mul([record.value(), record.value()], [out.value()])
        return out

    def count(record):
        """Count the batches that went by."""
        ops.Add([counter, one], [counter])
        return record

    source, result = Dataset(source_record), Dataset(result_record)
    with TaskGroup() as tasks:
        squared = pipe(source.reader(), output=Queue(capacity=8), processor=square, num_runtime_threads=2)
        pipe(squared, output=result.writer(), processor=count)
    space = workspace.C.Workspace()
    FeedRecord(source_record, wanted, space)
    session = LocalSession(space)
    session.run(init_net)
    session.run(tasks)

    made = FetchRecord(result_record, ws=space)
    order = np.argsort(made.uid())
    np.testing.assert_allclose(made.value()[order], np.linspace(0, 1, RECORDS) ** 2)
    print(f"{len(order)} records, each once, in {int(space.blobs[str(counter)].fetch())} batches")


if __name__ == "__main__":
    main()
