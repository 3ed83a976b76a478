"""Channels of images shuffled and scaled, regions of feature maps, and the packed images of style transfer."""

from __future__ import annotations

import functools

import numpy as np

from caffe2lite.ops.image.transforms import check_order, four_dimensional
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import operator


def _shuffle(xp, X, group, order, out, back):
    check_order(order)
    if X.ndim < 2:
        raise ValueError(f"the input must have channels, got shape {list(X.shape)}")
    channels = X.shape[1 if order == "NCHW" else -1]
    if group < 1 or channels % group:
        raise ValueError(f"{channels} channels cannot be divided among {group} groups")
    first, second = (channels // group, group) if back else (group, channels // group)
    Y = out(X.shape, X.dtype)
    if order == "NCHW":
        view = X.reshape(X.shape[0], first, second, *X.shape[2:])
        Y.reshape(X.shape[0], second, first, *X.shape[2:])[...] = view.swapaxes(1, 2)
    else:
        view = X.reshape(*X.shape[:-1], first, second)
        Y.reshape(*X.shape[:-1], second, first)[...] = view.swapaxes(-1, -2)
    return Y


@operator("Y", types="float32", infer=like(0), gradient=single("ChannelShuffleGradient", "GO0 -> GI0"))
def ChannelShuffle(xp, X, *, group: int = 1, order: str = "NCHW", out):
    """The first channel of each group, then the second of each, and so on.

    X [N, C, ...] float32 (NHWC: channels last) -> Y of its shape. ValueError where the channels are no multiple of
    `group`.

    X. Zhang et al., "ShuffleNet: an extremely efficient convolutional neural network for mobile devices", 2018.
    """
    return _shuffle(xp, X, group, order, out, back=False)


@operator("dX", types="float32", infer=like(0))
def ChannelShuffleGradient(xp, dY, *, group: int = 1, order: str = "NCHW", out):
    """The channels back where they came from.

    dY [N, C, ...] float32 (NHWC: channels last) -> dX of its shape. ValueError where the channels are no multiple of
    `group`.
    """
    return _shuffle(xp, dY, group, order, out, back=True)


@operator("Y", inplace={0: 0}, types={"X": "float32", "mean": "float32", "deviation": "float32"}, infer=like(0))
def NormalizePlanarYUV(xp, X, mean, deviation, *, out):
    """(X - mean) / deviation, channel by channel, by the first row of each.

    X [N, C, H, W] float32, mean [..., C], deviation [..., C] -> Y of X's shape. ValueError where X has not four
    dimensions, or there is not a value for each channel.
    """
    four_dimensional(X)
    channels = X.shape[1]
    for values in (mean, deviation):
        if values.ndim < 2 or values.shape[1] != channels or (X.size and not values.size):
            raise ValueError(f"there must be a value for each of {channels} channels, got shape {list(values.shape)}")
    Y = out(X.shape, X.dtype)
    if not X.size:
        return Y
    m, d = (v.reshape(-1, channels)[0].reshape(1, -1, 1, 1) for v in (mean, deviation))
    xp.subtract(X, m, out=Y)
    return xp.divide(Y, d, out=Y)


# ---- regions for retrieval ---------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _rmac(height, width, scales, overlap):
    """Return [x1, y1, x2, y2] of the regions."""
    short, long = min(height, width), max(height, width)
    one = np.float32  # ties are those of single precision
    best = min(
        range(2, 8),
        key=lambda steps: abs(
            one(short * short - one(short) * (one(long - short) / one(steps - 1))) / one(short * short) - one(overlap)
        ),
    )
    more_h = best - 1 if height > width else 0
    more_w = best - 1 if width > height else 0
    regions = []
    for level in range(1, scales + 1):
        side = 2 * short // (level + 1)
        if side == 0:  # the image is too small for this level and those behind it
            break
        half = int(side / 2 - 1)
        starts = []
        for size, more in ((width, more_w), (height, more_h)):
            count = level + more
            step = (size - side) / (count - 1) if count > 1 else 0
            starts.append([int(half + step * i) - half for i in range(count)])
        check_result((len(regions) + len(starts[0]) * len(starts[1]), 5), "float64")
        regions += [(x, y, x + side - 1, y + side - 1) for x in starts[0] for y in starts[1]]
    return regions


@operator("regions", types="float32", gradient=FORBID_GRADIENT)
def RMACRegions(xp, X, *, scales: int = 3, overlap: float = 0.4, out):
    """A fixed grid of square regions at several scales, for each image.

    X [N, C, H, W] float32, whose values are not read -> regions [R, 5] of image, x1, y1, x2, y2. ValueError where X has
    not four dimensions.

    G. Tolias, R. Sicre, H. Jégou, "Particular object retrieval with integral max-pooling of CNN activations", 2016.
    """
    four_dimensional(X)
    regions = xp.asarray(_rmac(X.shape[2], X.shape[3], scales, overlap), "float32").reshape(-1, 4)
    count = regions.shape[0]
    Y = out((X.shape[0] * count, 5), "float32")
    each = Y.reshape(X.shape[0], count, 5)
    each[..., 0] = xp.arange(X.shape[0]).reshape(-1, 1)
    each[..., 1:] = regions
    return Y


# ---- style transfer's packed images ------------------------------------------------------------------------------------


@operator("Y", types={"X": "uint8", "mean": "float32"}, stateful=True)
def PackedInt8BGRANHWCToNCHWCStylizerPreprocess(ctx, X, mean, *, noise_std: float = 10.0, noise_size: int = 491, out):
    """BGRA bytes as floats, the mean of each channel taken away and noise added.

    X [N, H, W, 4] uint8, mean [3] float32 -> Y [N, 3, H, W] float32. ValueError where the shapes are others.
    """
    if X.ndim != 4 or X.shape[3] != 4 or mean.shape != (3,):
        raise ValueError(f"expected [N, H, W, 4] and three means, got {list(X.shape)} and {list(mean.shape)}")
    Y = out((X.shape[0], 3, *X.shape[1:3]), "float32")
    ctx.xp.subtract(X[..., :3].transpose(0, 3, 1, 2), mean.reshape(1, 3, 1, 1), out=Y)
    if noise_std > 0:
        Y += ctx.xp.float32(noise_std) * ctx.rng.standard_normal(Y.shape).astype("float32")
    return Y


@operator("Y", types={"X": "float32", "mean": "float32"})
def BRGNCHWCToPackedInt8BGRAStylizerDeprocess(xp, X, mean, *, out):
    """Floats plus the mean of each channel, as opaque BGRA bytes.

    X [N, 3, H, W] float32, mean [3] float32 -> Y [N, H, W, 4] uint8. ValueError where the shapes are others.
    """
    if X.ndim != 4 or X.shape[1] != 3 or mean.shape != (3,):
        raise ValueError(f"expected [N, 3, H, W] and three means, got {list(X.shape)} and {list(mean.shape)}")
    Y = out((X.shape[0], *X.shape[2:], 4), "uint8")
    Y[..., :3] = xp.clip(X + mean.reshape(1, 3, 1, 1), 0, 255).transpose(0, 2, 3, 1).astype("uint8")
    Y[..., 3] = 255
    return Y
