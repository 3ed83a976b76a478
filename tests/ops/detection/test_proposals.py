"""Proposals and their selection."""

import numpy as np
import pytest
from running import refused, run

from caffe2lite.ops.detection import box_geometry

RNG = np.random.default_rng(0)
ANCHORS = np.array([[-8, -8, 8, 8], [-16, -4, 16, 4]], "f")
INFO = np.array([[64, 64, 1.0]], "f")


@pytest.mark.parametrize("kind", ["GenerateProposals", "GenerateProposalsCPP"])
def test_proposals_are_the_best_anchors_that_do_not_overlap(kind):
    scores = RNG.permutation(32).reshape(1, 2, 4, 4).astype("f")
    args = {"spatial_scale": 1 / 16, "nms_thresh": 0.4, "min_size": 1.0, "legacy_plus_one": 0}
    rois, p = run(kind, [scores, np.zeros((1, 8, 4, 4), "f"), INFO, ANCHORS], args, outputs=2)
    assert list(p) == sorted(p, reverse=True) and (rois[:, 0] == 0).all()
    assert rois[:, 1:].min() >= 0 and rois[:, 1:].max() <= 64
    for i in range(1, len(rois)):
        assert box_geometry.overlaps(rois[i, 1:], rois[:i, 1:], 0).max() <= 0.4
    a, row, column = (int(v) for v in np.unravel_index(scores[0].argmax(), (2, 4, 4)))
    moved = ANCHORS[a] + np.array([column, row, column, row]) * 16
    np.testing.assert_allclose(rois[0, 1:], np.clip(moved, 0, 64))
    few = run(kind, [scores, np.zeros((1, 8, 4, 4), "f"), INFO, ANCHORS], {**args, "post_nms_topN": 3}, outputs=2)
    np.testing.assert_array_equal(few[0], rois[:3])


def test_rotated_proposals_have_six_numbers():
    anchors = np.array([[8, 8, 16, 16, 0], [8, 8, 16, 16, 45]], "f")
    inputs = [RNG.random((2, 2, 3, 3)).astype("f"), np.zeros((2, 10, 3, 3), "f"), INFO.repeat(2, 0), anchors]
    rois, p = run("GenerateProposals", inputs, {"nms_thresh": 0.1}, outputs=2)
    assert rois.shape == (len(p), 6) and set(rois[:, 0]) == {0, 1}


def test_bbox_transform():
    rois = np.array([[0, 2, 4, 12, 14], [1, 0, 0, 10, 10]], "f")
    info = np.array([[40, 60, 2.0], [40, 60, 1.0]], "f")
    deltas = (RNG.standard_normal((2, 8)) * 0.1).astype("f")
    args = {"legacy_plus_one": 0, "weights": [1.0, 2.0, 3.0, 4.0]}
    boxes, splits = run("BBoxTransform", [rois, deltas, info], args, outputs=2)
    for r, (roi, scale) in enumerate(zip(rois, (2, 1))):
        box = roi[None, 1:] / scale
        for k in range(2):
            made = box_geometry.decode(np, box, deltas[r : r + 1, 4 * k : 4 * k + 4], (1, 2, 3, 4), 0)
            want = box_geometry.clip(np, made, 40 / scale, 60 / scale, 0) * scale
            np.testing.assert_allclose(boxes[r, 4 * k : 4 * k + 4], want[0], rtol=1e-5)
    assert splits.tolist() == [1, 1]


def test_a_class_keeps_its_best_boxes():
    box = lambda *at: [a for x in at for a in (x, 0, x + 10, 10)]
    scores = np.array([[0.1, 0.9, 0.2], [0.1, 0.8, 0.6], [0.1, 0.7, 0.01]], "f")
    boxes = np.array([box(0, 0, 0), box(0, 1, 30), box(0, 40, 60)], "f")
    values, found, classes, splits, keeps, sizes = run("BoxWithNMSLimit", [scores, boxes], {"nms": 0.3}, outputs=6)
    np.testing.assert_allclose(values, [0.9, 0.7, 0.6, 0.2], rtol=1e-6)
    assert classes.tolist() == [1, 1, 2, 2] and keeps.tolist() == [0, 2, 1, 0]
    assert splits.tolist() == [4] and sizes.tolist() == [[0, 2, 2]]
    np.testing.assert_array_equal(found[:, 0], [0, 40, 30, 0])
    best = run("BoxWithNMSLimit", [scores, boxes], {"nms": 0.3, "detections_per_im": 2}, outputs=3)[0]
    np.testing.assert_allclose(best, [0.9, 0.7], rtol=1e-6)
    parts = run("BoxWithNMSLimit", [scores, boxes, np.array([1, 2], "f")], {"nms": 0.3}, outputs=4)
    assert parts[3].tolist() == [2, 3]


def test_pyramid_levels_by_size():
    rois = np.array([[0, 0, 0, s - 1, s - 1] for s in (30, 224, 500, 113, 448)], "f")
    parts = run("DistributeFpnProposals", [rois], {}, outputs=5)
    assert [len(p) for p in parts[:4]] == [1, 1, 1, 2]
    np.testing.assert_array_equal(np.concatenate(parts[:4])[parts[4]], rois)


def test_collected_rois_come_by_score():
    rois = [RNG.random((n, 5)).astype("f") for n in (3, 2)]
    scores = [np.array([0.1, 0.9, 0.5], "f"), np.array([0.7, 0.3], "f")]
    args = {"rpn_min_level": 2, "rpn_max_level": 3, "rpn_post_nms_topN": 4}
    (Y,) = run("CollectRpnProposals", [*rois, *scores], args)
    np.testing.assert_array_equal(Y, np.concatenate(rois)[[1, 3, 2, 4]])
    corners = [np.sort(RNG.random((n, 2, 2)) * 500, axis=1).reshape(n, 4) for n in (3, 2)]
    boxes = [np.insert(c, 0, 0, axis=1).astype("f") for c in corners]
    whole, *parts, restore = run("CollectAndDistributeFpnRpnProposals", [*boxes, *scores], args, outputs=6)
    np.testing.assert_array_equal(np.concatenate(parts)[restore], whole)


def test_keypoints_are_peaks():
    y, x = np.mgrid[:9, :9]
    maps = np.stack([-((x - cx) ** 2 + (y - cy) ** 2) / 8 for cx, cy in ((4, 3), (5.25, 2.5))])[None].astype("f")
    (Y,) = run("HeatmapMaxKeypoint", [maps, np.array([[10, 20, 28, 38]], "f")])
    np.testing.assert_allclose(Y[0, :2], [[10 + 9, 10 + 11.5], [20 + 7, 20 + 6]], atol=1e-4)
    np.testing.assert_allclose(Y[0, 2:], [[0, 0], [0, 0]], atol=1e-5)
    (Y,) = run("HeatmapMaxKeypoint", [maps, np.array([[0, 0, 9, 9]], "f")], {"should_output_softmax": 1})
    np.testing.assert_allclose(Y[0, 3], np.exp(maps[0].max((1, 2))) / np.exp(maps[0]).sum((1, 2)), rtol=1e-5)


S, D = np.zeros((1, 2, 3, 3), "f"), np.zeros((1, 8, 3, 3), "f")
ROIS, MOVES = np.array([[0, 0, 0, 5, 5], [1, 0, 0, 5, 5]], "f"), np.zeros((2, 4), "f")


@pytest.mark.parametrize(
    ("words", "kind", "inputs", "args", "outputs"),
    [
        (
            r"deltas \[1, 4, 3, 3\] and anchors \[2, 4\] do not fit",
            "GenerateProposals",
            [S, D[:, :4], INFO, ANCHORS],
            {},
            2,
        ),
        (r"got \[2, 3, 3\]", "GenerateProposals", [S[0], D, INFO, ANCHORS], {}, 2),
        (r"im_info must be \[1, 3\]", "GenerateProposals", [S, D, INFO[:, :2], ANCHORS], {}, 2),
        ("the image of a roi is 1; it must be from 0 to 0", "BBoxTransform", [ROIS, MOVES, INFO], {}, 1),
        (
            "sorted by their image, found 1 before 0",
            "BBoxTransform",
            [ROIS[::-1].copy(), MOVES, INFO.repeat(2, 0)],
            {},
            1,
        ),
        ("im_info of one image, found 2", "BBoxTransform", [ROIS[:, 1:], MOVES, INFO.repeat(2, 0)], {}, 1),
        (r"four weights, got \[1.0\]", "BBoxTransform", [ROIS, MOVES, INFO], {"weights": [1.0]}, 1),
        (r"deltas must be \[2, K \* 4\]", "BBoxTransform", [ROIS, MOVES[:1], INFO], {}, 1),
        (r"boxes must be \[2, 8\], got shape \[2, 4\]", "BoxWithNMSLimit", [MOVES[:, :2], MOVES], {}, 3),
        (
            "batch_splits sum to 5, and there are 2 boxes",
            "BoxWithNMSLimit",
            [MOVES[:, :1], MOVES, np.array([5], "f")],
            {},
            3,
        ),
        (
            r"the scale not 0; found \[64.0, 64.0, 0.0\]",
            "BBoxTransform",
            [ROIS[:1], MOVES[:1], INFO * [[1, 1, 0]]],
            {},
            1,
        ),
        ("spatial_scale must not be 0", "GenerateProposals", [S, D, INFO, ANCHORS], {"spatial_scale": 0.0}, 2),
        (
            "soft_nms_method 'hard'",
            "BoxWithNMSLimit",
            [MOVES[:, :1], MOVES],
            {"soft_nms_enabled": 1, "soft_nms_method": "hard"},
            3,
        ),
        (
            "levels 2 to 6 need 5 tensors of rois and as many of scores, got 2",
            "CollectRpnProposals",
            [ROIS, MOVES],
            {},
            1,
        ),
        ("levels 2 to 5 make 5 outputs, and 2 are named", "DistributeFpnProposals", [ROIS], {}, 2),
        (
            r"ends before it begins: \[0.0, 9.0",
            "DistributeFpnProposals",
            [ROIS + np.array([0, 9, 0, 0, 0], "f")],
            {},
            5,
        ),
        (r"got \[2, 4\], \[2, 5\]", "HeatmapMaxKeypoint", [MOVES, ROIS], {}, 1),
    ],
)
def test_refusals(words, kind, inputs, args, outputs):
    refused(kind, [x.astype("f") for x in inputs], words, args, outputs)
