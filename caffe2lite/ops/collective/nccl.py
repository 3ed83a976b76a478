"""Collectives among the GPUs of one process: inputs and outputs are one blob a GPU.

NCCL does the work where each array is on a GPU of its own.  Elsewhere (emulated GPUs, the CPU, no library) the arrays
are added and copied in order.
"""

from __future__ import annotations

from typing import Any

from caffe2lite import devices
from caffe2lite.distributed import nccl
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.registry import operator

_TYPES = "float32 float64 float16 int32 int64 uint8 int8"
_PAIRS = [(i, i) for i in range(16)]


def _operands(ctx: Any) -> list[Any]:
    values = [b.value for b in ctx.inputs]
    first = values[0]
    for name, v in zip(ctx.op.input, values):
        if v.shape != first.shape or v.dtype != first.dtype:
            raise ValueError(
                f"all inputs of {ctx.op.type} must have one shape and type: {ctx.op.input[0]!r} is "
                f"{first.dtype}{list(first.shape)}, {name!r} {v.dtype}{list(v.shape)}"
            )
    return values


def _sum(ctx: Any, values: list[Any], root: int = 0) -> Any:
    """The sum of all, on the root's device, in memory of its own."""
    home = devices.of(values[root])
    with home.context():
        xp = home.xp
        total = xp.zeros_like(values[root])
        part = xp.empty_like(total)
        for v in values:
            home.copy(part, v)
            xp.add(total, part, total)
    return total


def _clique(values: list[Any]) -> nccl.Clique | None:
    """NCCL between the devices of these arrays, None where it has no part."""
    return nccl.clique([devices.of(v) for v in values])


def _made(ctx: Any, values: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """The outputs' arrays, of that shape, on the devices of the inputs."""
    return [b.resize(shape, values[0].dtype, devices.of(v)) for b, v in zip(ctx.outputs, values)]


def _spread(ctx: Any, value: Any) -> None:
    """A copy of the value in each output, on the device of the input beside it."""
    targets = [devices.of(b.value) for b in ctx.inputs[: len(ctx.outputs)]]
    for blob, device in zip(ctx.outputs, targets):
        blob.assign(value, device)


def _same_count(ctx: Any) -> None:
    if len(ctx.outputs) != len(ctx.inputs):
        raise ValueError(
            f"{ctx.op.type} needs an output for each input: {len(ctx.inputs)} inputs, {len(ctx.outputs)} outputs"
        )


def _root(ctx: Any, root: int) -> int:
    if not 0 <= root < len(ctx.inputs):
        raise ValueError(f"root={root} is none of the {len(ctx.inputs)} inputs")
    return root


def _collective(**schema: Any) -> Any:
    limits = {"num_inputs": (1, 16), "num_outputs": (1, 16), **schema}
    return operator("Ys*", stateful=True, types=_TYPES, anywhere="Xs", gradient=FORBID_GRADIENT, **limits)


@_collective(inplace=_PAIRS, traits="among_gpus to_all")
def NCCLAllreduce(ctx, *Xs):
    """Each output = the sum of all inputs.

    Inputs and outputs [...], 1 to 16, one for each GPU; float32, float64, float16, int32, int64, uint8 or int8.
    ValueError where shapes or dtypes differ or there is not an output for each input.
    """
    _same_count(ctx)
    values = _operands(ctx)
    clique = _clique(values)
    if clique:
        clique.allreduce(values, _made(ctx, values, values[0].shape))
    else:
        _spread(ctx, _sum(ctx, values))


@_collective(mutates=_PAIRS, traits="among_gpus to_all rooted")
def NCCLBroadcast(ctx, *Xs, root: int = 0):
    """Each blob = the root's.

    Inputs and outputs [...], 1 to 16, one for each GPU, in place; float32, float64, float16, int32, int64, uint8 or
    int8.  ValueError where shapes or dtypes differ or root is no input.
    """
    _same_count(ctx)
    values = _operands(ctx)
    source = values[_root(ctx, root)]
    clique = _clique(values)
    if clique:
        clique.broadcast(source, values, root)
        return
    for blob in ctx.outputs:
        if blob.value is not source:
            blob.assign(source, devices.of(blob.value))


@_collective(num_outputs=(1, 1), inplace=[(i, 0) for i in range(16)], traits="among_gpus rooted")
def NCCLReduce(ctx, *Xs, root: int = 0):
    """The output, where the root's input is, = the sum of all inputs.

    Inputs and the output [...], 1 to 16, one for each GPU; float32, float64, float16, int32, int64, uint8 or int8.
    ValueError where shapes or dtypes differ or root is no input.
    """
    values = _operands(ctx)
    home = devices.of(values[_root(ctx, root)])
    clique = _clique(values)
    if clique:
        clique.reduce(values, ctx.outputs[0].resize(values[root].shape, values[root].dtype, home), root)
    else:
        ctx.outputs[0].assign(_sum(ctx, values, root), home)


@_collective(traits="among_gpus")
def NCCLAllGather(ctx, *Xs):
    """Each output = all inputs, one behind the other along a new first dimension.

    n inputs [...], one for each GPU, n outputs [n, ...]; float32, float64, float16, int32, int64, uint8 or int8.
    ValueError where shapes or dtypes differ or there is not an output for each input.
    """
    _same_count(ctx)
    values = _operands(ctx)
    clique = _clique(values)
    if clique:
        clique.allgather(values, _made(ctx, values, (len(values), *values[0].shape)))
        return
    home = devices.of(values[0])
    with home.context():
        whole = home.xp.empty((len(values), *values[0].shape), values[0].dtype)
        for k, v in enumerate(values):
            home.copy(whole[k, ...], v)  # the ellipsis keeps a scalar an array
    _spread(ctx, whole)


@_collective(traits="among_gpus")
def NCCLReduceScatter(ctx, *Xs):
    """Output k = row k of the sum of all inputs, whose first dimension is the number of inputs.

    n inputs [n, ...], one for each GPU, n outputs [...]; float32, float64, float16, int32, int64, uint8 or int8.
    ValueError where shapes or dtypes differ, the first dimension is not n, or there is not an output for each input.
    """
    _same_count(ctx)
    values = _operands(ctx)
    if not values[0].ndim or values[0].shape[0] != len(values):
        raise ValueError(f"the first dimension must be {len(values)}, one row an input, found {list(values[0].shape)}")
    clique = _clique(values)
    if clique:
        clique.reduce_scatter(values, _made(ctx, values, values[0].shape[1:]))
        return
    total = _sum(ctx, values)
    for k, blob in enumerate(ctx.outputs):
        blob.assign(total[k, ...], devices.of(values[k]))
