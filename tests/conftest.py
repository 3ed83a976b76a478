"""Fixtures of several files of tests."""

import pytest
from caffe2.python import data_parallel_model, workspace
from test_seed import build

from caffe2lite.devices import emulated


@pytest.fixture
def sync_net():
    """The net of FinalizeAfterCheckpoint on four emulated GPUs."""
    emulated.use(4)
    workspace.ResetWorkspace()
    model = build("gpu", 4)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    yield model._checkpoint_net.Proto()
    workspace.ResetWorkspace()
    emulated.use(0)
