"""A child that is forked amid threads runs nets: what held threads and locks in the parent starts anew in it."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, threading
import numpy as np
from caffe2.python import core, workspace

def queue_net(kind):
    net = core.Net("queues")
    net.Proto().type = kind
    net.EnqueueBlobs(["q", "x"], ["x"])
    net.DequeueBlobs(["q"], ["y"])
    return net

def run(kind):
    workspace.FeedBlob("x", np.ones(3, "f"))
    net = queue_net(kind)
    workspace.CreateNet(net, True)
    workspace.RunNet(net)
    return float(workspace.FetchBlob("y").sum())

workspace.RunOperatorOnce(core.CreateOperator("CreateBlobsQueue", [], ["q"], capacity=4, num_blobs=1))
workspace.RunOperatorOnce(core.CreateOperator("CreateMutex", [], ["mutex"]))
workspace.RunOperatorOnce(core.CreateOperator("CreateCounter", [], ["counter"], init_count=5))
assert run("dag") == 3
stop, busy = threading.Event(), threading.Event()

def work():  # holds locks of queues and counters most of the time
    while not stop.is_set():
        workspace.RunOperatorOnce(core.CreateOperator("RetrieveCount", ["counter"], ["count"]))
        workspace.RunOperatorOnce(core.CreateOperator("CountDown", ["counter"], ["done"]))
        busy.set()

threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads:
    t.start()
busy.wait()
for _ in range(10):
    child = os.fork()
    if not child:
        right = run("dag") == 3 and run("async_scheduling") == 3
        workspace.RunOperatorOnce(core.CreateOperator("RetrieveCount", ["counter"], ["count"]))
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.set()
for t in threads:
    t.join()
print("all ran")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_runs_nets():
    line = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.stdout == "all ran\n", done.stderr
