"""Collectives between shards.  engine= GLOO, MPI and NCCL all name these operators; NCCL is meant between GPUs only.

Several blobs in one operator are the blobs of this shard's devices: the first one takes part for all of them, and
they get the same result.  All are written in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2lite.devices import HOST
from caffe2lite.distributed import collective, mpi
from caffe2lite.distributed.stores import StoreHandlerTimeoutError
from caffe2lite.distributed.world import WorldError
from caffe2lite.ops.collective.broadcasts import Batch
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
    ctx, kv_handler=None, *, size: int = -1, rank: int = -1, timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    mpi_rendezvous: bool = False, transport: str = "", interface: str = "", status_blob: str = "",
):  # fmt: skip
    """A world of `size` shards; kv_handler (FileStoreHandlerCreate, RedisStoreHandlerCreate) is where they meet without a launcher.

    This shard is `rank`.  `interface` is the network interface that MPI may use.
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
    """Another world of the same shards."""
    _agree(ctx, existing.world, None)
    return CommonWorldBlob(existing.world.clone(ctx.op.output[0]))


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
    """Close a world: nothing is sent over it any more."""
    common_world.world.close()


def _world(ctx) -> collective.CommonWorld:
    held = ctx.inputs[0].value
    if not isinstance(held, CommonWorldBlob):
        raise ValueError(f"the first input must be a common world (CreateCommonWorld), {ctx.op.input[0]!r} is none")
    return held.world


def _agree(ctx, world, first, **more) -> None:
    """In the first run of a net the ranks compare what they are about to do: all of the net, then each operator."""
    if world.size == 1 or getattr(ctx.state, "agreed", False):
        return
    _agree_on_net(ctx, world)
    world.compare([_line(ctx.op, first, **more)])
    ctx.state.agreed = True


def _agree_on_net(ctx, world) -> None:
    """Where this is the net's first collective of its common world, compare the names of all of them."""
    ours = (op for op in ctx.siblings if op.type in _COMPARED and op.input[0] == ctx.op.input[0])
    first_op = next(ours, ctx.op)
    if first_op.output == ctx.op.output and first_op.type == ctx.op.type:
        world.compare([_described(op) for op in (first_op, *ours)])


def _line(op, array, **more) -> str:
    kind = "" if array is None else f" {array.dtype}{list(array.shape)}"
    return f"{_described(op)}{kind}{''.join(f' {k}={v}' for k, v in more.items())}"


def _sent_together(ctx, world, root: int) -> bool:
    """Whether this Broadcast was, or now is, sent with those beside it."""
    batch = ctx.shared.get(("broadcasts", world.name))
    if batch is not None and batch.begin < ctx.position < batch.end:
        return batch.sent
    if batch is None or batch.begin != ctx.position:
        batch = ctx.shared["broadcasts", world.name] = _batch(ctx)
    batch.sent = False
    if batch.end - batch.begin < 2:
        return False
    lines = batch.describe(lambda op, array: _line(op, array, root=root))
    if lines is None:
        return False
    if lines:
        _agree_on_net(ctx, world)
        world.compare(lines)
    batch.run(world, root)
    batch.sent = True
    return True


def _batch(ctx) -> Batch:
    """The run of Broadcasts that this one begins, made once a net."""
    key = "broadcasts", ctx.position
    if key not in ctx.shared:
        ctx.shared[key] = Batch(ctx)
    return ctx.shared[key]


_COMPARED = frozenset({"CloneCommonWorld", "Broadcast", "Allreduce", "Reduce", "Allgather", "ReduceScatter", "Barrier"})


def _described(op) -> str:
    """The collective and its blob, without the scope of a device, which shards need not share."""
    if op.type == "CloneCommonWorld":
        return f"{op.type} {op.output[0]}"
    return f"{op.type} {op.input[1].rsplit('/', 1)[-1]}" if len(op.input) > 1 else op.type


def _tensor(ctx, i: int) -> Any:
    """The array of input i, which takes part."""
    blob = ctx.inputs[i]
    if not blob.is_tensor:
        raise ValueError(f"blob {ctx.op.input[i]!r} must hold a tensor before it takes part")
    if blob.value.dtype == object:
        raise ValueError(f"blob {ctx.op.input[i]!r} holds strings, which cannot be sent")
    return blob.value


def _link(ctx, world, gpu_direct: int = 0) -> Any:
    """How the first blob's memory takes part in the world."""
    device = ctx.inputs[1].device
    return world.link(device, nccl=device is not HOST and (ctx.op.engine == "NCCL" or bool(gpu_direct)))


def _guarded(ctx, action) -> Any:
    """What a collective returns; where it fails, no blob keeps half of it."""
    try:
        return action()
    except Exception:
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
    """The first blob of shard `root` comes to all blobs of all shards."""
    world = _world(ctx)
    if ctx.in_order and world.size > 1 and _sent_together(ctx, world, root):
        return
    first = _tensor(ctx, 1)
    for i in range(2, len(ctx.inputs)):
        _alike(ctx, i, first)
    _agree(ctx, world, first, root=root)
    _guarded(ctx, lambda: _link(ctx, world).broadcast(first, root))
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
    """The sum of all blobs of all shards comes to all of them."""
    world = _world(ctx)
    total = _local_sum(ctx)
    _agree(ctx, world, total)
    _guarded(ctx, lambda: _link(ctx, world, gpu_direct).allreduce(total))
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
    """The sum over all shards comes to shard `root`; the others' outputs are their own values."""
    world = _world(ctx)
    array = _tensor(ctx, 1)
    _agree(ctx, world, array, root=root)
    Y = out(array.shape, array.dtype)
    if Y is not array:
        ctx.device.copy(Y, array)
    _guarded(ctx, lambda: _output_link(ctx, world).reduce(Y, root))
    return Y


def _output_link(ctx, world) -> Any:
    """As `_link`, for arrays on the operator's own device."""
    return world.link(ctx.device, nccl=ctx.device is not HOST and ctx.op.engine == "NCCL")


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
    """The blobs of all shards, one after the other along axis 0."""
    world, device = _world(ctx), ctx.device
    first = _tensor(ctx, 1)
    count = len(ctx.inputs) - 1
    mine = first
    if count > 1 or not device.owns(first):
        mine = device.empty(count * first.size, first.dtype).reshape(count, *first.shape)
        for k in range(count):
            device.copy(mine[k], _alike(ctx, k + 1, first))
    _agree(ctx, world, mine)
    rows = count * (first.shape[0] if first.ndim else 1)
    Y = out((world.size * rows, *first.shape[1:]), first.dtype)
    _guarded(ctx, lambda: _output_link(ctx, world).allgather(mine, Y))
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
    """The sum over all shards; each blob begins with this shard's part of it, and what follows is undefined."""
    world = _world(ctx)
    total = _local_sum(ctx)
    _agree(ctx, world, total)
    if total.size % world.size:
        raise ValueError(f"{total.size} elements cannot be divided among {world.size} shards")
    _guarded(ctx, lambda: _link(ctx, world).reduce_scatter(total))
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
    """Wait until all shards are here."""
    world = _world(ctx)
    _agree(ctx, world, None)
    world.barrier()


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
    """Send a tensor to a shard; without raw_buffer its shape and type go before it."""
    world = _world(ctx)
    array = _tensor(ctx, 1)
    to, label = _number(dst_blob, dst), _number(tag_blob, tag)
    if not 0 <= to < world.size:
        raise ValueError(f"dst must be a rank within 0 to {world.size - 1}, got {to}")
    if not raw_buffer:
        head = np.array([array.dtype.num, array.ndim, *array.shape, *[0] * (14 - array.ndim)], np.int64)
        world.send(head, to, label)
    _link(ctx, world).send(array, to, label)


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
    """Receive a tensor, and who has sent it under which tag."""
    world = _world(ctx)
    source, label = _number(src_blob, src), _number(tag_blob, tag)
    blob = ctx.outputs[0]
    if not raw_buffer:
        head = np.empty(16, np.int64)
        source, label = world.receive(head, source, label)
        kinds = {np.dtype(k).num: np.dtype(k) for k in ("f4", "f8", "f2", "i4", "i8", "i1", "i2", "u1", "u2", "?")}
        if int(head[0]) not in kinds or not 0 <= head[1] <= 14:
            raise ValueError("what was received is no tensor's head: the sender must use the same raw_buffer")
        blob.resize(tuple(int(d) for d in head[2 : 2 + int(head[1])]), kinds[int(head[0])], ctx.device)
    link = world.link(blob.device, nccl=blob.device is not HOST and ctx.op.engine == "NCCL")
    source, label = _guarded(ctx, lambda: link.receive(blob.value, source, label))
    for output, number in ((ctx.outputs[1], source), (ctx.outputs[2], label)):
        output.resize((1,), np.int32)[...] = number
