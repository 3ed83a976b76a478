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


for _name, _kernel, _inplace, _gradient, _doc in (
    ("Copy", _copy, (), single("CopyOnDeviceLike", "GO0 I0 -> GI0"), "Y = X, which may be on a peer GPU."),
    ("StopGradient", _copy, {0: 0}, NO_GRADIENT, "Y = X; no gradient goes through it."),
    ("EnsureDense", _ensure_dense, {0: 0}, _dense_or_sparse, "Y = X; its gradient is made dense if it is sparse."),
):
    operator("Y", name=_name, inplace=_inplace, peer="any", infer=like(0), gradient=_gradient, doc=_doc)(_kernel).bind(
        _copy_again
    )


def _transfer(ctx: Any, X: Any, *, out: Any) -> Any:
    """Copy to wherever the output is."""
    Y = out(X.shape, X.dtype)
    ctx.instance.outs[0].device.copy(Y, X)
    return Y


def _transfer_back(kind: str) -> Any:
    """The gradient goes back by `kind`, sparse or dense."""

    def make(g: Any) -> Any:
        if g.is_sparse_GO(0):
            return [g.new(kind, [g.GO_I(0)], [g.GI_I(0)]), g.new(kind, [g.GO_V(0)], [g.GI_V(0)])]
        return g.single(kind, [g.GO(0)], [g.GI(0)])

    return make


for _name, _host, _anywhere, _gradient, _doc in (
    # The sync net that Caffe2 builds for the engine MPI also copies what is on the CPU already.
    ("CopyGPUToCPU", "Y", "X", _transfer_back("CopyCPUToGPU"), "Y, in host memory, = X on the operator's GPU."),
    ("CopyCPUToGPU", "X", "X", _transfer_back("CopyGPUToCPU"), "Y, on the operator's GPU, = X in host memory."),
    ("CopyFromCPUInput", "X", "", None, "Y, on the operator's device, = X in host memory."),
    ("EnsureCPUOutput", "Y", "X", NO_GRADIENT, "Y, in host memory, = X, wherever that is."),
):
    operator(
        "Y", name=_name, stateful=True, host=_host, anywhere=_anywhere, infer=like(0), gradient=_gradient, doc=_doc
    )(_transfer)


@operator("Y", stateful=True, anywhere="X target", infer=like(0))
def CopyOnDeviceLike(ctx, X, target):
    """Y = X, on the device where `target` is."""
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
    """Y is a second name of X's storage."""
    _alias(ctx, X)


@operator("Y", stateful=True, anywhere="X", inplace={0: 0}, aliases={0: 0}, infer=like(0))
def AliasWithName(ctx, X, *, name: str = "", is_backward: bool = False):
    """Y is a second name of X's storage; the arguments are notes for tools."""
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
    """Empty the blobs, so that their memory can be used again."""
    if ctx.inputs != ctx.outputs:
        raise ValueError("the outputs of Free must be its inputs, one by one")
    for blob in ctx.outputs:
        blob.reset()
