"""Caffe2's own Python files run on our engine.  They are not ours to keep: CAFFE2_GENUINE says where they are."""

import os
import pathlib
import subprocess
import sys

import pytest

GENUINE = os.environ.get("CAFFE2_GENUINE", "")


@pytest.mark.skipif(not GENUINE, reason="CAFFE2_GENUINE does not name the caffe2 folder of a genuine wheel")
def test_core_workspace_and_data_parallel_model():
    script = pathlib.Path(__file__).with_name("genuine_frontend.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, GENUINE], capture_output=True, text=True, timeout=200
    )
    assert "train and synchronize on caffe2lite" in done.stdout, done.stdout + done.stderr
