"""Each test has a workspace and names of its own."""

import pytest
from caffe2.python import workspace

from caffe2lite.devices import emulated


@pytest.fixture(autouse=True)
def fresh_workspace():
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


@pytest.fixture
def gpus():
    """Four emulated GPUs."""
    emulated.use(4)
    yield range(4)
    workspace.ResetWorkspace()
    emulated.use(0)
