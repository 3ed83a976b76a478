"""About the workspace, failures on purpose, and small services of nets."""

from __future__ import annotations

import os
from typing import Any

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT, single
from caffe2lite.ops.kit.infer import Spec, like, unknown
from caffe2lite.ops.kit.logs import add_line
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.serialization import Options
from caffe2lite.ops.kit.signals import StopNet


def _names(ctx: Any, include_shared: bool) -> list[str]:
    return ctx.workspace.names() if include_shared else ctx.workspace.local_names()


@operator("names", stateful=True, host="names")
def GetAllBlobNames(ctx, *, include_shared: bool = True, out):
    """The names of all blobs of the workspace.

    names [blobs] string; without `include_shared` those of parent workspaces are left out. There is no Error to expect.
    """
    names = _names(ctx, include_shared)
    Y = out((len(names),), "object")
    Y[...] = [n.encode() for n in names]
    return Y


@operator("value", stateful=True, host="value", gradient=FORBID_GRADIENT)
def FeedBlob(ctx, *, value: bytes = b""):
    """The output holds the string `value`.

    value, a blob that is a string, no tensor: no tensors, then. There is no Error to expect.
    """
    ctx.outputs[0].hold(value)


@operator(stateful=True, gradient=FORBID_GRADIENT)
def Fail(ctx):
    """Fail, as an operator that waits for a closed queue does: the net stops.

    no tensors, of any type. It is an OperatorError outside of a net.
    """
    raise StopNet("the operator Fail did what it is for")


def _throw(ctx):
    raise RuntimeError(f"Exception from {ctx.op.type}Op")


_THROWN = "Fail with an exception.\n\nno tensors, of any type; always an OperatorError."

for _name in ("ThrowException", "ThrowChildThreadException", "LogFatal"):
    operator(name=_name, stateful=True, gradient=FORBID_GRADIENT, doc=_THROWN)(_throw)


@operator(stateful=True)
def Crash(ctx):
    """End the process at once, for tests of what happens then.

    no tensors, of any type, and no Error that could be caught.
    """
    os.abort()


@operator("Xs*", num_inputs=(0, MANY), num_outputs=(0, MANY), inplace=[(-1, -1)], mutates=[(i, i) for i in range(64)])
def DataCouple(xp, *Xs, out):
    """Nothing, but the graph sees each input written, and after all the others.

    Inputs [...] of any type, which are the outputs. There is no Error to expect.
    """
    return None


@operator("Y", inplace={0: 0}, gradient=single("Negative", "GO0 -> GI0"), infer=like(0))
def NegateGradient(xp, X, *, out):
    """Y = X; the gradient comes back with the other sign.

    X [...] of any type -> Y of its shape. An OperatorError for a blob that is no tensor.
    """
    in_place = out.replaces(X)
    Y = out(X.shape, X.dtype)
    if not in_place:
        xp.copyto(Y, X)
    return Y


def _zero_gradient(g: Any) -> Any:
    return g.single("ConstantFill", [g.I(0)], [g.GI(0)], value=0.0)


@operator(anywhere="X", gradient=_zero_gradient)
def ZeroGradient(xp, X):
    """Nothing, but X's gradient is 0.

    X [...] of any type, anywhere -> no tensors. There is no Error to expect.
    """


@operator("Y", mutates={0: 0}, gradient=FORBID_GRADIENT, infer=unknown)
def Append(xp, A, B, *, out):
    """A = A with the rows of B behind it.

    A [n, ...] of any type, B [m, ...] of its type -> A [n + m, ...]. ValueError where they differ in type or rows.
    """
    if A.dtype != B.dtype or A.ndim < 1 or A.ndim != B.ndim or A.shape[1:] != B.shape[1:]:
        raise ValueError(
            f"both must have one type and rows of one shape, found {A.dtype}{list(A.shape)} and "
            f"{B.dtype}{list(B.shape)}"
        )
    if not B.shape[0]:
        return A
    whole = xp.concatenate([A, B])
    Y = out(whole.shape, A.dtype)
    xp.copyto(Y, whole)
    return Y


@operator("Y", stateful=True, types="float32", gradient=FORBID_GRADIENT)
def Accumulate(ctx, X, *, gamma: float = 1.0, out):
    """Y = X + gamma * Y, where Y is what the output held; X where that has another shape.

    X [...] float32 -> Y of its shape. TypeError for other types.
    """
    before = ctx.outputs[0].value
    fits = ctx.outputs[0].storage is not None and before.shape == X.shape and before.dtype == X.dtype
    Y = out(X.shape, X.dtype)
    if not fits:
        Y[...] = 0
    ctx.xp.multiply(Y, Y.dtype.type(gamma), Y)
    return ctx.xp.add(Y, X, Y)


@operator("Y?", stateful=True, types="float32", gradient=FORBID_GRADIENT)
def Summarize(ctx, X, *, to_file: int = 0, out):
    """Y = smallest, largest, mean and standard deviation of X; `to_file` adds them to NAME.summary ('#' for each '/').

    X [...] float32 -> Y [4] float32; the file is in the workspace's folder.  ValueError where X is empty.
    """
    if not X.size:
        raise ValueError(f"an empty tensor cannot be summarised, found the shape {list(X.shape)}")
    n = X.size
    mean = float(X.mean())
    deviation = float(((X - mean) ** 2).sum() / max(n - 1, 1)) ** 0.5
    values = (float(X.min()), float(X.max()), mean, deviation)
    if to_file:
        name = ctx.op.input[0].replace("/", "#")
        add_line(ctx, f"{name}.summary", b"%.6g %.6g %.6g %.6g" % values)
    if not ctx.outputs:
        return None
    Y = out((4,), "float32")
    Y[...] = ctx.xp.asarray(values)
    return Y


@operator("sizes", stateful=True, host="sizes", infer=lambda args, inputs: [Spec((2,), "int64")])
def GetGPUMemoryUsage(ctx, *, out):
    """Two rows: bytes in use on each GPU, and the most that were in use.

    sizes [2, GPUs] int64. There is no Error to expect: without GPUs it is empty.
    """
    from caffe2lite import devices

    usage = []
    for gpu in devices.gpus():
        with gpu.context():
            pool = getattr(gpu.xp, "get_default_memory_pool", None)
            usage.append(pool().used_bytes() if pool else 0)
    state = ctx.state
    state.most = [max(a, b) for a, b in zip(usage, getattr(state, "most", usage))]
    Y = out((2, len(usage)), "int64")
    Y[...] = [usage, state.most]
    return Y


# What an element of each type takes in a TensorProto, about; each chunk, and each string, takes 50 bytes more.
_ESTIMATES = {"bool": 1, "uint8": 2, "int8": 2, "float16": 3, "int16": 3, "uint16": 3, "object": 50, "float32": 4,
              "int32": 4, "float64": 8, "int64": 8}  # fmt: skip


def _estimate(name: str, value: Any, chunk_size: int, bfloat16: bool) -> int:
    """Return the bytes that the blob takes when it is serialised, as Caffe2 guesses them."""
    if isinstance(value, bytes):
        return len(value) + len(name) + 20
    dtype = getattr(value, "dtype", None)
    if dtype is None or not value.size:
        return 0
    each = 2 if bfloat16 and dtype == "float32" else _ESTIMATES[str(dtype)]
    return value.size * each + -(-value.size // (chunk_size or value.size)) * (50 + len(name))


@operator("names sizes", stateful=True, host="names sizes")
def EstimateAllBlobSizes(ctx, *, include_shared: bool = True, options: bytes = b"", out):
    """The names of all blobs of the workspace, the newest first, and how many bytes each takes when serialised.

    names [blobs] string, sizes [blobs] int64; `options`, a serialised SerializationOptions, says how they would be
    saved. ValueError where that cannot be read.
    """
    names = _names(ctx, include_shared)[::-1]
    labels, sizes = out[0]((len(names),), "object"), out[1]((len(names),), "int64")
    labels[...] = [n.encode() for n in names]
    ctx.outputs[0].show(labels)
    rules = Options(options)
    sizes[...] = [_estimate(n, ctx.workspace.get_blob(n).value, *rules.of(n)) for n in names]
    return labels, sizes
