"""Normalization of each sample: by image, group, layer, norm, or neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, like
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import axis_of, fitted, matrix
from caffe2lite.ops.nn.batch_norm import Channels

_NONE = np.zeros(0, np.float32)  # for the loops: no gamma
_U = np.uint64  # of places in arrays: signed ones might count from the end

# ---- groups of channels of one image -----------------------------------------------------------------------------


class _Groups:
    """X as (N, groups, channels a group, pixels), whatever the order of its axes."""

    def __init__(self, X: Any, order: str, groups: int) -> None:
        layout = Channels(X, order)
        if groups <= 0 or layout.count % groups or groups > max(layout.count, 1):
            raise ValueError(f"{layout.count} channels cannot be put into {groups} groups")
        self.shape = X.shape
        self.n, self.groups, self.channels = layout.n, groups, layout.count
        self.pixels = layout.pixels
        self.last = order == "NHWC"
        self.elements = layout.count // groups * layout.pixels

    def view(self, X: Any) -> Any:
        each = self.channels // self.groups
        if X.size != math.prod(self.shape):
            raise ValueError(f"{list(self.shape)} is expected, found {list(X.shape)}")
        if self.last:
            return X.reshape(self.n, self.pixels, self.groups, each).transpose(0, 2, 3, 1)
        return X.reshape(self.n, self.groups, each, self.pixels)

    def vector(self, v: Any, what: str) -> Any:
        if v.shape != (self.channels,):
            raise ValueError(f"{what} must have one value for each of {self.channels} channels, found {list(v.shape)}")
        return v.reshape(1, self.groups, -1, 1)


def _group_norm(xp: Any, groups: _Groups, X: Any, scale: Any, bias: Any, epsilon: float, Y: Any) -> tuple[Any, Any]:
    """Write Y; (mean, 1 / standard deviation) of each group."""
    x = groups.view(X)
    if not X.size:
        empty = xp.zeros((groups.n, groups.groups), X.dtype)
        if groups.last:
            return empty + xp.nan, empty + xp.nan
        return empty, empty + X.dtype.type(1 / np.sqrt(np.float64(epsilon)))
    if _fits(xp, groups, X):
        mean, inv = np.empty((2, groups.n, groups.groups), np.float32)
        groups.vector(scale, "scale"), groups.vector(bias, "bias")
        eps = X.dtype.type(epsilon)
        _group_loop(X.reshape(-1), scale, bias, Y.reshape(-1), mean.reshape(-1), inv.reshape(-1), groups.pixels, eps)
        return mean, inv
    mean = x.mean(axis=(2, 3), keepdims=True)
    variance = xp.square(x - mean).mean(axis=(2, 3), keepdims=True)
    inv = 1 / xp.sqrt(variance + X.dtype.type(epsilon))
    a = groups.vector(scale, "scale") * inv
    groups.view(Y)[...] = x * a + (groups.vector(bias, "bias") - mean * a)
    return mean.reshape(groups.n, -1), inv.reshape(groups.n, -1)


def _fits(xp: Any, groups: _Groups, X: Any) -> bool:
    """Whether the compiled loops do it: large, float32, channels first."""
    return not groups.last and X.dtype == np.float32 and X.size > 0 and pays(xp, X)


@loop(reorder=True)
def _group_loop(X, scale, bias, Y, means, invs, pixels, epsilon):  # type: ignore[no-untyped-def]
    size, pixels = _U(X.size // means.size), _U(pixels)
    for k in range(_U(means.size)):
        begin, total, squares = k * size, np.float32(0), np.float32(0)
        for j in range(begin, begin + size):
            total += X[j]
        mean = total / np.float32(size)
        for j in range(begin, begin + size):
            away = X[j] - mean
            squares += away * away
        inv = np.float32(1) / np.sqrt(squares / np.float32(size) + epsilon)
        means[k], invs[k] = mean, inv
        for row in range(size // pixels):
            at = begin + row * pixels
            channel = (at // pixels) % _U(scale.size)
            a = scale[channel] * inv
            b = bias[channel] - mean * a
            for j in range(at, at + pixels):
                Y[j] = X[j] * a + b


@loop(reorder=True)
def _group_gradient_loop(X, dY, scale, means, invs, dX, dscale, dbias, pixels):  # type: ignore[no-untyped-def]
    size, pixels = _U(X.size // means.size), _U(pixels)
    share = np.float32(1) / np.float32(size)
    dscale[:] = 0
    dbias[:] = 0
    for k in range(_U(means.size)):
        begin, mean, inv = k * size, means[k], invs[k]
        level, along = np.float32(0), np.float32(0)
        for row in range(size // pixels):
            at = begin + row * pixels
            channel = (at // pixels) % _U(scale.size)
            total, product = np.float32(0), np.float32(0)
            for j in range(at, at + pixels):
                total += dY[j]
                product += dY[j] * (X[j] - mean)
            dbias[channel] += total
            dscale[channel] += product * inv
            level += total * scale[channel]
            along += product * inv * scale[channel]
        for row in range(size // pixels):
            at = begin + row * pixels
            a = scale[(at // pixels) % _U(scale.size)] * inv
            b = along * share * inv * inv
            c = level * share * inv
            for j in range(at, at + pixels):
                dX[j] = dY[j] * a - c - (X[j] - mean) * b


def _group_norm_gradient(
    xp: Any, groups: _Groups, X: Any, dY: Any, scale: Any, mean: Any, inv: Any, out: Any
) -> tuple[Any, Any, Any]:
    x, dy, gamma = groups.view(X), groups.view(dY), groups.vector(scale, "scale")
    shape = (groups.n, groups.groups, 1, 1)
    mean, inv = fitted(mean, shape, "the mean"), fitted(inv, shape, "the deviation")
    dX = out[0](X.shape, X.dtype)
    dscale, dbias = out[1](scale.shape, scale.dtype), out[2](scale.shape, scale.dtype)
    if _fits(xp, groups, X) and dY.shape == X.shape and mean.size == inv.size == groups.n * groups.groups:
        flat = (a.reshape(-1) for a in (X, dY, scale, mean, inv, dX, dscale, dbias))
        _group_gradient_loop(*flat, groups.pixels)
        return dX, dscale, dbias
    normal = (x - mean.reshape(shape)) * inv.reshape(shape)
    dscale[...] = (dy * normal).sum(axis=(0, 3)).reshape(-1)
    dbias[...] = dy.sum(axis=(0, 3)).reshape(-1)
    d = dy * gamma
    share = X.dtype.type(1 / max(groups.elements, 1))
    along = (d * normal).sum(axis=(2, 3), keepdims=True) * share
    level = d.sum(axis=(2, 3), keepdims=True) * share
    groups.view(dX)[...] = inv.reshape(shape) * (d - level - normal * along)
    return dX, dscale, dbias


def _instance_gradient(g: Any) -> Any:
    inputs = [g.I(0), g.I(1), g.I(2), g.GO(0)]
    if g.num_outputs >= 2:
        inputs.append(g.O(1))
    if g.num_outputs >= 3:
        inputs.append(g.O(2))
    return g.single("InstanceNormGradient", inputs, [g.GI(0), g.GI(1), g.GI(2)])


@operator(
    "Y mean? inv_std?",
    inplace={0: 0},
    types={"X": "float32", "scale": "=X", "bias": "=X"},
    infer=lambda args, inputs: [inputs[0], UNKNOWN, UNKNOWN],
    gradient=_instance_gradient,
    limits="epsilon >= 0",
)
def InstanceNorm(xp, X, scale, bias, *, epsilon: float = 1e-5, order: str = "NCHW", out):
    """Y = each channel of each image, normalized over its pixels, * scale + bias.

    Ulyanov et al., Instance Normalization, 2016.  X [N, C, ...] (NHWC: [N, ..., C]), Y of its shape, scale and bias
    [C], mean and inv_std (1 / sqrt(variance + epsilon)) [N, C]; float32.  ValueError where scale or bias is not [C]
    or epsilon is below 0.
    """
    groups = _Groups(X, order, Channels(X, order).count)
    Y = out[0](X.shape, X.dtype)
    return (Y, *(_into(o, v) for o, v in zip(out[1:], _group_norm(xp, groups, X, scale, bias, epsilon, Y))))


def _into(out: Any, value: Any) -> Any:
    target = out(value.shape, value.dtype)
    target[...] = value
    return target


@operator(
    "dX dscale dbias",
    types={"X": "float32", "scale": "=X", "bias": "=X", "dY": "=X", "mean": "=X", "inv_std": "=X"},
    infer=like(0, 1, 1),
    limits="epsilon >= 0",
)
def InstanceNormGradient(
    xp, X, scale, bias, dY, mean=None, inv_std=None, *, epsilon: float = 1e-5, order: str = "NCHW", out
):
    """Gradients of InstanceNorm; statistics that are not given are found again.

    X [N, C, ...] (NHWC: [N, ..., C]), dY and dX of its shape, scale, bias, dscale and dbias [C], mean and inv_std
    [N, C]; float32.  ValueError where scale is not [C] or epsilon is below 0.
    """
    groups = _Groups(X, order, Channels(X, order).count)
    x = groups.view(X)
    if mean is None:
        mean = x.mean(axis=(2, 3)) if X.size else xp.zeros((groups.n, groups.groups), X.dtype)
    if inv_std is None:
        away = x - fitted(mean, (groups.n, groups.groups, 1, 1), "the mean")
        inv_std = 1 / xp.sqrt(xp.square(away).mean(axis=(2, 3)) + X.dtype.type(epsilon)) if X.size else mean
    return _group_norm_gradient(xp, groups, X, dY, scale, mean, inv_std, out)


@operator(
    "Y mean? inv_std?",
    num_outputs={1, 3},
    types={"X": "float32", "gamma": "=X", "beta": "=X"},
    infer=lambda args, inputs: [inputs[0], UNKNOWN, UNKNOWN],
    gradient=single("GroupNormGradient", "GO0 I0 I1 I2 O1 O2 -> GI0 GI1 GI2"),
)
def GroupNorm(
    xp, X, gamma, beta, *, group: int = 32, epsilon: float = 1e-5, order: str = "NCHW", is_test: bool = False, out
):
    """Y = each group of channels of each image, normalized, * gamma + beta.

    Wu and He, Group Normalization, 2018.  X [N, C, ...] (NHWC: [N, ..., C]), Y of its shape, gamma and beta [C], mean
    and inv_std [N, group]; float32.  ValueError where gamma or beta is not [C], or C is no multiple of group.
    """
    groups = _Groups(X, order, group)
    Y = out[0](X.shape, X.dtype)
    return (Y, *(_into(o, v) for o, v in zip(out[1:], _group_norm(xp, groups, X, gamma, beta, epsilon, Y))))


@operator(
    "dX dgamma dbeta",
    types={"dY": "float32", "X": "=dY", "gamma": "=dY", "beta": "=dY", "mean": "=dY", "inv_std": "=dY"},
    infer=like(1, 2, 2),
)
def GroupNormGradient(xp, dY, X, gamma, beta, mean, inv_std, *, group: int = 32, order: str = "NCHW", out):
    """Gradients of GroupNorm.

    dY [N, C, ...] (NHWC: [N, ..., C]), X and dX of its shape, gamma, beta, dgamma and dbeta [C], mean and inv_std
    [N, group]; float32.  ValueError where gamma is not [C], or C is no multiple of group.
    """
    if beta.size != gamma.size:
        raise ValueError(f"beta {list(beta.shape)} must have as many values as gamma {list(gamma.shape)}")
    return _group_norm_gradient(xp, _Groups(X, order, group), X, dY, gamma, mean, inv_std, out)


# ---- rows --------------------------------------------------------------------------------------------------------


def _affine_pair(rows: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
    for what, v in (("gamma", gamma), ("beta", beta)):
        if v is not None and v.size != rows.shape[1]:
            raise ValueError(f"{what} must have one value for each of {rows.shape[1]} columns, found {list(v.shape)}")
    return gamma.reshape(-1), None if beta is None else beta.reshape(-1)


_LAYER_OPERANDS = """X [..., row ...], Y of its shape, mean and std [..., 1], gamma and beta with one value for each of a
row's; float32.  ValueError where X has no such axis, gamma or beta has another size, or elementwise_affine has none."""


def _layer_gradient(g: Any) -> Any:
    inputs = [g.GO(0), g.O(0), g.O(1), g.O(2), g.I(0)]
    if g.number("elementwise_affine"):
        return g.single("LayerNormGradient", [*inputs, g.I(1)], [g.GI(0), g.GI(1), g.GI(2)])
    return g.single("LayerNormGradient", inputs, [g.GI(0)])


def _infer_layer(args: Any, inputs: Any) -> list[Spec]:
    shape = inputs[0].shape
    axis = args.get("axis", 1)
    row = Spec((*shape[: axis + len(shape) if axis < 0 else axis], 1), inputs[0].dtype)
    return [inputs[0], row, row]


@operator(
    "Y mean std",
    num_inputs={1, 3},
    types={"X": "float32 float64", "gamma": "=X", "beta": "=X"},
    infer=_infer_layer,
    gradient=_layer_gradient,
)
def LayerNorm(
    xp, X, gamma=None, beta=None, *, axis: int = 1, epsilon: float = 1e-5, elementwise_affine: bool = False, out
):
    """Y = each row of X (the dimensions from `axis` on), normalized, * gamma + beta if these are asked for.

    Ba et al., Layer Normalization, 2016.  X [..., row ...], Y of its shape, mean and std = sqrt(variance + epsilon)
    [..., 1], gamma and beta with one value for each of a row's; float32 or float64.  ValueError where X has no such axis, gamma
    or beta has another size, or elementwise_affine has none.
    """
    if X.ndim < 2:
        raise ValueError(f"X must have two dimensions or more, found {list(X.shape)}")
    rows, at = matrix(X, axis), axis_of(axis, X.ndim)
    shape = (*X.shape[:at], 1)
    if elementwise_affine:
        if gamma is None or beta is None:
            raise ValueError("elementwise_affine needs the inputs gamma and beta")
        gamma, beta = _affine_pair(rows, gamma, beta)
    Y, mean, std = out[0](X.shape, X.dtype), out[1](shape, X.dtype), out[2](shape, X.dtype)
    if not X.size:
        mean[...] = 0
        std[...] = np.sqrt(np.float64(epsilon))
        return Y, mean, std
    m, s = mean.reshape(-1, 1), std.reshape(-1, 1)
    eps = X.dtype.type(epsilon)
    if pays(xp, X):
        affine = (gamma, beta) if elementwise_affine else (_NONE, _NONE)
        _layer_loop(X.reshape(-1), *affine, Y.reshape(-1), mean.reshape(-1), std.reshape(-1), eps)
        return Y, mean, std
    y = Y.reshape(rows.shape)
    rows.mean(axis=1, keepdims=True, out=m)
    xp.subtract(rows, m, y)
    xp.square(y).mean(axis=1, keepdims=True, out=s)
    xp.add(s, eps, s)
    xp.sqrt(s, s)
    xp.divide(y, s, y)
    if elementwise_affine:
        xp.multiply(y, gamma, y)
        xp.add(y, beta, y)
    return Y, mean, std


@loop(reorder=True)
def _layer_loop(X, gamma, beta, Y, means, stds, epsilon):  # type: ignore[no-untyped-def]
    size = _U(X.size // means.size)
    for k in range(_U(means.size)):
        begin, total, squares = k * size, np.float32(0), np.float32(0)
        for j in range(begin, begin + size):
            total += X[j]
        mean = total / np.float32(size)
        for j in range(begin, begin + size):
            away = X[j] - mean
            squares += away * away
        std = np.sqrt(squares / np.float32(size) + epsilon)
        means[k], stds[k] = mean, std
        inv = np.float32(1) / std
        if gamma.size:
            for j in range(size):
                Y[begin + j] = (X[begin + j] - mean) * inv * gamma[j] + beta[j]
        else:
            for j in range(begin, begin + size):
                Y[j] = (X[j] - mean) * inv


operator(
    "Y mean std",
    name="C10LayerNorm_DontUseThisOpYet",
    num_inputs=(1, 3),
    inplace=[(0, 0), (0, 1)],
    types={"X": "float32 float64", "gamma": "=X", "beta": "=X"},
    infer=_infer_layer,
    doc=f"LayerNorm under a name of its own, without a gradient.\n\n{_LAYER_OPERANDS}",
)(LayerNorm.kernels["", None])


@operator(
    "dX dgamma? dbeta?",
    num_inputs={5, 6},
    num_outputs={1, 3},
    types={"dY": "float32", "Y": "=dY", "mean": "=dY", "std": "=dY", "X": "=dY", "gamma": "=dY"},
    infer=lambda args, inputs: [inputs[0], *inputs[5:6], *inputs[5:6]],
)
def LayerNormGradient(xp, dY, Y, mean, std, X, gamma=None, *, axis: int = 1, elementwise_affine: bool = False, out):
    """Gradients of LayerNorm.

    dY [..., row ...], Y, X and dX of its shape, mean and std [..., 1], gamma, dgamma and dbeta of a row's size;
    float32.  ValueError where X has no such axis, gamma has another size, or elementwise_affine has none.
    """
    x = matrix(X, axis)
    dy = fitted(dY, x.shape, "dY")
    if mean.size < x.shape[0] or std.size < x.shape[0]:
        raise ValueError(
            f"mean and std must have a value for each of {x.shape[0]} rows: {list(mean.shape)}, {list(std.shape)}"
        )
    m, s = (v.reshape(-1)[: x.shape[0], None] for v in (mean, std))
    dX = out[0](X.shape, X.dtype)
    if not x.shape[1]:
        return dX
    if (
        pays(xp, X)
        and X.size
        and mean.size == std.size == len(x)
        and (not elementwise_affine or (gamma is not None and len(out) > 2))
    ):
        operands = (X.reshape(-1), dY.reshape(-1), mean.reshape(-1), std.reshape(-1))
        if not elementwise_affine:
            _layer_gradient_loop(*operands, _NONE, dX.reshape(-1), _NONE, _NONE)
            return (dX,)
        weights, _ = _affine_pair(x, gamma, None)
        dgamma, dbeta = (out[k](gamma.shape, gamma.dtype) for k in (1, 2))
        _layer_gradient_loop(*operands, weights, dX.reshape(-1), dgamma.reshape(-1), dbeta.reshape(-1))
        return dX, dgamma, dbeta
    normal = (x - m) / s
    d, affine = dy, []
    if elementwise_affine:
        if gamma is None or len(out) < 3:
            raise ValueError("elementwise_affine needs gamma as sixth input, and 3 outputs")
        weights, _ = _affine_pair(x, gamma, None)
        d = dy * weights
        affine = [_into(out[1], (dy * normal).sum(axis=0).reshape(gamma.shape)),
                  _into(out[2], dy.sum(axis=0).reshape(gamma.shape))]  # fmt: skip
    level = d.mean(axis=1, keepdims=True)
    along = (d * normal).mean(axis=1, keepdims=True)
    dX.reshape(x.shape)[...] = (d - level - normal * along) / s
    return (dX, *affine)


@operator(
    "Y rrms",
    types={"X": "float32 float64", "gamma": "=X", "beta": "=X"},
    infer=lambda args, inputs: [inputs[0], Spec(inputs[0].shape[: args["axis"]], inputs[0].dtype)],
    gradient=single("RMSNormGradient", "GO0 I0 I1 O1 -> GI0 GI1 GI2"),
)
def RMSNorm(xp, X, gamma, beta, *, axis: int = 1, eps: float = 0.0, out):
    """Y = each row of X over its root mean square, * gamma + beta; rrms = 1 / root mean square.

    Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.  X [..., row ...], Y of its shape, rrms [...],
    gamma and beta with one value for each of a row's; float32 or float64.  ValueError where X has no such axis or
    gamma or beta has another size.
    """
    rows, at = matrix(X, axis), axis_of(axis, X.ndim)
    gamma, beta = _affine_pair(rows, gamma, beta)
    Y, rrms = out[0](X.shape, X.dtype), out[1](X.shape[:at], X.dtype)
    if not X.size:
        rrms[...] = 0
        return Y, rrms
    if X.dtype == np.float32 and pays(xp, X):
        _rms_loop(X.reshape(-1), gamma, beta, Y.reshape(-1), rrms.reshape(-1), X.dtype.type(eps))
        return Y, rrms
    scale = 1 / xp.sqrt(xp.square(rows).mean(axis=1) + X.dtype.type(eps))
    rrms[...] = scale.reshape(rrms.shape)
    Y.reshape(rows.shape)[...] = rows * scale[:, None] * gamma + beta
    return Y, rrms


@operator(
    "dX dgamma dbeta", types={"dY": "float32 float64", "X": "=dY", "gamma": "=dY", "rrms": "=dY"}, infer=like(0, 2, 2)
)
def RMSNormGradient(xp, dY, X, gamma, rrms, *, axis: int = 1, out):
    """Gradients of RMSNorm.

    dY [..., row ...], X and dX of its shape, rrms [...], gamma, dgamma and dbeta of a row's size; float32 or float64.
    ValueError where X has no such axis or gamma has another size.
    """
    rows = matrix(X, axis)
    weights, _ = _affine_pair(rows, gamma, None)
    dy, r = fitted(dY, rows.shape, "dY"), fitted(rrms, (rows.shape[0], 1), "rrms")
    dX = out[0](X.shape, X.dtype)
    if X.dtype == np.float32 and pays(xp, X) and X.size and dY.shape == X.shape and r.size == len(rows):
        dgamma, dbeta = (out[k](gamma.shape, gamma.dtype) for k in (1, 2))
        _rms_gradient_loop(*(a.reshape(-1) for a in (dY, X, gamma, rrms, dX, dgamma, dbeta)))
        return dX, dgamma, dbeta
    d = dy * weights
    along = (d * rows).sum(axis=1, keepdims=True) * X.dtype.type(1 / max(rows.shape[1], 1))
    dX.reshape(rows.shape)[...] = d * r - rows * along * r * r * r
    dgamma = _into(out[1], (dy * rows * r).sum(axis=0).reshape(gamma.shape))
    return dX, dgamma, _into(out[2], dy.sum(axis=0).reshape(gamma.shape))


@loop(reorder=True)
def _layer_gradient_loop(X, dY, means, stds, gamma, dX, dgamma, dbeta):  # type: ignore[no-untyped-def]
    size = _U(X.size // means.size)
    share = np.float32(1) / np.float32(size)
    dgamma[:] = 0
    dbeta[:] = 0
    for k in range(_U(means.size)):
        begin, mean, inv = k * size, means[k], np.float32(1) / stds[k]
        level, along = np.float32(0), np.float32(0)
        if gamma.size:
            for j in range(size):
                d, away = dY[begin + j], X[begin + j] - mean
                level += d * gamma[j]
                along += d * gamma[j] * away
                dgamma[j] += d * away * inv
                dbeta[j] += d
        else:
            for j in range(begin, begin + size):
                level += dY[j]
                along += dY[j] * (X[j] - mean)
        level *= share
        along *= share * inv * inv
        if gamma.size:
            for j in range(size):
                dX[begin + j] = (dY[begin + j] * gamma[j] - level - (X[begin + j] - mean) * along) * inv
        else:
            for j in range(begin, begin + size):
                dX[j] = (dY[j] - level - (X[j] - mean) * along) * inv


@loop(reorder=True)
def _rms_loop(X, gamma, beta, Y, rrms, epsilon):  # type: ignore[no-untyped-def]
    size = _U(gamma.size)
    for k in range(_U(rrms.size)):
        begin, squares = k * size, np.float32(0)
        for j in range(size):
            squares += X[begin + j] * X[begin + j]
        r = np.float32(1) / np.sqrt(squares / np.float32(size) + epsilon)
        rrms[k] = r
        for j in range(size):
            Y[begin + j] = X[begin + j] * r * gamma[j] + beta[j]


@loop(reorder=True)
def _rms_gradient_loop(dY, X, gamma, rrms, dX, dgamma, dbeta):  # type: ignore[no-untyped-def]
    size = _U(gamma.size)
    dgamma[:] = 0
    dbeta[:] = 0
    for k in range(_U(rrms.size)):
        begin, r, along = k * size, rrms[k], np.float32(0)
        for j in range(size):
            along += dY[begin + j] * gamma[j] * X[begin + j]
        along *= r * r * r / np.float32(size)
        for j in range(size):
            d, x = dY[begin + j], X[begin + j]
            dX[begin + j] = d * gamma[j] * r - x * along
            dgamma[j] += d * x * r
            dbeta[j] += d


# ---- norms along one axis ----------------------------------------------------------------------------------------

_TINY = 1e-12  # norms below it count as this much


def _norm(xp: Any, X: Any, axis: int) -> Any:
    return xp.maximum(xp.sqrt((X * X).sum(axis=axis, keepdims=True)), X.dtype.type(_TINY))


@operator("Y", types="float32", infer=like(0), gradient=single("NormalizeGradient", "I0 GO0 -> GI0"))
def Normalize(xp, X, *, axis: int = -1, out):
    """Y = X over its Euclidean norm along the axis.

    A norm below 1e-12 counts as 1e-12.  X [...], Y of its shape; float32.  ValueError where X has no such axis.
    """
    return xp.divide(X, _norm(xp, X, axis_of(axis, X.ndim)), out(X.shape, X.dtype))


@operator("dX", types={"X": "float32", "dY": "=X"}, infer=like(1))
def NormalizeGradient(xp, X, dY, *, axis: int = -1, out):
    """dX = dY / norm - X * sum of X * dY / norm^3.

    X [...], dY of its size, dX of dY's shape; float32.  ValueError where X has no such axis or dY does not fit.
    """
    at = axis_of(axis, X.ndim)
    G = fitted(dY, X.shape, "dY")
    norm = _norm(xp, X, at)
    along = (X * G).sum(axis=at, keepdims=True) / (norm * norm * norm)
    dX = out(dY.shape, X.dtype)
    xp.subtract(G / norm, X * along, dX.reshape(X.shape))
    return dX


@operator("Y", types="float32", infer=like(0))
def NormalizeL1(xp, X, *, axis: int = -1, out):
    """Y = X over the sum of its absolute values along the axis; 0 where that is 0.

    X [...], Y of its shape; float32.  ValueError where X has no such axis.
    """
    norm = abs(X).sum(axis=axis_of(axis, X.ndim), keepdims=True)
    return xp.divide(X, xp.where(norm == 0, 1, norm), out(X.shape, X.dtype))
