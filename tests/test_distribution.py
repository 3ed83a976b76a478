"""What is published: an sdist and a wheel, which an empty environment can install and use."""

import ast
import pathlib
import subprocess
import sys
import tarfile
import venv

import pytest

ROOT = pathlib.Path(__file__).parent.parent

PROGRAM = """
import importlib.metadata as metadata
from caffe2.python import core, workspace
import numpy as np

workspace.FeedBlob("x", np.array([-1.0, 2.0], "float32"))
workspace.RunOperatorOnce(core.CreateOperator("Relu", ["x"], ["y"]))
assert workspace.FetchBlob("y").tolist() == [0.0, 2.0]
print(sorted(d.name.lower() for d in metadata.distributions()))
"""


def test_a_wheel_and_an_sdist(tmp_path):
    pytest.importorskip("build", reason="building needs the packages build and hatchling, of the extra `dev`")
    line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", ROOT]
    subprocess.run(line, check=True, capture_output=True)
    (wheel,), (sdist,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "caffe2lite/proto/caffe2_pb2.py", "proto/caffe2.proto"} <= names
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True, capture_output=True)
    done = subprocess.run([python, "-c", PROGRAM], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert set(ast.literal_eval(done.stdout)) - {"pip", "setuptools"} == {"caffe2lite", "numpy", "protobuf"}
