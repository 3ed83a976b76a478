"""Batches of nothing: an operator computes them, or says in words of its own why not.

Each recorded case is run again with the first dimension of its first input set to 0, in all inputs that have it.  What
NumPy says when it is asked for the impossible is no such words.
"""

import json
import re

import golden_cases
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.ops.kit import registry

NUMPY = re.compile(
    "cannot reshape|zero-size array|could not be broadcast together|not aligned|need at least one array|out of bounds|"
    "must match|do not fit the operator|non-broadcastable|could not broadcast|mismatch in its core|negative dimensions"
)


def emptied(workspace, op):
    """Whether there is a first dimension to empty; every input that has it is cut to nothing."""
    blobs = [workspace.get_blob(name) for name in dict.fromkeys(op.input)]
    tensors = [b for b in blobs if b is not None and b.is_tensor and b.value is not None and b.value.ndim]
    if not tensors or not len(tensors[0].value):
        return False
    size = len(tensors[0].value)
    for blob in tensors:
        if len(blob.value) == size:
            workspace.feed(blob.name, blob.value[:0].copy())
    return True


@pytest.mark.parametrize("kind", [k for k in golden_cases.types("operators") if registry.get(k) is not None])
def test_empty_batches(kind):
    wrong = []
    for name, files in golden_cases.cases("operators", kind):
        if json.loads(files["meta.json"]).get("engine_error"):
            continue
        workspace, op = golden_cases.load(files)
        if not emptied(workspace, op):
            continue
        try:
            runner.run_operator(workspace, op)
        except OperatorError as e:
            if NUMPY.search(str(e).splitlines()[0]):
                wrong.append((name, str(e)[:300]))
    assert not wrong
