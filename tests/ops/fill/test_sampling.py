"""Random samples follow their weights; replacement leaves the rest as it is."""

import numpy as np
import pytest
from running import floats, refused, run

from caffe2lite.proto import caffe2_pb2

SEEDED = caffe2_pb2.DeviceOption(random_seed=1)


def test_weighted_samples_follow_their_weights():
    weights = np.tile(np.array([1, 0, 3], "f"), (4000, 1))
    values = np.tile(np.array([10, 20, 30], "f"), (4000, 1))
    indices, chosen = run("WeightedSample", [weights, values], outputs=2, device=SEEDED)
    assert indices.shape == chosen.shape == (4000, 1) and indices.dtype == np.int32
    assert set(indices[:, 0]) == {0, 2} and abs((indices == 2).mean() - 0.75) < 0.03
    np.testing.assert_array_equal(chosen[:, 0], values[0][indices[:, 0]])
    assert run("WeightedSample", [weights[:0]])[0].shape == (0,)


def test_samples_of_a_cumulative_distribution():
    cdf = np.array([0.5, 0.5, 2], "f")  # the second has no weight
    found = run("WeightedMultiSampling", [cdf], {"num_samples": 4000}, device=SEEDED)[0]
    assert set(found) == {0, 2} and abs((found == 2).mean() - 0.75) < 0.03
    assert run("WeightedMultiSampling", [cdf, floats(3, 5)])[0].shape == (3, 5)
    assert run("WeightedMultiSampling", [cdf[:0]], {"num_samples": 4})[0].shape == (0,)


LENGTHS = np.array([2, 0, 3] * 1000, "int32")
IDS = np.arange(LENGTHS.sum())


def test_examples_are_replaced_as_a_whole():
    args = {"ratio": 0.25, "replacement_value": -1}
    values, lengths = run("SparseDropoutWithReplacement", [IDS, LENGTHS], args, 2, device=SEEDED)
    assert lengths.sum() == len(values)
    gone, begin = 0, np.cumsum(LENGTHS) - LENGTHS
    for part, k in zip(np.split(values, np.cumsum(lengths)[:-1]), range(len(LENGTHS))):
        if part.tolist() == [-1]:
            gone += 1
        else:
            assert part.tolist() == IDS[begin[k] : begin[k] + LENGTHS[k]].tolist()
    assert abs(gone / len(LENGTHS) - 0.25) < 0.03


def test_items_are_replaced_each_for_itself():
    args = {"ratio": 0.25, "replacement_value": -1}
    values, lengths = run("SparseItemwiseDropoutWithReplacement", [IDS, LENGTHS], args, 2, device=SEEDED)
    np.testing.assert_array_equal(lengths, LENGTHS)
    assert abs((values == -1).mean() - 0.25) < 0.03 and (values[values != -1] == IDS[values != -1]).all()


@pytest.mark.parametrize("kind", ["SparseDropoutWithReplacement", "SparseItemwiseDropoutWithReplacement"])
def test_none_and_all(kind):
    np.testing.assert_array_equal(run(kind, [IDS, LENGTHS], {"ratio": 0.0}, 2)[0], IDS)
    assert set(run(kind, [IDS, LENGTHS], {"ratio": 1.0, "replacement_value": 7}, 2)[0]) == {7}
    refused(kind, [IDS, LENGTHS[:2]], "must add up to the 5000 values", outputs=2)
    refused(kind, [IDS, LENGTHS], "ratio .*must be <= 1, found 2", {"ratio": 2.0}, 2)


@pytest.mark.parametrize(("kind", "inputs", "args", "words", "outputs"), [
    ("WeightedSample", [floats(3)], {}, r"found the shape \[3\]", 1),
    ("WeightedSample", [floats(3, 2), floats(3, 1)], {}, r"shape \[3, 2\], found \[3, 1\]", 2),
    ("WeightedSample", [floats(3, 2)], {}, "second output needs the second input", 2),
    ("WeightedMultiSampling", [floats(3, 2)], {}, r"vector, found \[3, 2\]", 1),
    ("WeightedMultiSampling", [floats(3)], {"num_samples": -1}, "num_samples .*must be >= 0, found -1", 1),
])  # fmt: skip
def test_refusals(kind, inputs, args, words, outputs):
    refused(kind, inputs, words, args, outputs)
