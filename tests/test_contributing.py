"""What CONTRIBUTING.md shows works when it is pasted: the operator, and its test."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent

RUN = """
import sys, pytest, importlib.util
spec = importlib.util.spec_from_file_location("quartic", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", sys.argv[3], sys.argv[2]]))
"""


def test_the_example_works(tmp_path):
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert [name for name, _ in blocks] == ["caffe2lite/ops/math/quartic.py", "tests/ops/math/test_quartic.py"]
    paths = []
    for name, text in blocks:
        paths.append(tmp_path / pathlib.Path(name).name)
        paths[-1].write_text(text)
    environment = {"PYTHONPATH": str(ROOT / "tests" / "ops"), "PATH": ""}
    line = [sys.executable, "-c", RUN, *paths, tmp_path]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr
