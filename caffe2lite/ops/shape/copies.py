"""Copies between blobs and devices, and second names for one tensor."""

from __future__ import annotations

import functools
from typing import Any

from caffe2lite import devices
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, NO_GRADIENT, single
from caffe2lite.ops.kit.infer import like
from caffe2lite.ops.kit.registry import MANY, operator


def _copy(xp: Any, X: Any, *, out: Any) -> Any:
    Y = out(X.shape, X.dtype)
    if Y is not X:
        xp.copyto(Y, X)
    return Y


def _ensure_dense(xp: Any, X: Any, *, out: Any) -> Any:
    if not X.ndim:
        raise ValueError("X must be a vector at least, found a scalar")
    return _copy(xp, X, out=out)


def _copy_again(xp: Any, inputs: Any, outputs: Any, args: Any) -> Any:
    return functools.partial(xp.copyto, outputs[0], inputs[0])


def _dense_or_sparse(g: Any) -> Any:
    """The gradient of EnsureDense: a sparse one becomes dense."""
    if not g.has_GO(0):
        raise ValueError(f"the gradient of output {g.O(0)!r} of EnsureDense is needed, sparse or dense")
    if g.is_dense_GO(0):
        g.set_dense(0, g.GO(0))
        return []
    return g.single("SparseToDense", [g.GO_I(0), g.GO_V(0), g.I(0)], [g.GI(0)])


_SHARED = "X [...] of any type -> Y of its shape and type. An OperatorError for a blob that is no tensor."

for _name, _kernel, _traits, _inplace, _gradient, _doc in (
    ("Copy", _copy, "copy", (), single("CopyOnDeviceLike", "GO0 I0 -> GI0"), "Y = X, which may be on a peer GPU."),
    ("StopGradient", _copy, "stops_gradient", {0: 0}, NO_GRADIENT, "Y = X; no gradient goes through it."),
    ("EnsureDense", _ensure_dense, "", {0: 0}, _dense_or_sparse, "Y = X; its gradient is made dense if it is sparse."),
):
    operator(
        "Y",
        name=_name,
        inplace=_inplace,
        peer="any",
        infer=like(0),
        gradient=_gradient,
        doc=f"{_doc}\n\n{_SHARED}",
        traits=_traits,
    )(_kernel).bind(_copy_again)


def _transfer(ctx: Any, X: Any, *, out: Any) -> Any:
    """Copy X to wherever the output is."""
    Y = out(X.shape, X.dtype)
    ctx.output_devices[0].copy(Y, X)
    return Y


def _transfer_back(kind: str) -> Any:
    """The gradient goes back by `kind`, sparse or dense."""

    def make(g: Any) -> Any:
        if g.is_sparse_GO(0):
            return [g.new(kind, [g.GO_I(0)], [g.GI_I(0)]), g.new(kind, [g.GO_V(0)], [g.GI_V(0)])]
        return g.single(kind, [g.GO(0)], [g.GI(0)])

    return make


for _name, _traits, _host, _anywhere, _gradient, _doc in (
    # The sync net that Caffe2 builds for the engine MPI also copies what is on the CPU already.
    ("CopyGPUToCPU", "copy", "Y", "X", _transfer_back("CopyCPUToGPU"), "Y, in host memory, = X on the operator's GPU."),
    ("CopyCPUToGPU", "copy", "X", "X", _transfer_back("CopyGPUToCPU"), "Y, on the operator's GPU, = X in host memory."),
    ("CopyFromCPUInput", "copy", "X", "", None, "Y, on the operator's device, = X in host memory."),
    ("EnsureCPUOutput", "", "Y", "X", NO_GRADIENT, "Y, in host memory, = X, wherever that is."),
):
    operator(
        "Y",
        name=_name,
        stateful=True,
        host=_host,
        anywhere=_anywhere,
        infer=like(0),
        gradient=_gradient,
        doc=f"{_doc}\n\n{_SHARED}",
        traits=_traits,
    )(_transfer)


@operator("Y", stateful=True, anywhere="X target", infer=like(0), traits="copy")
def CopyOnDeviceLike(ctx, X, target):
    """Y = X, on the device where `target` is.

    X [...] of any type, target [...], which may be on any device -> Y of X's shape and type. An OperatorError for a
    blob that is no tensor.
    """
    ctx.outputs[0].assign(X, devices.of(target))


def _pass_on(g: Any) -> Any:
    """Each input gets the gradient of the output, by its name."""
    for i in range(g.num_inputs):
        g.set_dense(i, g.GO(0))
    return []


def _alias(ctx: Any, X: Any) -> None:
    source, target = ctx.inputs[0], ctx.outputs[0]
    if source is not target:
        target.share(source)


@operator("Y", stateful=True, anywhere="X", aliases={0: 0}, infer=like(0), gradient=_pass_on)
def Alias(ctx, X):
    """Y is a second name of X's storage.

    X [...] of any type -> Y of its shape and type; what is written to one is read from the other. The gradient passes
    through. An OperatorError for a blob that is no tensor.
    """
    _alias(ctx, X)


@operator("Y", stateful=True, anywhere="X", inplace={0: 0}, aliases={0: 0}, infer=like(0))
def AliasWithName(ctx, X, *, name: str = "", is_backward: bool = False):
    """Y is a second name of X's storage; the arguments are notes for tools.

    X [...] of any type -> Y of its shape and type. An OperatorError for a blob that is no tensor.
    """
    _alias(ctx, X)


@operator(
    "emptied*",
    stateful=True,
    anywhere="blobs",
    uninitialised="blobs",
    inplace=[(-1, -1)],
    num_inputs=(1, MANY),
    num_outputs=(1, MANY),
    gradient=FORBID_GRADIENT,
)
def Free(ctx, *blobs):
    """Empty the blobs, so that their memory can be used again.

    Any number of blobs, of any type and any shape, or that hold nothing yet -> the same blobs. ValueError where the
    outputs are not the inputs.
    """
    if ctx.inputs != ctx.outputs:
        names = [[b.name for b in blobs] for blobs in (ctx.inputs, ctx.outputs)]
        raise ValueError(f"the outputs of Free must be its inputs, one by one; found {names[0]} -> {names[1]}")
    for blob in ctx.outputs:
        blob.reset()
