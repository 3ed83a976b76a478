"""Operators on Int8 tensors, element by element or by shape; layers are in layers.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import loop, pays
from caffe2lite.ops.kit.infer import Spec, like
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import resized
from caffe2lite.ops.kit.windows import Window
from caffe2lite.ops.quantized.tensors import (
    Int8Tensor,
    bytes_as,
    check_byte,
    look_up,
    lowest,
    need,
    ratio,
    same_scale,
    saturate,
    shift_right,
)
from caffe2lite.ops.shape.layout import slice_bounds, slice_window, transpose_order
from caffe2lite.ops.shape.reshape import wanted_shape

# ---- making them, and back -----------------------------------------------------------------------------------------


def _filled(values, shape, Y_scale, Y_zero_point):
    count = math.prod(shape)
    if min(shape, default=0) < 0 or values.size < count:
        raise ValueError(f"{values.size} values are given for the shape {list(shape)}")
    return Int8Tensor(values[:count].reshape(tuple(shape)), Y_scale, Y_zero_point)  # more are passed over, as in Caffe2


@operator("Y", infer=lambda args, inputs: [Spec(tuple(args["shape"]), "uint8")], traits="fill")
def Int8GivenTensorFill(xp, *, values: bytes = b"", shape: list[int] = (), Y_scale: float = 1.0, Y_zero_point: int = 0):
    """A tensor of the bytes `values`.

    Y, an Int8 tensor of the shape [...] in the argument `shape`, uint8. ValueError where there are fewer values.
    """
    return _filled(np.frombuffer(values, np.uint8).copy(), shape, Y_scale, Y_zero_point)


@operator("Y", infer=lambda args, inputs: [Spec(tuple(args["shape"]), "int32")], traits="fill")
def Int8GivenIntTensorFill(
    xp, *, values: list[int] = (), shape: list[int] = (), Y_scale: float = 1.0, Y_zero_point: int = 0
):
    """A tensor of the int32 numbers `values`, as biases are.

    Y, an Int8 tensor of the shape [...] in the argument `shape`, int32. ValueError where there are fewer values.
    """
    return _filled(np.array(values, np.int64).astype(np.int32), shape, Y_scale, Y_zero_point)


@operator("Y", types="float32", infer=like(0, dtype="uint8"))
def Int8Quantize(xp, X, *, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """The byte nearest to X / Y_scale + Y_zero_point, 0 or 255 where that is beyond; 0 for what no int32 can hold.

    X [...] float32 -> Y, an Int8 tensor of its shape, uint8. TypeError for other types.
    """
    if pays(np, X):
        made = np.empty(X.shape, np.uint8)
        _quantize(X.reshape(-1), np.float32(1) / np.float32(Y_scale), Y_zero_point, made.reshape(-1))
        return Int8Tensor(made, Y_scale, Y_zero_point)
    steps = np.rint(X * (np.float32(1) / np.float32(Y_scale)))
    whole = np.where(abs(steps) < 2**31, steps, -(2**31)).astype(np.int64)
    return Int8Tensor(np.clip(whole + Y_zero_point, 0, 255).astype(np.uint8), Y_scale, Y_zero_point)


@loop
def _quantize(X, inverse, zero_point, made):  # type: ignore[no-untyped-def]
    zero, top = np.float32(zero_point), np.float32(2**31)
    for i in range(X.size):
        x = np.rint(X[i] * inverse)
        y = x + zero if abs(x) < top else np.float32(0)  # beyond 2**24 it is saturated in any case
        y = y if y > 0 else np.float32(0)
        made[i] = np.uint8(np.int32(y if y < 255 else np.float32(255)))


@operator("Y", infer=like(0, dtype="float32"))
def Int8Dequantize(xp, X):
    """The numbers that the bytes stand for, float32.

    X, an Int8 tensor [...] of uint8 -> Y of its shape. TypeError where X is none.
    """
    need(X)
    return X.real()


# ---- elementwise ---------------------------------------------------------------------------------------------------


def _sum_op(name, num_inputs, relu):
    def kernel(xp, *Xs, Y_scale: float = 1.0, Y_zero_point: int = 0):
        need(*Xs)
        if len(Xs) != 2:
            raise ValueError(f"it adds two tensors, got {len(Xs)}")
        if relu and Y_zero_point >= 255:
            raise ValueError(f"Y_zero_point must be below 255, or nothing above 0 is left; got {Y_zero_point}")
        A, B = Xs
        if A.shape != B.shape:
            raise ValueError(f"both inputs must have one shape, got {list(A.shape)} and {list(B.shape)}")
        ratios = [ratio(X, Y_scale, least=-14) for X in Xs]
        bits = 21 - (int(np.frexp(max(ratios))[1]) - 1)
        a, b = (
            (np.arange(256, dtype=np.int64) - X.zero) * int(np.rint(r * np.float32(2.0**bits)))
            for X, r in zip(Xs, ratios)
        )
        if pays(np, A.data) and bits > 0:
            made = np.empty(A.shape, np.uint8)
            low = lowest(Y_zero_point, relu)
            _add_bytes(A.data.reshape(-1), B.data.reshape(-1), a, b, made.reshape(-1), bits, Y_zero_point & 255, low)
            return Int8Tensor(made, Y_scale, Y_zero_point)
        total = np.take(a, A.data)
        total += np.take(b, B.data)
        return Int8Tensor(saturate(shift_right(total, bits), Y_zero_point, relu), Y_scale, Y_zero_point)

    doc = f"""C = A + B, each with its own scale{", and none below 0" if relu else ""}.

    A and B, Int8 tensors [...] of one shape, uint8 -> C alike. ValueError where there are not two, the shapes differ, or a
    scale over Y_scale is not from 2^-14 to 2^8; TypeError where one is no Int8 tensor.
    """
    operator("C", name=name, num_inputs=num_inputs, inplace={0: 0, 1: 0}, infer=like(0), doc=doc)(kernel)


@loop
def _add_bytes(A, B, a, b, made, bits, zero_point, low):  # type: ignore[no-untyped-def]
    """Products by the tables of each operand's bytes; rounded to the nearest, halves away from zero."""
    step_a, step_b, first = a[1] - a[0], b[1] - b[0], a[0] + b[0]
    half = (1 << bits) >> 1
    for i in range(A.size):
        total = first + np.int64(A[i]) * step_a + np.int64(B[i]) * step_b
        size = (abs(total) + half) >> bits
        y = (size if total >= 0 else -size) + zero_point
        y = y if y > low else low
        made[i] = np.uint8(y if y < 255 else 255)


_sum_op("Int8Add", (2, 2), relu=False)
_sum_op("Int8AddRelu", (2, 2), relu=True)
_sum_op("Int8Sum", (1, MANY), relu=False)
_sum_op("Int8SumRelu", (1, MANY), relu=True)


@operator("Y", inplace={0: 0}, infer=like(0))
def Int8Relu(xp, X, *, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Y = max(X, 0); scale and zero point must be those of X.

    X, an Int8 tensor [...] of uint8 -> Y alike. ValueError where Y_scale and Y_zero_point are not those of X; TypeError
    where X is no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    check_byte(X.zero_point)
    made = np.empty(X.shape, np.uint8)
    np.clip(X.data, np.uint8(X.zero), np.uint8(255), out=made)
    return Int8Tensor(made, Y_scale, Y_zero_point)


@operator("Y", inplace={0: 0}, infer=like(0), limits="alpha > 0, alpha < 1")
def Int8LeakyRelu(xp, X, *, alpha: float = 0.01, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Y = X where X >= 0, alpha * X elsewhere.

    X, an Int8 tensor [...] of uint8 -> Y alike. ValueError where alpha is not between 0 and 1, or the scales differ by
    more than 2^8; TypeError where X is no Int8 tensor.
    """
    need(X)
    check_byte(X.zero_point, Y_zero_point)
    steps = ratio(X, Y_scale) * (np.arange(256) - X.zero).astype(np.float32)
    steps = np.where(steps < 0, steps * np.float32(alpha), steps)
    table = saturate(np.rint(steps).astype(np.int64), Y_zero_point)
    return Int8Tensor(look_up(table, X.data), Y_scale, Y_zero_point)


def _unit_scale(Y_scale, Y_zero_point):
    if np.float32(Y_scale) != np.float32(1 / 256) or Y_zero_point != 0:
        raise ValueError(f"Y_scale must be 1/256 and Y_zero_point 0, got {Y_scale:.6g} and {Y_zero_point}")


@operator("Y", infer=like(0))
def Int8Sigmoid(xp, X, *, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Y = 1 / (1 + exp(-X)), in steps of 1/256.

    X, an Int8 tensor [...] of uint8 -> Y alike. ValueError where Y_scale is not 1/256, or Y_zero_point not 0; TypeError
    where X is no Int8 tensor.
    """
    need(X)
    _unit_scale(Y_scale, Y_zero_point)
    steps = np.float32(X.scale) * (np.arange(256) - X.zero).astype(np.float32)
    table = np.rint(np.minimum(np.float32(256) / (1 + np.exp(-steps)), 255)).astype(np.uint8)
    return Int8Tensor(look_up(table, X.data), Y_scale, Y_zero_point)


@operator("Y", infer=like(0))
def Int8Softmax(xp, X, *, axis: int = 1, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """Softmax over all dimensions but the first, in steps of 1/256; as in Caffe2 `axis` has no effect.

    X, an Int8 tensor [N, ...] of uint8 -> Y alike. ValueError where Y_scale is not 1/256, or Y_zero_point not 0;
    TypeError where X is no Int8 tensor.
    """
    need(X)
    _unit_scale(Y_scale, Y_zero_point)
    if not X.data.size:
        return Int8Tensor(X.data.copy(), Y_scale, Y_zero_point)
    rows = X.data.reshape(X.shape[0], -1)
    largest = min((2**32 - 1) / rows.shape[1], 2**23 - 1)
    table = np.rint(largest * np.exp((np.arange(256) - 255) * np.float64(X.scale))).astype(np.int64)
    if pays(np, rows):
        made = np.empty(rows.shape, np.uint8)
        _softmax_loop(rows, table.astype(np.float64), made)
        return Int8Tensor(made.reshape(X.shape), Y_scale, Y_zero_point)
    parts = table[rows.astype(np.int64) + 255 - rows.max(axis=1, keepdims=True)]
    total = parts.sum(axis=1, keepdims=True)
    Y = np.minimum((parts * 256 + total // 2) // total, 255).astype(np.uint8)
    return Int8Tensor(Y.reshape(X.shape), Y_scale, Y_zero_point)


@loop
def _softmax_loop(rows, table, made):  # type: ignore[no-untyped-def]
    """In float64 these whole numbers, and the whole parts of their quotients, are exact."""
    parts = np.empty(rows.shape[1])
    for i in range(rows.shape[0]):
        first = np.int64(255)
        for j in range(parts.size):
            first = min(first, 255 - rows[i, j])
        total = 0.0
        for j in range(parts.size):
            parts[j] = table[rows[i, j] + first]
            total += parts[j]
        for j in range(parts.size):
            made[i, j] = np.uint8(min((parts[j] * 256 + np.floor(total / 2)) / total, 255.0))


# ---- shape: scale and zero point stay ------------------------------------------------------------------------------


@operator("concat_result split_info?", num_inputs=(1, MANY), infer=bytes_as("Concat", order=None))
def Int8Concat(xp, *Xs, axis: int = 0, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """The inputs behind each other along an axis; their bytes stay, and the scale must be the first one's.

    Int8 tensors [..., n, ...] of uint8 -> concat_result [..., sum of n, ...]. ValueError where the axis is none of
    theirs, the shapes do not fit, or Y_scale and Y_zero_point are not the first one's; TypeError where one is no Int8
    tensor.
    """
    need(*Xs)
    same_scale(Xs[0], Y_scale, Y_zero_point)
    if axis < 0 or axis >= Xs[0].data.ndim:
        raise ValueError(f"axis {axis} must be from 0 to {Xs[0].data.ndim - 1}")
    return Int8Tensor(np.concatenate([X.data for X in Xs], axis=axis), Y_scale, Y_zero_point)


@operator("Y", infer=bytes_as("Flatten"))
def Int8Flatten(xp, X, *, axis: int = 1, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """X as a matrix: dimensions before `axis` are its rows, the others its columns.

    X, an Int8 tensor [...] of uint8 -> Y [rows, columns]. ValueError where `axis` is not from 0 to the number of
    dimensions, or Y_scale and Y_zero_point are not those of X; TypeError where X is no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    if not 0 <= axis <= X.data.ndim:
        raise ValueError(f"axis {axis} must be from 0 to {X.data.ndim}, for X of shape {list(X.shape)}")
    shape = math.prod(X.shape[:axis]), math.prod(X.shape[axis:])
    return Int8Tensor(X.data.reshape(shape).copy(), Y_scale, Y_zero_point)


@operator(
    "Y old_shape",
    inplace={0: 0},
    types={"new_shape": "int32 int64"},
    shapes="new_shape [K]",
    infer=bytes_as("Reshape"),
)
def Int8Reshape(xp, X, new_shape=None, *, shape: list[int] | None = None, Y_scale: float = 1.0, Y_zero_point: int = 0):
    """X in another shape (0 keeps a dimension, -1 is what is left), and the shape that it had.

    X, an Int8 tensor [...] of uint8, new_shape [k] int32 or int64 -> Y, old_shape [dimensions of X]. ValueError where
    the new shape has another number of elements or is given twice, or Y_scale and Y_zero_point are not those of X; TypeError where X is
    no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    if new_shape is not None and shape is not None:
        raise ValueError(f"the new shape comes as argument ({list(shape)}) or as second input, not as both")
    wanted = wanted_shape(list(shape or ()) if new_shape is None else new_shape.tolist(), X.data)
    old = np.array(X.shape, "int64" if new_shape is None else new_shape.dtype)
    return Int8Tensor(X.data.reshape(wanted).copy(), Y_scale, Y_zero_point), old


@operator("Y", types={"starts_in": "int32 int64", "ends_in": "=starts_in"})
def Int8Slice(
    xp,
    X,
    starts_in=None,
    ends_in=None,
    *,
    starts: list[int] = (),
    ends: list[int] = (),
    dim: int | None = None,
    start_idx: int | None = None,
    end_idx: int | None = None,
    Y_scale: float = 1.0,
    Y_zero_point: int = 0,
):
    """X[starts:ends] in each dimension; start_idx and end_idx, where both are given, are those of dimension `dim`.

    X, an Int8 tensor [...] of uint8, starts and ends [k] int32 or int64 -> Y [ends - starts, ...].
    ValueError where the bounds do not fit or are missing, dim is none of its dimensions, or Y_scale and Y_zero_point are not those
    of X; TypeError where X is no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    if dim is not None and start_idx is not None and end_idx is not None:
        n = X.data.ndim
        if not 0 <= dim < n:
            raise ValueError(f"dim must be from 0 to {n - 1}, for the shape {list(X.shape)}; got {dim}")
        starts, ends = [*starts, *[0] * (n - len(starts))], [*ends, *[-1] * (n - len(ends))]
        starts[dim], ends[dim] = start_idx, end_idx
    elif starts_in is None and not starts:
        raise ValueError("the bounds are missing: give starts and ends, or dim, start_idx and end_idx")
    part = X.data[slice_window(X.shape, *slice_bounds(starts_in, ends_in, starts, ends))]
    return Int8Tensor(part.copy(), Y_scale, Y_zero_point)


@operator("Y", infer=bytes_as("Transpose"))
def Int8Transpose(xp, X, *, axes: list[int] = (), Y_scale: float = 1.0, Y_zero_point: int = 0):
    """X with its dimensions in the order `axes` (default: the last first).

    X, an Int8 tensor [d0, ...] of uint8 -> Y [d of axes[0], ...]. ValueError where `axes` is no permutation, or Y_scale
    and Y_zero_point are not those of X; TypeError where X is no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    return Int8Tensor(np.ascontiguousarray(X.data.transpose(transpose_order(axes, X.data.ndim))), Y_scale, Y_zero_point)


@operator("Y", infer=like(0))
def Int8ChannelShuffle(xp, X, *, Y_scale: float = 1.0, Y_zero_point: int = 0, window: Window):
    """Channels (the last dimension) that lay group after group taken in turn from each of them.

    X, an Int8 tensor [N, H, W, C] of uint8 -> Y alike. ValueError where the order is not NHWC, C is no multiple of
    `group`, which is at least 2, there is no `kernel` (it has no effect, but Caffe2 asks for it), or Y_scale and
    Y_zero_point are not those of X; TypeError where X is no Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    if X.data.ndim != 4:
        raise ValueError(f"X must be (N, H, W, C), got the shape {list(X.shape)}")
    group = window.group
    if not window.channels_last or group < 2 or X.shape[-1] % group:
        raise ValueError(
            f"order must be NHWC and group at least 2 and a divisor of the {X.shape[-1]} channels; "
            f"got {'NHWC' if window.channels_last else 'NCHW'} and {group}"
        )
    parts = X.data.reshape(*X.shape[:-1], group, X.shape[-1] // group)
    return Int8Tensor(parts.swapaxes(-1, -2).reshape(X.shape), Y_scale, Y_zero_point)


def _infer_resized(args: Any, inputs: Any) -> list[Spec]:
    n, height, width, channels = inputs[0].shape
    return [Spec((n, resized(height, args["height_scale"]), resized(width, args["width_scale"]), channels), "uint8")]


@operator("Y", infer=_infer_resized, limits="width_scale > 0, height_scale > 0")
def Int8ResizeNearest(
    xp, X, *, width_scale: float = 1.0, height_scale: float = 1.0, Y_scale: float = 1.0, Y_zero_point: int = 0
):
    """The image in another size, each pixel the nearest one.

    X, an Int8 tensor [N, H, W, C] of uint8 -> Y [N, H * height_scale, W * width_scale, C]. ValueError where X has not
    four dimensions, a scale is not above 0, or Y_scale and Y_zero_point are not those of X; TypeError where X is no
    Int8 tensor.
    """
    need(X)
    same_scale(X, Y_scale, Y_zero_point)
    if X.data.ndim != 4:
        raise ValueError(f"X must be [N, H, W, C], got the shape {list(X.shape)}")
    n, *sides, channels = X.shape
    scales = height_scale, width_scale
    counts = [resized(size, scale) for size, scale in zip(sides, scales)]
    check_result((n, *counts, channels), "uint8")
    chosen = []
    for size, scale, count in zip(sides, scales, counts):
        nearest = (np.arange(count, dtype=np.float32) / np.float32(scale)).astype(np.int64)
        chosen.append(np.minimum(nearest, size - 1))
    return Int8Tensor(X.data[:, chosen[0]][:, :, chosen[1]], Y_scale, Y_zero_point)
