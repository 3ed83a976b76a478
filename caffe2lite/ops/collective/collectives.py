"""Collectives between shards.  engine= GLOO, MPI and NCCL all name these operators; NCCL is meant between GPUs only.

Several blobs in one operator are the blobs of this shard's devices: the first one takes part for all of them, and
they get the same result.  All are written in place.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.devices import HOST
from caffe2lite.distributed import collective, mpi
from caffe2lite.distributed.calls import Call, Disagreement, Identity
from caffe2lite.distributed.stores import StoreHandlerTimeoutError
from caffe2lite.distributed.world import WorldError
from caffe2lite.ops.collective.batches import Batch
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.signals import StopNet

_IN_PLACE = [(i + 1, i) for i in range(64)]
_DEFAULT_TIMEOUT_MS = 30_000


def _with_status(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """As in Caffe2: with a status blob, peers that do not answer put 1 into it and stop the net."""

    @functools.wraps(kernel)
    def reporting(ctx, *inputs, **args):
        name = args.get("status_blob")
        if not name:
            return kernel(ctx, *inputs, **args)
        status = ctx.workspace.create_blob(name)
        try:
            return kernel(ctx, *inputs, **args)
        except (WorldError, StoreHandlerTimeoutError) as e:
            status.resize((1,), np.dtype(np.int32))[...] = 1
            raise StopNet(f"{e}; status blob {name!r} tells") from e

    return reporting


class CommonWorldBlob(Object):
    """A common world in a blob."""

    type_name = "std::shared_ptr<gloo::Context>"

    def __init__(self, world: collective.CommonWorld) -> None:
        self.world = world


@operator(
    "comm_world",
    stateful=True,
    blocking=True,
    num_inputs=(0, 1),
    num_outputs=(1, 1),
    gradient=FORBID_GRADIENT,
    traits="common_world",
)
@_with_status
def CreateCommonWorld(
    ctx,
    kv_handler=None,
    *,
    size: int = -1,
    rank: int = -1,
    timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    mpi_rendezvous: bool = False,
    transport: str = "",
    interface: str = "",
    status_blob: str = "",
):
    """A world of `size` shards; kv_handler (FileStoreHandlerCreate, RedisStoreHandlerCreate) is where they meet without a launcher.

    This shard is `rank`.  `interface` is the network interface that MPI may use.

    No tensors, any dtype: the world is a blob of its own kind.  WorldError where shards do not meet within
    timeout_ms, or not as many as `size`; with status_blob that blob [1] (int32) is 1 instead, and the net stops.
    """
    if size < 0 or rank < 0:
        from caffe2lite.distributed import world

        started = world.get(None, 0, 2, timeout_ms / 1000)
        size, rank = started.comm.Get_size(), started.comm.Get_rank()
    store = None if kv_handler is None else kv_handler.store
    return CommonWorldBlob(mpi.create(ctx.op.output[0], rank, size, store, timeout_ms / 1000, interface))


@operator(
    "comm_world",
    stateful=True,
    blocking=True,
    num_inputs=(1, 1),
    num_outputs=(1, 1),
    gradient=FORBID_GRADIENT,
    traits="common_world",
)
@_with_status
def CloneCommonWorld(ctx, existing, *, status_blob: str = ""):
    """Another world of the same shards.

    No tensors, any dtype: both worlds are blobs of their own kind.  ValueError where `existing` is no world; WorldError
    where shards clone different ones.
    """
    world = _world(ctx)
    world.barrier(_call(ctx, world))
    return CommonWorldBlob(world.clone(ctx.op.output[0]))


@operator(
    "common_world",
    stateful=True,
    num_inputs=(1, 1),
    num_outputs=(1, 1),
    mutates={0: 0},
    gradient=FORBID_GRADIENT,
    traits="common_world",
)
def DestroyCommonWorld(ctx, common_world):
    """Close a world: nothing is sent over it any more.

    No tensors, any dtype: the world is a blob of its own kind.  ValueError where there is none.
    """
    _world(ctx).close()


def _world(ctx) -> collective.CommonWorld:
    held = ctx.inputs[0].value
    if not isinstance(held, CommonWorldBlob):
        raise ValueError(f"the first input must be a common world (CreateCommonWorld), {ctx.op.input[0]!r} is none")
    return held.world


def _call(ctx, world, array=None, **more) -> Call:
    """Who this collective is, in this run of its net."""
    kind = None if array is None else (array.shape, array.dtype)
    known = ctx.state.__dict__.get("call")
    if known is None or known[0] is not world or known[1] != kind:
        line = _line(array, **more)
        known = ctx.state.call = world, kind, _identity(ctx, world, lambda: [line])
    return Call(known[2], ctx.progress.runs, ctx.shared)


def _identity(ctx, world, lines) -> Identity:
    """What the ranks must have alike.  `lines` say what is sent."""
    if not ctx.progress.net:
        return Identity(world.name, f"{_described(ctx.op)}, run by itself", lines)
    numbers = ctx.shared.get(("collectives", world.name))
    if numbers is None:  # other operators may stand between them on some ranks
        ours = [i for i, op in enumerate(ctx.siblings) if op.type in _COLLECTIVES and op.input[0] == ctx.op.input[0]]
        numbers = ctx.shared["collectives", world.name] = {i: n for n, i in enumerate(ours)}
    net = ctx.progress.net
    place = f"collective {numbers[ctx.position]} of net {net!r}"
    return Identity(world.name, _described(ctx.op), lines, place, net, ctx.in_order)


def _line(array, **more) -> str:
    kind = [] if array is None else [f"{array.dtype}{list(array.shape)}"]
    return " ".join([*kind, *(f"{k}={v}" for k, v in more.items())])


def _sent_together(ctx, world, **root: int) -> bool:
    """Whether this collective was, or now is, sent with those of its kind beside it."""
    batch = ctx.shared.get(world)
    if batch is not None and batch.begin < ctx.position < batch.end:
        return batch.sent
    if not ctx.in_order or world.size == 1 or not ctx.progress.net:
        return False
    if batch is None or batch.begin != ctx.position:
        batch = ctx.shared[world] = _batch(ctx)
    batch.sent = False
    if batch.end - batch.begin < 2:
        return False
    lines = batch.describe(lambda op, array: f"{_described(op)} {_line(array, **root)}")
    if lines is None:
        return False
    if lines or batch.identity is None:
        batch.identity = _identity(ctx, world, lambda: lines)
    batch.run(world, Call(batch.identity, ctx.progress.runs, ctx.shared), root.get("root", 0))
    batch.sent = True
    return True


def _batch(ctx) -> Batch:
    """The run of collectives that this one begins, made once a net."""
    key = "batch", ctx.position
    if key not in ctx.shared:
        ctx.shared[key] = Batch(ctx)
    return ctx.shared[key]


_COLLECTIVES = frozenset(
    {"CloneCommonWorld", "Broadcast", "Allreduce", "Reduce", "Allgather", "ReduceScatter", "Barrier"}
)
_DEVICE_SCOPE = re.compile(r"(?:^|(?<=/))(?:gpu|cpu|hip)_\d+/")  # which shards need not share


def _described(op) -> str:
    """The collective and its blob, without the scopes of devices."""
    blob = op.output[0] if op.type == "CloneCommonWorld" else op.input[1] if len(op.input) > 1 else ""
    return f"{op.type}({_DEVICE_SCOPE.sub('', blob)})"


def _tensor(ctx, i: int) -> Any:
    """The array of input i, which takes part."""
    blob = ctx.inputs[i]
    if not blob.is_tensor:
        raise ValueError(f"blob {ctx.op.input[i]!r} must hold a tensor before it takes part")
    if blob.value.dtype == object:
        raise ValueError(f"blob {ctx.op.input[i]!r} holds strings, which cannot be sent")
    return blob.value


def _link(ctx, world, gpu_direct: int = 0) -> tuple[Any, dict[str, str]]:
    """How the first blob's memory takes part in the world, and what of that the ranks must have alike."""
    device = ctx.inputs[1].device
    return _linked(world, device, ctx.op.engine == "NCCL" or bool(gpu_direct))


def _linked(world, device, nccl: bool) -> tuple[Any, dict[str, str]]:
    if device is HOST:
        return world.link(device, nccl=False), {}
    return world.link(device, nccl=nccl), {"over": "NCCL"} if nccl and device.nccl else {}


def _guarded(ctx, action) -> Any:
    """What a collective returns; where it fails, no blob keeps half of it."""
    try:
        return action()
    except Exception as e:
        if not isinstance(e, Disagreement) or len(ctx.inputs) > 2:  # else nothing was written yet
            for blob in ctx.outputs:
                blob.reset()
        raise


def _alike(ctx, i: int, first: Any) -> Any:
    """The array of input i, which must be as the first one."""
    array = _tensor(ctx, i)
    if array.shape != first.shape or array.dtype != first.dtype:
        raise ValueError(
            f"blobs of one operator must be alike: {ctx.op.input[i]!r} is {array.dtype}{list(array.shape)}, "
            f"{ctx.op.input[1]!r} is {first.dtype}{list(first.shape)}"
        )
    return array


def _share(ctx, first: Any) -> None:
    """The other blobs of this shard get the first one's values."""
    for i in range(2, len(ctx.inputs)):
        ctx.inputs[i].device.copy(_alike(ctx, i, first), first)


@operator(
    "X*",
    stateful=True,
    blocking=True,
    peer="any",
    anywhere="Xs",
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    mutates=_IN_PLACE,
    gradient=FORBID_GRADIENT,
    traits="collective rooted to_all",
)
@_with_status
def Broadcast(ctx, comm_world, *Xs, root: int = 0, timeout_ms: int = 0, status_blob: str = ""):
    """The first blob of shard `root` comes to all blobs of all shards.

    A world, Xs [...] of one shape and one dtype (any dtype but strings) on all shards.  ValueError where blobs differ
    or hold no numbers; WorldError where shards differ in what they do, or one is gone.
    """
    world = _world(ctx)
    if _sent_together(ctx, world, root=root):
        return
    first = _tensor(ctx, 1)
    for i in range(2, len(ctx.inputs)):
        _alike(ctx, i, first)
    link, over = _link(ctx, world)
    _guarded(ctx, lambda: link.broadcast(_call(ctx, world, first, root=root, **over), first, root))
    _share(ctx, first)


@operator(
    "X*",
    stateful=True,
    blocking=True,
    peer="any",
    anywhere="Xs",
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    mutates=_IN_PLACE,
    gradient=FORBID_GRADIENT,
    traits="collective to_all",
)
@_with_status
def Allreduce(ctx, comm_world, *Xs, gpu_direct: int = 0, timeout_ms: int = 0, status_blob: str = ""):
    """The sum of all blobs of all shards comes to all of them.

    A world, Xs [...] of one shape and one dtype (any dtype but strings) on all shards.  ValueError where blobs differ
    or hold no numbers; WorldError where shards differ in what they do, or one is gone.
    """
    world = _world(ctx)
    if _sent_together(ctx, world):
        return
    total = _local_sum(ctx)
    link, over = _link(ctx, world, gpu_direct)
    _guarded(ctx, lambda: link.allreduce(_call(ctx, world, total, **over), total))
    _share(ctx, total)


def _local_sum(ctx) -> Any:
    """The sum of this shard's blobs, in the memory of the first one."""
    total, home = _tensor(ctx, 1), ctx.inputs[1].device
    for i in range(2, len(ctx.inputs)):
        other = _alike(ctx, i, total)
        with home.context():
            if ctx.inputs[i].device is not home:
                part = home.empty(other.size, other.dtype).reshape(other.shape)
                home.copy(part, other)
                other = part
            home.xp.add(total, other, out=total)
    return total


@operator(
    "Y",
    stateful=True,
    blocking=True,
    anywhere="X",
    num_inputs=(2, 2),
    inplace={1: 0},
    gradient=FORBID_GRADIENT,
    traits="collective rooted",
)
def Reduce(ctx, comm_world, X, *, root: int = 0, timeout_ms: int = 0, out):
    """The sum over all shards comes to shard `root`; the others' outputs are their own values.

    A world, X [...] of one shape and one dtype (any dtype but strings) on all shards, Y as X.  ValueError where X
    holds no numbers; WorldError where shards differ in what they do, or one is gone.
    """
    world = _world(ctx)
    array = _tensor(ctx, 1)
    Y = out(array.shape, array.dtype)
    if Y is not array:
        ctx.device.copy(Y, array)
    link, over = _output_link(ctx, world)
    _guarded(ctx, lambda: link.reduce(_call(ctx, world, array, root=root, **over), Y, root))
    return Y


def _output_link(ctx, world) -> tuple[Any, dict[str, str]]:
    """As `_link`, for arrays on the operator's own device."""
    return _linked(world, ctx.device, ctx.op.engine == "NCCL")


@operator(
    "Y",
    stateful=True,
    blocking=True,
    anywhere="Xs",
    num_inputs=(2, MANY),
    num_outputs=(1, 1),
    gradient=FORBID_GRADIENT,
    traits="collective",
)
def Allgather(ctx, comm_world, *Xs, timeout_ms: int = 0, out):
    """The blobs of all shards, one after the other along axis 0.

    A world, n Xs [N, ...] of one shape and one dtype (any dtype but strings) on all shards, Y [shards * n * N, ...].
    ValueError where blobs differ or hold no numbers; WorldError where shards differ in what they do, or one is gone.
    """
    world, device = _world(ctx), ctx.device
    first = _tensor(ctx, 1)
    count = len(ctx.inputs) - 1
    mine = first
    if count > 1 or not device.owns(first):
        mine = device.empty(count * first.size, first.dtype).reshape(count, *first.shape)
        for k in range(count):
            device.copy(mine[k, ...], _alike(ctx, k + 1, first))
    rows = count * (first.shape[0] if first.ndim else 1)
    Y = out((world.size * rows, *first.shape[1:]), first.dtype)
    link, over = _output_link(ctx, world)
    _guarded(ctx, lambda: link.allgather(_call(ctx, world, mine, **over), mine, Y))
    return Y


@operator(
    "X*",
    stateful=True,
    blocking=True,
    anywhere="Xs",
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    mutates=_IN_PLACE,
    gradient=FORBID_GRADIENT,
    traits="collective",
)
@_with_status
def ReduceScatter(ctx, comm_world, *Xs, timeout_ms: int = 0, status_blob: str = ""):
    """The sum over all shards; each blob begins with this shard's part of it, and what follows is undefined.

    A world, Xs [...] of one shape and one dtype (any dtype but strings) on all shards.  ValueError where blobs differ
    or hold no numbers, or their size is no multiple of the number of shards; WorldError where shards differ in what
    they do.
    """
    world = _world(ctx)
    total = _local_sum(ctx)
    link, over = _link(ctx, world)
    _guarded(ctx, lambda: link.reduce_scatter(_call(ctx, world, total, **over), total))
    _share(ctx, total)


@operator(
    "",
    stateful=True,
    blocking=True,
    num_inputs=(1, 1),
    num_outputs=(0, MANY),
    gradient=FORBID_GRADIENT,
    traits="collective",
)
@_with_status
def Barrier(ctx, comm_world, *, timeout_ms: int = 0, status_blob: str = ""):
    """Wait until all shards are here.

    A world; no tensors, any dtype.  WorldError where a shard is gone or does something else.
    """
    world = _world(ctx)
    world.barrier(_call(ctx, world))


def _number(blob_value, default: int) -> int:
    return default if blob_value is None else int(blob_value.reshape(-1)[0])


@operator(
    "",
    stateful=True,
    blocking=True,
    anywhere="X",
    host="dst_blob tag_blob",
    num_inputs=(2, 4),
    num_outputs=(0, 0),
    gradient=FORBID_GRADIENT,
    traits="paired",
)
def SendTensor(
    ctx, comm_world, X, dst_blob=None, tag_blob=None, *, dst: int = -1, tag: int = 0, raw_buffer: bool = False
):
    """Send a tensor to a shard.

    A world, X [...] (any dtype but strings), dst_blob and tag_blob [1] (int32) in the place of the arguments.
    ValueError where dst is no rank or X holds no numbers.
    """
    world = _world(ctx)
    array = _tensor(ctx, 1)
    to, label = _number(dst_blob, dst), _number(tag_blob, tag)
    if not 0 <= to < world.size:
        raise ValueError(f"dst must be a rank within 0 to {world.size - 1}, got {to}")
    number = world.announce(array, to, label)
    _link(ctx, world)[0].send(array, to, number)


@operator(
    "Y src tag",
    stateful=True,
    blocking=True,
    num_inputs=(2, 4),
    num_outputs=(3, 3),
    mutates={1: 0},
    host="src_blob tag_blob src tag",
    gradient=FORBID_GRADIENT,
    traits="paired",
)
def ReceiveTensor(
    ctx, comm_world, Y, src_blob=None, tag_blob=None, *, src: int = -1, tag: int = -1, raw_buffer: bool = False
):
    """Receive a tensor, and who has sent it under which tag; with raw_buffer into one that is like it.

    A world, Y [...] (any dtype but strings), src and tag [1] (int32), src_blob and tag_blob [1] in the place of the
    arguments.  ValueError where with raw_buffer Y is not as what comes; WorldError where nothing comes.
    """
    world = _world(ctx)
    blob = ctx.outputs[0]
    message = world.expect(_number(src_blob, src), _number(tag_blob, tag))
    if not raw_buffer:
        blob.resize(message.shape, message.dtype, ctx.device)
    elif (message.shape, message.dtype) != (blob.value.shape, blob.value.dtype):
        raise ValueError(
            f"with raw_buffer, blob {ctx.op.output[0]!r} must be as what comes: it is {_line(blob.value)}, and rank "
            f"{message.source} has sent {message.dtype}{list(message.shape)}"
        )
    link, _ = _linked(world, blob.device, ctx.op.engine == "NCCL")
    _guarded(ctx, lambda: link.receive(blob.value, message.source, message.number))
    for output, number in ((ctx.outputs[1], message.source), (ctx.outputs[2], message.tag)):
        output.resize((1,), np.int32)[...] = number
