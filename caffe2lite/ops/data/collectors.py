"""Tensors and rows that are kept from run to run: vectors of tensors, the last rows, random ones."""

from __future__ import annotations

import contextlib
from typing import Any

from caffe2lite.ops.control.atomics import Mutex
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import MANY, operator


class TensorVector(Object):
    """A list of tensors."""

    type_name = "std::unique_ptr<std::vector<caffe2::Tensor> >"

    def __init__(self) -> None:
        self.tensors: list[Any] = []


def _vector(value: Any) -> TensorVector:
    if not isinstance(value, TensorVector):
        raise TypeError(f"a vector of tensors is needed (CreateTensorVector), found a {type(value).__name__}")
    return value


@operator("vector", stateful=True, gradient=FORBID_GRADIENT)
def CreateTensorVector(ctx):
    """An empty vector of tensors."""
    return TensorVector()


@operator("size", stateful=True, host="vector size", gradient=FORBID_GRADIENT)
def TensorVectorSize(ctx, vector, *, out):
    """size = how many tensors there are, int32."""
    Y = out((), "int32")
    Y[...] = len(_vector(vector).tensors)
    return Y


@operator("Y", stateful=True, host="vector", gradient=FORBID_GRADIENT)
def ConcatTensorVector(ctx, vector, *, out):
    """Y = the tensors one behind the other."""
    tensors = _vector(vector).tensors
    if not tensors:
        raise ValueError("the vector has no tensors")
    whole = ctx.xp.concatenate(tensors)
    Y = out(whole.shape, whole.dtype)
    Y[...] = whole
    return Y


@operator("vectors*", stateful=True, num_inputs=(2, MANY), num_outputs=(1, MANY), counts=lambda n, m: n == 2 * m, inplace=[(-1, -1)],
          gradient=FORBID_GRADIENT)  # fmt: skip
def CollectTensor(ctx, *operands, num_to_collect: int = -1):
    """Keep a copy of each tensor in its vector: of all that come, a random num_to_collect."""
    half = len(operands) // 2
    if ctx.outputs != ctx.inputs[:half]:
        raise ValueError("the outputs must be the vectors, the first half of the inputs")
    vectors, tensors = [_vector(v) for v in operands[:half]], operands[half:]
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
    return contextlib.nullcontext() if mutex is None else mutex.lock


def _rows(kept: Any, data: Any) -> None:
    if not data.ndim or (
        kept is not None and kept.size and (kept.shape[1:] != data.shape[1:] or kept.dtype != data.dtype)
    ):
        raise ValueError(
            f"the data must have rows like those kept, {kept.dtype}{list(kept.shape[1:])}; found "
            f"{data.dtype}{list(data.shape)}"
        )


def _infer_last(args: Any, inputs: Any) -> list[Spec | None]:
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
def LastNWindowCollector(ctx, last_n, next, data, mutex: Mutex = None, visited=None, *, num_to_collect: int = -1):
    """Keep the last num_to_collect rows of the data, in a ring; `next` is where the next one goes."""
    if num_to_collect <= 0:
        raise ValueError(f"num_to_collect must be above 0, found {num_to_collect}")
    with _locked(mutex):
        _rows(last_n, data)
        total, room = data.shape[0], num_to_collect
        if total >= room:  # the ring starts anew
            kept, after = ctx.xp.array(data[total - room :]), 0
        else:
            have = 0 if last_n is None else last_n.shape[0]
            begin = int(next)
            if next.size != 1 or not 0 <= begin <= min(have, room - 1):
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
