"""Counters of iterations, which live in host memory on every device."""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.control.atomics import Mutex
from caffe2lite.ops.control.stats import registry
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.ops.kit.objects import needed
from caffe2lite.ops.kit.registry import operator


def _next(counter: Any) -> Any:
    if counter.size != 1:
        raise ValueError(f"an iteration counter is one int64, found the shape {list(counter.shape)}")
    counter += 1
    return counter


@operator("Y", stateful=True, types="int64", host="iter Y", mutates={0: 0}, gradient=NO_GRADIENT,
          infer=lambda args, inputs: [Spec((1,), "int64")])  # fmt: skip
def Iter(ctx, iter=None):
    """Y = Y + 1; it starts at 0 where there was none.

    Y [1], int64, in host memory.  ValueError where it does not hold one value.
    """
    blob = ctx.outputs[0]
    if iter is None:
        if blob.storage is None:
            blob.resize((1,), "int64")[...] = 0
        iter = blob.value
    return _next(iter)


@operator(
    "Y",
    stateful=True,
    types={"iter": "int64"},
    host="mutex iter Y",
    mutates={1: 0},
    gradient=NO_GRADIENT,
    infer=lambda args, inputs: [Spec((1,), "int64")],
    traits="under_mutex",
)
def AtomicIter(ctx, mutex, iter):
    """Y = Y + 1, under the lock `mutex`; the statistic atomic_iter/stats/Y/num_iter counts the runs.

    iter and Y [1], int64, in host memory.  ValueError where it does not hold one value.
    """
    registry.add(f"atomic_iter/stats/{ctx.op.input[1]}/num_iter", 1)
    with needed(Mutex, mutex).lock:
        return _next(iter)
