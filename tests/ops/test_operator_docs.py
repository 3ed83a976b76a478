"""Every operator's doc says shapes, dtypes and what it refuses."""

import re

import pytest

from caffe2lite.engine import python_op  # noqa: F401 - registers Python operators
from caffe2lite.ops.kit import registry

SHAPE = re.compile(r"\[[^\]]*[\w.…][^\]]*\]|\[\]|\bscalars?\b|any shape|[Nn]o tensors?|any number of dimensions")
DTYPE = re.compile(
    r"\b(u?int(8|16|32|64)|float(16|32|64)?|double|bool|strings?|bytes|integers?)\b|any (data )?type|any dtype"
)
ERROR = re.compile(r"\b\w*Error\b")


def lacks(record):
    """What a doc does not say."""
    found = (("its shapes", SHAPE), ("its dtypes", DTYPE), ("its errors", ERROR))
    return [what for what, pattern in found if not pattern.search(record.doc)]


def families():
    """{folder of caffe2lite/ops, or another module: its operators}."""
    table = {}
    for name in registry.names():
        record = registry.find(name)
        if record.module.startswith("caffe2lite."):
            family = re.sub(r"^caffe2lite\.(ops\.(\w+)\..*|.*)$", lambda m: m[2] or m[1], record.module)
            table.setdefault(family, []).append(record)
    return table


@pytest.mark.parametrize("family", sorted(families()))
def test_docs_tell_shapes_types_and_errors(family):
    missing = {record.name: lack for record in families()[family] if (lack := lacks(record))}
    assert not missing
