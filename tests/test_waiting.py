"""Nets that wait for queues: they end when told, and leave nothing behind."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
from caffe2.python import core, workspace


def waiting_net(kind):
    net = core.Net("waiting")
    net.Proto().type = kind
    queue = net.CreateBlobsQueue([], "queue", capacity=1, num_blobs=1)
    net.DequeueBlobs([queue], ["record"])
    return net


@pytest.mark.parametrize("kind", ["dag", "simple"])
def test_a_cancelled_net_ends(kind):
    net = workspace.C.Workspace().create_net(waiting_net(kind).Proto().SerializeToString())
    threading.Timer(0.2, net.cancel).start()
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"the net was cancelled .*\n.*DequeueBlobs"):
        net.run()
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("how", ["RunNetOnce(net)", "RunPlan(plan)"])
@pytest.mark.parametrize("kind", ["dag", "simple"])
def test_ctrl_c_ends_a_net_that_waits(how, kind):
    code = f"""if True:
        import signal
        from caffe2.python import core, workspace
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started without
        net = core.Net("waiting")
        net.Proto().type = "{kind}"
        queue = net.CreateBlobsQueue([], "queue", capacity=1, num_blobs=1)
        net.DequeueBlobs([queue], ["record"])
        steps = [core.ExecutionStep(f"step{{k}}", net.Clone(f"n{{k}}")) for k in range(2)]
        plan = core.Plan("plan")
        plan.AddStep(core.execution_step("all", steps, concurrent_substeps=True))
        print("ready", flush=True)
        try:
            workspace.{how}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    path = os.pathsep.join(p for p in sys.path if p)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)  # it is waiting by now; an earlier signal would end it as well
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == "interrupted\n"
        assert process.returncode == 0
        assert time.monotonic() - start < 1.5


def test_a_thousand_nets_leave_no_thread_and_no_memory():
    workspace.FeedBlob("x", np.ones((100, 100), "f"))
    net = core.Net("cycle")
    net.Proto().type = "dag"
    queue = net.CreateBlobsQueue([], "queue", capacity=1, num_blobs=1)
    net.Relu("x", "y")
    net.EnqueueBlobs([queue, "y"], ["y"])
    net.DequeueBlobs([queue], ["z"])

    def cycle():
        workspace.CreateNet(net)
        workspace.RunNet(net)
        workspace.C.delete_net(net.Name())
        for blob in ("queue", "y", "z"):
            workspace.C.Workspace.current.remove_blob(blob)

    for _ in range(50):
        cycle()
    gc.collect()
    threads = threading.active_count()
    tracemalloc.start()
    try:
        for _ in range(1000):
            cycle()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 100_000  # three matrices are 120 000 bytes
    assert threading.active_count() <= threads + 2
