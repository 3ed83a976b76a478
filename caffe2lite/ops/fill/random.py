"""Fills with random values.

The generator belongs to the operator in its net, seeded by its device option's `random_seed`: two fills with one seed
give equal values, a second run goes on, CreateNet starts anew.
"""

from __future__ import annotations

import math
from typing import Any

from caffe2lite.ops.kit.arguments import Shape
from caffe2lite.ops.kit.dtypes import dtype_of
from caffe2lite.ops.kit.filling import draw, infer_fill, shape_to_fill
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.registry import operator


def _uniform(ctx: Any, Y: Any, low: float, high: float) -> Any:
    """Fill Y with values of [low, high)."""
    if Y.size:
        draw(ctx.rng.random, Y)
        Y *= Y.dtype.type(high - low)
        Y += Y.dtype.type(low)
    return Y


def _gaussian(ctx: Any, Y: Any, mean: float, std: float) -> Any:
    if Y.size:
        draw(ctx.rng.standard_normal, Y)
        Y *= Y.dtype.type(std)
        Y += Y.dtype.type(mean)
    return Y


def _bounds(dims: tuple[int, ...], low: Any, high: Any, least: Any, most: Any) -> tuple[tuple[int, ...], Any, Any]:
    """(dims, min, max), from the inputs where they are given: an empty range then makes an empty tensor."""
    if low is None:
        if least >= most:
            raise ValueError(f"max must be above min, found min={least}, max={most}")
        return dims, least, most
    for what, operand in (("min", low), ("max", high)):
        if operand.dtype.kind not in "fiu":
            raise TypeError(f"{what} must be a number, found {operand.dtype}")
        if operand.size != 1:
            raise ValueError(f"{what} must be a scalar, found the shape {list(operand.shape)}")
    least, most = low.item(), high.item()
    return (0, *dims[1:]) if least > most else dims, least, most


@operator(
    "Y",
    gradient=NO_GRADIENT,
    stateful=True,
    inplace={0: 0},
    anywhere="X low high",
    num_inputs={0, 1, 3},
    infer=infer_fill("float32"),
    traits="fill",
)
def UniformFill(
    ctx,
    X=None,
    low=None,
    high=None,
    *,
    min: float = 0.0,
    max: float = 1.0,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = uniform random values of [min, max), float32; the bounds may come as inputs.

    Y [shape ...], low and high scalars; X [...] gives its shape, or with input_as_shape X [n] (int64) its values;
    float32.  ValueError where max is not above min, the shape is given twice, or a bound is no scalar.
    """
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    dims, min, max = _bounds(dims, low, high, min, max)
    return _uniform(ctx, out(dims, "float32"), min, max)


@operator(
    "Y",
    gradient=NO_GRADIENT,
    stateful=True,
    inplace={0: 0},
    anywhere="X low high",
    num_inputs={0, 1, 3},
    types={"low": "int32", "high": "int32"},
    infer=infer_fill("int32"),
    traits="fill",
)
def UniformIntFill(
    ctx,
    X=None,
    low=None,
    high=None,
    *,
    min: int = 0,
    max: int = 1,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = uniform random integers of [min, max], int32; the bounds may come as inputs.

    Y [shape ...], low and high scalars; X [...] gives its shape, or with input_as_shape X [n] (int64) its values;
    int32.  ValueError where max is not above min, the shape is given twice, or a bound is no scalar.
    """
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    dims, min, max = _bounds(dims, low, high, min, max)
    Y = out(dims, "int32")
    if Y.size:
        Y[...] = ctx.rng.integers(min, max, Y.shape, endpoint=True)
    return Y


@operator(
    "Y",
    gradient=NO_GRADIENT,
    stateful=True,
    inplace={0: 0},
    anywhere="X",
    infer=infer_fill("int32"),
    traits="fill",
    types={"avoid": "int32 int64"},
)
def UniqueUniformFill(
    ctx,
    X=None,
    avoid=None,
    *,
    min: int = 0,
    max: int = 1,
    dtype: int = 2,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = distinct random integers of [min, max], none of them in `avoid`.

    Y [shape ...], avoid [...]; X [...] gives its shape, or with input_as_shape X [n] its values; int32, or int64 as
    `dtype` says.  ValueError where there are not so many integers, min is above max, or dtype is another one.
    """
    kind = dtype_of(dtype)
    if kind not in ("int32", "int64"):
        raise ValueError(f"unique integers are int32 or int64, found dtype={kind}")
    if min > max:
        raise ValueError(f"min must be at most max, found [{min}, {max}]")
    xp = ctx.xp
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    wanted = math.prod(dims)
    shunned = xp.zeros(0, "int64") if avoid is None else xp.unique(avoid.astype("int64"))
    inside = shunned[(shunned >= min) & (shunned <= max)]
    room = max - min + 1 - inside.size
    if wanted > room:
        raise ValueError(f"{wanted} distinct integers of [{min}, {max}] are wanted, but only {room} are allowed")
    Y = out(dims, kind)
    chosen = xp.zeros(0, "int64")
    while chosen.size < Y.size:
        more = ctx.rng.integers(min, max, 2 * (Y.size - chosen.size) + 8, endpoint=True)
        pool = xp.concatenate([inside, chosen, more])
        _, first = xp.unique(pool, return_index=True)
        first = xp.sort(first)
        chosen = pool[first[first >= inside.size]][: Y.size]
    Y.reshape(-1)[...] = chosen
    return Y


@operator(
    "Y", gradient=NO_GRADIENT, stateful=True, inplace={0: 0}, anywhere="X", infer=infer_fill("float32"), traits="fill"
)
def GaussianFill(
    ctx,
    X=None,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    shape: Shape = (),
    extra_shape: list[int] = (),
    input_as_shape: bool = False,
    out,
):
    """Y = normal random values, float32.

    Y [shape ...], float32; X [...] gives its shape, or with input_as_shape X [n] (int64) its values.  ValueError
    where std is negative or the shape is given twice.
    """
    if std < 0:
        raise ValueError(f"std must not be negative, found {std}")
    return _gaussian(ctx, out(shape_to_fill(X, shape, extra_shape, input_as_shape), "float32"), mean, std)


@operator(
    "Y", gradient=NO_GRADIENT, stateful=True, inplace={0: 0}, anywhere="X", infer=infer_fill("float32"), traits="fill"
)
def XavierFill(ctx, X=None, *, shape: Shape = (), extra_shape: list[int] = (), input_as_shape: bool = False, out):
    """Y = uniform values of [-s, s), s = sqrt(3 / fan in), for weights that are outputs by inputs.

    Glorot and Bengio, Understanding the Difficulty of Training Deep Feedforward Neural Networks, 2010.  Y [M, ...],
    fan in the size of a row, float32; X gives its shape as in UniformFill.  ValueError where the shape is given twice
    or a scalar's.
    """
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    fan = _dim(dims, 0)  # before the output, which may be the very input, takes this shape
    Y = out(dims, "float32")
    if not Y.size:
        return Y
    scale = math.sqrt(3.0 * fan / Y.size)
    return _uniform(ctx, Y, -scale, scale)


@operator(
    "Y", gradient=NO_GRADIENT, stateful=True, inplace={0: 0}, anywhere="X", infer=infer_fill("float32"), traits="fill"
)
def MSRAFill(ctx, X=None, *, shape: Shape = (), extra_shape: list[int] = (), input_as_shape: bool = False, out):
    """Y = normal values of standard deviation sqrt(2 / fan out), for weights that are outputs by inputs.

    He et al., Delving Deep into Rectifiers, 2015.  Y [M, K, ...], fan out = Y.size / K, float32; X gives its shape as
    in UniformFill.  ValueError where the shape is given twice or has fewer than 2 dimensions.
    """
    dims = shape_to_fill(X, shape, extra_shape, input_as_shape)
    fan = _dim(dims, 1)
    Y = out(dims, "float32")
    return _gaussian(ctx, Y, 0.0, math.sqrt(2.0 * fan / Y.size)) if Y.size else Y


def _dim(dims: Any, axis: int) -> int:
    if len(dims) <= axis:
        raise ValueError(f"weights with {axis + 1} dimensions or more are expected, found the shape {list(dims)}")
    return int(dims[axis])


@operator("Y", gradient=NO_GRADIENT, stateful=True, infer=infer_fill("float16"), traits="fill")
def Float16UniformFill(ctx, *, min: float = 0.0, max: float = 1.0, shape: Shape = (), out):
    """Y = uniform random values of [min, max), float16.

    Y [shape ...], float16.  ValueError where max is not above min.
    """
    if min >= max:
        raise ValueError(f"max must be above min, found [{min}, {max})")
    return _uniform(ctx, out(shape_to_fill(None, shape, (), False), "float16"), min, max)
