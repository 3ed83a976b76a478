"""Normalization over batches, channel by channel, and statistics of channels.

Images are seen as rows: a row is one channel of one image (NCHW), or one pixel of all channels (NHWC).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop, pays
from caffe2lite.ops.kit.cuda_kernels import usable
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.nn import batch_norm_cuda


class Channels:
    """How the channels lie in a tensor."""

    def __init__(self, X: Any, order: str) -> None:
        if X.ndim < 2:
            raise ValueError(f"a batch with channels is needed, found the shape {list(X.shape)}")
        if order not in ("NCHW", "NHWC"):
            raise ValueError(f"order must be NCHW or NHWC, found {order!r}")
        self.first = order == "NCHW" and X.ndim > 2
        self.shape = list(X.shape)
        self.n = X.shape[0]
        self.count = X.shape[1] if order == "NCHW" else X.shape[-1]
        self.pixels = math.prod(X.shape[2:]) if order == "NCHW" else math.prod(X.shape[1:-1])

    def rows(self, X: Any) -> Any:
        """X as rows: (N C, pixels), or (N pixels, C)."""
        if X.size != self.n * self.count * self.pixels:
            raise ValueError(
                f"all images must be as many and as large: {self.shape} is expected, found {list(X.shape)}"
            )
        return (
            X.reshape(self.n * self.count, self.pixels) if self.first else X.reshape(self.n * self.pixels, self.count)
        )

    def vectors(self, **given: Any) -> list[Any]:
        """These as vectors of one value a channel; ValueError where one has another number of values."""
        for what, v in given.items():
            if v.size != self.count:
                raise ValueError(f"{what} must have one value for each of {self.count} channels, found {list(v.shape)}")
        return [v.reshape(-1) for v in given.values()]

    def sums(self, xp: Any, X: Any, Y: Any = None) -> Any:
        """Per channel the sum of X, or of X * Y."""
        rows = self.rows(X)
        if not X.size:
            return xp.zeros(self.count, X.dtype)
        if self.first:
            each = rows.sum(axis=1) if Y is None else xp.einsum("ij,ij->i", rows, self.rows(Y))
            return each.reshape(self.n, self.count).sum(axis=0)
        return rows.sum(axis=0) if Y is None else xp.einsum("ij,ij->j", rows, self.rows(Y))

    def moments(self, xp: Any, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Per channel the sum of X, and that of X * Y (X * X)."""
        return self.sums(xp, X), self.sums(xp, X, X if Y is None else Y)

    def per_row(self, xp: Any, vector: Any) -> Any:
        """The channels' values, to broadcast against rows."""
        return xp.tile(vector, self.n)[:, None] if self.first else vector

    def affine(self, xp: Any, X: Any, scale: Any, shift: Any, Y: Any) -> None:
        """Y = X * scale + shift, channel by channel."""
        rows, goal = self.rows(X), self.rows(Y)
        if not X.size:
            return
        xp.multiply(rows, self.per_row(xp, scale), goal)
        xp.add(goal, self.per_row(xp, shift), goal)

    def combine(self, xp: Any, X: Any, a: Any, Y: Any, b: Any, c: Any, Z: Any) -> None:
        """Z = X * a + Y * b + c, channel by channel."""
        x, y, z = self.rows(X), self.rows(Y), self.rows(Z)
        a, b, c = (self.per_row(xp, v) for v in (a, b, c))
        other = y * b
        other += c
        xp.multiply(x, a, z)
        xp.add(z, other, z)


class CompiledChannels(Channels):
    """Sums and results of all images NCHW, each in one pass."""

    def moments(self, xp: Any, X: Any, Y: Any = None) -> tuple[Any, Any]:
        if not self.first or not X.size:
            return super().moments(xp, X, Y)
        sums = np.empty((2, self.count), np.float32)
        _moments(X.reshape(-1), (X if Y is None else Y).reshape(-1), sums, self.n, self.count, self.pixels)
        return sums[0], sums[1]

    def affine(self, xp: Any, X: Any, scale: Any, shift: Any, Y: Any) -> None:
        if not self.first or not X.size:
            return super().affine(xp, X, scale, shift, Y)
        _affine(X.reshape(-1), scale, shift, Y.reshape(-1), self.pixels)

    def combine(self, xp: Any, X: Any, a: Any, Y: Any, b: Any, c: Any, Z: Any) -> None:
        if not self.first:
            return super().combine(xp, X, a, Y, b, c, Z)
        _combine(X.reshape(-1), a, Y.reshape(-1), b, c, Z.reshape(-1), self.pixels)


def _layout(xp: Any, X: Any, order: str) -> Channels:
    return (CompiledChannels if X.dtype == np.float32 and pays(xp, X) else Channels)(X, order)


@loop(reorder=True)
def _moments(X, Y, sums, n, channels, pixels):
    for c in range(channels):
        total, product = 0.0, 0.0
        for i in range(n):
            at = (i * channels + c) * pixels
            x, y = X[at : at + pixels], Y[at : at + pixels]
            s, q = np.float32(0), np.float32(0)
            for j in range(pixels):
                s += x[j]
                q += x[j] * y[j]
            total += s
            product += q
        sums[0, c] = total
        sums[1, c] = product


@loop
def _affine(X, scale, shift, Y, pixels):
    for row in range(X.size // pixels):
        a, b = scale[row % scale.size], shift[row % scale.size]
        x, y = X[row * pixels : (row + 1) * pixels], Y[row * pixels : (row + 1) * pixels]
        for j in range(pixels):
            y[j] = x[j] * a + b


@loop
def _combine(X, A, Y, B, C, Z, pixels):
    for row in range(X.size // pixels):
        a, b, c = A[row % A.size], B[row % A.size], C[row % A.size]
        at = slice(row * pixels, (row + 1) * pixels)
        x, y, z = X[at], Y[at], Z[at]
        for j in range(pixels):
            z[j] = x[j] * a + (y[j] * b + c)


def _statistics(xp: Any, layout: Channels, X: Any, sums: Any, sumsq: Any, num_batches: int) -> tuple[Any, Any, int]:
    """(mean, variance, elements a channel)."""
    count = layout.n * layout.pixels
    if sums is None:
        sums, sumsq = layout.moments(xp, X)
    else:
        count *= num_batches
    share = X.dtype.type(1 / max(count, 1))
    mean = sums * share
    return mean, sumsq * share - mean * mean, count


def _bn_gradient(g: Any) -> Any:
    """A test normalizes with the running statistics, training with those of the batch."""
    g.need("is_test")
    saved = [g.I(3), g.I(4)] if g.arg("is_test", 0) else [g.O(3), g.O(4)]
    if g.arg("num_batches", 1) > 1 and not g.arg("is_test", 0):
        saved += [g.GI(1), g.GI(2)]
    elif g.num_inputs != 5:
        raise ValueError(
            f"SpatialBN takes sums of batches in training with num_batches above 1; it has {g.num_inputs} inputs"
        )
    return g.single("SpatialBNGradient", [g.I(0), g.I(1), g.GO(0), *saved], [g.GI(0), g.GI(1), g.GI(2)])


def _infer_bn(args: Any, inputs: Any) -> list[Spec]:
    channel = inputs[1]
    return [inputs[0], channel, channel, channel, channel]


@operator(
    "Y mean_out? var_out? saved_mean? saved_inv_std?",
    inplace=[(0, 0), (5, 3), (6, 4)],
    mutates=[(3, 1), (4, 2)],
    num_inputs={5, 7},
    num_outputs={1, 5},
    types=dict.fromkeys(("X", "scale", "bias", "mean", "var", "sums", "sumsq"), "float32"),
    cuda_types={"X": "float32 float16", "scale": "float32", "bias": "float32", "mean": "float32", "var": "float32"},
    infer=_infer_bn,
    gradient=_bn_gradient,
    limits="epsilon > 0, momentum >= 0, momentum <= 1",
)
def SpatialBN(
    xp,
    X,
    scale,
    bias,
    mean,
    var,
    sums=None,
    sumsq=None,
    *,
    is_test: bool,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    order: str = "NCHW",
    num_batches: int = 1,
    out,
):
    """Y = (X - mean) / sqrt(var + epsilon) * scale + bias, by the batch's statistics, in a test by the running ones.

    Ioffe and Szegedy, Batch Normalization, 2015.  Training writes the running statistics too, v = momentum * v + (1 -
    momentum) * the batch's (the variance with n / (n - 1)), and saves the batch's mean and 1 / sqrt(var + epsilon).

    X [N, C, ...] (NHWC: [N, ..., C]), Y of its shape, all others [C]; float32, on GPUs X float16 too.  With
    num_batches above 1, sums and sumsq [C] are over that many batches (ChannelStats).  ValueError where a vector is
    not [C], outputs are not 1 in a test and 5 in training, epsilon is not above 0, or momentum not from 0 to 1.
    """
    return normalize(
        xp,
        Channels(X, order),
        X,
        scale,
        bias,
        mean,
        var,
        sums,
        sumsq,
        is_test=is_test,
        epsilon=epsilon,
        momentum=momentum,
        num_batches=num_batches,
        out=out,
    )


@compiled(SpatialBN)
def _spatial_bn_compiled(
    xp,
    X,
    scale,
    bias,
    mean,
    var,
    sums=None,
    sumsq=None,
    *,
    is_test: bool,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    order: str = "NCHW",
    num_batches: int = 1,
    out,
):
    return normalize(
        xp,
        CompiledChannels(X, order),
        X,
        scale,
        bias,
        mean,
        var,
        sums,
        sumsq,
        is_test=is_test,
        epsilon=epsilon,
        momentum=momentum,
        num_batches=num_batches,
        out=out,
    )


def normalize(
    xp: Any,
    layout: Channels,
    X: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    var: Any,
    sums: Any = None,
    sumsq: Any = None,
    *,
    is_test: bool,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    num_batches: int = 1,
    out: Any,
) -> Any:
    """SpatialBN of images that lie as `layout` says."""
    if len(out) != (1 if is_test else 5):
        raise ValueError(f"with is_test={int(is_test)} there are {1 if is_test else 5} outputs, {len(out)} are named")
    running = mean, var
    scale, bias, mean, var = layout.vectors(scale=scale, bias=bias, mean=mean, var=var)
    kind = scale.dtype.type
    kernels = bool(X.size) and usable(xp, X, scale)
    if is_test and kernels:
        Y = out[0](X.shape, X.dtype)
        batch_norm_cuda.normalize_by_running(xp, layout, X, Y, scale, bias, mean, var, epsilon)
        return Y
    if is_test:
        inv = scale / xp.sqrt(var + kind(epsilon))
        Y = out[0](X.shape, X.dtype)
        layout.affine(xp, X, inv, bias - mean * inv, Y)
        return Y
    if sums is not None:
        sums, sumsq = layout.vectors(sums=sums, sumsq=sumsq)
    if kernels:
        both = None if sums is None else xp.stack([sums, sumsq], axis=1).astype("float64").reshape(-1, 1, 2)
        saved = [out[k]((layout.count,), scale.dtype) for k in (3, 4)]
        Y = out[0](X.shape, X.dtype)
        batch_norm_cuda.normalize(
            xp, layout, X, Y, scale, bias, mean, var, *saved, both, momentum, epsilon, num_batches
        )
        return Y, *running, *saved
    centre, spread, count = _statistics(xp, layout, X, sums, sumsq, num_batches)
    saved_mean, saved_inv = (out[k]((layout.count,), scale.dtype) for k in (3, 4))
    saved_mean[...] = centre
    xp.maximum(spread, 0, out=saved_inv)
    xp.add(saved_inv, kind(epsilon), saved_inv)
    xp.sqrt(saved_inv, saved_inv)
    xp.reciprocal(saved_inv, saved_inv)
    if not X.size:
        saved_mean[...] = saved_inv[...] = 0
    else:
        mean *= kind(momentum)
        mean += centre * kind(1 - momentum)
        var *= kind(momentum)
        var += spread * kind((1 - momentum) * (count / (count - 1) if count > 1 else 1))
    a = scale * saved_inv
    Y = out[0](X.shape, X.dtype)
    layout.affine(xp, X, a, bias - centre * a, Y)
    return Y, *running, saved_mean, saved_inv


@operator(
    "dX dscale dbias",
    inplace=[(5, 1), (6, 2)],
    num_inputs={5, 7},
    alike="X dY",
    types={
        "X": "float32",
        "scale": "float32",
        "dY": "=X",
        "mean": "float32",
        "inv_std": "float32",
        "all_dscale": "float32",
        "all_dbias": "float32",
    },
    cuda_types={"X": "float32 float16", "scale": "float32", "dY": "=X", "mean": "float32", "inv_std": "float32"},
    infer=lambda args, inputs: [inputs[0], inputs[1], inputs[1]],
)
def SpatialBNGradient(
    xp, X, scale, dY, mean, inv_std, all_dscale=None, all_dbias=None, *, order: str = "NCHW", num_batches: int = 1, out
):
    """dX, dscale and dbias; the last two inputs are the sums over all batches, where several were normalized as one.

    X [N, C, ...] (NHWC: [N, ..., C]), dY and dX of its shape, all others [C]; float32, on GPUs X and dY float16 too.
    ValueError where a vector is not [C], the shapes of X and dY differ, or num_batches is above 1 without these two
    inputs.
    """
    sums = all_dscale, all_dbias
    return normalize_gradient(
        xp, Channels(X, order), X, scale, dY, mean, inv_std, *sums, num_batches=num_batches, out=out
    )


@compiled(SpatialBNGradient)
def _spatial_bn_gradient_compiled(
    xp, X, scale, dY, mean, inv_std, all_dscale=None, all_dbias=None, *, order: str = "NCHW", num_batches: int = 1, out
):
    layout = CompiledChannels(X, order)
    sums = all_dscale, all_dbias
    return normalize_gradient(xp, layout, X, scale, dY, mean, inv_std, *sums, num_batches=num_batches, out=out)


def normalize_gradient(
    xp: Any,
    layout: Channels,
    X: Any,
    scale: Any,
    dY: Any,
    mean: Any,
    inv_std: Any,
    all_dscale: Any = None,
    all_dbias: Any = None,
    *,
    num_batches: int = 1,
    out: Any,
) -> Any:
    """SpatialBNGradient of images that lie as `layout` says."""
    if num_batches < 1:
        raise ValueError(f"num_batches must be above 0, found {num_batches}")
    if num_batches > 1 and all_dbias is None:
        raise ValueError(f"num_batches={num_batches} needs the sums over the batches as inputs 6 and 7")
    scale, mean, inv_std = layout.vectors(scale=scale, mean=mean, inv_std=inv_std)
    if X.size and usable(xp, X, scale):
        if all_dscale is not None:
            all_dscale, all_dbias = layout.vectors(dscale=all_dscale, dbias=all_dbias)
        vectors = [out[k]((layout.count,), scale.dtype) for k in (1, 2)]
        dX = out[0](X.shape, X.dtype)
        batch_norm_cuda.gradient(
            xp, layout, X, scale, dY, mean, inv_std, all_dscale, all_dbias, num_batches, dX, *vectors
        )
        return dX, *vectors
    count = layout.n * layout.pixels
    if all_dscale is None:
        dbias_sum, along = layout.moments(xp, dY, X)
        dscale_sum = (along - mean * dbias_sum) * inv_std
        share = 1
    else:
        all_dscale, all_dbias = layout.vectors(dscale=all_dscale, dbias=all_dbias)
        dscale_sum, dbias_sum, share = all_dscale.copy(), all_dbias.copy(), num_batches
        count *= num_batches
    dscale, dbias = (out[k]((layout.count,), scale.dtype) for k in (1, 2))
    xp.multiply(dscale_sum, scale.dtype.type(1 / share), dscale)
    xp.multiply(dbias_sum, scale.dtype.type(1 / share), dbias)
    dX = out[0](X.shape, X.dtype)
    if not X.size:
        dscale[...] = dbias[...] = 0
        return dX, dscale, dbias
    n = scale.dtype.type(count)
    by_dy = scale * inv_std  # dX = by_dy * dY + by_x * X + rest
    by_x = -by_dy * inv_std * dscale_sum / n
    rest = -by_dy * dbias_sum / n - by_x * mean
    layout.combine(xp, dY, by_dy, X, by_x, rest, dX)
    return dX, dscale, dbias


@operator(
    "sums sumsq",
    types="float32",
    infer=lambda args, inputs: [Spec(inputs[0].shape[1:2], inputs[0].dtype)] * 2,
    gradient=FORBID_GRADIENT,
)
def ChannelStats(xp, X, *, order: str = "NCHW", out):
    """Sum and sum of squares of each channel.

    X [N, C, ...] (NHWC: [N, ..., C]), sums and sumsq [C]; float32.  ValueError where X has fewer than 2 dimensions.
    """
    layout = _layout(xp, X, order)
    sums, squares = out[0]((layout.count,), X.dtype), out[1]((layout.count,), X.dtype)
    sums[...], squares[...] = layout.moments(xp, X)
    return sums, squares


@operator("dscale dbias", types={"X": "float32", "mean": "=X", "inv_std": "=X", "dY": "=X"}, gradient=FORBID_GRADIENT)
def ChannelBackpropStats(xp, X, mean, inv_std, dY, *, order: str = "NCHW", out):
    """What SpatialBNGradient needs from each batch: dscale = sum of dY * normalized X, dbias = sum of dY.

    X [N, C, ...] (NHWC: [N, ..., C]), dY of its shape, all others [C]; float32.  ValueError where a vector is not
    [C].
    """
    layout = Channels(X, order)
    mean, inv_std = layout.vectors(mean=mean, inv_std=inv_std)
    dscale, dbias = out[0]((layout.count,), X.dtype), out[1]((layout.count,), X.dtype)
    dbias[...] = layout.sums(xp, dY)
    dscale[...] = (layout.sums(xp, dY, X) - mean * dbias) * inv_std
    return dscale, dbias


@operator("mean square", types="float32", gradient=single("BatchMomentsGradient", "GO0 GO1 I0 -> GI0"))
def BatchMoments(xp, X, *, order: str = "NCHW", out):
    """Mean and mean square of each channel.

    X [N, C, ...] (NHWC: [N, ..., C]), mean and square [C]; float32.  ValueError where X has fewer than 2 dimensions.
    """
    layout = _layout(xp, X, order)
    share = X.dtype.type(1 / max(layout.n * layout.pixels, 1))
    mean, square = out[0]((layout.count,), X.dtype), out[1]((layout.count,), X.dtype)
    sums, squares = layout.moments(xp, X)
    mean[...], square[...] = sums * share, squares * share
    return mean, square


@operator("dX", types={"dmean": "float32", "dsquare": "=dmean", "X": "=dmean"}, infer=like(2))
def BatchMomentsGradient(xp, dmean, dsquare, X, *, order: str = "NCHW", out):
    """dX = (dmean + 2 X dsquare) / n.

    X [N, C, ...] (NHWC: [N, ..., C]), dX of its shape, dmean and dsquare [C]; float32, with n = X.size / C.
    ValueError where dmean or dsquare is not [C].
    """
    layout = Channels(X, order)
    dmean, dsquare = layout.vectors(dmean=dmean, dsquare=dsquare)
    share = X.dtype.type(1 / max(layout.n * layout.pixels, 1))
    dX = out(X.shape, X.dtype)
    layout.affine(xp, X, 2 * share * dsquare, dmean * share, dX)
    return dX


def _affine_gradient(g: Any) -> Any:
    if g.arg("is_learnable", 0):
        return g.single("AffineChannelGradient", [g.GO(0), g.I(0), g.I(1)], [g.GI(0), g.GI(1), g.GI(2)])
    return g.single("AffineChannelGradient", [g.GO(0), g.I(1)], [g.GI(0)])


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "scale": "=X", "bias": "=X"},
    infer=lambda args, inputs: inputs[:1],
    gradient=_affine_gradient,
)
def AffineChannel(xp, X, scale, bias, *, order: str = "NCHW", is_learnable: bool = False, out):
    """Y = X * scale + bias, channel by channel.

    X [N, C, ...] (NHWC: [N, ..., C]), Y of its shape, scale and bias [C]; float32.  ValueError where scale or bias is
    not [C], or Y overwrites X with is_learnable.
    """
    layout = Channels(X, order)
    scale, bias = layout.vectors(scale=scale, bias=bias)
    if is_learnable and out.replaces(X):
        raise ValueError("with is_learnable the gradient needs X, so that it must not be overwritten in place")
    Y = out(X.shape, X.dtype)
    layout.affine(xp, X, scale, bias, Y)
    return Y


@operator(
    "dX dscale? dbias?",
    inplace={0: 0},
    num_inputs={2, 3},
    num_outputs={1, 3},
    types={"dY": "float32", "X": "=dY", "scale": "=dY"},
    infer=like(0, 2, 2),
)
def AffineChannelGradient(xp, dY, X, scale=None, *, order: str = "NCHW", is_learnable: bool = False, out):
    """dX = dY * scale, dscale = sum of dY * X, dbias = sum of dY; without is_learnable the inputs are dY and scale.

    dY [N, C, ...] (NHWC: [N, ..., C]), X and dX of its shape, all others [C]; float32.  ValueError where scale is not
    [C], or is_learnable has not three inputs and outputs.
    """
    if is_learnable and (scale is None or len(out) < 3):
        raise ValueError("with is_learnable the inputs are dY, X, scale, and the outputs dX, dscale, dbias")
    if not is_learnable:
        scale = X  # the second input
    layout = Channels(dY, order)
    (scale,) = layout.vectors(scale=scale)
    results: list[Any] = []
    if is_learnable:
        dscale, dbias = (out[k]((layout.count,), dY.dtype) for k in (1, 2))
        dscale[...] = layout.sums(xp, dY, X)
        dbias[...] = layout.sums(xp, dY)
        results = [dscale, dbias]
    dX = out[0](dY.shape, dY.dtype)
    rows = layout.rows(dY)
    xp.multiply(rows, layout.per_row(xp, scale), layout.rows(dX))
    return (dX, *results)
