"""Small records through one queue, on whatever `caffe2` the interpreter imports; says whether all came through once.

    PYTHON queues.py [--records 1000000] [--threads 8]

As many producers as consumers, a plan of concurrent steps; the queue is closed when the producers are done.
"""

import argparse
import time

import numpy as np
from caffe2.python import core, workspace


def producer(number, queue, count):
    """A step that puts the numbers from `number * count` on into the queue."""
    workspace.FeedBlob(f"next_{number}", np.array([number * count], "int64"))
    net = core.Net(f"producer_{number}")
    net.Copy(f"next_{number}", f"record_{number}")
    net.SafeEnqueueBlobs([queue, f"record_{number}"], [f"record_{number}", f"enqueued_{number}"])
    net.Add([f"next_{number}", "one"], f"next_{number}")
    return core.execution_step(f"produce_{number}", net, num_iter=count)


def consumer(number, queue):
    """A step that counts and adds up what it gets, until the queue is closed and empty."""
    for what in ("count", "sum", "squares"):
        workspace.FeedBlob(f"{what}_{number}", np.zeros(1, "int64"))
    net = core.Net(f"consumer_{number}")
    got, done = net.SafeDequeueBlobs([queue], [f"got_{number}", f"done_{number}"])
    tally = core.Net(f"tally_{number}")
    tally.Add([f"count_{number}", "one"], f"count_{number}")
    tally.Add([f"sum_{number}", got], f"sum_{number}")
    tally.Mul([got, got], f"square_{number}")
    tally.Add([f"squares_{number}", f"square_{number}"], f"squares_{number}")
    return core.execution_step(f"consume_{number}", [net, tally], should_stop_blob=done)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    each = options.records // options.threads
    core.GlobalInit(["queues", "--caffe2_log_level=2"])
    workspace.FeedBlob("one", np.ones(1, "int64"))
    init = core.Net("init")
    queue = init.CreateBlobsQueue([], "queue", capacity=100, num_blobs=1)
    workspace.RunNetOnce(init)
    close = core.Net("close")
    close.CloseBlobsQueue([queue], [])
    steps = [producer(k, queue, each) for k in range(options.threads)]
    produce = core.execution_step(
        "all_produce",
        [core.execution_step("produce", steps, concurrent_substeps=True), core.execution_step("end", close)],
    )
    consumers = [consumer(k, queue) for k in range(options.threads)]
    consume = core.execution_step("all_consume", consumers, concurrent_substeps=True)
    plan = core.Plan("plan")
    plan.AddStep(core.execution_step("all", [produce, consume], concurrent_substeps=True))
    start = time.perf_counter()
    workspace.RunPlan(plan)
    took = time.perf_counter() - start
    total = {w: sum(int(workspace.FetchBlob(f"{w}_{k}")[0]) for k in range(options.threads)) for w in ("count", "sum")}
    squares = sum(int(workspace.FetchBlob(f"squares_{k}")[0]) for k in range(options.threads))
    n = each * options.threads
    right = total == {"count": n, "sum": n * (n - 1) // 2} and squares == (n - 1) * n * (2 * n - 1) // 6
    print(
        f"{n} records in {took:.2f} s, {n / took:,.0f} a second; {'each came once' if right else 'SOME WERE LOST OR DOUBLED'}"
    )


if __name__ == "__main__":
    main()
