"""Maximum, minimum and mean over inputs of one shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import compiled, loop
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.memory import blocks
from caffe2lite.ops.kit.registry import MANY, find, operator
from caffe2lite.ops.math.sums import check_alike


def _gradient(kind: str) -> Any:
    def make(g: Any) -> Any:
        inputs = [g.O(0), g.GO(0), *g.op.input]
        return g.single(kind, inputs, [g.GI(i) for i in range(g.num_inputs)])

    return make


_SHARED = """Inputs [...] of one shape -> Y of it; float32. NaN stays where the first input has it, and only there.
ValueError where the inputs differ in shape or type."""


def _extreme(name: str, better: str, doc: str, gradient: Any, types: str) -> None:
    """Register Y = the best of all inputs; a NaN in a later one compares as no better."""

    def kernel(xp, *Xs, out):
        check_alike(Xs, name, any_shape=len(Xs) == 2)
        Y = out(Xs[0].shape, Xs[0].dtype)
        if Y is not Xs[0]:
            xp.copyto(Y, Xs[0])
        first = Y.copy() if bool(xp.isnan(Y).any()) else None
        for part in blocks(xp, Y.size):
            y = Y.reshape(-1)[part]
            for X in Xs[1:]:
                getattr(xp, better)(y, X.reshape(-1)[part], y)
        if first is not None:
            xp.copyto(Y, first, where=xp.isnan(first))
        return Y

    operator(
        "Y",
        name=name,
        inplace={0: 0},
        types=types,
        num_inputs=(1, MANY),
        infer=like(0),
        gradient=gradient,
        doc=f"{doc}\n\n{_SHARED}",
    )(kernel)


_extreme("Max", "fmax", "Y = the largest of the inputs.", _gradient("MaxGradient"), "float32")
_extreme("Min", "fmin", "Y = the smallest of the inputs.", _gradient("MinGradient"), "float32")


def _extreme_compiled(name: str, sign: int) -> None:
    def kernel(xp, *Xs, out):
        check_alike(Xs, name, any_shape=len(Xs) == 2)
        Y = out(Xs[0].shape, Xs[0].dtype)
        y = Y.reshape(-1)
        if len(Xs) == 2 and Y is not Xs[0]:
            _better_of_two(Xs[0].reshape(-1), Xs[1].reshape(-1), y, sign > 0)
            return Y
        if Y is not Xs[0]:
            y[...] = Xs[0].reshape(-1)
        for part in blocks(np, y.size):
            for X in Xs[1:]:
                _better(y[part], X.reshape(-1)[part], sign > 0)
        return Y

    compiled(find(name))(kernel)


_extreme_compiled("Max", 1)
_extreme_compiled("Min", -1)


@loop
def _better_of_two(A, B, Y, largest):
    if largest:
        for i in range(Y.size):
            Y[i] = B[i] if B[i] > A[i] else A[i]
    else:
        for i in range(Y.size):
            Y[i] = B[i] if B[i] < A[i] else A[i]


@loop
def _better(Y, X, largest):
    if largest:
        for i in range(Y.size):
            Y[i] = X[i] if X[i] > Y[i] else Y[i]
    else:
        for i in range(Y.size):
            Y[i] = X[i] if X[i] < Y[i] else Y[i]


def _select(xp, Y, dY, *Xs, out):
    if len(out) != len(Xs):
        raise ValueError(f"{len(Xs)} outputs are expected, one for each input of the forward operator")
    check_alike((Y, dY, *Xs), "the gradient")
    return tuple(xp.multiply(dY, (X == Y).astype(X.dtype), out=o(X.shape, X.dtype)) for X, o in zip(Xs, out))


for _name in ("MaxGradient", "MinGradient"):
    operator(
        "dX*",
        name=_name,
        types="float32",
        num_inputs=(3, MANY),
        num_outputs=(1, MANY),
        infer=lambda args, inputs: inputs[2:],
        doc="""dX = dY where the input is the result; all inputs that tie get it.

        Y [...], dY alike, the forward operator's inputs alike -> a dX of the same shape for each; float32.
        ValueError where shapes or types differ, or there is not an output for each input.
        """,
    )(_select)


def _mean_gradient(g: Any) -> Any:
    return g.single("MeanGradient", [g.GO(0)], [g.GI(i) for i in range(g.num_inputs)])


@operator("Y", inplace={0: 0}, types="float32 float64", num_inputs=(1, MANY), infer=like(0), gradient=_mean_gradient)
def Mean(xp, *Xs, out):
    """Y = mean of the inputs.

    Inputs [...] of one shape -> Y of it; float32 or float64. ValueError where the inputs differ in shape or type.
    """
    check_alike(Xs, "Mean")
    Y = out(Xs[0].shape, Xs[0].dtype)
    if Y is not Xs[0]:
        xp.copyto(Y, Xs[0])
    for X in Xs[1:]:
        xp.add(Y, X, Y)
    return xp.multiply(Y, Y.dtype.type(1 / len(Xs)), Y)


@operator("dX*", inplace={0: 0}, types="float32 float64", num_outputs=(1, MANY))
def MeanGradient(xp, dY, *, out):
    """dX = dY / n for each of the n outputs.

    dY [...] -> each dX of its shape; float32 or float64. TypeError for other types.
    """
    share = dY * dY.dtype.type(1 / len(out))
    results = []
    for o in out:
        dX = o(dY.shape, dY.dtype)
        xp.copyto(dX, share)
        results.append(dX)
    return tuple(results)


@operator("Y", inplace={0: 0}, types="float32 float64 int32", num_inputs=(1, MANY), infer=like(0))
def SumRelu(xp, *Xs, out):
    """Y = max(X0 + X1 + ..., 0).

    Inputs [...] of one shape -> Y of it; float32 or float64. ValueError where the inputs differ in shape or type.
    """
    check_alike(Xs, "SumRelu")
    Y = out(Xs[0].shape, Xs[0].dtype)
    if Y is not Xs[0]:
        xp.copyto(Y, Xs[0])
    for X in Xs[1:]:
        xp.add(Y, X, Y)
    Y[...] = xp.where(Y > 0, Y, 0)
    return Y
