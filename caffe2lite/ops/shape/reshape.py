"""The same values in another shape, and questions about shapes.

None of these share storage with their input: Caffe2 copies on the CPU, unless the operator works in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT, single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec, scalar
from caffe2lite.ops.kit.registry import MANY, operator


def _reshaped(xp: Any, X: Any, shape: tuple[int, ...], out: Any) -> Any:
    in_place = out.replaces(X)
    Y = out(shape, X.dtype)
    if not in_place:
        xp.copyto(Y, X.reshape(shape))
    return Y


def _infer(shape_of: Any) -> Any:
    """Inference of one output of X's type, of the shape `shape_of(X's shape, args)`."""
    return lambda args, inputs: [Spec(tuple(shape_of(inputs[0].shape, args)), inputs[0].dtype)]


def wanted_shape(shape: list[int], X: Any) -> tuple[int, ...]:
    """The shape with 0 (as before) and -1 (what is left) filled in."""
    if shape.count(-1) > 1:
        raise ValueError(f"only one dimension of the new shape {shape} may be -1")
    if min(shape, default=0) < -1:
        raise ValueError(f"a dimension of the new shape {shape} is {min(shape)}; below 0 there is only -1")
    if not X.size:  # there is nothing to keep or to divide: 0 is 0, and so is -1
        empty = tuple(max(d, 0) for d in shape)
        if math.prod(empty):
            raise ValueError(f"the new shape {shape} has {math.prod(empty)} elements, and X {list(X.shape)} has none")
        return empty
    dims = list(shape)
    if dims.count(-1) > 1:
        raise ValueError(f"only one dimension of the new shape {list(shape)} may be -1")
    if not X.size:  # there is nothing to keep or to divide: 0 is 0, and so is -1
        made = tuple(0 if d == -1 else d for d in dims)
        if math.prod(made):
            raise ValueError(
                f"the new shape {list(shape)} has {math.prod(made)} elements, and X {list(X.shape)} has none"
            )
        return made
    for i, d in enumerate(dims):
        if d == 0:
            if i >= X.ndim:
                raise ValueError(
                    f"dimension {i} of the new shape {list(shape)} is 0, and X {list(X.shape)} has none there"
                )
            dims[i] = X.shape[i]
    if -1 in dims:
        known = math.prod(d for d in dims if d != -1)
        if not known or X.size % known:
            raise ValueError(f"the new shape {list(shape)} does not divide the {X.size} elements of {list(X.shape)}")
        dims[dims.index(-1)] = X.size // known
    if math.prod(dims) != X.size:
        raise ValueError(
            f"the new shape {list(shape)} must have the {X.size} elements of {list(X.shape)}, and has {math.prod(dims)}"
        )
    return tuple(dims)


def _reshape_gradient(g: Any) -> Any:
    g.copy_arguments = False
    return g.single("Reshape", [g.GO(0), g.O(1)], [g.GI(0), f"_{g.GI(0)}_dims"])


def _infer_reshape(args: Any, inputs: Any) -> list[Spec]:
    X = inputs[0]
    old = Spec((len(X.shape),), "int64" if len(inputs) < 2 else inputs[1].dtype if inputs[1] else None)
    shape = args.get("shape")
    if not shape:
        return [UNKNOWN, old]
    if not math.prod(X.shape):
        return [Spec(tuple(max(d, 0) for d in shape), X.dtype), old]
    dims = [X.shape[i] if d == 0 and i < len(X.shape) else d for i, d in enumerate(shape)]
    known = math.prod(d for d in dims if d != -1)
    return [Spec(tuple(math.prod(X.shape) // known if d == -1 and known else d for d in dims), X.dtype), old]


@operator(
    "Y old_shape",
    inplace={0: 0},
    types={"new_shape": "int32 int64"},
    anywhere="new_shape",
    host="old_shape",
    infer=_infer_reshape,
    gradient=_reshape_gradient,
)
def Reshape(xp, X, new_shape=None, *, shape: list[int] | None = None, out):
    """Y = X in the shape of the second input or the argument: 0 keeps a dimension, -1 is what is left.

    X [...] of any type, new_shape [k] int32 or int64 -> Y of the new shape, old_shape [dimensions of X] int64.
    ValueError where the shape is given twice, has two -1 or a value below, or another number of elements than X.
    """
    if new_shape is not None:
        if new_shape.ndim != 1:
            raise ValueError(f"the new shape must be a vector, found {list(new_shape.shape)}")
        if not new_shape.size:
            raise ValueError("the new shape in the second input is an empty vector")
        if shape is not None:
            raise ValueError(f"the new shape comes as argument ({list(shape)}) or as second input, not as both")
        shape = new_shape.tolist()
    elif shape is None:
        raise ValueError("the new shape is missing: give the argument shape, or a second input")
    old = out[1]((X.ndim,), "int64" if new_shape is None else new_shape.dtype)
    dims = wanted_shape(list(shape), X)
    for i, d in enumerate(X.shape):
        old[i] = d
    return _reshaped(xp, X, dims, out[0]), old


@operator(
    "Y", anywhere="like", infer=lambda args, inputs: [Spec(inputs[1].shape, inputs[0].dtype)], gradient=FORBID_GRADIENT
)
def ResizeLike(xp, X, like, *, out):
    """Y = X in the shape of the second input.

    X [...] of any type, like [...] with as many elements, whose values are not read -> Y of its shape and X's type.
    ValueError where the numbers of elements differ.
    """
    if X.size != like.size:
        raise ValueError(
            f"{list(X.shape)} has {X.size} elements and {list(like.shape)} has {like.size}; they must agree"
        )
    return _reshaped(xp, X, like.shape, out)


@operator(
    "Y",
    infer=_infer(
        lambda shape, args: (math.prod(shape[: args.get("axis", 1)]), math.prod(shape[args.get("axis", 1) :]))
    ),
    gradient=single("ResizeLike", "GO0 I0 -> GI0"),
)
def Flatten(xp, X, *, axis: int = 1, out):
    """Y = X as a matrix: dimensions before `axis` are its rows, the others its columns.

    X [d0, ..., dn] of any type -> Y [d0 * ... * d(axis - 1), the product of the others]. ValueError where `axis` is not
    from 0 to the number of dimensions.
    """
    if not 0 <= axis <= X.ndim:
        raise ValueError(f"axis {axis} must be from 0 to {X.ndim}, for X of shape {list(X.shape)}")
    return _reshaped(xp, X, (math.prod(X.shape[:axis]), math.prod(X.shape[axis:])), out)


@operator("Y", infer=_infer(lambda shape, args: (math.prod(shape),)), gradient=single("ResizeLike", "GO0 I0 -> GI0"))
def FlattenToVec(xp, X, *, out):
    """Y = all elements of X in one vector.

    X [...] of any type -> Y [number of elements]. ValueError where X is a scalar.
    """
    if X.ndim < 1:
        raise ValueError("a scalar cannot be flattened: X needs a dimension, found the shape []")
    return _reshaped(xp, X, (X.size,), out)


def _dims(dims: Sequence[int]) -> list[int]:
    if not dims:
        raise ValueError("the argument dims is missing or empty")
    if min(dims) < 0:
        raise ValueError(f"dims must not be negative, found {list(dims)}")
    return sorted(set(dims))


def _expanded(shape: tuple[int, ...], dims: Sequence[int]) -> list[int]:
    result = list(shape)
    for d in _dims(dims):
        if d > len(result):
            raise ValueError(f"dims={list(dims)} leaves a gap: {list(shape)} has no room for dimension {d}")
        result.insert(d, 1)
    return result


@operator(
    "Y",
    inplace={0: 0},
    infer=_infer(lambda shape, args: _expanded(shape, args["dims"])),
    gradient=single("Squeeze", "GO0 -> GI0"),
)
def ExpandDims(xp, X, *, dims: list[int], out):
    """Y = X with dimensions of size 1 put in at the positions `dims` of the result.

    X [...] of any type -> Y [...] with one more dimension for each of `dims`. ValueError where `dims` is missing, has a
    negative value, or one that leaves a gap.
    """
    return _reshaped(xp, X, tuple(_expanded(X.shape, dims)), out)


def _squeezed(shape: tuple[int, ...], dims: Sequence[int]) -> list[int]:
    gone = _dims(dims)
    if gone[-1] >= len(shape):
        raise ValueError(f"dims={list(dims)} goes beyond the {len(shape)} dimensions of {list(shape)}")
    for d in gone:
        if shape[d] != 1:
            raise ValueError(f"dimension {d} of {list(shape)} is {shape[d]}; only those of size 1 can be squeezed")
    return [s for d, s in enumerate(shape) if d not in gone]


@operator(
    "Y",
    inplace={0: 0},
    infer=_infer(lambda shape, args: _squeezed(shape, args["dims"])),
    gradient=single("ExpandDims", "GO0 -> GI0"),
)
def Squeeze(xp, X, *, dims: list[int], out):
    """Y = X without its dimensions `dims`, all of size 1.

    X [...] of any type -> Y [...] with as many dimensions fewer. ValueError where one of `dims` is negative, beyond X's
    dimensions, or not of size 1.
    """
    return _reshaped(xp, X, tuple(_squeezed(X.shape, dims)), out)


def _merge_gradient(g: Any) -> Any:
    g.copy_arguments = False
    return g.single("MergeDim", [g.GO(0)], [g.GI(0)])


@operator("Y", inplace={0: 0}, gradient=_merge_gradient, limits="dim_size > 0")
def PrependDim(xp, X, *, dim_size: int = 0, out):
    """Y = X with its first dimension n seen as two: dim_size and n / dim_size.

    X [n, ...] of any type -> Y [dim_size, n / dim_size, ...]. ValueError where dim_size is not above 0, or does not
    divide n.
    """
    if X.ndim < 1 or X.shape[0] % dim_size:
        raise ValueError(f"the first dimension of {list(X.shape)} is no multiple of dim_size={dim_size}")
    return _reshaped(xp, X, (dim_size, X.shape[0] // dim_size, *X.shape[1:]), out)


@operator("Y", inplace={0: 0})
def MergeDim(xp, X, *, out):
    """Y = X with its first two dimensions seen as one.

    X [n, m, ...] of any type -> Y [n * m, ...]. ValueError where X has fewer than two dimensions.
    """
    if X.ndim < 2:
        raise ValueError(f"two dimensions or more are needed, found {list(X.shape)}")
    return _reshaped(xp, X, (X.shape[0] * X.shape[1], *X.shape[2:]), out)


@operator(
    "Y",
    anywhere="X",
    infer=lambda args, inputs: [Spec((len(args.get("axes") or inputs[0].shape),), "int64")],
    gradient=FORBID_GRADIENT,
)
def Shape(xp, X, *, axes: list[int] = (), out):
    """Y = the dimensions of X, or those that `axes` names, int64.

    X [...] of any type, anywhere, whose values are not read -> Y [dimensions of X, or as many as there are axes].
    ValueError where an axis is none of X's; a negative one counts from the end.
    """
    for a in axes:
        if not 0 <= a < X.ndim:
            raise ValueError(f"axis {a} is not one of {list(X.shape)}; axes count from 0")
    Y = out((len(axes) if axes else X.ndim,), "int64")
    Y[...] = xp.asarray([X.shape[a] for a in axes] if axes else X.shape, dtype="int64")
    return Y


@operator("Y", anywhere="X", infer=scalar("int64"), gradient=NO_GRADIENT)
def Size(xp, X, *, out):
    """Y = the number of elements of X, int64.

    X [...] of any type, anywhere -> Y, a scalar int64. An OperatorError for a blob that is no tensor.
    """
    Y = out((), "int64")
    Y[...] = X.size
    return Y


@operator("Y", anywhere="X", infer=scalar("bool"), gradient=FORBID_GRADIENT)
def IsEmpty(xp, X, *, out):
    """Y = whether X has no elements.

    X [...] of any type, anywhere -> Y, a scalar bool. An OperatorError for a blob that is no tensor.
    """
    Y = out((), "bool")
    Y[...] = X.size == 0
    return Y


@operator("Y", anywhere="Xs", num_inputs=(1, MANY), infer=scalar("bool"), gradient=FORBID_GRADIENT)
def HasElements(xp, *Xs, out):
    """Y = whether any input has elements.

    Inputs [...] of any type, anywhere -> Y, a scalar bool. An OperatorError for a blob that is no tensor.
    """
    Y = out((), "bool")
    Y[...] = any(X.size for X in Xs)
    return Y
