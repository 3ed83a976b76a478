"""Numbers that overflow, vanish or are none: an operator computes with them as IEEE 754 says, or refuses them by name.

Recorded cases are run again with one float argument, or all values of one float input, at an extreme.  Exceptions of
Python's own arithmetic, where C would go on with inf or NaN, are found here.
"""

import itertools
import json
import re

import golden_cases
import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.kit import arguments, registry

EXTREMES = (0.0, 1.0, -1.0, 1e30, -1e30, float("inf"), float("nan"))
PYTHON = re.compile(
    "OverflowError|ZeroDivisionError|math domain error|complex|cannot convert float|MemoryError: |out of bounds|negative dimensions"
)
_CASES, _INPUTS = 3, 6  # of each operator
KINDS = [
    k for k in golden_cases.types("operators") if (r := registry.get(k)) is not None and "NetDef" not in str(r.args)
]


def variations(op, workspace):
    """(words, change to make) for each float argument and input."""
    record = registry.get(op.type)
    for name, arg in record.args.items():
        if arg.kind == "float":
            for value in EXTREMES:
                yield f"{name}={value}", lambda name=name, value=value: _set(op, name, value)
    for name in list(dict.fromkeys(op.input))[:_INPUTS]:
        blob = workspace.get_blob(name)
        held = blob.value if blob is not None and blob.is_tensor else None
        if held is not None and held.dtype.kind == "f" and held.size:
            for value in EXTREMES:
                yield (
                    f"{name}={value}",
                    lambda name=name, held=held, value=value: workspace.feed(name, np.full_like(held, value)),
                )


def _set(op, name, value):
    kept = [a for a in op.arg if a.name != name]
    del op.arg[:]
    op.arg.extend(kept)
    arguments.write(op.arg.add(), name, value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_extremes(kind):
    wrong = []
    accepted = (
        c for c in golden_cases.cases("operators", kind) if not json.loads(c[1]["meta.json"]).get("engine_error")
    )
    for name, files in itertools.islice(accepted, _CASES):
        for k, (words, _) in enumerate(list(variations(*reversed(golden_cases.load(files))))):
            workspace, op = golden_cases.load(files)
            _, change = list(variations(op, workspace))[k]
            change()
            try:
                runner.run_operator(workspace, op)
            except OperatorError as e:
                if PYTHON.search(str(e).splitlines()[0]):
                    wrong.append((name, words, str(e).splitlines()[0][:200]))
    assert not wrong
