"""What the tests of inspect and lint share: a small net, a checkpoint and the command line."""

import pytest
from caffe2.python import core, workspace

click_testing = pytest.importorskip("click.testing", reason="the extra tools is not installed")
pytest.importorskip("rich", reason="the extra tools is not installed")
from caffe2lite.commands import cli  # noqa: E402 - they need click


def run(*args):
    return click_testing.CliRunner().invoke(cli, [str(a) for a in args], catch_exceptions=False)


def small_net():
    net = core.Net("small")
    net.FC(["x", "w", "b"], "h")
    net.Relu("h", "h")
    net.Softmax("h", "p")
    net.AddExternalOutput(core.BlobReference("p"))
    assert list(net.Proto().external_input) == ["x", "w", "b"]
    return net.Proto()


def checkpoint(path, **blobs):
    workspace.ResetWorkspace()
    for name, value in blobs.items():
        workspace.FeedBlob(name, value)
    args = {"absolute_path": 1, "db": str(path), "db_type": "minidb", "chunk_size": 4}
    workspace.RunOperatorOnce(core.CreateOperator("Save", list(blobs), [], **args))
    workspace.ResetWorkspace()
