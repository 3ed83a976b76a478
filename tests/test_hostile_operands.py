"""Operators on operands that do not fit say so in their own words, on every backend: a short run of tools/hostile_operands.py."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of each family one or two, those with compiled kernels among them; all types and more cases: by hand.
KINDS = [
    "AtomicAppend", "AveragePoolGradient", "BatchGather", "Concat", "EnqueueBlobs", "GivenTensorFill", "LengthsSum",
    "MaxPoolGradient", "MergeSingleListFeatureTensors", "MomentumSGDUpdate", "PadEmptySamples", "RMACRegions", "Reshape",
    "RowWiseSparseAdagrad", "SoftmaxGradient", "SparseLengthsIndicesInGradientSumGradient", "SparseLengthsWeightedSum",
    "SpatialBN", "SpatialBNGradient", "Tile", "UnsortedSegmentSum",
]  # fmt: skip


# All single changes of their recorded cases: sizes from values, operands of other types and ranks, kernels of several backends.
SINGLE = [
    "BatchOneHot", "CTCBeamSearchDecoder", "DiagonalFill", "InstanceNormGradient", "LSTMUnitGradient",
    "MergeMultiScalarFeatureTensorsGradient", "RoIAlignGradient", "SpaceToBatch",
]  # fmt: skip


@pytest.mark.parametrize(
    "options, kinds", [(["--seed", "7", "--cases", "12"], KINDS), (["--single", "--cases", "600"], SINGLE)]
)
def test_nothing_is_found(options, kinds):
    script = [sys.executable, str(ROOT / "tools" / "hostile_operands.py"), *options, "--jobs", "2", *kinds]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert json.loads(done.stdout.splitlines()[-1])["cases"] >= 200
