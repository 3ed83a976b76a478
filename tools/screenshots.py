"""Pictures of the commands' output for the docs, made from what they print on a terminal.

python tools/screenshots.py            # docs/images/*.svg; needs the extras tools and port
"""

import os
import pathlib
import pty
import re
import shlex
import subprocess
import sys
import tempfile

from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace
from rich.console import Console
from rich.text import Text

from caffe2lite.devices import emulated

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 112

SCRIPT = """\
import cPickle
import numpy as np
from collections import Mapping
from caffe2.python import brew, core, model_helper, workspace

model = model_helper.ModelHelper("m")
brew.relu(model, brew.fc(model, "data", "fc", 64, 10), "fc")
model.net.Softmax("fc", "softmax", axsi=1)
workspace.FeedBlob("data", np.zeros((8, 64), dtype=np.float).astype("float32"))
workspace.RunNetOnce(model.param_init_net)
workspace.CreateNet(model.net)
for i in xrange(200):
    workspace.RunNet(model.net)
print "batches of", 100 / 8, workspace.FetchBlob("softmax").shape
"""


def forward(model, scale):
    """A small convnet."""
    h = brew.relu(model, brew.conv(model, "data", "conv1", 3, 16, 3), "relu1")
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, h, "fc", 16 * 30 * 30, 10), "label"], ["softmax", "loss"])
    return [model.net.Scale(loss, scale=scale)]


def files(folder):
    """What the commands are shown on: a sync net, a net with problems and its neighbour, a script of 2017."""
    emulated.use(4)
    model = model_helper.ModelHelper(name="convnet")
    data_parallel_model.Parallelize_GPU(
        model,
        input_builder_fun=lambda m: None,
        forward_pass_builder_fun=forward,
        optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1),
        devices=range(4),
    )
    workspace.RunNetOnce(model.param_init_net)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    (folder / "checkpoint_sync_net.pb").write_bytes(model._checkpoint_net.Proto().SerializeToString())
    net = core.Net("predict")
    net.FC(["data", "fc_w", "fc_b"], "fc")
    net.Softmax("fc", "softmax", axsi=1)
    net.AddExternalOutput(core.BlobReference("softmax"))
    (folder / "old.pb").write_bytes(net.Proto().SerializeToString())
    net.Proto().op[1].type = "Sofmax"
    net.Proto().op.add(type="Relu", input=["scores"], output=["softmax"])
    (folder / "new.pb").write_bytes(net.Proto().SerializeToString())
    (folder / "train.py").write_text(SCRIPT)


SHOWN = {
    "inspect": "inspect checkpoint_sync_net.pb --input gpu_0/fc_w:10x14400 --bandwidth 12",
    "lint": "lint new.pb --input data:8x64 --input fc_w:10x32 --input fc_b:10",
    "diff": "diff old.pb new.pb",
    "port": "port train.py",
    "run": "run --profile train.py",
    "doctor": "doctor",
}


def printed(command, folder):
    """What `caffe2lite command` prints on a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "caffe2lite", *shlex.split(command)],
        cwd=folder,
        env=environment,
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    )
    os.close(theirs)
    content = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        content += part
    process.wait()
    os.close(ours)
    return content.decode().replace("\r\n", "\n")


def main():
    """Write a picture for each command."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files(folder)
        for title, command in SHOWN.items():
            text = f"$ caffe2lite {command}\n" + printed(command, folder)
            with open(os.devnull, "w") as nowhere:
                console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
                console.print(Text.from_ansi(text))
            picture = console.export_svg(title="caffe2lite", unique_id=title)
            # No font from elsewhere: the reader's own monospace will do.
            (IMAGES / f"{title}.svg").write_text(re.sub(r"@font-face \{[^}]*\}\s*", "", picture))
            print(text)


if __name__ == "__main__":
    main()
