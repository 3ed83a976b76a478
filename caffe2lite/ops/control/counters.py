"""Counters that the operators and threads of a plan share."""

from __future__ import annotations

import time
from typing import Any

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import Spec, scalar
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import operator
from caffe2lite.proto import caffe2_pb2


class Counter(Object):
    """A whole number that changes under a lock."""

    title = "a counter (CreateCounter makes one)"
    type_name = "std::unique_ptr<caffe2::Counter<long int> >"
    blob_type = "std::unique_ptr<Counter<int64_t>>"

    def __init__(self, count: int = 0) -> None:
        self._lock = locks.lock()
        self.count = count

    def up(self) -> int:
        """Add 1; what it was before."""
        with self._lock:
            self.count += 1
            return self.count - 1

    def down(self) -> bool:
        """Take 1 away; whether it was at 0 already."""
        with self._lock:
            self.count -= 1
            return self.count < 0

    def reset(self, count: int) -> int:
        """Set it; what it was before."""
        with self._lock:
            before, self.count = self.count, count
            return before

    def write(self, proto: Any) -> None:
        """Fill a BlobProto: the count as a tensor."""
        tensor = proto.tensor
        tensor.dims.append(1)
        tensor.data_type = caffe2_pb2.TensorProto.INT64
        tensor.name = proto.name
        tensor.int64_data.append(self.count)

    @classmethod
    def read(cls, proto: Any) -> Counter:
        """The counter of a BlobProto."""
        if len(proto.tensor.int64_data) != 1:
            raise TypeError("the counter's count is missing")
        return cls(proto.tensor.int64_data[0])


def _one(out: Any, value: Any, dtype: str) -> Any:
    Y = out((), dtype)
    Y[...] = value
    return Y


@operator("counter", stateful=True, gradient=FORBID_GRADIENT, limits="init_count >= 0")
def CreateCounter(ctx, *, init_count: int = 0):
    """A new counter that begins at init_count.

    counter; no tensors but the int64 within. ValueError where init_count is negative.
    """
    return Counter(init_count)


@operator("previous?", stateful=True, host="counter previous", gradient=FORBID_GRADIENT, limits="init_count >= 0")
def ResetCounter(ctx, counter, *, init_count: int = 0, out):
    """Set the counter to init_count; previous = its count before.

    counter -> previous, a scalar int64. ValueError where init_count is negative; TypeError where the input is no
    counter.
    """
    before = needed(Counter, counter).reset(init_count)
    return _one(out, before, "int64") if ctx.outputs else None


@operator("done", stateful=True, host="counter done", infer=scalar("bool"), gradient=FORBID_GRADIENT)
def CountDown(ctx, counter, *, out):
    """Count down; done = it was at 0 already.

    counter -> done, a scalar bool. TypeError where the input is no counter.
    """
    return _one(out, needed(Counter, counter).down(), "bool")


@operator("done", stateful=True, host="counter done", infer=scalar("bool"))
def CheckCounterDone(ctx, counter, *, out):
    """done = the counter is at 0.

    counter -> done, a scalar bool. TypeError where the input is no counter.
    """
    return _one(out, needed(Counter, counter).count <= 0, "bool")


@operator("previous", stateful=True, host="counter previous", infer=scalar("int64"), gradient=FORBID_GRADIENT)
def CountUp(ctx, counter, *, out):
    """Count up; previous = the count before.

    counter -> previous, a scalar int64. TypeError where the input is no counter.
    """
    return _one(out, needed(Counter, counter).up(), "int64")


@operator("count", stateful=True, host="counter count", infer=scalar("int64"), gradient=FORBID_GRADIENT)
def RetrieveCount(ctx, counter, *, out):
    """count = what the counter is at.

    counter -> count, a scalar int64. TypeError where the input is no counter.
    """
    return _one(out, needed(Counter, counter).count, "int64")


@operator("time", stateful=True, host="time", infer=lambda args, inputs: [Spec((), "int64")], gradient=FORBID_GRADIENT)
def WallClockTime(ctx, *, out):
    """time = nanoseconds since 1970.

    time, a scalar int64. There is no Error to expect.
    """
    return _one(out, time.time_ns(), "int64")
