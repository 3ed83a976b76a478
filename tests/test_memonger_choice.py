"""Which blobs share: the choice of memonger, against what Caffe2 chose for 260 random nets (tests/golden/memonger.json.gz)."""

import gzip
import json
import pathlib
import re

import pytest

from caffe2lite.engine import memonger
from caffe2lite.proto import caffe2_pb2

GOLDEN = pathlib.Path(__file__).parent / "golden" / "memonger.json.gz"


def cases():
    with gzip.open(GOLDEN, "rt") as f:
        return json.load(f)


def numbered(operators):
    """Operands with the shared names numbered as they come: Caffe2's numbers follow the order of a C++ hash table."""
    numbers = {}

    def name(blob):
        return re.sub(r"__m\d+_shared", lambda m: f"__m{numbers.setdefault(m[0], len(numbers))}_shared", blob)

    return [[list(map(name, inputs)), list(map(name, outputs))] for inputs, outputs in operators]


@pytest.mark.parametrize("kind", ["dag", "fast"])
def test_the_blobs_that_caffe2_shares(kind):
    chosen = [case[1:] for case in cases() if case[0] == kind]
    assert len(chosen) > 40
    for operators, arguments, wanted in chosen:
        net = caffe2_pb2.NetDef(op=[caffe2_pb2.OperatorDef(type=t, input=i, output=o) for t, i, o in operators])
        made = (memonger.share_blobs if kind == "dag" else memonger.share_in_order)(net, *arguments)
        assert numbered([[op.input, op.output] for op in made.op]) == numbered(wanted), net
