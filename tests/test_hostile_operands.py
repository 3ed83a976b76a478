"""Operators on operands that do not fit say so in their own words, on every backend: a short run of tools/hostile_operands.py."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of each family one or two, those with compiled kernels among them; all types and more cases: by hand.
KINDS = [
    "AtomicAppend", "AveragePoolGradient", "BatchGather", "Concat", "EnqueueBlobs", "GivenTensorFill", "LengthsSum",
    "MaxPoolGradient", "MergeSingleListFeatureTensors", "MomentumSGDUpdate", "PadEmptySamples", "RMACRegions", "Reshape",
    "RowWiseSparseAdagrad", "SoftmaxGradient", "SparseLengthsIndicesInGradientSumGradient", "SparseLengthsWeightedSum",
    "SpatialBN", "SpatialBNGradient", "Tile", "UnsortedSegmentSum",
]  # fmt: skip


def test_nothing_is_found():
    script = [
        sys.executable,
        str(ROOT / "tools" / "hostile_operands.py"),
        "--seed",
        "7",
        "--cases",
        "12",
        "--jobs",
        "2",
        *KINDS,
    ]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert json.loads(done.stdout.splitlines()[-1])["cases"] >= 200
