"""A save that is killed at any moment leaves the last complete checkpoint as it was."""

import signal
import subprocess
import sys

import numpy as np
from caffe2.python import core, workspace

BLOBS = [f"w{i}" for i in range(8)]
SAVER = """
import sys
import numpy as np
from caffe2.python import core, workspace
path, first, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
save = core.CreateOperator("Save", names, [], absolute_path=1, db=path, db_type="minidb")
for version in range(first, first + 10_000):
    for name in names:
        workspace.FeedBlob(name, np.full(100_000, version, np.int32))
    print("saving", version, flush=True)
    workspace.RunOperatorOnce(save)
    print("saved", version, flush=True)
"""


def saved(path):
    """The version of every blob of the checkpoint: all the same, or it is torn."""
    workspace.ResetWorkspace()
    workspace.RunOperatorOnce(core.CreateOperator("Load", [], BLOBS, absolute_path=1, db=str(path), db_type="minidb"))
    values = np.stack([workspace.FetchBlob(b) for b in BLOBS])
    assert values.shape == (8, 100_000) and (values == values[0, 0]).all()
    return int(values[0, 0])


def test_the_last_complete_checkpoint_survives(tmp_path):
    path = tmp_path / "checkpoint"
    first = 1
    for kill_at in range(6):
        command = [sys.executable, "-c", SAVER, path, str(first), *BLOBS]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            complete = 0
            for line in saver.stdout:
                state, version = line.split()
                if state == "saved":
                    complete = int(version)
                elif complete >= first + kill_at:  # in the middle of a save: at another byte each time
                    break
            saver.send_signal(signal.SIGKILL)
            for line in saver.stdout:  # what it still did before the signal came
                state, version = line.split()
                complete = int(version) if state == "saved" else complete
        found = saved(path)
        assert found in (complete, complete + 1)
        first = found + 1
