"""Mutexes, atomic flags and counters that threads of a plan share."""

from __future__ import annotations

import threading

import numpy as np

from caffe2lite.ops.kit.gradient import FORBID_GRADIENT
from caffe2lite.ops.kit.infer import unknown
from caffe2lite.ops.kit.objects import Object
from caffe2lite.ops.kit.registry import MANY, operator


class Mutex(Object):
    """A lock."""

    type_name = "std::unique_ptr<std::mutex>"
    blob_type = "std::unique_ptr<std::mutex>"

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def write(self, proto) -> None:
        proto.content = b""

    @classmethod
    def read(cls, proto):
        return cls()


class AtomicBool(Object):
    """A flag."""

    type_name = "std::unique_ptr<std::atomic<bool> >"

    def __init__(self) -> None:
        self.value = False


@operator("mutex_ptr", stateful=True, gradient=FORBID_GRADIENT)
def CreateMutex(ctx):
    """A new mutex."""
    return Mutex()


def _fetch_add(ctx, mutex_ptr: Mutex, mut_value, increment, *, out):
    for what, tensor in (("value", mut_value), ("increment", increment)):
        if tensor.size != 1:
            raise ValueError(f"the {what} must be one number, got shape {list(tensor.shape)}")
    with mutex_ptr.lock:
        before = mut_value.reshape(-1)[0]
        fetched, total = out[1]((), mut_value.dtype), out[0](mut_value.shape, mut_value.dtype)
        fetched[...] = before
        total[...] = before + increment.reshape(-1)[0]
    return total, fetched


for _name, _type, _gradient in (("AtomicFetchAdd", "int32", FORBID_GRADIENT), ("AtomicFetchAdd64", "int64", None)):
    operator(
        "mut_value fetched_value",
        name=_name,
        stateful=True,
        mutates={1: 0},
        types={"mut_value": _type, "increment": _type},
        gradient=_gradient,
        doc="Add the increment to the value, which no other holder of the mutex sees half done; tell the value before.",
    )(_fetch_add)


@operator("atomic_bool", stateful=True, gradient=FORBID_GRADIENT)
def CreateAtomicBool(ctx):
    """A new flag, false."""
    return AtomicBool()


@operator("", stateful=True, num_inputs=(2, 2), gradient=FORBID_GRADIENT)
def ConditionalSetAtomicBool(ctx, atomic_bool: AtomicBool, condition):
    """Set the flag where the condition is true."""
    if condition.dtype != np.bool_ or condition.size != 1:
        raise ValueError("the condition must be one bool")
    if condition.reshape(-1)[0]:
        atomic_bool.value = True


@operator("value", stateful=True, gradient=FORBID_GRADIENT)
def CheckAtomicBool(ctx, atomic_bool: AtomicBool, *, out):
    """The flag as a bool tensor of one element."""
    value = out((1,), np.bool_)
    value[...] = atomic_bool.value
    return value


@operator(
    "Ys*",
    stateful=True,
    num_inputs=(3, MANY),
    num_outputs=(1, MANY),
    mutates=[(i + 1, i) for i in range(16)],
    gradient=FORBID_GRADIENT,
    infer=unknown,
)
def AtomicAppend(ctx, mutex: Mutex, *tensors):
    """Append the second half of the tensors to the first half, along axis 0, under the mutex."""
    if len(tensors) % 2:
        raise ValueError(f"AtomicAppend takes a mutex and pairs of tensors, got {len(tensors)} tensors")
    half = len(tensors) // 2
    with mutex.lock:
        for name, blob, more in zip(ctx.op.output, ctx.outputs, tensors[half:]):  # all of them fit, or none is changed
            have = blob.value
            if more.size and have.size and (have.dtype != more.dtype or have.shape[1:] != more.shape[1:] or not have.ndim):
                raise ValueError(
                    f"{more.dtype}{list(more.shape)} cannot be appended to {name!r}, {have.dtype}{list(have.shape)}"
                )
        for blob, more in zip(ctx.outputs, tensors[half:]):
            if more.size:
                have = blob.value
                blob.assign(np.concatenate([have, more]) if have.size else np.array(more))
