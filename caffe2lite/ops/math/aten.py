"""ATen: functions of PyTorch's tensor library by name, as nets that came through ONNX call them.

The argument `operator` names the function; its other arguments are arguments of the operator, its tensors the inputs.
Caffe2 knows some thousand of them; here is a table of those that nets use.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import last_of_each, within
from caffe2lite.ops.kit.special import erf

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _aten(*names: str) -> Callable[[Any], Any]:
    """Decorator: (xp, tensors, arguments by keyword) -> a tensor or a tuple of them."""

    def add(function: Any) -> Any:
        for name in names:
            _FUNCTIONS[name] = function
        return function

    return add


@operator("Ys*", num_inputs=(0, MANY), stateful=True)
def ATen(ctx, *Xs, operator: str):
    """A function of PyTorch's tensor library.

    The argument `operator` names it; the tensors [...] are the operands, of any type, and the function's other
    parameters are arguments of the operator. As many of its results [...] are kept as there are outputs. ValueError
    where the function is unknown (the message lists those there are), or where it does not take these operands and
    arguments.
    """
    function = _FUNCTIONS.get(operator)
    if function is None:
        raise ValueError(f"ATen has no function {operator!r} here; there are {', '.join(sorted(_FUNCTIONS))}")
    args = {a.name: _value(a) for a in ctx.op.arg if a.name not in ("operator", "overload_name")}
    try:
        bound = inspect.signature(function).bind(ctx.xp, *Xs, **args)
    except TypeError as e:
        raise ValueError(f"ATen function {operator!r} on {len(Xs)} tensors: {e}") from None
    if any(X.dtype == object for X in Xs):
        raise TypeError(f"ATen function {operator!r} takes numbers, and an input holds strings")
    try:
        result = function(*bound.args, **bound.kwargs)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError) as e:  # what NumPy says of them
        shapes = ", ".join(f"{X.dtype}{list(X.shape)}" for X in Xs)
        raise ValueError(f"ATen function {operator!r} does not take {shapes} with the arguments {args}: {e}") from e
    results = result if isinstance(result, tuple) else (result,)
    return tuple(ctx.xp.asarray(r) for r in results[: len(ctx.outputs)])


def _value(arg: Any) -> Any:
    for field in ("i", "f", "s"):
        if arg.HasField(field):
            return getattr(arg, field)
    return list(arg.ints) or list(arg.floats)


# ---- element by element ------------------------------------------------------------------------------------------

for _name, _function in {
    "abs": lambda xp, X: abs(X),
    "ceil": lambda xp, X: xp.ceil(X),
    "cos": lambda xp, X: xp.cos(X),
    "erf": lambda xp, X: erf(xp, X),
    "exp": lambda xp, X: xp.exp(X),
    "floor": lambda xp, X: xp.floor(X),
    "log": lambda xp, X: xp.log(X),
    "log1p": lambda xp, X: xp.log1p(X),
    "log2": lambda xp, X: xp.log2(X),
    "logical_not": lambda xp, X: xp.logical_not(X),
    "neg": lambda xp, X: -X,
    "ones_like": lambda xp, X: xp.ones_like(X),
    "reciprocal": lambda xp, X: 1 / X,
    "relu": lambda xp, X: xp.maximum(X, X.dtype.type(0)),
    "round": lambda xp, X: xp.round(X),
    "rsqrt": lambda xp, X: 1 / xp.sqrt(X),
    "sigmoid": lambda xp, X: 1 / (1 + xp.exp(-X)),
    "sign": lambda xp, X: xp.sign(X),
    "sin": lambda xp, X: xp.sin(X),
    "sqrt": lambda xp, X: xp.sqrt(X),
    "square": lambda xp, X: xp.square(X),
    "tan": lambda xp, X: xp.tan(X),
    "tanh": lambda xp, X: xp.tanh(X),
    "trunc": lambda xp, X: xp.trunc(X),
    "zeros_like": lambda xp, X: xp.zeros_like(X),
}.items():
    _aten(_name)(_function)


def _other(X: Any, tensors: tuple[Any, ...], number: Any, name: str = "other") -> Any:
    """The second operand: a tensor, or a number of the first one's type."""
    if len(tensors) + (number is not None) != 1:
        raise ValueError(f"a second tensor or the argument {name!r} is needed")
    return tensors[0] if tensors else X.dtype.type(number)


for _name, _function in {
    "eq": lambda xp, X, Y: X == Y,
    "ge": lambda xp, X, Y: X >= Y,
    "gt": lambda xp, X, Y: X > Y,
    "le": lambda xp, X, Y: X <= Y,
    "lt": lambda xp, X, Y: X < Y,
    "ne": lambda xp, X, Y: X != Y,
    "mul": lambda xp, X, Y: X * Y,
    "div": lambda xp, X, Y: X / Y,
    "floor_divide": lambda xp, X, Y: X // Y,
    "fmod": lambda xp, X, Y: xp.fmod(X, Y),
    "remainder": lambda xp, X, Y: xp.remainder(X, Y),
    "logical_and": lambda xp, X, Y: xp.logical_and(X, Y),
    "logical_or": lambda xp, X, Y: xp.logical_or(X, Y),
    "maximum": lambda xp, X, Y: xp.maximum(X, Y),
    "minimum": lambda xp, X, Y: xp.minimum(X, Y),
}.items():
    _aten(_name)(lambda xp, X, *Ys, other=None, f=_function: f(xp, X, _other(X, Ys, other)))


@_aten("add")
def _add(xp, X, *Ys, other=None, alpha=1):
    return X + _other(X, Ys, other) * X.dtype.type(alpha)


@_aten("sub")
def _sub(xp, X, *Ys, other=None, alpha=1):
    return X - _other(X, Ys, other) * X.dtype.type(alpha)


@_aten("pow")
def _pow(xp, X, *Ys, exponent=None):
    return xp.power(X, _other(X, Ys, exponent, "exponent"))


@_aten("clamp", "clamp_min", "clamp_max")
def _clamp(xp, X, *, min=None, max=None):
    if min is not None:
        X = xp.maximum(X, X.dtype.type(min))
    return X if max is None else xp.minimum(X, X.dtype.type(max))


@_aten("leaky_relu")
def _leaky_relu(xp, X, *, negative_slope=0.01):
    return xp.where(X > 0, X, X * X.dtype.type(negative_slope))


@_aten("where")
def _where(xp, condition, X, Y):
    if condition.dtype.name not in ("bool", "uint8"):
        raise ValueError(f"where takes a condition of booleans, got {condition.dtype}")
    return xp.where(condition.astype(bool), X, Y)


@_aten("masked_fill")
def _masked_fill(xp, X, mask, *, value):
    return xp.where(mask.astype(bool), X.dtype.type(value), X)


# ---- reductions --------------------------------------------------------------------------------------------------


def _axes(dim: Any) -> Any:
    return None if dim is None or dim == [] else tuple(dim) if isinstance(dim, list) else dim


@_aten("sum")
def _sum(xp, X, *, dim=None, keepdim=0):
    total = X.sum(axis=_axes(dim), keepdims=bool(keepdim))
    return total.astype("int64") if X.dtype.kind in "bui" else total.astype(X.dtype)


def _reduction(name):
    """X.NAME along `dim`, or over all."""

    def reduce(xp, X, *, dim=None, keepdim=0):
        return getattr(X, name)(axis=_axes(dim), keepdims=bool(keepdim))

    return reduce


for _name in ("mean", "prod", "all", "any"):
    _aten(_name)(_reduction(_name))


@_aten("std")
def _std(xp, X, *, dim=None, unbiased=1, keepdim=0):
    return X.std(axis=_axes(dim), ddof=int(bool(unbiased)), keepdims=bool(keepdim))


@_aten("var")
def _var(xp, X, *, dim=None, unbiased=1, keepdim=0):
    return X.var(axis=_axes(dim), ddof=int(bool(unbiased)), keepdims=bool(keepdim))


@_aten("norm", "frobenius_norm")
def _norm(xp, X, *, p=2.0, dim=None, keepdim=0):
    axes, keep = _axes(dim), bool(keepdim)
    if math.isinf(p):
        return abs(X).max(axis=axes, keepdims=keep)
    return (abs(X) ** X.dtype.type(p)).sum(axis=axes, keepdims=keep) ** X.dtype.type(1 / p)


@_aten("argmax")
def _argmax(xp, X, *, dim=None, keepdim=0):
    return _along(xp.argmax(X, axis=dim), dim, keepdim, xp)


@_aten("argmin")
def _argmin(xp, X, *, dim=None, keepdim=0):
    return _along(xp.argmin(X, axis=dim), dim, keepdim, xp)


def _along(found: Any, dim: Any, keepdim: Any, xp: Any) -> Any:
    return xp.expand_dims(found, dim) if keepdim and dim is not None else found


@_aten("max")
def _max(xp, X, *Ys, dim=None, keepdim=0):
    if Ys:
        return xp.maximum(X, Ys[0])
    return (
        X.max() if dim is None else (X.max(axis=dim, keepdims=bool(keepdim)), _argmax(xp, X, dim=dim, keepdim=keepdim))
    )


@_aten("min")
def _min(xp, X, *Ys, dim=None, keepdim=0):
    if Ys:
        return xp.minimum(X, Ys[0])
    return (
        X.min() if dim is None else (X.min(axis=dim, keepdims=bool(keepdim)), _argmin(xp, X, dim=dim, keepdim=keepdim))
    )


@_aten("cumsum")
def _cumsum(xp, X, *, dim):
    return xp.cumsum(X, axis=dim)


@_aten("logsumexp")
def _logsumexp(xp, X, *, dim, keepdim=0):
    axes = _axes(dim)
    best = X.max(axis=axes, keepdims=True)
    total = xp.log(xp.exp(X - best).sum(axis=axes, keepdims=True)) + best
    return total if keepdim else xp.squeeze(total, axis=axes)


@_aten("softmax", "_softmax")
def _softmax(xp, X, *, dim, half_to_float=0):
    powers = xp.exp(X - X.max(axis=dim, keepdims=True))
    return powers / powers.sum(axis=dim, keepdims=True)


@_aten("log_softmax", "_log_softmax")
def _log_softmax(xp, X, *, dim, half_to_float=0):
    return X - _logsumexp(xp, X, dim=dim, keepdim=1)


# ---- order -------------------------------------------------------------------------------------------------------


def _order(xp: Any, X: Any, dim: int, descending: Any) -> Any:
    if not descending:
        return xp.argsort(X, axis=dim, kind="stable")
    return X.shape[dim] - 1 - xp.flip(xp.argsort(xp.flip(X, dim), axis=dim, kind="stable"), dim)


@_aten("sort")
def _sort(xp, X, *, dim=-1, descending=0):
    order = _order(xp, X, dim, descending)
    return xp.take_along_axis(X, order, axis=dim), order


@_aten("argsort")
def _argsort(xp, X, *, dim=-1, descending=0):
    return _order(xp, X, dim, descending)


@_aten("topk")
def _topk(xp, X, *, k, dim=-1, largest=1, sorted=1):
    if not 0 <= k <= X.shape[dim]:
        raise ValueError(f"k={k} is out of range: there are {X.shape[dim]} values along dimension {dim}")
    order = xp.take(_order(xp, X, dim, largest), xp.arange(k), axis=dim)
    return xp.take_along_axis(X, order, axis=dim), order


@_aten("_unique")
def _unique(xp, X, *, sorted=1, return_inverse=0):
    values, inverse = xp.unique(X, return_inverse=True)
    return values, inverse.reshape(X.shape) if return_inverse else xp.zeros(0, "int64")


@_aten("nonzero")
def _nonzero(xp, X):
    return xp.stack(xp.nonzero(X), axis=1)


# ---- indices -----------------------------------------------------------------------------------------------------


def _index(xp: Any, X: Any, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Masks as bool, and indices that are checked: CuPy would take them modulo the length of the axis."""
    made, axis = [], 0
    for i in indices:
        if i.dtype.name in ("uint8", "bool"):
            made.append(i.astype(bool))
            axis += i.ndim
        else:
            if axis >= X.ndim:
                raise ValueError(f"there are {len(indices)} indices, and the tensor {list(X.shape)} has fewer axes")
            made.append(within(xp, i, X.shape[axis], wrap=True))
            axis += 1
    return tuple(made)


@_aten("index")
def _index_by(xp, X, *indices):
    return X[_index(xp, X, indices)]


@_aten("index_put")
def _index_put(xp, X, *rest, accumulate=0):
    *indices, values = rest
    made, where = X.copy(), _index(xp, X, tuple(indices))
    if accumulate:
        xp.add.at(made, where, values)
    else:
        rows = made.reshape(-1)
        places = xp.arange(made.size).reshape(made.shape)[where]
        keep = last_of_each(xp, places.reshape(-1))
        rows[places.reshape(-1)[keep]] = xp.broadcast_to(values, places.shape).reshape(-1)[keep]
    return made


@_aten("index_select")
def _index_select(xp, X, indices, *, dim):
    return xp.take(X, within(xp, indices, X.shape[dim], wrap=False), axis=dim)


@_aten("gather")
def _gather(xp, X, indices, *, dim, sparse_grad=0):
    return xp.take_along_axis(X, within(xp, indices, X.shape[dim], wrap=False), axis=dim)


@_aten("masked_select")
def _masked_select(xp, X, mask):
    return X[mask.astype(bool)]


@_aten("embedding")
def _embedding(xp, weight, indices, *, padding_idx=-1, scale_grad_by_freq=0, sparse=0):
    return weight[within(xp, indices, weight.shape[0], wrap=False)]


# ---- shape -------------------------------------------------------------------------------------------------------


@_aten("reshape", "view", "_unsafe_view")
def _reshape(xp, X, *, shape=None, size=None):
    wanted = size if shape is None else shape
    if wanted is None:
        raise ValueError("the argument 'shape' (or 'size' of view) is needed")
    return X.reshape(tuple(wanted))


@_aten("flatten")
def _flatten(xp, X, *, start_dim=0, end_dim=-1):
    first, last = start_dim % max(X.ndim, 1), end_dim % max(X.ndim, 1)
    return X.reshape(*X.shape[:first], -1, *X.shape[last + 1 :])


@_aten("squeeze")
def _squeeze(xp, X, *, dim=None):
    return xp.squeeze(X) if dim is None else xp.squeeze(X, axis=dim) if X.shape[dim] == 1 else X


@_aten("unsqueeze")
def _unsqueeze(xp, X, *, dim):
    return xp.expand_dims(X, dim)


@_aten("expand")
def _expand(xp, X, *, size, implicit=0):
    have = (1,) * (len(size) - X.ndim) + X.shape
    return xp.broadcast_to(X, tuple(h if s == -1 else s for s, h in zip(size, have)))


@_aten("repeat")
def _repeat(xp, X, *, repeats):
    return xp.tile(X, tuple(repeats))


@_aten("transpose")
def _transpose(xp, X, *, dim0, dim1):
    return xp.swapaxes(X, dim0, dim1)


@_aten("t")
def _t(xp, X):
    return X.T


@_aten("permute")
def _permute(xp, X, *, dims):
    return X.transpose(tuple(dims))


@_aten("flip")
def _flip(xp, X, *, dims):
    return xp.flip(X, tuple(dims))


@_aten("cat")
def _cat(xp, *Xs, dim=0):
    return xp.concatenate(Xs, axis=dim)


@_aten("stack")
def _stack(xp, *Xs, dim=0):
    return xp.stack(Xs, axis=dim)


@_aten("select")
def _select(xp, X, *, dim, index):
    if not -X.shape[dim] <= index < X.shape[dim]:
        raise ValueError(f"index {index} is outside of axis {dim} of {list(X.shape)}")
    return xp.take(X, index, axis=dim)


@_aten("narrow")
def _narrow(xp, X, *, dim, start, length):
    return X[(slice(None),) * (dim % X.ndim) + (slice(start, start + length),)]


@_aten("split")
def _split(xp, X, *, split_size, dim=0):
    return tuple(xp.split(X, range(split_size, X.shape[dim], split_size), axis=dim))


@_aten("tril")
def _tril(xp, X, *, diagonal=0):
    return xp.tril(X, diagonal)


@_aten("triu")
def _triu(xp, X, *, diagonal=0):
    return xp.triu(X, diagonal)


@_aten("full_like")
def _full_like(xp, X, *, fill_value):
    return xp.full_like(X, fill_value)


# ---- products ----------------------------------------------------------------------------------------------------

for _name in ("matmul", "mm", "bmm", "mv", "dot"):
    _aten(_name)(lambda xp, X, Y: xp.matmul(X, Y))


@_aten("addmm")
def _addmm(xp, M, X, Y, *, beta=1, alpha=1):
    return M * M.dtype.type(beta) + xp.matmul(X, Y) * M.dtype.type(alpha)
