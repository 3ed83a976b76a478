"""CUDA kernels of pools and of local response normalization: one thread for each value that comes out."""

from __future__ import annotations

from caffe2lite.ops.kit.cuda_kernels import Kernel

# As `_geometry` of pooling has them: planes of an image, where its height and width are 1 and more.
_GEOMETRY = (
    "int64 planes, int64 h, int64 w, int64 oh, int64 ow, int64 kh, int64 kw, int64 sh, int64 sw, int64 top, int64 left"
)
_WINDOW = """
    int64 column = i % ow, line = i / ow % oh;
    const T* plane = x + i / ow / oh * h * w;
    int64 first = max(line * sh - top, (int64)0), last = min(line * sh - top + kh, h);
    int64 begin = max(column * sw - left, (int64)0), end = min(column * sw - left + kw, w);
"""
# A pixel's positions; each thread gathers what comes to its pixel, so that the sum has one order.
_POSITIONS = """
    int64 column = i % w, line = i / w % h, plane = i / w / h * oh * ow;
    int64 first = line + top < kh ? 0 : (line + top - kh) / sh + 1, last = min((line + top) / sh + 1, oh);
    int64 begin = column + left < kw ? 0 : (column + left - kw) / sw + 1, end = min((column + left) / sw + 1, ow);
    T total = 0;
    for (int64 r = first; r < last; ++r)
      for (int64 c = begin; c < end; ++c) {
        int64 at = plane + r * ow + c;
        EACH
      }
    dx[i] = total;
"""

MAX_POOL = Kernel(
    "max_pool",
    f"T* y, const T* x, {_GEOMETRY}",
    _WINDOW
    + """
    T most = plane[first * w + begin];  // NaN stays where it comes first
    for (int64 r = first; r < last; ++r)
      for (int64 c = begin; c < end; ++c)
        if (plane[r * w + c] > most) most = plane[r * w + c];
    y[i] = most;
    """,
)

MAX_POOL_GRADIENT = Kernel(
    "max_pool_gradient",
    f"T* dx, const T* x, const T* y, const T* dy, {_GEOMETRY}",
    _POSITIONS.replace("EACH", "if (x[i] == y[at]) total += dy[at];"),
)

AVERAGE_POOL = Kernel(
    "average_pool",
    f"T* y, const T* x, int64 fixed, {_GEOMETRY}",
    _WINDOW
    + """
    T total = 0;
    for (int64 r = first; r < last; ++r)
      for (int64 c = begin; c < end; ++c) total += plane[r * w + c];
    y[i] = total / (T)(fixed ? fixed : (last - first) * (end - begin));
    """,
)

AVERAGE_POOL_GRADIENT = Kernel(
    "average_pool_gradient",
    f"T* dx, const T* dy, int64 fixed, {_GEOMETRY}",
    _POSITIONS.replace(
        "EACH",
        """int64 down = min(r * sh - top + kh, h) - max(r * sh - top, (int64)0);
        int64 across = min(c * sw - left + kw, w) - max(c * sw - left, (int64)0);
        total += dy[at] / (T)(fixed ? fixed : down * across);""",
    ),
)

_NEIGHBOURS = """
    int64 channel = i / inner % channels;
    const T* here = x + i;
    double total = 0;
    for (int64 c = max(channel - before, (int64)0); c <= min(channel + behind, channels - 1); ++c) {
      int64 step = (c - channel) * inner;
      EACH
    }
"""

LRN = Kernel(
    "lrn",
    "T* y, T* scales, const T* x, int64 channels, int64 inner, int64 before, int64 behind, "
    "double alpha, double beta, double bias",
    _NEIGHBOURS.replace("EACH", "total += (double)here[step] * here[step];")
    + """
    double scale = bias + alpha * total;
    if (scales) scales[i] = (T)scale;
    if (y) y[i] = (T)(x[i] * pow(scale, -beta));
    """,
)

LRN_GRADIENT = Kernel(
    "lrn_gradient",
    "T* dx, const T* scales, const T* x, const T* y, const T* dy, int64 channels, int64 inner, int64 before, "
    "int64 behind, double alpha, double beta",
    _NEIGHBOURS.replace("const T* here = x + i;", "").replace(
        "EACH", "total += (double)dy[i + step] * y[i + step] / scales[i + step];"
    )
    + "dx[i] = (T)(dy[i] * pow((double)scales[i], -beta) - 2 * alpha * beta * x[i] * total);",
)
