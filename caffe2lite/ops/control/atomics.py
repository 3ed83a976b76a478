"""Mutexes, atomic flags and counters that threads of a plan share."""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import unknown
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.shapes import one


class Mutex(Object):
    """A lock."""

    title = "a mutex (CreateMutex makes one)"
    type_name = "std::unique_ptr<std::mutex>"
    blob_type = "std::unique_ptr<std::mutex>"

    def __init__(self) -> None:
        self.lock = locks.lock()

    def write(self, proto) -> None:
        proto.content = b""

    @classmethod
    def read(cls, proto):
        return cls()


class AtomicBool(Object):
    """A flag."""

    title = "an atomic flag (CreateAtomicBool makes one)"
    type_name = "std::unique_ptr<std::atomic<bool> >"

    def __init__(self) -> None:
        self.value = False


@operator("mutex_ptr", stateful=True, gradient=FORBID_GRADIENT)
def CreateMutex(ctx):
    """A new mutex.

    mutex_ptr; no tensors, of any type. There is no Error to expect.
    """
    return Mutex()


def _fetch_add(ctx, mutex_ptr, mut_value, increment, *, out):
    more = one(increment, "the increment")
    with needed(Mutex, mutex_ptr).lock:
        fetched = out[1]((), mut_value.dtype)
        fetched[...] = one(mut_value, "the value")
        total = out[0](mut_value.shape, mut_value.dtype)
        total[...] = fetched + more
    return total, fetched


for _name, _type, _gradient in (("AtomicFetchAdd", "int32", FORBID_GRADIENT), ("AtomicFetchAdd64", "int64", None)):
    operator(
        "mut_value fetched_value",
        name=_name,
        stateful=True,
        mutates={1: 0},
        types={"mut_value": _type, "increment": _type},
        gradient=_gradient,
        traits="under_mutex",
        doc=f"""Add the increment to the value, which no other holder of the mutex sees half done; tell the value before.

        mutex_ptr, mut_value [1] {_type}, increment [1] {_type} -> mut_value, fetched_value, a scalar {_type}.
        ValueError where value or increment is not one number; TypeError where the first input is no mutex.
        """,
    )(_fetch_add)


@operator("atomic_bool", stateful=True, gradient=FORBID_GRADIENT)
def CreateAtomicBool(ctx):
    """A new flag, false.

    atomic_bool; no tensors but the bool within. There is no Error to expect.
    """
    return AtomicBool()


@operator("", stateful=True, num_inputs=(2, 2), gradient=FORBID_GRADIENT)
def ConditionalSetAtomicBool(ctx, atomic_bool, condition):
    """Set the flag where the condition is true.

    atomic_bool, condition [1] bool -> no tensors. ValueError where the condition is not one bool; TypeError where the
    first input is no flag.
    """
    flag = needed(AtomicBool, atomic_bool)
    if condition.dtype != np.bool_ or condition.size != 1:
        raise ValueError(f"the condition must be one bool, found {condition.dtype}{list(condition.shape)}")
    if condition.reshape(-1)[0]:
        flag.value = True


@operator("value", stateful=True, gradient=FORBID_GRADIENT)
def CheckAtomicBool(ctx, atomic_bool, *, out):
    """The flag, a tensor of one element.

    atomic_bool -> value [1] bool. TypeError where the input is no flag.
    """
    value = out((1,), np.bool_)
    value[...] = needed(AtomicBool, atomic_bool).value
    return value


@operator(
    "Ys*",
    stateful=True,
    num_inputs=(3, MANY),
    num_outputs=(1, MANY),
    mutates=[(i + 1, i) for i in range(16)],
    gradient=FORBID_GRADIENT,
    infer=unknown,
    traits="under_mutex",
)
def AtomicAppend(ctx, mutex, *tensors):
    """Append the second half of the tensors to the first half, along axis 0, under the mutex.

    mutex, A [n, ...] for each output, B [m, ...] for each, of any type -> A [n + m, ...]. ValueError where the tensors
    are not pairs, or rows differ; TypeError where the first input is no mutex.
    """
    if len(tensors) % 2:
        raise ValueError(f"AtomicAppend takes a mutex and pairs of tensors, got {len(tensors)} tensors")
    half = len(tensors) // 2
    with needed(Mutex, mutex).lock:
        for name, blob, more in zip(ctx.op.output, ctx.outputs, tensors[half:]):  # all of them fit, or none is changed
            have = blob.value
            if (
                more.size
                and have.size
                and (have.dtype != more.dtype or have.shape[1:] != more.shape[1:] or not have.ndim)
            ):
                raise ValueError(
                    f"{more.dtype}{list(more.shape)} cannot be appended to {name!r}, {have.dtype}{list(have.shape)}"
                )
        for blob, more in zip(ctx.outputs, tensors[half:]):
            if more.size:
                have = blob.value
                blob.assign(np.concatenate([have, more]) if have.size else np.array(more))
