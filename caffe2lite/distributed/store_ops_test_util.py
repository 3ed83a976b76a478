"""Checks of a store handler, which tests of any kind of store share."""

from multiprocessing import Process, Queue

import numpy as np

from caffe2lite.python import core, workspace

_KEY, _VALUE = "blob", np.full(1, 1, np.float32)


class StoreOpsTests:
    """Each check takes a function that makes a store handler in a blob and returns the blob's name."""

    @classmethod
    def _test_set_get(cls, queue, create_store_handler_fn, index, num_procs):
        """One of several processes: the first one sets the key, all get it and tell whether it is what was set."""
        handler = create_store_handler_fn()
        if index == 0:
            workspace.FeedBlob(_KEY, _VALUE)
            workspace.RunOperatorOnce(core.CreateOperator("StoreSet", [handler, _KEY], [], blob_name=_KEY))
        got = f"{_KEY}_{index}_of_{num_procs}"
        workspace.RunOperatorOnce(core.CreateOperator("StoreGet", [handler], [got], blob_name=_KEY))
        queue.put(np.array_equal(workspace.FetchBlob(got), _VALUE))

    @classmethod
    def test_set_get(cls, create_store_handler_fn):
        """AssertionError unless four processes get what one of them has set."""
        queue, count = Queue(), 4
        processes = [
            Process(target=cls._test_set_get, args=(queue, create_store_handler_fn, index, count))
            for index in range(count)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0, f"a process ended with status {process.exitcode}"
        assert all(queue.get() for _ in processes), "a process got another value than was set"

    @classmethod
    def test_get_timeout(cls, create_store_handler_fn):
        """Ask for a key that nobody sets: StoreHandlerTimeoutError."""
        handler = create_store_handler_fn()
        op = core.CreateOperator("StoreGet", [handler], ["never"], blob_name="never set", timeout_ms=500)
        workspace.RunOperatorOnce(op)
