"""Look into saved nets and checkpoints without running them.

from caffe2lite import inspect
file = inspect.read("checkpoint_sync_net.pb")
inspect.summarize(file.message)
"""

from caffe2lite.inspect.checkpoint import Stored, predictor_of, stored, stored_in
from caffe2lite.inspect.diff import diff_blobs, diff_files, diff_nets, value_of
from caffe2lite.inspect.files import File, Unrecognised, nets_of, outline, read
from caffe2lite.inspect.lint import CODES, Problem, lint, lint_plan, lint_shards, placeholders, shapes_after
from caffe2lite.inspect.summary import Summary, places, summarize
from caffe2lite.inspect.sync import Sync, sync_of
from caffe2lite.ops.kit.infer import Spec

__all__ = [
    "CODES",
    "File",
    "Problem",
    "Spec",
    "Stored",
    "Summary",
    "Sync",
    "Unrecognised",
    "diff_blobs",
    "diff_files",
    "diff_nets",
    "lint",
    "lint_plan",
    "lint_shards",
    "nets_of",
    "outline",
    "placeholders",
    "places",
    "predictor_of",
    "read",
    "shapes_after",
    "stored",
    "stored_in",
    "summarize",
    "sync_of",
    "value_of",
]
