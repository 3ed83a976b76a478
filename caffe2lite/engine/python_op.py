"""Operators whose kernel is a Python function of the script: `net.Python(f)(inputs, outputs)`.

Functions are found by a token that the operator carries; nothing is ever read from the net itself.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from caffe2lite.devices import HOST
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.c_types import TensorCPU, Workspace
from caffe2lite.engine.errors import StopNet, UserCodeError
from caffe2lite.engine.instance import Context
from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.gradient import Forward
from caffe2lite.ops.kit.registry import operator

Function = Callable[..., object]  # of inputs and outputs, and the workspace where it is wanted
Builder = tuple[
    Callable[..., Function], Sequence[object], Mapping[str, object]
]  # (what builds a function, args, kwargs)
K = TypeVar("K")
T = TypeVar("T")

_functions: dict[str, tuple[Function | Builder, bool]] = {}
_gradients: dict[str, Function] = {}
_pickled: dict[bytes, Builder] = {}
_uses: collections.Counter[str] = collections.Counter()  # how often a name was registered
_lock = locks.lock()


def register(function: Function | Builder, pass_workspace: bool, name: str = "") -> str:
    """Keep a function for operators of type Python; the token that finds it.

    A tuple (function, args, kwargs) is called once for each operator of a net: the result is that operator's function.
    """
    named = function[0] if isinstance(function, tuple) else function
    base = name + getattr(named, "__name__", type(named).__name__)
    with _lock:
        _uses[base] += 1
        token = base if _uses[base] == 1 else f"{base}:{_uses[base] - 1}"
        _functions[token] = (function, pass_workspace)
    return token


def register_gradient(token: str, function: Function) -> None:
    """Keep the function that computes the gradient of the one behind `token`."""
    if token not in _functions:
        raise ValueError(f"no Python operator is registered under {token!r}")
    _gradients[token] = function


def register_pickled(content: bytes, build: Builder) -> None:
    """Keep a tuple (function, args, kwargs) for operators that carry `content`, its pickle, in place of a token.

    Caffe2's own Python files write such operators; the pickle is their name here, and is never unpickled.
    """
    _pickled[content] = build


def _call(ctx: Context, function: Function | Builder, pass_workspace: bool) -> None:
    here = _on_host(ctx)
    inputs = [TensorCPU(here[id(b)]) for b in ctx.inputs]
    outputs = [TensorCPU(here[id(b)]) for b in ctx.outputs]
    more = [Workspace(engine=ctx.workspace)] if pass_workspace else []
    try:
        if isinstance(function, tuple):
            function = _built(ctx.state, *function)
        function(inputs, outputs, *more)
    except StopNet:
        raise
    except Exception as e:
        raise UserCodeError(e) from e
    for blob, tensor in zip(ctx.outputs, outputs):
        if here[id(blob)].value is None:
            tensor.reshape((0,))
        if here[id(blob)] is not blob:
            blob.assign(here[id(blob)].value, ctx.device)


def _on_host(ctx: Context) -> dict[int, Blob]:
    """The blobs that the function sees, by the ids of the operator's: on a GPU's operator copies on the host."""
    seen = {}
    for blob in (*ctx.inputs, *ctx.outputs):
        if ctx.device is HOST or (blob.value is not None and blob.storage is None):
            seen[id(blob)] = blob
        elif id(blob) not in seen:
            seen[id(blob)] = Blob(blob.name)
            if blob.storage is not None and blob in ctx.inputs:
                seen[id(blob)].assign(blob.device.to_host(blob.value), HOST)
    return seen


def _built(
    state: types.SimpleNamespace, build: Callable[..., Function], args: Sequence[object], kwargs: Mapping[str, object]
) -> Callable[..., Any]:
    """The function of one operator, which a tuple builds when it first runs."""
    if not hasattr(state, "function"):
        state.function = build(*args, **kwargs)
    return state.function


def _lookup(table: Mapping[K, T], token: K, what: str = "") -> T:
    if token not in table:
        raise ValueError(
            f"no Python function is registered under {token!r} in this process{what}: a net with Python operators runs "
            f"only where the script has made them"
        )
    return table[token]


def _call_forward(ctx: Context, token: str, pickled: bytes, pass_workspace: bool) -> None:
    function, pass_workspace = (_lookup(_pickled, pickled), pass_workspace) if pickled else _lookup(_functions, token)
    _call(ctx, function, pass_workspace)


def _call_backward(ctx: Context, token: str, pickled: bytes, pass_workspace: bool) -> None:
    if pickled:
        _call(ctx, _lookup(_pickled, pickled, " as a gradient"), pass_workspace)
    else:
        _call(ctx, _lookup(_gradients, token, " as a gradient"), _functions[token][1])


def _python_gradient(g: Forward) -> list[Any]:
    outs = g.arg("grad_output_indices") or range(g.num_outputs)
    ins = g.arg("grad_input_indices") or range(g.num_inputs)
    names = [*g.op.input, *g.op.output, *(g.GO(i) for i in outs)]
    return g.single(g.op.type + "Gradient", names, [g.GI(i) for i in ins])


def _define(name: str, doc: str, gradient: str, gradient_doc: str) -> None:
    """An operator that calls a Python function, and its gradient."""

    @operator(
        "Ys*", name=name, stateful=True, inplace=[(-1, -1)], gradient=_python_gradient, doc=doc, traits="user_code"
    )
    def forward(
        ctx: Context,
        *Xs: object,
        token: str = "",
        pickled_builder: bytes = b"",
        pickled_grad_builder: bytes = b"",
        pass_workspace: bool = False,
    ) -> None:
        _call_forward(ctx, token, pickled_builder, pass_workspace)

    @operator("dXs*", name=gradient, stateful=True, inplace=[(-1, -1)], doc=gradient_doc, traits="user_code")
    def backward(
        ctx: Context,
        *Xs: object,
        token: str = "",
        pickled_builder: bytes = b"",
        pickled_grad_builder: bytes = b"",
        pass_workspace: bool = False,
    ) -> None:
        _call_backward(ctx, token, pickled_grad_builder, pass_workspace)


_OPERANDS = """Tensors of any number and any shape, any dtype.  What the function raises surfaces as it is; ValueError where the
token names no registered function."""

_define(
    "Python",
    f"Calls the registered function with its inputs and outputs (and workspace).\n\n{_OPERANDS}",
    "PythonGradient",
    f"Calls the registered gradient function: inputs are those of Python, its outputs and their gradients.\n\n{_OPERANDS}",
)
_define(
    "PythonDLPack",
    f"As Python; its tensors' `data` answers to DLPack, as NumPy arrays do.\n\n{_OPERANDS}",
    "PythonDLPackGradient",
    f"As PythonGradient, for PythonDLPack.\n\n{_OPERANDS}",
)
