"""No operator crashes, reads outside of its arrays or takes its time over operands that do not fit."""

import json
import os
import pathlib
import subprocess
import sys


def test_every_operator_works_or_says_what_is_wrong():
    here = pathlib.Path(__file__).parent
    path = os.pathsep.join([str(here), *(p for p in sys.path if p)])
    script = [sys.executable, str(here / "fuzz_operators.py"), "0", "8"]  # another seed, more trials: by hand
    done = subprocess.run(script, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert done.returncode == 0, f"{lines[-1][1] if lines else 'the start'} ended the process: {done.stderr[-2000:]}"
    assert [f"{name}: {wrong}" for name, wrong in lines if name] == []
