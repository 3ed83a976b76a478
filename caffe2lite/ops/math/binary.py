"""Arithmetic of two tensors, with broadcasting, and their gradients."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from caffe2lite.ops.kit.broadcast import align, check_gradient, legacy, sum_to
from caffe2lite.ops.kit.dtypes import in_words
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import Spec, pointwise_cost
from caffe2lite.ops.kit.registry import operator

_NUMBERS = "float32 float64 int32 int64"


def infer_binary(args: Any, inputs: Any) -> list[Spec]:
    """Inference of an operator that broadcasts: shape and type of the result."""
    return _infer(args, inputs, inputs[0].dtype)


def _infer(args: Any, inputs: Any, dtype: str | None) -> list[Spec]:
    a, b = inputs[0].shape, inputs[1].shape
    if args.get("broadcast") or a == b:
        return [Spec(a, dtype)]
    n = max(len(a), len(b))
    pairs = zip((1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b)
    return [Spec(tuple(q if p == 1 else p for p, q in pairs), dtype)]


def binary(name: str, compute: Any, doc: str, types: str, result: str | None = None, **schema: Any) -> None:
    """Register an operator of two tensors that broadcast.

    compute   name of a ufunc, or a function of (xp, A, B, C) that writes C
    types     dtypes of A, which B shares
    result    dtype of the result, where it is not the operands'
    """
    shared = f"""

    A [...], B [...] of its type, which broadcast -> C of the shape of both, {result or "of A's type"}; {in_words(types)}.
    With `broadcast=1` the older rules hold: B lies on A from dimension `axis` on, by default on the last ones.
    ValueError where the shapes do not fit, or where C would overwrite an operand of another shape.
    """

    def function(xp: Any) -> Any:
        return getattr(xp, compute) if isinstance(compute, str) else functools.partial(compute, xp)

    def kernel(xp, A, B, *, broadcast: bool = False, axis: int = -1, axis_str: str = "", order: str = "NCHW", out):
        B_aligned, shape = align(A, B, broadcast, axis, axis_str, order)
        if broadcast and out.replaces(B):
            raise ValueError(f"{name} with broadcast=1 may be in place of its first input only")
        for operand in (A, B):
            if operand.shape != shape and out.replaces(operand):
                raise ValueError(f"{name} cannot write its result {list(shape)} in place of {list(operand.shape)}")
        C = out(shape, result or A.dtype)
        function(xp)(A, B_aligned, C)
        return C

    def again(xp, inputs, outputs, args):
        (A, B), (C,) = inputs, outputs
        if args.get("broadcast") and A.shape != B.shape:
            B = legacy(A, B, args.get("axis", -1), args.get("axis_str", ""), args.get("order", "NCHW"))
        return functools.partial(function(xp), A, B, C)

    infer = functools.partial(_infer, dtype=result) if result else infer_binary
    operator("C", name=name, types={"A": types, "B": "=A"}, infer=infer, doc=doc + shared, **schema)(kernel).bind(again)


def _divide(xp: Any, A: Any, B: Any, C: Any) -> None:
    """Integers are divided towards zero, as in C."""
    if C.dtype.kind == "f":
        xp.divide(A, B, C)
        return
    if not B.all():
        raise ValueError(f"integer division by zero: B {list(B.shape)} has a 0 at {int((B == 0).argmax())}")
    xp.floor_divide(A - xp.fmod(A, B), B, C)


for _name, _compute, _inplace, _gradient, _doc in (
    ("Add", "add", {0: 0, 1: 0}, single("AddGradient", "GO0 I0 I1 -> GI0 GI1"), "C = A + B."),
    ("Sub", "subtract", {0: 0, 1: 0}, single("SubGradient", "GO0 I0 I1 -> GI0 GI1"), "C = A - B."),
    ("Mul", "multiply", {0: 0, 1: 0}, single("MulGradient", "GO0 I0 I1 -> GI0 GI1"), "C = A * B."),
    ("Div", _divide, {0: 0}, single("DivGradient", "GO0 I0 I1 O0 -> GI0 GI1"), "C = A / B; integers towards zero."),
):
    binary(
        _name,
        _compute,
        _doc,
        _NUMBERS,
        inplace=list(_inplace.items()),
        peer=_name == "Add",  # muji adds up what is on several GPUs
        cost=pointwise_cost,
        gradient=_gradient,
    )


def _as_result(dC: Any, shape: tuple[int, ...]) -> Any:
    """Return dC in the result's shape; ValueError where it has another number of elements."""
    if dC.shape == shape:
        return dC
    if dC.size != math.prod(shape):
        raise ValueError(f"dC must have the shape of A and B broadcast, {list(shape)}, found {list(dC.shape)}")
    return dC.reshape(shape)


def binary_gradient(name: str, to_A: Any, to_B: Any, doc: str) -> None:
    """Register dA, dB from dC, A, B; `to_A(xp, dC, A, B, out)` is dA before it is summed to A's shape.

    Where nothing is to be summed it is written to `out` at once.
    """

    def kernel(xp, dC, A, B, *, broadcast: bool = False, axis: int = -1, axis_str: str = "", order: str = "NCHW", out):
        B_aligned, shape = align(A, B, broadcast, axis, axis_str, order)
        writes = [(0, A, A.shape, to_A), (1, B, B_aligned.shape, to_B)]
        if out[0].replaces(dC):  # what overwrites dC comes last
            writes.reverse()
        dC = _as_result(dC, shape)
        results: list[Any] = [None, None]
        for i, operand, aligned, derivative in writes:
            target = out[i](operand.shape, operand.dtype)
            G = derivative(xp, dC, A, B_aligned, target if target.shape == shape else None)
            if G is not target:
                sum_to(xp, G, aligned, target)
            results[i] = target
        return tuple(results)

    operator(
        "dA dB",
        name=name,
        inplace=[(0, 0), (0, 1)],
        types={"dC": _NUMBERS, "A": "=dC", "B": "=dC"},
        infer=lambda args, inputs: [inputs[1], inputs[2]],
        doc=f"""{doc}

        dC [...] of the result's shape, A [...], B [...] -> dA of A's shape, dB of B's; {in_words(_NUMBERS)}, all of one
        type. ValueError where A and B cannot be broadcast, or dC has not as many elements as their result.
        """,
    )(kernel)


for _name, _toward_a, _toward_b, _doc in (
    ("AddGradient", lambda xp, dC, *_: dC, lambda xp, dC, *_: dC, "dA = dC, dB = dC, summed where repeated."),
    (
        "SubGradient",
        lambda xp, dC, *_: dC,
        lambda xp, dC, A, B, out: xp.negative(dC, out=out),
        "dA = dC, dB = -dC, summed where repeated.",
    ),
    (
        "MulGradient",
        lambda xp, dC, A, B, out: xp.multiply(dC, B, out=out),
        lambda xp, dC, A, B, out: xp.multiply(dC, A, out=out),
        "dA = dC * B, dB = dC * A, summed where repeated.",
    ),
):
    binary_gradient(_name, _toward_a, _toward_b, _doc)


@operator(
    "dA dB",
    inplace=[(0, 0)],
    num_inputs=(3, 4),
    types={"dC": _NUMBERS, "A": "=dC", "B": "=dC", "C": "=dC"},
    infer=lambda args, inputs: [inputs[1], inputs[2]],
)
def DivGradient(
    xp, dC, A, B, C=None, *, broadcast: bool = False, axis: int = -1, axis_str: str = "", order: str = "NCHW", out
):
    """dA = dC / B, dB = -dC * C / B, summed where repeated; the inputs are dC, A, B, C, or B, C, dC.

    dC [...] of the result's shape, A [...], B [...], C like dC -> dA of A's shape, dB of B's; float32, float64, int32
    or int64, all of one type. ValueError where A and B cannot be broadcast, or dC has not as many elements as their
    result.
    """
    if C is None:
        B, C, dC = dC, A, B
        A = C
    B_aligned, shape = align(A, B, broadcast, axis, axis_str, order)
    dC, C = _as_result(dC, shape), _as_result(C, shape)
    toward_A, toward_B = dC / B_aligned, -dC * C / B_aligned
    check_gradient(toward_A, A.dtype)
    check_gradient(toward_B, B.dtype)
    dA = out[0](A.shape, A.dtype)
    sum_to(xp, toward_A, A.shape, dA)
    dB = out[1](B.shape, B.dtype)
    sum_to(xp, toward_B, B_aligned.shape, dB)
    return dA, dB


def _with(args: Any, op: Any) -> Any:
    op.arg.extend(args)
    return op


def _pow_gradient(g: Any) -> Any:
    """dX = e * X^(e-1) * dY; with an exponent tensor also dE = log(X) * Y * dY."""
    X, Y, dY, dX = g.I(0), g.O(0), g.GO(0), g.GI(0)
    g.copy_arguments = False
    if g.has_arg("exponent"):
        exponent = g.arg("exponent", 0.0)
        # In place only Y is left, of which X is the e-th root: Caffe2 does not say so of the sign of an even power.
        if Y == X and abs(exponent) < 1e-12:
            raise ValueError("Pow in place with the exponent 0 has no gradient: nothing is left of X")
        power = exponent - 1 if Y != X else 1 - 1 / exponent
        return [
            g.new("Pow", [X], [dX], exponent=power),
            g.new("Mul", [dX, dY], [dX]),
            g.new("Scale", [dX], [dX], scale=exponent),
        ]
    E, dE = g.I(1), g.GI(1)
    if Y in (X, E):
        raise ValueError("Pow of two tensors has no gradient in place: it is computed from both")
    product = E + "_grad_autogen_pre_red"
    legacy_rules = g.has_arg("broadcast")
    layout = g.copied(axis=-1, axis_str=b"", order=b"NCHW") if legacy_rules else []
    spread = [*g.copied(broadcast=0), *layout] if legacy_rules else []
    ops = [
        g.new("ConstantFill", [E], [dE], value=1.0),
        g.new("Sub", [E, dE], [dE]),
        _with(spread, g.new("Pow", [X, dE], [dX])),
        g.new("Mul", [dX, dY], [dX]),
        _with(spread, g.new("Mul", [dX, E], [dX])),
        g.new("Log", [X], [product]),
        g.new("Mul", [product, Y], [product]),
    ]
    if legacy_rules:
        ops += [g.new("Mul", [product, dY], [product]), _with(layout, g.new("SumReduceLike", [product, E], [dE]))]
    else:
        ops.append(g.new("Mul", [product, dY], [dE]))
    return ops


@operator(
    "Y",
    inplace=[(0, 0), (1, 0)],
    types={"X": "float32", "E": "float32"},
    infer=lambda args, inputs: infer_binary(args, [*inputs, *inputs][:2]),
    gradient=_pow_gradient,
)
def Pow(
    xp,
    X,
    E=None,
    *,
    exponent: float | None = None,
    broadcast: bool = False,
    axis: int = -1,
    axis_str: str = "",
    order: str = "NCHW",
    out,
):
    """Y = X to the power of the second input, or of the argument `exponent`.

    X [...], E of its shape, or with `broadcast=1` one that lies on X -> Y of X's shape; float32.
    ValueError where neither E nor `exponent` is given, or where the shapes do not fit.
    """
    if E is None:
        if exponent is None:
            raise ValueError("the exponent is missing: give it as argument, or as second input")
        below = exponent == 0.5 and -xp.inf == X  # NumPy takes the square root, where C's pow has +inf
        Y = xp.power(X, X.dtype.type(exponent), out(X.shape, X.dtype))
        if exponent == 0.5:
            Y[below] = xp.inf
        return Y
    if not broadcast and (E.shape != X.shape or axis != -1 or axis_str):
        raise ValueError(
            f"X {list(X.shape)} and the exponents {list(E.shape)} must have one shape, and neither axis nor axis_str is "
            f"given; broadcast=1 lays the exponents on X"
        )
    aligned, shape = align(X, E, broadcast, axis, axis_str, order)
    return xp.power(X, aligned, out(shape, X.dtype))


@operator("Y", inplace={0: 0}, types="int32 int64", infer=lambda args, inputs: inputs[:1])
def Mod(xp, X, *, divisor: int, sign_follow_divisor: bool = False, out):
    """Y = remainder of X by the divisor, with X's sign, or the divisor's.

    X [...] -> Y of its shape; int32 or int64. ValueError where the divisor is 0.
    """
    if divisor == 0:
        raise ValueError("the divisor must not be 0; found divisor=0")
    remainder = xp.remainder if sign_follow_divisor else xp.fmod
    bounds = np.iinfo(X.dtype)
    if bounds.min <= divisor <= bounds.max:
        return remainder(X, X.dtype.type(divisor), out(X.shape, X.dtype))
    Y = out(X.shape, X.dtype)
    Y[...] = remainder(X.astype("int64"), np.int64(divisor)).astype(X.dtype)
    return Y


@operator(
    "C",
    types={"A": "float32 float64", "B": "=A"},
    cuda_types={"A": "float32 float64 float16", "B": "=A"},
    infer=lambda args, inputs: [inputs[1]],
    gradient=None,
)
def SumReduceLike(xp, A, B, *, axis: int = -1, axis_str: str = "", order: str = "NCHW", out):
    """C = A, summed to the shape of B as the older broadcasting rules would repeat B.

    A [...], B [...] that fits on A at `axis` -> C of B's shape; float32 or float64, on GPUs float16 too.
    ValueError where B does not fit on A.
    """
    C = out(B.shape, A.dtype)
    if A.shape == B.shape:
        xp.copyto(C, A)
    else:
        sum_to(xp, A, legacy(A, B, axis, axis_str, order).shape, C)
    return C


def _row_mul_gradient(g: Any) -> Any:
    products = g.I(1) + "_gradbefore_aggregate"
    return [
        g.new("RowMul", [g.GO(0), g.I(1)], [g.GI(0)]),
        g.new("Mul", [g.GO(0), g.I(0)], [products]),
        g.new("ReduceTailSum", [products], [g.GI(1)]),
    ]


@operator("Y", types={"X": "float32", "w": "=X"}, infer=lambda args, inputs: inputs[:1], gradient=_row_mul_gradient)
def RowMul(xp, X, w, *, out):
    """Y = X with its row i multiplied by w[i].

    X [N, ...], w [N] -> Y of X's shape; float32. ValueError where w has not one value for each row.
    """
    if X.ndim < 1 or w.size != X.shape[0]:
        raise ValueError(f"one factor for each row is needed: X is {list(X.shape)}, w {list(w.shape)}")
    return xp.multiply(X, w.reshape((-1,) + (1,) * (X.ndim - 1)), out(X.shape, X.dtype))


@operator("Y", types="float32", infer=lambda args, inputs: [Spec(inputs[0].shape[:1], inputs[0].dtype)])
def ReduceTailSum(xp, X, *, out):
    """Y[i] = sum of all elements of row i.

    X [N, ...] -> Y [N]; float32. A scalar has no rows. TypeError for another type.
    """
    Y = out(X.shape[:1] or (0,), X.dtype)
    Y[...] = X.sum(axis=tuple(range(1, X.ndim)))
    return Y


@operator(
    "Y",
    inplace={0: 0},
    types={"X": "float32", "scale": "float32 int32 int64"},
    infer=lambda args, inputs: inputs[:1],
    gradient=single("SquareRootDivide", "GO0 I1 -> GI0"),
)
def SquareRootDivide(xp, X, scale, *, out):
    """Y = X with its row i divided by sqrt(scale[i]) where that is above 0.

    X [N, ...] float32, scale [N] float32, int32 or int64 -> Y of X's shape. ValueError where scale has not N values, or
    a negative one.
    """
    if X.ndim < 1 or scale.shape[:1] != X.shape[:1]:
        raise ValueError(f"one scale for each row is needed: X is {list(X.shape)}, scale {list(scale.shape)}")
    scale = scale.reshape(-1)[: X.shape[0]]
    if scale.size != X.shape[0]:
        raise ValueError(f"one scale for each of {X.shape[0]} rows is needed, found {scale.size}")
    if (scale < 0).any():
        raise ValueError(f"a scale must be 0 or more, to have a square root; found {scale.min()}")
    root = xp.sqrt(xp.where(scale > 0, scale, 1).astype(X.dtype)).reshape((-1,) + (1,) * (X.ndim - 1))
    return xp.divide(X, root, out(X.shape, X.dtype))
