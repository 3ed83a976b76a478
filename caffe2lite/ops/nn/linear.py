"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.ops.kit.broadcast import result_shape
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Infer, Spec, size_of
from caffe2lite.ops.kit.products import bound_dot, dot
from caffe2lite.ops.kit.registry import operator
from caffe2lite.ops.kit.shapes import fitted, split_axis


def _matrix(X: Any, axis: int) -> Any:
    """X as a matrix whose columns are the dimensions from `axis` on."""
    if X.ndim == 2 and axis == 1:
        return X
    at = split_axis(axis, X.ndim)
    return X.reshape(math.prod(X.shape[:at]), math.prod(X.shape[at:]))


# ---- fully connected ---------------------------------------------------------------------------------------------


def _fc_operands(X: Any, W: Any, b: Any, axis: int, axis_w: int, transposed: bool) -> tuple[Any, Any]:
    """X as rows, and the weights as inputs by outputs."""
    rows, W = _matrix(X, axis), _matrix(W, axis_w)
    weights = W if transposed else W.T
    if rows.shape[1] != weights.shape[0] or b.shape != weights.shape[1:]:
        raise ValueError(_misfit(X, W, b, rows.shape[1], *weights.shape, axis, transposed))
    return rows, weights


def _misfit(X: Any, W: Any, b: Any, have: int, take: int, make: int, axis: int, transposed: bool) -> str:
    """What is wrong with the shapes of a fully connected layer, and which would do."""
    order = "inputs, outputs" if transposed else "outputs, inputs"
    if have != take:
        wanted = [have, make] if transposed else [make, have]
        return (
            f"X {list(X.shape)} has {have} values a row (from axis {axis} on), and W {list(W.shape)} takes {take}: W must be "
            f"{wanted} ({order}), or X have rows of {take}"
        )
    return f"W {list(W.shape)} ({order}) makes {make} outputs, and the bias is {list(b.shape)}: it must be [{make}]"


def _fully_connected(xp: Any, X: Any, W: Any, b: Any, axis: int, axis_w: int, transposed: bool, out: Any) -> Any:
    for what, at, operand in (("axis", axis, X), ("axis_w", axis_w, W)):
        if at == operand.ndim:
            raise ValueError(f"{what}={at} is none of the dimensions of {list(operand.shape)}")
    rows, weights = _fc_operands(X, W, b, axis, axis_w, transposed)
    Y = out((*X.shape[: split_axis(axis, X.ndim)], weights.shape[1]), X.dtype)
    flat = Y.reshape(rows.shape[0], weights.shape[1])
    dot(xp, rows, weights, flat)
    xp.add(flat, b, flat)
    return Y


def _fully_connected_again(inputs: Any, Y: Any, args: Any, transposed: bool) -> Callable[[], None]:
    """How a layer is replayed: one product and one sum on the same arrays."""
    X, W, b = inputs
    rows, weights = _fc_operands(X, W, b, args.get("axis", 1), args.get("axis_w", 1), transposed)
    flat = Y.reshape(rows.shape[0], weights.shape[1])
    product, add = bound_dot(rows, weights, flat), np.add
    bias, target = (b.reshape(flat.shape), flat) if len(flat) == 1 else (b, flat)

    def run() -> None:
        product()
        add(target, bias, target)

    return run


def _infer_fc(args: Any, inputs: Any) -> list[Spec | None]:
    shape = inputs[0].shape
    return [Spec((*shape[: split_axis(args.get("axis", 1), len(shape))], inputs[2].shape[0]), inputs[0].dtype)]


def _cost_fc(args: Any, inputs: Any) -> tuple[int, int, int]:
    Y = _infer_fc(args, inputs)[0]
    depth = math.prod(inputs[1].shape) // max(1, inputs[2].shape[0])
    return (2 * depth + 1) * math.prod(Y.shape), size_of(Y), size_of(*inputs)


_FC = {
    "types": {"X": "float32", "W": "float32", "b": "=W"},
    "cuda_types": {"X": "float32 float16", "W": "=X", "b": "=W"},
}


@operator("Y", **_FC, infer=_infer_fc, cost=_cost_fc, gradient=single("FCGradient", "I0 I1 GO0 -> GI1 GI2 GI0"))
def FC(xp, X, W, b, *, axis: int = 1, axis_w: int = 1, out):
    """Y = X W^T + b, with X as rows from `axis` on, and W as outputs by inputs.

    X [..., K ...], W [M, K ...], b [M] -> Y [..., M], K being the product of the dimensions from `axis` on; float32,
    on GPUs float16 too.  ValueError where W does not take K values, or b is not [M].
    """
    return _fully_connected(xp, X, W, b, axis, axis_w, False, out)


@FC.bind
def _fc_again(xp, inputs, outputs, args):
    return _fully_connected_again(inputs, outputs[0], args, transposed=False)


@operator(
    "Y", **_FC, infer=_infer_fc, cost=_cost_fc, gradient=single("FCTransposedGradient", "I0 I1 GO0 -> GI1 GI2 GI0")
)
def FCTransposed(xp, X, W, b, *, axis: int = 1, axis_w: int = 1, out):
    """Y = X W + b, with X as rows from `axis` on, and W inputs by outputs.

    X [..., K ...], W [K ..., M], b [M] -> Y [..., M], K being the product of the dimensions from `axis` on; float32,
    on GPUs float16 too.  ValueError where W does not take K values, or b is not [M].
    """
    return _fully_connected(xp, X, W, b, axis, axis_w, True, out)


@FCTransposed.bind
def _fc_transposed_again(xp, inputs, outputs, args):
    return _fully_connected_again(inputs, outputs[0], args, transposed=True)


def _fully_connected_gradient(
    xp: Any, X: Any, W: Any, dY: Any, axis: int, axis_w: int, transposed: bool, out: Any
) -> Any:
    rows, weights = _matrix(X, axis), _matrix(W, axis_w)
    n_in, n_out = weights.shape if transposed else weights.shape[::-1]
    if rows.shape[1] != n_in or dY.size != rows.shape[0] * n_out:
        raise ValueError(
            f"the shapes do not fit: X {list(X.shape)}, W {list(W.shape)}, dY {list(dY.shape)} at axis {axis}"
        )
    dy = dY.reshape(rows.shape[0], n_out)
    dW = out[0](W.shape, W.dtype)
    if transposed:
        dot(xp, rows.T, dy, dW.reshape(weights.shape))
    else:
        dot(xp, dy.T, rows, dW.reshape(weights.shape))
    db = out[1]((n_out,), W.dtype)
    dy.sum(axis=0, out=db)
    if len(out) < 3:
        return dW, db
    dX = out[2](X.shape, X.dtype)
    dot(xp, dy, weights.T if transposed else weights, dX.reshape(rows.shape))
    return dW, db, dX


def _infer_fc_gradient(transposed: bool) -> Infer:
    def infer(args: Any, inputs: Any) -> list[Spec | None]:
        X, W = inputs[:2]
        at = split_axis(args["axis_w"], len(W.shape))
        return [W, Spec((math.prod(W.shape[at:] if transposed else W.shape[:at]),), W.dtype), X]

    return infer


_FC_GRADIENT = {
    "types": {"X": "float32", "W": "=X", "dY": "=X"},
    "cuda_types": {"X": "float32 float16", "W": "=X", "dY": "=X"},
}


@operator("dW db dX?", **_FC_GRADIENT, infer=_infer_fc_gradient(transposed=False))
def FCGradient(xp, X, W, dY, *, axis: int = 1, axis_w: int = 1, out):
    """dW = dY^T X, db = sum of dY over the rows, dX = dY W.

    X [..., K ...], W [M, K ...], dY [..., M] -> dW and dX of the shapes of W and X, db [M]; float32, on GPUs float16
    too.  ValueError where W or dY does not fit X.
    """
    return _fully_connected_gradient(xp, X, W, dY, axis, axis_w, False, out)


@operator("dW db dX?", **_FC_GRADIENT, infer=_infer_fc_gradient(transposed=True))
def FCTransposedGradient(xp, X, W, dY, *, axis: int = 1, axis_w: int = 1, out):
    """dW = X^T dY, db = sum of dY over the rows, dX = dY W^T.

    X [..., K ...], W [K ..., M], dY [..., M] -> dW and dX of the shapes of W and X, db [M]; float32, on GPUs float16
    too.  ValueError where W or dY does not fit X.
    """
    return _fully_connected_gradient(xp, X, W, dY, axis, axis_w, True, out)


# ---- products of two tensors -------------------------------------------------------------------------------------


def _matmul_gradient(g: Any) -> Any:
    """Each factor's gradient is a product of the other and dY; the third input gives the shape of the result."""
    A, B, dY = g.I(0), g.I(1), g.GO(0)
    trans_a, trans_b = bool(g.number("trans_a")), bool(g.number("trans_b"))
    axis_a, axis_b = (int(bool(g.number(name, 1))) for name in ("axis_a", "axis_b"))  # as Caffe2's maker has them
    g.copy_arguments = False
    if trans_a:
        args = {"trans_a": 1} if trans_b else {}
        to_A = g.new("MatMul", [B, dY, A], [g.GI(0)], **args, trans_b=1, axis_a=axis_b)
    else:
        args = {} if trans_b else {"trans_b": 1}
        to_A = g.new("MatMul", [dY, B, A], [g.GI(0)], **args, axis_b=axis_b)
    if trans_b:
        args = {"trans_b": 1} if trans_a else {}
        to_B = g.new("MatMul", [dY, A, B], [g.GI(1)], trans_a=1, **args, axis_b=axis_a)
    else:
        args = {} if trans_a else {"trans_a": 1}
        to_B = g.new("MatMul", [A, dY, B], [g.GI(1)], **args, axis_a=axis_a)
    return [to_A, to_B]


def _infer_matmul(args: Any, inputs: Any) -> list[Spec]:
    if len(inputs) > 2:
        return [Spec(inputs[2].shape, inputs[0].dtype)]
    sizes = []
    for k, which in enumerate("ab"):
        shape = inputs[k].shape
        at = split_axis(args.get(f"axis_{which}", 1), len(shape))
        halves = math.prod(shape[:at]), math.prod(shape[at:])
        sizes.append(halves[::-1] if args.get(f"trans_{which}") else halves)
    return [Spec((sizes[0][0], sizes[1][1]), inputs[0].dtype)]


@operator(
    "Y",
    types={"A": "float32", "B": "=A"},
    anywhere="shaped_like",
    infer=_infer_matmul,
    gradient=_matmul_gradient,
)
def MatMul(
    xp, A, B, shaped_like=None, *, axis_a: int = 1, axis_b: int = 1, trans_a: bool = False, trans_b: bool = False, out
):
    """Y = A B of the two as matrices, either transposed on request; a third input gives Y's shape.

    A [N, K], B [K, M] -> Y [N, M]; tensors of more dimensions are matrices at axis_a and axis_b, trans_a takes A
    [K, N], trans_b B [M, K]; float32.  ValueError where the two K differ, an axis is out of range, or the third input
    has not N M values.
    """
    for what, operand, axis in (("a", A, axis_a), ("b", B, axis_b)):
        if not -operand.ndim <= axis < operand.ndim:
            raise ValueError(f"axis_{what} is {axis}, and {what.upper()} has the shape {list(operand.shape)}")
    a, b = _matrix(A, axis_a), _matrix(B, axis_b)
    a, b = a.T if trans_a else a, b.T if trans_b else b
    if a.shape[1] != b.shape[0]:
        fits = " (with trans_b=1 it would fit)" if a.shape[1] == b.shape[1] else ""
        fits = " (with trans_a=1 it would fit)" if a.shape[0] == b.shape[0] and not fits else fits
        raise ValueError(
            f"A {list(A.shape)} is a matrix {list(a.shape)} of {a.shape[1]} columns, and B {list(B.shape)} a matrix "
            f"{list(b.shape)} of {b.shape[0]} rows: the two numbers must be equal{fits}"
        )
    shape = (a.shape[0], b.shape[1])
    if shaped_like is not None:
        if shaped_like.size != shape[0] * shape[1]:
            raise ValueError(f"the product is {list(shape)}, which does not fit the shape {list(shaped_like.shape)}")
        Y = out(shaped_like.shape, A.dtype)
    else:
        Y = out(shape, A.dtype)
    dot(xp, a, b, Y.reshape(shape))
    return Y


def _batch_matmul_gradient(g: Any) -> Any:
    if g.number("broadcast"):
        raise ValueError("BatchMatMul has no gradient with broadcast=1")
    A, B, dY = g.I(0), g.I(1), g.GO(0)
    trans_a, trans_b = bool(g.number("trans_a")), bool(g.number("trans_b"))
    g.copy_arguments = False
    if trans_a:
        args = {"trans_a": 1} if trans_b else {}
        to_A = g.new("BatchMatMul", [B, dY], [g.GI(0)], **args, trans_b=1)
    else:
        to_A = g.new("BatchMatMul", [dY, B], [g.GI(0)], **({} if trans_b else {"trans_b": 1}))
    if trans_b:
        args = {"trans_b": 1} if trans_a else {}
        to_B = g.new("BatchMatMul", [dY, A], [g.GI(1)], trans_a=1, **args)
    else:
        to_B = g.new("BatchMatMul", [A, dY], [g.GI(1)], **({} if trans_a else {"trans_a": 1}))
    return [to_A, to_B]


def _infer_batch_matmul(args: Any, inputs: Any) -> list[Spec]:
    """Leading dimensions as NumPy broadcasts them; a vector has neither rows nor columns."""
    A, B = (s.shape for s in inputs)
    rows = () if len(A) < 2 else (A[-1 if args["trans_a"] else -2],)
    columns = () if len(B) < 2 else (B[-2 if args["trans_b"] else -1],)
    shape = (*np.broadcast_shapes(A[:-2], B[:-2]), *rows, *columns)
    return [Spec(shape or (1,), inputs[0].dtype)]


@operator(
    "Y",
    types={"A": "float32", "B": "=A"},
    cuda_types={"A": "float32 float16", "B": "=A"},
    infer=_infer_batch_matmul,
    gradient=_batch_matmul_gradient,
)
def BatchMatMul(xp, A, B, *, trans_a: bool = False, trans_b: bool = False, broadcast: bool = False, out):
    """Y = A B over the last two dimensions, either transposed; `broadcast` takes vectors and repeats as NumPy does.

    A [..., N, K], B [..., K, M] -> Y [..., N, M]; trans_a takes A [..., K, N], trans_b B [..., M, K]; float32, on
    GPUs float16 too.  ValueError where the two K or, without broadcast, the leading dimensions differ, or an operand
    is a scalar.
    """
    if not broadcast and A.ndim > 1 and B.ndim > 1 and A.shape[:-2] != B.shape[:-2]:
        raise ValueError(
            f"A {list(A.shape)} and B {list(B.shape)} must be batches of one shape; broadcast=1 takes others"
        )
    if not A.ndim or not B.ndim:
        raise ValueError("a scalar has no matrix product")
    a = A.swapaxes(-1, -2) if trans_a and A.ndim > 1 else A
    b = B.swapaxes(-1, -2) if trans_b and B.ndim > 1 else B
    inner_a, inner_b = a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]
    if inner_a != inner_b:
        raise ValueError(f"the inner dimensions differ, {inner_a} and {inner_b}: A {list(A.shape)}, B {list(B.shape)}")
    result_shape(a.shape[:-2], b.shape[:-2])
    product = xp.matmul(a, b)
    if a.ndim == 1 and b.ndim == 1:
        product = product.reshape(1)
    Y = out(product.shape, A.dtype)
    Y[...] = product
    return Y


# ---- elementwise linear ------------------------------------------------------------------------------------------


def _affine_rows(X: Any, w: Any, b: Any, axis: int) -> Any:
    rows = _matrix(X, axis)
    if w.shape != rows.shape[1:] or b.shape != w.shape:
        raise ValueError(
            f"w {list(w.shape)} and b {list(b.shape)} must have one value for each of the {rows.shape[1]} columns of "
            f"X {list(X.shape)} at axis {axis}"
        )
    return rows


@operator(
    "Y",
    types={"X": "float32", "w": "=X", "b": "=X"},
    infer=lambda args, inputs: inputs[:1],
    gradient=single("ElementwiseLinearGradient", "GO0 I0 I1 -> GI0 GI1 GI2"),
)
def ElementwiseLinear(xp, X, w, b, *, axis: int = 1, out):
    """Y = X * w + b, column by column of X as a matrix at `axis`.

    X [..., K ...], w and b [K], Y of X's shape; float32.  ValueError where w or b is not [K].
    """
    rows = _affine_rows(X, w, b, axis)
    Y = out(X.shape, X.dtype)
    flat = Y.reshape(rows.shape)
    xp.multiply(rows, w, flat)
    xp.add(flat, b, flat)
    return Y


@operator("dX dw db", types={"dY": "float32", "X": "=dY", "w": "=dY"},
          infer=lambda args, inputs: [inputs[1], inputs[2], inputs[2]])  # fmt: skip
def ElementwiseLinearGradient(xp, dY, X, w, *, axis: int = 1, out):
    """dX = dY * w, dw = sum of dY * X, db = sum of dY, over the rows.

    dY [..., K ...], X and dX of its shape, w, dw and db [K]; float32.  ValueError where w is not [K].
    """
    rows = _affine_rows(X, w, w, axis)
    dy = fitted(dY, rows.shape, "dY")
    dX = out[0](X.shape, X.dtype)
    xp.multiply(dy, w, dX.reshape(rows.shape))
    dw, db = out[1](w.shape, w.dtype), out[2](w.shape, w.dtype)
    dw[...] = (dy * rows).sum(axis=0)
    dy.sum(axis=0, out=db)
    return dX, dw, db


@operator("Y", types={"indices": "int32"}, num_inputs=(2, 256))
def ConcatBatchMatMulBatchGatherOp(xp, indices, *Xs, out):
    """Y = for each sample, some of the dot products of all pairs of its feature vectors, by index into their square.

    indices [K] (int32; a * F + b for the product of features a and b), F features [N, D], Y [N, K]; any dtype that
    multiplies, the same for all.  ValueError where the features differ or an index is not from 0 to F^2 - 1.
    """
    first = Xs[0]
    if first.dtype.kind != "f":
        raise TypeError(f"the features must be floats, found {first.dtype}")
    if first.ndim != 2 or any(X.shape != first.shape or X.dtype != first.dtype for X in Xs):
        raise ValueError(f"all features must be matrices of one shape and type, found {[list(X.shape) for X in Xs]}")
    count = len(Xs)
    flat = indices.reshape(-1)
    if flat.size and not (int(flat.min()) >= 0 and int(flat.max()) < count * count):
        raise ValueError(
            f"indices must be from 0 to {count * count - 1}, the pairs of {count} features; found {int(flat.min())} to "
            f"{int(flat.max())}"
        )
    features = xp.stack(Xs, axis=1)
    products = xp.matmul(features, features.swapaxes(1, 2)).reshape(len(first), count * count)
    Y = out((len(first), flat.size), first.dtype)
    Y[...] = products[:, flat]
    return Y
