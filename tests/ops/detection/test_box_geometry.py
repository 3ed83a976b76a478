"""Boxes: decoding, clipping, overlap, suppression."""

import numpy as np
import pytest

from caffe2lite.ops.detection import box_geometry as boxes

RNG = np.random.default_rng(0)
WEIGHTS = (10.0, 10.0, 5.0, 5.0)


def some(count):
    corners = np.sort(RNG.random((count, 2, 2)) * 50, axis=1)
    return corners.reshape(count, 4).astype("f")


def rotated(count):
    return np.concatenate([RNG.random((count, 4)) * 20 + 5, RNG.random((count, 1)) * 180 - 90], axis=1).astype("f")


@pytest.mark.parametrize("one", [0, 1])
def test_no_move_leaves_a_box_where_it_is(one):
    b = some(5)
    np.testing.assert_allclose(boxes.decode(np, b, np.zeros((5, 4), "f"), WEIGHTS, one), b, atol=1e-4)
    r = rotated(5)
    np.testing.assert_allclose(boxes.decode_rotated(np, r, np.zeros((5, 5), "f"), WEIGHTS, None), r, atol=1e-4)


def test_moves_are_relative_to_the_size():
    b, d = np.array([[0, 0, 10, 20]], "f"), np.array([[1, 1, np.log(2) * 5, 99]], "f")
    x1, y1, x2, y2 = boxes.decode(np, b, d, WEIGHTS, 0)[0]
    assert ((x1 + x2) / 2, (y1 + y2) / 2) == pytest.approx((6, 12))
    assert x2 - x1 == pytest.approx(20) and y2 - y1 == pytest.approx(20 * 1000 / 16, rel=1e-5)  # growth is bounded


def test_angles_come_within_their_bounds():
    r, d = np.array([[0, 0, 4, 2, 80]], "f"), np.array([[0, 0, 0, 0, np.radians(20)]], "f")
    assert boxes.decode_rotated(np, r, d, WEIGHTS, (-90, 90))[0, 4] == pytest.approx(-80)
    with pytest.raises(ValueError, match="the angles 0 to 100 must span a multiple of 180"):
        boxes.decode_rotated(np, r, d, WEIGHTS, (0, 100))


def test_clipping():
    b = np.array([[-5, -5, 100, 3], [1, 1, 2, 2]], "f")
    np.testing.assert_array_equal(boxes.clip(np, b, 10, 20, 1), [[0, 0, 19, 3], [1, 1, 2, 2]])
    r = np.array([[0, 0, 8, 8, 0], [0, 0, 8, 8, 45]], "f")
    clipped = boxes.clip_rotated(np, r, 10, 20, 1.0, 0)
    np.testing.assert_array_equal(clipped, [[2, 2, 4, 4, 0], r[1]])  # turned boxes stay


def pixels(box, n=60):
    y, x = np.mgrid[:n, :n]
    return (x >= box[0]) & (x < box[2]) & (y >= box[1]) & (y < box[3])


def test_overlaps_are_those_of_pixels():
    whole = np.array([[5, 5, 25, 25], [10, 0, 40, 30], [30, 30, 50, 50], [5, 5, 25, 25]], "f")
    have = boxes.overlaps(whole[0], whole, 0)
    want = [(pixels(whole[0]) & pixels(b)).sum() / (pixels(whole[0]) | pixels(b)).sum() for b in whole]
    np.testing.assert_allclose(have, want)
    middle = np.stack([(whole[:, 0] + whole[:, 2]) / 2, (whole[:, 1] + whole[:, 3]) / 2], axis=1)
    turned = np.concatenate([middle, whole[:, 2:] - whole[:, :2], np.zeros((4, 1))], axis=1).astype("f")
    np.testing.assert_allclose(boxes.overlaps_rotated(turned[0], turned, 0), want, atol=1e-6)


def test_turned_boxes_overlap_by_a_known_share():
    square = np.array([0, 0, 2, 2, 0], "f")
    others = np.array([[0, 0, 2, 2, 90], [0, 0, 2, 2, 45], [9, 9, 2, 2, 0]], "f")
    octagon = 8 * (np.sqrt(2) - 1)  # the intersection of two squares at 45 degrees
    np.testing.assert_allclose(boxes.overlaps_rotated(square, others, 0), [1, octagon / (8 - octagon), 0], atol=1e-6)


def test_overlap_is_symmetric():
    for measure, kind in ((boxes.overlaps, some), (boxes.overlaps_rotated, rotated)):
        b = kind(12)
        matrix = np.stack([measure(one, b, 0) for one in b])
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
        np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)


def test_suppression_keeps_none_that_overlaps_a_better_one():
    b, scores = some(40), RNG.random(40)
    order = np.argsort(-scores)
    kept = boxes.suppress(b, order, 0.3, -1, 0)
    assert kept[0] == order[0] and list(scores[kept]) == sorted(scores[kept], reverse=True)
    for i, k in enumerate(kept):
        assert i == 0 or boxes.overlaps(b[k], b[kept[:i]], 0).max() <= 0.3
    for k in set(range(40)) - set(kept):
        better = [j for j in kept if scores[j] > scores[k]]
        assert boxes.overlaps(b[k], b[better], 0).max() > 0.3
    assert boxes.suppress(b, order, 0.3, 2, 0) == kept[:2]


@pytest.mark.parametrize("method", ["linear", "gaussian"])
def test_soft_suppression_lowers_scores(method):
    b, scores = np.array([[0, 0, 10, 10], [0, 0, 10, 8], [50, 50, 60, 60]], "f"), np.array([0.9, 0.8, 0.7], "f")
    kept, lowered = boxes.soft_suppress(b, scores, np.arange(3), 0.5, 0.3, 0.0, method, 0)
    shared = boxes.overlaps(b[0], b[1:2], 0)[0]
    factor = 1 - shared if method == "linear" else np.exp(-(shared**2) / 0.5)
    np.testing.assert_allclose(lowered, [0.9, 0.8 * factor, 0.7], rtol=1e-6)
    assert kept == [0, 2, 1]
    assert boxes.soft_suppress(b, scores, np.arange(3), 0.5, 0.3, 0.65, method, 0)[0] == [0, 2]
