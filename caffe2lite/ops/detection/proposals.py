"""Region proposals and their selection, as in Faster R-CNN, FPN and their rotated kin."""

from __future__ import annotations

import math

import numpy as np

from caffe2lite.ops.detection import box_geometry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, MANY, operator
from caffe2lite.ops.kit.rows import check_range


def _host(xp, array):
    """Return the array on the CPU, where selection runs: what it decides on is small."""
    return array if xp is np else xp.asnumpy(array) if hasattr(xp, "asnumpy") else array.get()


def _info(im_info, count):
    if im_info.ndim != 2 or im_info.shape[0] != count or im_info.shape[1] < 3:
        raise ValueError(f"im_info must be [{count}, 3] (height, width, scale), got shape {list(im_info.shape)}")
    if not all(map(math.isfinite, im_info[:, :3].reshape(-1).tolist())):
        raise ValueError(f"height, width and scale of an image must be finite, found {im_info[:, :3].tolist()}")


def _generate(scores, deltas, im_info, anchors, *, spatial_scale, pre, post, threshold, least, one, bounds, straight):
    """Return (rois, probabilities) of all images."""
    rotated = anchors.shape[1] == 5
    size = anchors.shape[1]
    n, kinds, height, width = scores.shape
    if not spatial_scale:
        raise ValueError("spatial_scale must not be 0")
    stride = 1.0 / spatial_scale
    x, y = np.meshgrid(np.arange(width) * stride, np.arange(height) * stride)
    zeros = [np.zeros_like(x)] * 3
    shifts = np.stack([x, y, *zeros] if rotated else [x, y, x, y], axis=-1).reshape(-1, 1, size)
    grid = (anchors[None] + shifts).astype("float32").reshape(-1, size)  # order: row, column, anchor
    rois, probabilities = [np.zeros((0, size + 1), "float32")], [np.zeros(0, "float32")]
    for image in range(n):
        p = scores[image].transpose(1, 2, 0).reshape(-1)
        d = deltas[image].reshape(kinds, size, height, width).transpose(2, 3, 0, 1).reshape(-1, size)
        order = _best(p, pre)
        p, d, boxes = p[order], d[order], grid[order]
        h, w, scale = int(im_info[image, 0]), int(im_info[image, 1]), float(im_info[image, 2])  # whole pixels
        if rotated:
            boxes = box_geometry.decode_rotated(np, boxes, d, (1, 1, 1, 1), bounds)
            boxes = box_geometry.clip_rotated(np, boxes, h, w, straight, one)
        else:
            boxes = box_geometry.clip(np, box_geometry.decode(np, boxes, d, (1, 1, 1, 1), one), h, w, one)
        keep = _large_enough(boxes, least * scale, h, w, one)
        boxes, p = boxes[keep], p[keep]
        kept = box_geometry.suppress(boxes, np.arange(len(p)), threshold, post if post > 0 else -1, one)
        rois.append(np.concatenate([np.full((len(kept), 1), image, "float32"), boxes[kept]], axis=1))
        probabilities.append(p[kept])
    return np.concatenate(rois).astype("float32"), np.concatenate(probabilities).astype("float32")


def _best(scores, most):
    """Return the places of the `most` largest scores (of all, if it is not above 0) in falling order, stable."""
    if 0 < most < scores.size:
        least = np.partition(scores, scores.size - most)[scores.size - most]
        among = np.nonzero(scores >= least)[0]
        if among.size >= most:  # it is less where there are NaN
            return among[np.argsort(-scores[among], kind="stable")[:most]]
    order = np.argsort(-scores, kind="stable")
    return order[:most] if most > 0 else order


def _large_enough(boxes, least, height, width, one):
    """Return which boxes are at least `least` wide and high, with their middle within the image."""
    least = max(least, 1.0)
    if boxes.shape[1] == 5:
        w, h, x, y = boxes[:, 2], boxes[:, 3], boxes[:, 0], boxes[:, 1]
    else:
        w, h = boxes[:, 2] - boxes[:, 0] + one, boxes[:, 3] - boxes[:, 1] + one
        x, y = boxes[:, 0] + w / 2, boxes[:, 1] + h / 2
    return (w >= least) & (h >= least) & (x < width) & (y < height)


def _proposals(
    xp,
    scores,
    bbox_deltas,
    im_info,
    anchors,
    *,
    spatial_scale: float = 1.0 / 16,
    pre_nms_topN: int = 6000,
    post_nms_topN: int = 300,
    nms_thresh: float = 0.7,
    min_size: float = 16.0,
    angle_bound_on: bool = True,
    angle_bound_lo: int = -90,
    angle_bound_hi: int = 90,
    clip_angle_thresh: float = 1.0,
    legacy_plus_one: bool = True,
    correct_transform_coords: bool = False,
    out,
):
    if scores.ndim != 4 or bbox_deltas.ndim != 4 or anchors.ndim != 2 or anchors.shape[1] not in (4, 5):
        raise ValueError(
            f"expected scores [N, A, H, W], deltas [N, A * 4, H, W] and anchors [A, 4 or 5], got {list(scores.shape)}, "
            f"{list(bbox_deltas.shape)} and {list(anchors.shape)}"
        )
    n, kinds, height, width = scores.shape
    if bbox_deltas.shape != (n, kinds * anchors.shape[1], height, width) or anchors.shape[0] != kinds:
        raise ValueError(f"deltas {list(bbox_deltas.shape)} and anchors {list(anchors.shape)} do not fit the scores")
    if not spatial_scale:
        raise ValueError("spatial_scale must not be 0: its reciprocal is the stride of the anchors")
    _info(im_info, n)
    rois, p = _generate(
        *(_host(xp, v) for v in (scores, bbox_deltas, im_info, anchors)),
        spatial_scale=spatial_scale,
        pre=pre_nms_topN,
        post=post_nms_topN,
        threshold=nms_thresh,
        least=min_size,
        one=int(legacy_plus_one),
        bounds=(angle_bound_lo, angle_bound_hi) if angle_bound_on else None,
        straight=clip_angle_thresh,
    )
    return xp.asarray(rois), xp.asarray(p)


for _name in ("GenerateProposals", "GenerateProposalsCPP"):
    operator(
        "rois rois_probs",
        name=_name,
        types={"scores": "float32", "bbox_deltas": "float32", "im_info": "float32", "anchors": "float32"},
        gradient=FORBID_GRADIENT,
        doc="""The best boxes of anchors moved by deltas, in each image, and their scores.

        scores [N, A, H, W], bbox_deltas [N, A * 4, H, W], im_info [N, 3] of height, width, scale, anchors [A, 4], all float32 ->
        rois [n, 5] of image, x1, y1, x2, y2, rois_probs [n]; rotated boxes, of 5 numbers, take 5 for 4 and 6 for 5.
        ValueError where the shapes do not fit, or angles do not span a multiple of 180 degrees.

        S. Ren, K. He, R. Girshick, J. Sun, "Faster R-CNN", 2015; J. Ma et al., "Arbitrary-oriented scene text detection via
        rotation proposals", 2018.
        """,
    )(_proposals)


@operator(
    "box_out roi_batch_splits?",
    types={"rois": "float32", "deltas": "float32", "im_info": "float32"},
    gradient=FORBID_GRADIENT,
    traits="checks_values",
)
def BBoxTransform(
    xp,
    rois,
    deltas,
    im_info,
    *,
    weights: list[float] = (1.0, 1.0, 1.0, 1.0),
    apply_scale: bool = True,
    rotated: bool = False,
    angle_bound_on: bool = True,
    angle_bound_lo: int = -90,
    angle_bound_hi: int = 90,
    clip_angle_thresh: float = 1.0,
    legacy_plus_one: bool = True,
    correct_transform_coords: bool = False,
    out,
):
    """Rois moved by the deltas of each of K classes, within their image.

    rois [M, 4] or [M, 5] of (image,) x1, y1, x2, y2, if rotated [M, 5] or [M, 6], deltas [M, K * 4 or 5], im_info [N,
    3] of height, width, scale, all float32 -> box_out [M, K * 4 or 5], roi_batch_splits [N]. ValueError where the
    shapes do not fit, rois are unsorted or of no image, weights are not four, or angles do not span a multiple of 180
    degrees.

    R. Girshick et al., "Rich feature hierarchies for accurate object detection and semantic segmentation", 2014
    (deltas).
    """
    size = 5 if rotated else 4
    if rois.ndim != 2 or rois.shape[1] not in (size, size + 1):
        raise ValueError(f"rois must be [M, {size}] or [M, {size + 1}], got shape {list(rois.shape)}")
    if deltas.ndim != 2 or deltas.shape[0] != rois.shape[0] or deltas.shape[1] % size:
        raise ValueError(f"deltas must be [{rois.shape[0]}, K * {size}], got shape {list(deltas.shape)}")
    if len(weights) != 4:
        raise ValueError(f"there must be four weights, got {list(weights)}")
    one = int(legacy_plus_one)
    images = _image_of(xp, rois, size, im_info)
    box_out = out[0](deltas.shape, "float32")
    for image, numbers in enumerate(_host(xp, im_info).tolist()):
        if not (all(math.isfinite(v) for v in numbers) and numbers[2]):
            raise ValueError(
                f"height, width and scale of image {image} must be finite, and the scale not 0; found {numbers}"
            )
        mine = xp.nonzero(images == image)[0]
        if not mine.shape[0]:
            continue
        before = numbers[2]
        after = before if apply_scale else 1.0
        height, width = (int(v / before + 0.5) for v in numbers[:2])
        boxes = rois[mine][:, None, rois.shape[1] - size :].copy()
        boxes[..., :4] /= before
        moves = deltas[mine].reshape(mine.shape[0], -1, size)
        if rotated:
            bounds = (angle_bound_lo, angle_bound_hi) if angle_bound_on else None
            made = box_geometry.decode_rotated(xp, boxes, moves, weights, bounds)
            made = box_geometry.clip_rotated(xp, made, height, width, clip_angle_thresh, one)
        else:
            made = box_geometry.clip(xp, box_geometry.decode(xp, boxes, moves, weights, one), height, width, one)
        made[..., :4] *= xp.float32(after)
        box_out[mine] = made.reshape(mine.shape[0], -1)
    if len(out) < 2:
        return (box_out,)
    splits = out[1]((im_info.shape[0],), "float32")
    splits[...] = xp.bincount(images, minlength=im_info.shape[0])
    return box_out, splits


def _image_of(xp, rois, size, im_info):
    """Return the image of each roi, which must come in order."""
    if im_info.ndim != 2 or im_info.shape[1] < 3:
        raise ValueError(f"im_info must be [N, 3] (height, width, scale), got shape {list(im_info.shape)}")
    if rois.shape[1] == size:
        if im_info.shape[0] != 1:
            raise ValueError(f"rois without an image number need im_info of one image, found {im_info.shape[0]}")
        return xp.zeros(rois.shape[0], "int64")
    images = rois[:, 0].astype("int64")
    check_range(images, im_info.shape[0], "the image of a roi")
    falls = xp.diff(images) < 0
    if falls.any():
        at = int(falls.argmax())
        raise ValueError(f"rois must be sorted by their image, found {int(images[at])} before {int(images[at + 1])}")
    return images


@operator(
    "scores boxes classes batch_splits? keeps? keeps_size?",
    types={"scores": "float32", "boxes": "float32", "batch_splits": "float32"},
    gradient=FORBID_GRADIENT,
)
def BoxWithNMSLimit(
    xp,
    scores,
    boxes,
    batch_splits=None,
    *,
    score_thresh: float = 0.05,
    nms: float = 0.3,
    detections_per_im: int = 100,
    soft_nms_enabled: bool = False,
    soft_nms_method: str = "linear",
    soft_nms_sigma: float = 0.5,
    soft_nms_min_score_thres: float = 0.001,
    rotated: bool = False,
    cls_agnostic_bbox_reg: bool = False,
    input_boxes_include_bg_cls: bool = True,
    output_classes_include_bg_cls: bool = True,
    legacy_plus_one: bool = True,
    out,
):
    """Non-maximum suppression a class (but the background), then the best `detections_per_im` of each image.

    The background is the first class of scores and boxes, or the last one of the scores alone where
    input_boxes_include_bg_cls is off.

    scores [M, K] or [M], boxes [M, K * 4 or 5], batch_splits [N], all float32 -> scores [n], boxes [n, 4 or 5], classes
    [n], batch_splits [N], float32, keeps [n] int32, keeps_size [N, K] int32. ValueError where the shapes or splits do
    not fit, or the method is unknown.

    N. Bodla et al., "Soft-NMS: improving object detection with one line of code", 2017 (with soft_nms_enabled).
    """
    size = 5 if rotated else 4
    if soft_nms_method not in ("linear", "gaussian"):
        raise ValueError(f"there is no soft_nms_method {soft_nms_method!r}; there are linear and gaussian")
    if scores.ndim == 1:
        scores = scores.reshape(-1, 1)
    if scores.ndim != 2:
        raise ValueError(f"scores must be [boxes, classes], got shape {list(scores.shape)}")
    count, classes = scores.shape
    first = int(input_boxes_include_bg_cls)
    columns = range(first, classes - 1 + first)
    width = (1 if cls_agnostic_bbox_reg else classes - 1 + first) * size
    if boxes.ndim != 2 or boxes.shape != (count, width):
        raise ValueError(f"boxes must be [{count}, {width}], got shape {list(boxes.shape)}")
    s, b = _host(xp, scores), _host(xp, boxes)
    splits = [count] if batch_splits is None else _host(xp, batch_splits).reshape(-1).tolist()
    if not all(0 <= v < 2**31 for v in splits):
        raise ValueError(f"batch_splits must be numbers of boxes, found {splits}")
    splits = [int(v) for v in splits]
    if sum(splits) != count:
        raise ValueError(f"batch_splits sum to {sum(splits)}, and there are {count} boxes")
    soft = (soft_nms_method, soft_nms_sigma, soft_nms_min_score_thres) if soft_nms_enabled else None
    values, where, labels, keeps = [], [], [], []
    sizes = np.zeros((len(splits), classes), "int32")
    shift = int(output_classes_include_bg_cls) - first
    begin = 0
    for image, split in enumerate(splits):
        part = slice(begin, begin + split)
        begin += split
        box_columns = [0 if cls_agnostic_bbox_reg else j for j in columns]
        kept = _of_image(s[part], b[part], columns, box_columns, size, score_thresh, nms, int(legacy_plus_one), soft)
        for j, (indices, class_scores, class_boxes) in zip(columns, _limit(kept, detections_per_im)):
            values.append(class_scores[indices])
            where.append(class_boxes[indices])
            labels.append(np.full(len(indices), j + shift))
            keeps.append(np.asarray(indices))
            sizes[image, j + shift] = len(indices)
    join = lambda parts, empty, dtype: np.concatenate([*parts, np.empty(empty)]).astype(dtype)
    made = [
        join(values, 0, "float32"),
        join(where, (0, size), "float32"),
        join(labels, 0, "float32"),
        sizes.sum(axis=1).astype("float32"),
        join(keeps, 0, "int32"),
        sizes,
    ]
    return tuple(xp.asarray(m) for m in made[: len(out)])


def _of_image(scores, boxes, columns, box_columns, size, least, threshold, one, soft):
    """Return for each class (indices that are kept, scores, boxes)."""
    kept = []
    for j, k in zip(columns, box_columns):
        mine, values = boxes[:, k * size : (k + 1) * size], scores[:, j]
        indices = np.nonzero(values > least)[0]
        if soft is not None:
            method, sigma, lowest = soft
            indices, values = box_geometry.soft_suppress(mine, values, indices, sigma, threshold, lowest, method, one)
        else:
            order = indices[np.argsort(-values[indices], kind="stable")]
            indices = box_geometry.suppress(mine, order, threshold, -1, one)
        kept.append((list(indices), values, mine))
    return kept


def _limit(kept, most):
    """Return the best `most` of all classes (0: all); among equals those of lower classes, and before them in their class."""
    if not 0 < most < sum(len(i) for i, _, _ in kept):
        return kept
    every = np.concatenate([v[i] for i, v, _ in kept])
    cut = np.sort(every)[::-1][most - 1]
    ties = most - int((every > cut).sum())
    chosen = []
    for indices, scores, boxes in kept:
        equal = [k for k in indices if scores[k] == cut][:ties]
        ties -= len(equal)
        chosen.append(([k for k in indices if scores[k] > cut or k in equal], scores, boxes))
    return chosen


# ---- feature pyramids --------------------------------------------------------------------------------------------------


def _collect(inputs, low, high, most):
    """Return the best rois of all levels, [n, 5], by falling score."""
    levels = high - low + 1
    if len(inputs) != 2 * levels:
        raise ValueError(
            f"levels {low} to {high} need {levels} tensors of rois and as many of scores, got {len(inputs)}"
        )
    for r in inputs[:levels]:
        if r.ndim < 1 or r.shape[-1] != 5:
            raise ValueError(f"rois must be [n, 5], got shape {list(r.shape)}")
    rois = np.concatenate([r.reshape(-1, 5) for r in inputs[:levels]])
    scores = np.concatenate([s.reshape(-1) for s in inputs[levels:]])
    if len(rois) != len(scores):
        raise ValueError(f"there are {len(rois)} rois and {len(scores)} scores")
    return rois[_best(scores, most)]


_MOST_LEVELS = 1000


def _levels(rois, low, high, scale, level, one):
    """Return the pyramid level of each roi, by its size."""
    area = (rois[:, 3] - rois[:, 1] + one) * (rois[:, 4] - rois[:, 2] + one)
    if scale <= 0:
        raise ValueError(f"roi_canonical_scale must be above 0, found {scale}")
    if not (area >= 0).all():
        raise ValueError(f"a roi ends before it begins: {rois[np.argmin(area >= 0)].tolist()} (image, x1, y1, x2, y2)")
    side = np.sqrt(area).astype("float32")
    found = np.floor(level + np.log2(side / np.float32(scale) + np.float32(1e-6)))
    return np.clip(found, low, high).astype("int64")


def _distribute(rois, low, high, scale, level, one):
    """Return (rois of each level, the permutation that restores their order)."""
    if not low <= high < low + _MOST_LEVELS:
        raise ValueError(f"there are no pyramids from roi_min_level={low} to roi_max_level={high}")
    which = _levels(rois, low, high, scale, level, one)
    groups = [np.nonzero(which == k)[0] for k in range(low, high + 1)]
    restore = np.empty(len(rois), "int32")
    restore[np.concatenate(groups)] = np.arange(len(rois))
    return [rois[g].astype("float32") for g in groups], restore


@operator(
    "rois rois_fpn* rois_idx_restore",
    types="float32",
    num_inputs=(2, MANY),
    num_outputs=(3, MANY),
    gradient=FORBID_GRADIENT,
)
def CollectAndDistributeFpnRpnProposals(
    xp,
    *inputs,
    roi_canonical_scale: int = 224,
    roi_canonical_level: int = 4,
    roi_max_level: int = 5,
    roi_min_level: int = 2,
    rpn_max_level: int = 6,
    rpn_min_level: int = 2,
    rpn_post_nms_topN: int = 2000,
    legacy_plus_one: bool = True,
    out,
):
    """The best rois of all levels, and the same by the level of their size with the permutation that restores them.

    For each level rois [n, 5], then for each level scores [n], float32 -> rois [N, 5], rois of each level [n, 5],
    rois_idx_restore [N] int32. ValueError where inputs or outputs are not as many as the levels ask for, or a roi ends
    before it begins.

    T.-Y. Lin et al., "Feature pyramid networks for object detection", 2017 (equation 1).
    """
    rois = _collect([_host(xp, i) for i in inputs], rpn_min_level, rpn_max_level, rpn_post_nms_topN)
    parts, restore = _distribute(
        rois, roi_min_level, roi_max_level, roi_canonical_scale, roi_canonical_level, int(legacy_plus_one)
    )
    if len(out) != len(parts) + 2:
        raise ValueError(
            f"levels {roi_min_level} to {roi_max_level} make {len(parts) + 2} outputs, and {len(out)} are named"
        )
    return tuple(xp.asarray(m) for m in [rois.astype("float32"), *parts, restore])


@operator("rois", types="float32", num_inputs=(2, MANY), gradient=FORBID_GRADIENT)
def CollectRpnProposals(
    xp,
    *inputs,
    rpn_max_level: int = 6,
    rpn_min_level: int = 2,
    rpn_post_nms_topN: int = 2000,
    out,
):
    """The best rois of all levels, by falling score.

    For each level rois [n, 5], then for each level scores [n], float32 -> rois [N, 5]. ValueError where the inputs are
    not as many as the levels ask for.
    """
    return xp.asarray(
        _collect([_host(xp, i) for i in inputs], rpn_min_level, rpn_max_level, rpn_post_nms_topN).astype("float32")
    )


@operator(
    "rois_fpn* rois_idx_restore",
    num_inputs=(1, 1),
    num_outputs=(2, MANY),
    types={"rois": "float32"},
    gradient=FORBID_GRADIENT,
)
def DistributeFpnProposals(
    xp,
    rois,
    *,
    roi_canonical_scale: int = 224,
    roi_canonical_level: int = 4,
    roi_max_level: int = 5,
    roi_min_level: int = 2,
    legacy_plus_one: bool = True,
    out,
):
    """Rois by the level of their size, and the permutation that restores their order.

    rois [N, 5] float32 -> rois of each level [n, 5], rois_idx_restore [N] int32. ValueError where the outputs are not
    as many as the levels ask for, or a roi ends before it begins.
    """
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ValueError(f"rois must be [n, 5], got shape {list(rois.shape)}")
    parts, restore = _distribute(
        _host(xp, rois), roi_min_level, roi_max_level, roi_canonical_scale, roi_canonical_level, int(legacy_plus_one)
    )
    if len(out) != len(parts) + 1:
        raise ValueError(
            f"levels {roi_min_level} to {roi_max_level} make {len(parts) + 1} outputs, and {len(out)} are named"
        )
    return tuple(xp.asarray(m) for m in [*parts, restore])


# ---- keypoints ---------------------------------------------------------------------------------------------------------


@operator(
    "keypoints",
    types={"heatmaps": "float32", "boxes": "float32"},
    infer=lambda args, inputs: [Spec((inputs[0].shape[0], 4, inputs[0].shape[1]))],
    gradient=FORBID_GRADIENT,
)
def HeatmapMaxKeypoint(xp, heatmaps, boxes, *, should_output_softmax: bool = False, out):
    """The place, score and probability of each keypoint: the peak of its heat map, refined by a parabola, within the box.

    heatmaps [R, K, H, W] float32, boxes [R, 4] float32 -> keypoints [R, 4, K] of x, y, score, probability. ValueError
    where the shapes do not fit.

    K. He et al., "Mask R-CNN", 2017.
    """
    if heatmaps.ndim != 4 or boxes.ndim != 2 or boxes.shape[0] != heatmaps.shape[0] or boxes.shape[1] < 4:
        raise ValueError(
            f"expected heat maps [R, K, H, W] and boxes [R, 4], got {list(heatmaps.shape)}, {list(boxes.shape)}"
        )
    count, kinds, height, width = heatmaps.shape
    if height < 2 or width != height:
        raise ValueError(f"heat maps are squares of two pixels a side or more, found {height} by {width}")
    keypoints = out((count, 4, kinds), "float32")
    planes = heatmaps.reshape(count * kinds, height * width)
    y, x = xp.divmod(planes.argmax(axis=1), width) if planes.size else xp.zeros((2, len(planes)), "int64")
    dx, dy, score = _refine(xp, heatmaps.reshape(-1, height, width), y, x)
    x1, y1, x2, y2 = boxes[:, :4].astype("float64").T[:, :, None]
    x, y = ((place + 0.5).reshape(count, kinds) for place in (x + dx, y + dy))
    keypoints[:, 0] = x1 + x * xp.maximum(x2 - x1, 1.0) / width
    keypoints[:, 1] = y1 + y * xp.maximum(y2 - y1, 1.0) / height
    keypoints[:, 2] = score.reshape(count, kinds)
    keypoints[:, 3] = 0
    if should_output_softmax:
        away = planes - planes.max(axis=1, keepdims=True)
        keypoints[:, 3] = (1 / xp.exp(away, away).sum(axis=1)).reshape(count, kinds)
    return keypoints


def _refine(xp, planes, y, x):
    """Return the offset of a parabola's peak from the largest of 3 × 3 values, and its height, of each plane."""
    number = xp.arange(len(planes))
    near = lambda dy, dx: planes[
        number, _mirror(xp, y + dy, planes.shape[1]), _mirror(xp, x + dx, planes.shape[2])
    ].astype("float64")
    peak, left, right, above, below = near(0, 0), near(0, -1), near(0, 1), near(-1, 0), near(1, 0)
    slope_x, slope_y = (right - left) / 2, (below - above) / 2
    bend_x, bend_y = left - 2 * peak + right, above - 2 * peak + below
    mixed = (near(1, 1) - near(1, -1) - near(-1, 1) + near(-1, -1)) / 4
    det = bend_x * bend_y - mixed * mixed
    flat = abs(det) < 1e-4
    det = xp.where(flat, 1, det)
    dx, dy = (mixed * slope_y - bend_y * slope_x) / det, (mixed * slope_x - bend_x * slope_y) / det
    shrink = 1.5 / xp.maximum(xp.maximum(abs(dx), abs(dy)), 1.5)
    dx, dy = xp.where(flat, 0, dx * shrink), xp.where(flat, 0, dy * shrink)
    score = peak + slope_x * dx + slope_y * dy + 0.5 * (bend_x * dx * dx + 2 * mixed * dx * dy + bend_y * dy * dy)
    return dx, dy, score


def _mirror(xp, i, size):
    if size == 1:
        return xp.zeros_like(i)
    return xp.where(i < 0, 1, xp.where(i >= size, size - 2, i))
