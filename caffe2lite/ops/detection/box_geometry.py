"""Boxes [x1, y1, x2, y2] and rotated boxes [x, y, w, h, degrees]: decoding, clipping, overlap, suppression.

With `one` = 1 a box holds both of its corner pixels, as in the first Faster R-CNN (`legacy_plus_one`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loaded, loop

LARGEST = math.log(1000.0 / 16.0)  # a box does not grow more than that in one step


def decode(xp: Any, boxes: Any, deltas: Any, weights: Any, one: int) -> Any:
    """Return boxes moved by deltas (dx, dy, log w, log h); both [..., 4]."""
    w, h = boxes[..., 2] - boxes[..., 0] + one, boxes[..., 3] - boxes[..., 1] + one
    x, y = boxes[..., 0] + 0.5 * w, boxes[..., 1] + 0.5 * h
    wx, wy, ww, wh = weights
    x, y = deltas[..., 0] / wx * w + x, deltas[..., 1] / wy * h + y
    w = xp.exp(xp.minimum(deltas[..., 2] / ww, LARGEST)) * w
    h = xp.exp(xp.minimum(deltas[..., 3] / wh, LARGEST)) * h
    return xp.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w - one, y + 0.5 * h - one], axis=-1).astype("float32")


def decode_rotated(xp: Any, boxes: Any, deltas: Any, weights: Any, bounds: tuple[int, int] | None) -> Any:
    """Return rotated boxes moved by deltas (dx, dy, log w, log h, radians); angles brought within `bounds` if given."""
    wx, wy, ww, wh = weights
    x = deltas[..., 0] / wx * boxes[..., 2] + boxes[..., 0]
    y = deltas[..., 1] / wy * boxes[..., 3] + boxes[..., 1]
    w = xp.exp(xp.minimum(deltas[..., 2] / ww, LARGEST)) * boxes[..., 2]
    h = xp.exp(xp.minimum(deltas[..., 3] / wh, LARGEST)) * boxes[..., 3]
    angle = deltas[..., 4] * (180.0 / math.pi) + boxes[..., 4]
    if bounds is not None:
        low, high = bounds
        if high - low <= 0 or (high - low) % 180:
            raise ValueError(f"the angles {low} to {high} must span a multiple of 180 degrees")
        period = high - low
        angle = xp.where(angle < low, angle + period, xp.where(angle > high, angle - period, angle))
    return xp.stack([x, y, w, h, angle], axis=-1).astype("float32")


def clip(xp: Any, boxes: Any, height: float, width: float, one: int) -> Any:
    """Return boxes within an image."""
    limits = xp.asarray([width - one, height - one, width - one, height - one], "float32")
    return xp.maximum(xp.minimum(boxes, limits), 0)


def clip_rotated(xp: Any, boxes: Any, height: float, width: float, threshold: float, one: int) -> Any:
    """Return boxes, those that are turned by no more than `threshold` degrees, within an image; others as they are."""
    x1, y1 = boxes[..., 0] - (boxes[..., 2] - one) / 2, boxes[..., 1] - (boxes[..., 3] - one) / 2
    x2, y2 = boxes[..., 0] + (boxes[..., 2] - one) / 2, boxes[..., 1] + (boxes[..., 3] - one) / 2
    inside = clip(xp, xp.stack([x1, y1, x2, y2], axis=-1), height, width, one)
    straight = xp.stack(
        [
            (inside[..., 0] + inside[..., 2]) / 2,
            (inside[..., 1] + inside[..., 3]) / 2,
            xp.minimum(boxes[..., 2], inside[..., 2] - inside[..., 0] + one),
            xp.minimum(boxes[..., 3], inside[..., 3] - inside[..., 1] + one),
            boxes[..., 4],
        ],
        axis=-1,
    )
    return xp.where((xp.abs(boxes[..., 4]) <= threshold)[..., None], straight, boxes).astype("float32")


def overlaps(box: np.ndarray, boxes: np.ndarray, one: int) -> np.ndarray:
    """Return intersection over union of one box with others."""
    w = np.maximum(np.minimum(box[2], boxes[:, 2]) - np.maximum(box[0], boxes[:, 0]) + one, 0)
    h = np.maximum(np.minimum(box[3], boxes[:, 3]) - np.maximum(box[1], boxes[:, 1]) + one, 0)
    area = (boxes[:, 2] - boxes[:, 0] + one) * (boxes[:, 3] - boxes[:, 1] + one)
    mine = (box[2] - box[0] + one) * (box[3] - box[1] + one)
    return w * h / (area + mine - w * h)


def _corners(box: np.ndarray) -> np.ndarray:
    """Return the corners, [4, 2], of a rotated box, counter-clockwise in (x, -y)."""
    angle = math.radians(float(box[4]))
    c, s = math.cos(angle) * 0.5, math.sin(angle) * 0.5
    x, y, w, h = (float(v) for v in box[:4])
    first = (x - s * h - c * w, y + c * h - s * w)
    second = (x + s * h - c * w, y - c * h - s * w)
    return np.array([first, second, (2 * x - first[0], 2 * y - first[1]), (2 * x - second[0], 2 * y - second[1])])


def _clip_polygon(points: list, a: np.ndarray, b: np.ndarray, inner: np.ndarray) -> list:
    """Return the part of a convex polygon on the side of the line a-b where `inner` is (Sutherland and Hodgman, 1974)."""
    side = lambda p: (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    sign = 1.0 if side(inner) >= 0 else -1.0
    kept = []
    for p, q in zip(points, points[1:] + points[:1]):
        u, v = sign * side(p), sign * side(q)
        if u >= 0:
            kept.append(p)
        if (u > 0 > v) or (u < 0 < v):
            kept.append(p + (q - p) * (u / (u - v)))
    return kept


def overlaps_rotated(box: np.ndarray, boxes: np.ndarray, one: int) -> np.ndarray:
    """Return intersection over union of one rotated box with others."""
    mine = _corners(box)
    found = np.zeros(len(boxes))
    reach = math.hypot(float(box[2]), float(box[3])) / 2
    for i, other in enumerate(boxes):
        if (
            math.hypot(float(box[0] - other[0]), float(box[1] - other[1]))
            > reach + math.hypot(*map(float, other[2:4])) / 2
        ):
            continue
        theirs = _corners(other)
        points = list(mine)
        for k in range(4):
            points = _clip_polygon(points, theirs[k], theirs[(k + 1) % 4], other[:2])
            if len(points) < 3:
                break
        if len(points) >= 3:
            x, y = np.array(points).T
            shared = 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
            total = float(box[2] * box[3] + other[2] * other[3]) - shared
            found[i] = shared / total if total > 0 else 0.0
    return found


def suppress(boxes: np.ndarray, order: np.ndarray, threshold: float, most: int, one: int) -> list[int]:
    """Return by greedy non-maximum suppression the indices that are kept, in `order`; at most `most` of them (-1: all)."""
    if boxes.shape[1] == 4 and boxes.dtype == np.float32 and order.size > 16 and loaded():
        kept = np.empty(order.size, np.int64)
        count = _suppress(np.ascontiguousarray(boxes[order]), np.float32(threshold), most, np.float32(one), kept)
        return [int(i) for i in order[kept[:count]]]
    measure = overlaps_rotated if boxes.shape[1] == 5 else overlaps
    kept = []
    while order.size and (most < 0 or len(kept) < most):
        best, order = order[0], order[1:]
        kept.append(int(best))
        if order.size:
            order = order[measure(boxes[best], boxes[order], one) <= threshold]
    return kept


@loop
def _suppress(boxes, threshold, most, one, kept):  # type: ignore[no-untyped-def]
    """Of boxes in their order: the places of those kept, and their number."""
    count = 0
    gone = np.zeros(len(boxes), np.bool_)
    for i in range(len(boxes)):
        if gone[i]:
            continue
        if most >= 0 and count >= most:
            break
        kept[count] = i
        count += 1
        x1, y1, x2, y2 = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
        mine = (x2 - x1 + one) * (y2 - y1 + one)
        for j in range(i + 1, len(boxes)):
            if gone[j]:
                continue
            w = max(min(x2, boxes[j, 2]) - max(x1, boxes[j, 0]) + one, np.float32(0))
            h = max(min(y2, boxes[j, 3]) - max(y1, boxes[j, 1]) + one, np.float32(0))
            area = (boxes[j, 2] - boxes[j, 0] + one) * (boxes[j, 3] - boxes[j, 1] + one)
            gone[j] = not w * h / (area + mine - w * h) <= threshold
    return count


def soft_suppress(
    boxes: np.ndarray,
    scores: np.ndarray,
    indices: np.ndarray,
    sigma: float,
    threshold: float,
    least: float,
    method: str,
    one: int,
) -> tuple[list[int], np.ndarray]:
    """Return (indices kept, new scores): scores are lowered by the overlap with better boxes."""
    measure = overlaps_rotated if boxes.shape[1] == 5 else overlaps
    scores = scores.copy()
    pending = np.array(indices)
    kept = []
    while pending.size:
        at = int(np.argmax(scores[pending]))
        best = int(pending[at])
        kept.append(best)
        pending = np.delete(pending, at)
        if not pending.size:
            break
        shared = measure(boxes[best], boxes[pending], one)
        if method == "linear":
            factor = np.where(shared > threshold, 1 - shared, 1)
        elif method == "gaussian":
            factor = np.exp(-shared * shared / sigma)
        else:
            factor = np.where(shared > threshold, 0, 1)
        scores[pending] = (scores[pending] * factor).astype(scores.dtype)
        pending = pending[scores[pending] >= least]
    return kept, scores
