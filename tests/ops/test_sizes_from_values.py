"""Results whose size is a value: beyond CAFFE2LITE_LARGEST_RESULT they are refused before memory is asked for."""

import tracemalloc

import numpy as np
import pytest

from caffe2lite.engine import runner
from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments
from caffe2lite.proto import caffe2_pb2

HUGE = 1 << 40


def i32(*values):
    return np.array(values, "int32")


def i64(*values):
    return np.array(values, "int64")


X, ROWS = np.ones((2, 3), "f"), np.ones((2, 1 << 10), "f")
IDS = i64(0, 1 << 40)
MOST = 2**31 - 1
CASES = [
    ("ConstantFill", [], {"shape": [HUGE], "value": 1.0}),
    ("ConstantFill", [i64(HUGE, 2)], {"input_as_shape": 1, "value": 1.0}),
    ("ConstantFill", [X], {"extra_shape": [HUGE], "value": 1.0}),
    ("UniformFill", [], {"shape": [HUGE]}),
    ("UniformIntFill", [], {"shape": [HUGE]}),
    ("GaussianFill", [], {"shape": [HUGE]}),
    ("XavierFill", [], {"shape": [HUGE, 2]}),
    ("MSRAFill", [], {"shape": [HUGE, 2]}),
    ("DiagonalFill", [], {"shape": [1 << 20, 1 << 20], "value": 1.0}),
    ("LengthsRangeFill", [i32(*[MOST] * 4)], {}),
    ("Range", [i64(HUGE)], {}),
    ("Tile", [X], {"tiles": HUGE, "axis": 0}),
    ("Tile", [X, i64(MOST), i64(0)], {}),
    ("Expand", [np.ones((1, 1), "f"), i64(HUGE, 1)], {}),
    ("OneHot", [i64(0, 1), i64(HUGE)], {}),
    ("SegmentOneHot", [i32(1), i64(0), i64(HUGE)], {}),
    ("UnsortedSegmentSum", [ROWS, IDS], {}),
    ("UnsortedSegmentMean", [ROWS, IDS], {}),
    ("UnsortedSegmentSum", [ROWS, IDS], {"num_segments": HUGE}),
    ("SparseUnsortedSegmentSum", [ROWS, i64(0, 1), IDS], {}),
    ("SegmentIdsToLengths", [i64(0, HUGE)], {}),
    ("SparseToDense", [i64(0, HUGE), ROWS], {}),
    ("BatchSparseToDense", [i64(1), i64(0), np.ones(1, "f")], {"dense_last_dim": HUGE}),
    ("LengthsToSegmentIds", [i32(*[MOST] * 4)], {}),
    ("LengthsTile", [ROWS, i32(MOST, MOST)], {}),
    ("LengthsToWeights", [i32(*[MOST] * 4)], {}),
    ("LengthsPad", [X, i32(1, 1)], {"target_length": HUGE}),
    ("LengthsSplit", [i32(1, 1)], {"n_split": HUGE}),
    ("PadImage", [np.ones((1, 1, 2, 2), "f")], {"pad_t": HUGE, "pad_l": 0, "pad_b": 0, "pad_r": 0}),
    ("AddPadding", [X, i32(2)], {"padding_width": HUGE}),
    ("ResizeNearest", [np.ones((1, 1, 2, 2), "f")], {"width_scale": 1e8, "height_scale": 1e8}),
    ("UpsampleBilinear", [np.ones((1, 1, 2, 2), "f")], {"width_scale": 1e8, "height_scale": 1e8}),
    ("PackSegments", [i32(1, 1), ROWS], {"max_length": HUGE}),
]


@pytest.mark.parametrize(("kind", "inputs", "args"), CASES, ids=[f"{k}-{i}" for i, (k, *_) in enumerate(CASES)])
def test_a_result_beyond_the_limit_is_refused_at_once(kind, inputs, args):
    workspace = Workspace()
    op = caffe2_pb2.OperatorDef(type=kind, input=[f"x{k}" for k in range(len(inputs))], output=["y"])
    if kind in ("AddPadding", "LengthsSplit"):
        op.output[:] = ["y", "lengths"][: 1 + (kind == "AddPadding")]
    for k, array in enumerate(inputs):
        workspace.feed(f"x{k}", array)
    for name, value in args.items():
        arguments.write(op.arg.add(), name, value)
    tracemalloc.start()
    try:
        with pytest.raises(OperatorError, match=kind):
            runner.run_operator(workspace, op)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    for k, array in enumerate(inputs):
        np.testing.assert_array_equal(workspace.fetch(f"x{k}"), array)
