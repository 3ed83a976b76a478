"""Batch normalization on GPUs: three launches forwards and three backwards.

Threads share the pixels of a channel; a second kernel adds up their sums in order, so that each run gives the same bits,
and makes of them what the third, that goes through the images once more, needs.
"""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.kit.cuda_kernels import Kernel

_SHARES = 256  # threads that share a channel

# `pixels` is 0 where the channels lie last.
_SUMS = Kernel(
    "channel_sums",
    "double* sums, const T* x, const T* y, int64 images, int64 channels, int64 pixels, int64 shares",
    """
    int64 c = pixels ? i / shares : i % channels, share = pixels ? i % shares : i / channels;
    double total = 0, product = 0;
    for (int64 k = share; k < images * (pixels ? pixels : 1); k += shares) {
      int64 at = pixels ? (k / pixels * channels + c) * pixels + k % pixels : k * channels + c;
      total += (double)x[at];
      product += (double)x[at] * (double)y[at];
    }
    sums[2 * (c * shares + share)] = total;
    sums[2 * (c * shares + share) + 1] = product;
    """,
)
_TOTALS = """
    double total = 0, product = 0;
    for (int64 k = 0; k < shares; ++k) {
      total += sums[2 * (i * shares + k)];
      product += sums[2 * (i * shares + k) + 1];
    }
"""

_STATISTICS = Kernel(
    "batch_statistics",
    "T* a, T* b, T* mean, T* var, T* saved_mean, T* saved_inv, const double* sums, const T* scale, const T* bias, "
    "int64 shares, double count, double momentum, double epsilon",
    _TOTALS
    + """
    double centre = total / count, spread = product / count - centre * centre;
    double inv = 1 / sqrt((spread > 0 ? spread : 0) + epsilon);
    saved_mean[i] = (T)centre;
    saved_inv[i] = (T)inv;
    mean[i] = (T)(mean[i] * momentum + centre * (1 - momentum));
    var[i] = (T)(var[i] * momentum + spread * (1 - momentum) * (count > 1 ? count / (count - 1) : 1));
    a[i] = (T)(scale[i] * inv);
    b[i] = (T)(bias[i] - centre * scale[i] * inv);
    """,
)

_RUNNING = Kernel(
    "running_statistics",
    "T* a, T* b, const T* mean, const T* var, const T* scale, const T* bias, double epsilon",
    """
    double inv = scale[i] / sqrt((double)var[i] + epsilon);
    a[i] = (T)inv;
    b[i] = (T)(bias[i] - mean[i] * inv);
    """,
)

_AFFINE = Kernel(
    "affine_channels",
    "T* y, const T* x, const T* a, const T* b, int64 channels, int64 pixels",
    """
    int64 c = (pixels ? i / pixels : i) % channels;
    y[i] = x[i] * a[c] + b[c];
    """,
)

_GRADIENTS = Kernel(
    "batch_gradients",
    "T* by_dy, T* by_x, T* rest, T* dscale, T* dbias, const double* sums, const T* all_dscale, const T* all_dbias, "
    "const T* scale, const T* mean, const T* inv_std, int64 shares, double count, double batches",
    _TOTALS
    + """
    double inv = inv_std[i], along = all_dscale ? (double)all_dscale[i] : (product - mean[i] * total) * inv;
    if (all_dbias) total = all_dbias[i];
    dscale[i] = (T)(along / batches);
    dbias[i] = (T)(total / batches);
    by_dy[i] = (T)(scale[i] * inv);
    by_x[i] = (T)(-scale[i] * inv * inv * along / count);
    rest[i] = (T)(scale[i] * inv * (inv * along * mean[i] - total) / count);
    """,
)

_COMBINE = Kernel(
    "combine_channels",
    "T* dx, const T* dy, const T* x, const T* by_dy, const T* by_x, const T* rest, int64 channels, int64 pixels",
    """
    int64 c = (pixels ? i / pixels : i) % channels;
    dx[i] = dy[i] * by_dy[c] + (x[i] * by_x[c] + rest[c]);
    """,
)


def _sums(xp: Any, layout: Any, X: Any, Y: Any) -> Any:
    """[C, shares, 2]: sums of X and of X * Y."""
    sums = xp.empty((layout.count, _SHARES, 2), "float64")
    images = layout.n if layout.first else layout.n * layout.pixels
    _SUMS(xp, layout.count * _SHARES, sums, X, Y, images, layout.count, _pixels(layout), _SHARES)
    return sums


def _pixels(layout: Any) -> int:
    return layout.pixels if layout.first else 0


def normalize(
    xp: Any,
    layout: Any,
    X: Any,
    Y: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    var: Any,
    saved_mean: Any,
    saved_inv: Any,
    sums: Any,
    momentum: float,
    epsilon: float,
    num_batches: int,
) -> None:
    """Y, and what training saves; `sums` is None or [C, 1, 2], over all batches."""
    count = layout.n * layout.pixels * (1 if sums is None else num_batches)
    if sums is None:
        sums = _sums(xp, layout, X, X)
    a, b = xp.empty((2, layout.count), scale.dtype)
    _STATISTICS(
        xp,
        layout.count,
        a,
        b,
        mean,
        var,
        saved_mean,
        saved_inv,
        sums,
        scale,
        bias,
        sums.shape[1],
        count,
        momentum,
        epsilon,
    )
    _AFFINE(xp, X.size, Y, X, a, b, layout.count, _pixels(layout))


def normalize_by_running(
    xp: Any, layout: Any, X: Any, Y: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float
) -> None:
    """Y in a test."""
    a, b = xp.empty((2, layout.count), scale.dtype)
    _RUNNING(xp, layout.count, a, b, mean, var, scale, bias, epsilon)
    _AFFINE(xp, X.size, Y, X, a, b, layout.count, _pixels(layout))


def gradient(
    xp: Any,
    layout: Any,
    X: Any,
    scale: Any,
    dY: Any,
    mean: Any,
    inv_std: Any,
    all_dscale: Any,
    all_dbias: Any,
    num_batches: int,
    dX: Any,
    dscale: Any,
    dbias: Any,
) -> None:
    """dX, dscale and dbias."""
    several = all_dscale is not None
    sums = xp.empty((layout.count, 0, 2), "float64") if several else _sums(xp, layout, dY, X)
    batches = num_batches if several else 1
    by_dy, by_x, rest = xp.empty((3, layout.count), scale.dtype)
    _GRADIENTS(
        xp,
        layout.count,
        by_dy,
        by_x,
        rest,
        dscale,
        dbias,
        sums,
        all_dscale,
        all_dbias,
        scale,
        mean,
        inv_std,
        sums.shape[1],
        layout.n * layout.pixels * batches,
        batches,
    )
    _COMBINE(xp, X.size, dX, dY, X, by_dy, by_x, rest, layout.count, _pixels(layout))
