"""Sums over inputs of one shape."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.cuda_kernels import Kernel, usable
from caffe2lite.ops.kit.infer import like, pointwise_cost
from caffe2lite.ops.kit.memory import blocks
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import one

# Addends beyond the fourth go in a further launch; what is not there is a null pointer.
_SUM = Kernel(
    "sum_of_arrays",
    "T* y, const T* a, const T* b, const T* c, const T* d",
    """
    T total = a[i] + b[i];
    if (c) total += c[i];
    if (d) total += d[i];
    y[i] = total;
    """,
)
_WEIGHTED_SUM = Kernel(
    "weighted_sum",
    "T* y, const T* a, const T* u, const T* b, const T* v, const T* c, const T* w",
    """
    T total = a[i] * *u;
    if (b) total += b[i] * *v;
    if (c) total += c[i] * *w;
    y[i] = total;
    """,
)


def check_alike(Xs: Any, title: str, any_shape: bool = False) -> None:
    """ValueError where the inputs differ in shape (with `any_shape` in the number of values) or type."""
    shape, dtype = Xs[0].shape, Xs[0].dtype
    for i, X in enumerate(Xs):
        if (X.size != Xs[0].size if any_shape else X.shape != shape) or X.dtype != dtype:
            raise ValueError(
                f"all inputs of {title} must have one shape and type: input 0 is {dtype}{list(shape)}, "
                f"input {i} {X.dtype}{list(X.shape)}"
            )


def _to_all_inputs(g: Any) -> Any:
    for i in range(g.num_inputs):
        g.set_dense(i, g.GO(0))
    return []


@operator(
    "Y",
    inplace={0: 0},
    peer=True,
    types="float32 float64 int32 int64",
    cuda_types="float32 float64 int32 int64 float16",
    num_inputs=(1, MANY),
    infer=like(0),
    cost=pointwise_cost,
    gradient=_to_all_inputs,
)
def Sum(xp, *Xs, out):
    """Y = X0 + X1 + ..., all of one shape.

    Inputs [...] of one shape -> Y of it; float32, float64, int32 or int64, on GPUs float16 too.
    ValueError where the inputs differ in shape or type.
    """
    first = Xs[0]
    check_alike(Xs, "Sum")
    Y = out(first.shape, first.dtype)
    if len(Xs) == 1:
        if Y is not first:
            xp.copyto(Y, first)
        return Y
    if len(Xs) > 2 and usable(xp, first) and all(X.device == Y.device for X in Xs):
        rest = Xs
        while rest:
            together = rest[:4] if rest is Xs else (Y, *rest[:3])
            _SUM(xp, Y.size, Y, *together, *(None,) * (4 - len(together)))
            rest = rest[4 if rest is Xs else 3 :]
        return Y
    xp.add(first, Xs[1], Y)
    for X in Xs[2:]:
        xp.add(Y, X, Y)
    return Y


@Sum.bind
def _sum_again(xp, inputs, outputs, args):
    if len(inputs) != 2:
        return None
    return functools.partial(xp.add, *inputs, *outputs)


operator(
    "Y",
    name="SumInt",
    inplace={0: 0},
    types="float32 float64 int32 int64",
    num_inputs=(1, MANY),
    infer=like(0),
    doc="""The older name of Sum for integers.

    Inputs [...] of one shape -> Y of it; float32, float64, int32 or int64. ValueError where they differ in shape or type.
    """,
)(Sum.kernels["", None])


def _weighted_gradient(g: Any) -> Any:
    pairs = range(0, g.num_inputs, 2)
    outputs = [g.GI(i) for i in pairs]
    if g.arg("grad_on_w", 0):
        outputs += [g.GI(i + 1) for i in pairs]
    return g.single("WeightedSumGradient", [g.GO(0), *g.op.input], outputs)


def _weights(operands: Any) -> tuple[Any, Any]:
    Xs, ws = operands[::2], operands[1::2]
    if len(Xs) != len(ws):
        raise ValueError(f"inputs come in pairs, tensor and weight; there are {len(operands)}")
    return Xs, [one(w, f"weight {i}") for i, w in enumerate(ws)]


@operator(
    "Y",
    inplace={0: 0},
    types="float32",
    cuda_types="float32 float16",
    num_inputs=(2, MANY),
    counts=lambda n, m: n % 2 == 0,
    infer=like(0),
    gradient=_weighted_gradient,
)
def WeightedSum(xp, *operands, out):
    """Y = X0 * w0 + X1 * w1 + ..., from the inputs X0, w0, X1, w1, ...; each w is one value.

    Inputs X [...] of one size, weights w [1] -> Y of the first one's shape; float32, on GPUs float16 too.
    ValueError where an input has no weight, a weight is not one value, or the X differ in size or type.
    """
    Xs, ws = _weights(operands)
    check_alike(Xs, "WeightedSum", any_shape=True)
    Y = out(Xs[0].shape, Xs[0].dtype)
    ws = [w.astype(Y.dtype, copy=False) for w in ws]
    if len(Xs) <= 3 and usable(xp, Y):
        pairs = [a for pair in zip(Xs, ws) for a in pair]
        _WEIGHTED_SUM(xp, Y.size, Y, *pairs, *(None,) * (6 - len(pairs)))
        return Y
    for part in blocks(xp, Y.size):
        total = Xs[0].reshape(-1)[part] * ws[0]  # Y may be one of the inputs
        for X, w in zip(Xs[1:], ws[1:]):
            total += X.reshape(-1)[part] * w
        Y.reshape(-1)[part] = total
    return Y


@compiled(WeightedSum)
def _weighted_sum_compiled(xp, *operands, out):
    Xs, ws = _weights(operands)
    if len(Xs) != 2:
        return WeightedSum(xp, *operands, out=out)
    check_alike(Xs, "WeightedSum")
    Y = out(Xs[0].shape, Xs[0].dtype)
    y, a, b = Y.reshape(-1), *(X.reshape(-1) for X in Xs)
    weights = [w.astype(Y.dtype) for w in ws]
    if a is not y and not np.may_share_memory(a, y):
        y[...] = a
    _add_weighted(y, weights[0], np.array(b) if np.may_share_memory(b, y) else b, weights[1])
    return Y


@loop
def _add_weighted(Y, a, X, b):
    for i in range(Y.size):
        Y[i] = Y[i] * a + X[i] * b


@operator(
    "dX*",
    num_inputs=(1, MANY),
    num_outputs=(1, MANY),
    counts=lambda n, m: n % 2 == 1,
    types={"dY": "float32", "operands": "float32"},
    cuda_types="float32 float16",
    infer=lambda args, inputs: [*[inputs[0]] * (len(inputs) // 2), *inputs[2::2]],
)
def WeightedSumGradient(xp, dY, *operands, grad_on_w: bool = False, out):
    """dXi = dY * wi, then, if asked for, dwi = sum(dY * Xi).

    dY [...], the operands X [...], w [1] -> each dX of dY's shape, each dw [1]; float32, on GPUs float16 too.
    ValueError where the number of outputs is not that of the tensors, or with `grad_on_w` of tensors and weights.
    """
    Xs, ws = _weights(operands)
    n = len(Xs)
    wanted = 2 * n if grad_on_w else n
    if len(out) != wanted:
        raise ValueError(f"{wanted} outputs are expected, a gradient for each tensor{' and weight' * grad_on_w}")
    check_alike((dY, *Xs), "WeightedSumGradient", any_shape=True)
    results = []
    for w, place in zip(ws, out):
        results.append(xp.multiply(dY, w, out=place(dY.shape, dY.dtype)))
    for X, w, place in zip(Xs, ws, out[n:]):
        dw = place((1,), w.dtype)
        dw[...] = xp.vdot(dY, X)
        results.append(dw)
    return tuple(results)
