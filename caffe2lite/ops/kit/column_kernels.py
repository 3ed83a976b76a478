"""CUDA kernels between images and the columns of convolutions: one launch, however many images and taps there are.

Images have one to three dimensions, and the kernels three: those that are not there are 1 long.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from caffe2lite.devices.base import Array
from caffe2lite.ops.kit.cuda_kernels import Kernel, usable
from caffe2lite.ops.kit.windows import Place

_SIDES = "dhw"
_GEOMETRY = ", ".join(f"int64 {what}{side}" for what in ("n", "o", "k", "s", "l", "p") for side in _SIDES)
_STRIDES = "int64 images, int64 channels, int64 by_image, int64 by_channel, int64 by_d, int64 by_h, int64 by_w"

# A column's element: channel, tap, image, position; outside of the image it is 0.
_COLUMNS = Kernel(
    "columns",
    f"T* y, const T* x, {_STRIDES}, {_GEOMETRY}",
    """
    int64 w = i % ow, h = i / ow % oh, d = i / ow / oh % od, rest = i / ow / oh / od;
    int64 image = rest % images, tap = rest / images, c = tap / kw / kh / kd;
    w = w * sw - pw + tap % kw * lw;
    h = h * sh - ph + tap / kw % kh * lh;
    d = d * sd - pd + tap / kw / kh % kd * ld;
    bool inside = w >= 0 && w < nw && h >= 0 && h < nh && d >= 0 && d < nd;
    y[i] = inside ? x[image * by_image + c * by_channel + d * by_d + h * by_h + w * by_w] : (T)0;
    """,
)

# A pixel gathers what the columns have of it, tap by tap, so that the sum has one order.
_FOLD = Kernel(
    "fold",
    f"T* x, const T* y, {_STRIDES}, {_GEOMETRY}",
    """
    int64 w = i % nw, h = i / nw % nh, d = i / nw / nh % nd, rest = i / nw / nh / nd;
    int64 c = rest % channels, image = rest / channels;
    T total = 0;
    for (int64 a = 0; a < kd; ++a) {
      int64 z = d + pd - a * ld;
      if (z < 0 || z % sd || z / sd >= od) continue;
      for (int64 b = 0; b < kh; ++b) {
        int64 r = h + ph - b * lh;
        if (r < 0 || r % sh || r / sh >= oh) continue;
        for (int64 e = 0; e < kw; ++e) {
          int64 q = w + pw - e * lw;
          if (q < 0 || q % sw || q / sw >= ow) continue;
          int64 tap = ((c * kd + a) * kh + b) * kw + e;
          total += y[(((tap * images + image) * od + z / sd) * oh + r / sh) * ow + q / sw];
        }
      }
    }
    x[image * by_image + c * by_channel + d * by_d + h * by_h + w * by_w] += total;
    """,
)

# Each channel with a filter of its own.
_DEPTHWISE = Kernel(
    "depthwise",
    f"T* y, const T* x, const T* filters, {_STRIDES}, {_GEOMETRY}",
    """
    int64 w = i % ow, h = i / ow % oh, d = i / ow / oh % od, rest = i / ow / oh / od;
    int64 c = rest % channels, image = rest / channels;
    T total = 0;
    for (int64 tap = 0; tap < kd * kh * kw; ++tap) {
      int64 q = w * sw - pw + tap % kw * lw, r = h * sh - ph + tap / kw % kh * lh;
      int64 z = d * sd - pd + tap / kw / kh * ld;
      if (q < 0 || q >= nw || r < 0 || r >= nh || z < 0 || z >= nd) continue;
      T pixel = x[image * by_image + c * by_channel + z * by_d + r * by_h + q * by_w];
      total += pixel * filters[c * kd * kh * kw + tap];
    }
    y[i] = total;
    """,
)


def fits(xp: ModuleType, place: Place, images: Array, *others: Array) -> bool:
    """Whether the kernels serve here: images (N, C, ...) or (N, ..., C) without gaps in memory."""
    return (
        len(place.size) <= 3
        and usable(xp, images, *others)
        and bool(images.size)
        and (images.flags.c_contiguous or _channels_last(images).flags.c_contiguous)
    )


def _channels_last(X: Array) -> Any:
    return X.transpose(0, *range(2, X.ndim), 1)


def _sides(values: tuple[int, ...], missing: int) -> tuple[int, ...]:
    return (*(missing,) * (3 - len(values)), *values)


def _geometry(place: Place) -> tuple[int, ...]:
    return (
        *_sides(place.size, 1),
        *_sides(place.out, 1),
        *_sides(place.kernel, 1),
        *_sides(place.stride, 1),
        *_sides(place.dilation, 1),
        *_sides(place.heads, 0),
    )


def _memory(X: Array) -> tuple[Any, tuple[int, ...]]:
    """(X's memory in its order; images, channels and steps in it) of X (N, C, ...)."""
    steps = tuple(s // X.itemsize for s in X.strides)
    memory = X if X.flags.c_contiguous else _channels_last(X)
    return memory, (X.shape[0], X.shape[1], *steps[:2], *_sides(steps[2:], 0))


def fill_columns(xp: ModuleType, X: Array, columns: Array, place: Place) -> None:
    """columns (C, kernel..., N, positions...) of X (N, C, ...)."""
    memory, steps = _memory(X)
    _COLUMNS(xp, columns.size, columns, memory, *steps, *_geometry(place))


def add_columns(xp: ModuleType, columns: Array, X: Array, place: Place) -> None:
    """Add columns back to X's pixels."""
    memory, steps = _memory(X)
    _FOLD(xp, X.size, memory, columns, *steps, *_geometry(place))


def depthwise(xp: ModuleType, X: Array, filters: Array, Y: Array, place: Place) -> None:
    """Y (N, C, ...), contiguous: each channel of X with its own filter (C, kernel...)."""
    memory, steps = _memory(X)
    _DEPTHWISE(xp, Y.size, Y, memory, filters, *steps, *_geometry(place))
