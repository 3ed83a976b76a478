"""tools/gpu_check.py runs to its end on emulated GPUs and goes on where it stopped; tools/cupy_shadow.py finds nothing."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
CUPY = pathlib.Path(os.environ.get("CAFFE2LITE_CUPY_VENV", pathlib.Path.home() / ".cache" / "caffe2lite-cupy"))


def tool(name, *arguments):
    return subprocess.run(
        [sys.executable, TOOLS / name, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=TOOLS
    )


def test_gpu_check_resumes(tmp_path):
    results = tmp_path / "found.json"
    line = [
        "--emulated",
        2,
        "--only",
        "edges",
        "training",
        "order",
        "memory/100",
        "recorded cases/operators/A",
        "--results",
        results,
    ]
    stopped = tool("gpu_check.py", *line, "--seconds", 0)
    assert stopped.returncode == 0 and re.search(r"0 failed, 0 skipped, [1-9]\d* left", stopped.stdout), stopped
    ended = tool("gpu_check.py", *line)
    assert ended.returncode == 0 and " 0 failed, 1 skipped, 0 left" in ended.stdout, ended.stdout + ended.stderr
    found = json.loads(results.read_text())
    assert found["machine"]["GPUs"] == ["emulated GPU 0", "emulated GPU 1"]
    assert {c["outcome"] for c in found["checks"].values()} == {"passed", "skipped"}
    page = results.with_suffix(".md").read_text()
    assert "| order |" in page and "there is no NCCL" in page and "largest relative error" in page
    before = results.read_bytes()
    assert tool("gpu_check.py", *line).stdout.splitlines() == [ended.stdout.splitlines()[-1]]
    assert results.read_bytes() == before


def test_gpu_check_fails_where_a_check_does(tmp_path):
    """On one emulated GPU, in a folder without the other checks' results, with a check that cannot pass."""
    script = f"""
import sys
sys.path.insert(0, {str(TOOLS)!r})
import gpu_check
from gpu_checks import Check, run, refused
def wrong():
    with refused("never said"):
        run("Relu", [])
gpu_check.all_checks = lambda: [Check("edges", "wrong", wrong)]
sys.argv = ["gpu_check.py", "--emulated", "1", "--results", {str(tmp_path / "f.json")!r}]
sys.exit(gpu_check.main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "1 failed" in done.stdout, done
    assert "refused in other words" in (tmp_path / "f.md").read_text()


@pytest.mark.skipif(not (CUPY / "bin" / "python").exists(), reason="tools/cupy_shadow.py has not installed CuPy yet")
def test_cupy_refuses_nothing():
    done = tool("cupy_shadow.py", "--venv", CUPY)
    assert done.returncode == 0 and " 0 refused or different" in done.stdout, done.stdout[-3000:]
