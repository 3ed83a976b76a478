"""Tensors and rows that are kept from run to run: vectors of tensors, the last rows, random ones."""

from __future__ import annotations

import contextlib
from typing import Any

from caffe2lite.ops.control.atomics import Mutex
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator


class TensorVector(Object):
    """A list of tensors."""

    title = "a vector of tensors (CreateTensorVector makes one)"
    type_name = "std::unique_ptr<std::vector<caffe2::Tensor> >"

    def __init__(self) -> None:
        self.tensors: list[Any] = []


@operator("vector", stateful=True, gradient=FORBID_GRADIENT)
def CreateTensorVector(ctx):
    """An empty vector of tensors.

    vector, which holds no tensors yet and takes any type. There is no Error to expect.
    """
    return TensorVector()


@operator("size", stateful=True, host="vector size", gradient=FORBID_GRADIENT)
def TensorVectorSize(ctx, vector, *, out):
    """size = how many tensors there are, int32.

    vector -> size, a scalar int32. TypeError where the input is no vector of tensors.
    """
    Y = out((), "int32")
    Y[...] = len(needed(TensorVector, vector).tensors)
    return Y


@operator("Y", stateful=True, host="vector", gradient=FORBID_GRADIENT)
def ConcatTensorVector(ctx, vector, *, out):
    """Y = the tensors one behind the other.

    vector of tensors [n, ...] of any type -> Y [sum of n, ...] of that type. ValueError where the vector is empty, or
    the tensors have rows of different shapes.
    """
    tensors = needed(TensorVector, vector).tensors
    if not tensors:
        raise ValueError("the vector is empty: there are no tensors to join")
    whole = ctx.xp.concatenate(tensors)
    Y = out(whole.shape, whole.dtype)
    Y[...] = whole
    return Y


@operator(
    "vectors*",
    stateful=True,
    num_inputs=(2, MANY),
    num_outputs=(1, MANY),
    counts=lambda n, m: n == 2 * m,
    inplace=[(-1, -1)],
    gradient=FORBID_GRADIENT,
)
def CollectTensor(ctx, *operands, num_to_collect: int = -1):
    """Keep a copy of each tensor in its vector: of all that come, a random num_to_collect.

    vectors, then a tensor [...] of any type for each of them -> the vectors. ValueError where the outputs are not the
    vectors; TypeError where one is no vector of tensors.

    J. Vitter, "Random sampling with a reservoir", 1985 (algorithm R).
    """
    half = len(operands) // 2
    if ctx.outputs != ctx.inputs[:half]:
        names = [list(ctx.op.input)[:half], list(ctx.op.output)]
        raise ValueError(f"the outputs must be the vectors, {names[0]}, the first half of the inputs; found {names[1]}")
    vectors, tensors = [needed(TensorVector, v) for v in operands[:half]], operands[half:]
    seen = ctx.state.seen = getattr(ctx.state, "seen", 0) + 1
    have = len(vectors[0].tensors)
    place = have if have < num_to_collect else int(ctx.rng.integers(0, seen))
    if place >= num_to_collect:
        return
    for vector, tensor in zip(vectors, tensors):
        kept = vector.tensors
        if place < len(kept):
            kept[place] = tensor.copy()
        else:
            kept.append(tensor.copy())


def _locked(mutex: Any) -> Any:
    return contextlib.nullcontext() if mutex is None else needed(Mutex, mutex).lock


def _rows(kept: Any, data: Any) -> None:
    if not data.ndim or (
        kept is not None
        and kept.shape[:1] != (0,)
        and (not kept.ndim or kept.shape[1:] != data.shape[1:] or kept.dtype != data.dtype)
    ):
        like = "" if kept is None else f" like those kept, {kept.dtype}{list(kept.shape[1:])}"
        raise ValueError(f"the data must have rows{like}; found {data.dtype}{list(data.shape)}")


def _infer_last(args: Any, inputs: Any) -> list[Spec]:
    data = inputs[2]
    return [Spec((args["num_to_collect"], *data.shape[1:]), data.dtype), Spec((), "int32"), Spec((1,), "int64")]


@operator(
    "last_n_out next_out visited_out?",
    stateful=True,
    mutates=[(0, 0), (1, 1), (4, 2)],
    num_inputs={3, 4, 5},
    types={"next": "int32", "visited": "int64"},
    host="next mutex visited next_out visited_out",
    uninitialised="last_n",
    infer=_infer_last,
    gradient=FORBID_GRADIENT,
    limits="num_to_collect > 0",
)
def LastNWindowCollector(ctx, last_n, next, data, mutex=None, visited=None, *, num_to_collect: int = -1):
    """Keep the last num_to_collect rows of the data, in a ring; `next` is where the next one goes.

    last_n [n, ...], which may hold nothing yet, next [] int32, data [N, ...] of last_n's type, any type; mutex; visited
    [1] int64, which counts all rows -> last_n, next, visited. ValueError where the rows differ, or num_to_collect is
    not above 0.
    """
    with _locked(mutex):
        _rows(last_n, data)
        total, room = data.shape[0], num_to_collect
        if total >= room:  # the ring starts anew
            kept, after = ctx.xp.array(data[total - room :]), 0
        else:
            have = 0 if last_n is None else last_n.shape[0]
            begin = int(next.reshape(-1)[0]) if next.size == 1 else -1
            if not 0 <= begin <= min(have, room - 1):
                raise ValueError(f"next must be a place among the {have} rows, or behind them, found {next.tolist()}")
            kept = ctx.xp.empty((min(have + total, room), *data.shape[1:]), data.dtype)
            if have:
                kept[:have] = last_n
            for i in range(total):
                kept[(begin + i) % room] = data[i]
            after = (begin + total) % room
        ctx.outputs[0].assign(kept, ctx.device)
        next[...] = after
        if visited is not None:
            visited += total
