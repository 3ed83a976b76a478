"""Look into saved nets and checkpoints without running them.

from caffe2lite import inspect
file = inspect.read("checkpoint_sync_net.pb")
inspect.summarize(file.message)
"""

from caffe2lite.inspect.checkpoint import Stored, stored
from caffe2lite.inspect.diff import diff_blobs, diff_nets
from caffe2lite.inspect.files import File, Unrecognised, read
from caffe2lite.inspect.lint import Problem, lint, lint_shards
from caffe2lite.inspect.summary import Summary, summarize
from caffe2lite.inspect.sync import Sync, sync_of

__all__ = [
    "File",
    "Problem",
    "Stored",
    "Summary",
    "Sync",
    "Unrecognised",
    "diff_blobs",
    "diff_nets",
    "lint",
    "lint_shards",
    "read",
    "stored",
    "summarize",
    "sync_of",
]
