"""The registry of statistics: values put there, timers, export and update."""

from __future__ import annotations

import time
from typing import Any

from caffe2lite.ops.control.stats import StatRegistry, registry
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import operator

_LONG_MAX = (1 << 63) - 1


def _amount(value: Any, magnitude_expand: int, bound: bool, default_value: float | None) -> int:
    """Return the number that a Put operator adds: the first element, times magnitude_expand, as an integer."""
    if not value.size:
        if default_value is None:
            raise ValueError("the value is an empty tensor, and there is no default_value")
        number: Any = default_value
    else:
        number = value.item() if value.size == 1 else value.reshape(-1)[0].item()
    scaled = number * magnitude_expand
    if bound:
        if scaled != scaled:
            raise ValueError("the value is NaN")
        return int(max(-_LONG_MAX - 1, min(_LONG_MAX, scaled)))
    if not -_LONG_MAX - 1 <= scaled <= _LONG_MAX:
        raise ValueError(
            f"{number} times magnitude_expand={magnitude_expand} does not fit into 64 bits; bound=1 limits it"
        )
    return int(scaled)


def _average(state: Any, amount: int) -> dict[str, int]:
    return {"/sum": amount, "/count": 1}


def _increment(state: Any, amount: int) -> dict[str, int]:
    return {"": amount}


def _deviation(state: Any, amount: int) -> dict[str, int]:
    """Return sums of what is beyond the first value, from which the deviation follows."""
    if not hasattr(state, "first"):
        state.first = amount
    beyond = amount - state.first
    return {"/count": 1, "/sum": amount, "/sumoffset": beyond, "/sumsqoffset": beyond * beyond}


_SHARED = """value [1] of float32, float64 or any integers -> no tensors. The first element, times magnitude_expand, counts as int64;
an empty tensor as default_value. ValueError where it does not fit into 64 bits (but with `bound`), or is absent."""


def _put(name: str, counters: Any, doc: str) -> None:
    def kernel(
        ctx,
        value,
        *,
        stat_name: str = "",
        magnitude_expand: int = 1,
        bound: bool = False,
        default_value: float | None = None,
    ):
        title = (stat_name or ctx.op.input[0]) + "/stat_value"
        amount = _amount(value, magnitude_expand, bound, default_value)
        for ending, number in counters(ctx.state, amount).items():
            registry.add(title + ending, number)

    operator(
        name=name,
        stateful=True,
        types="float32 float64 int32 int64 int8 int16 uint8 uint16",
        host="value",
        doc=f"{doc}\n\n{_SHARED}",
    )(kernel)


_put("IncrementPut", _increment, "Add the value to a statistic.")
_put("AveragePut", _average, "Add the value to a sum, and 1 to a count.")
_put("StdDevPut", _deviation, "Add the value to a count, a sum, and sums of what is beyond the first value.")


# ---- the registry itself -----------------------------------------------------------------------------------------


def _registry(handle: Any) -> StatRegistry:
    return registry if handle is None else needed(StatRegistry, handle)


@operator("handle", stateful=True)
def StatRegistryCreate(ctx):
    """A new registry of statistics.

    handle; no tensors but the int64 counters within. There is no Error to expect.
    """
    return StatRegistry()


@operator("keys values timestamps", stateful=True, host="handle keys values timestamps")
def StatRegistryExport(ctx, handle=None, *, reset: bool = True, out):
    """Names, values and times of all statistics; with `reset` they begin at 0 again.

    handle, without which it is the process's own registry -> keys [S] string, values [S] int64, timestamps [S] int64,
    in ns. TypeError where the handle is no registry.
    """
    found = sorted(_registry(handle).publish(reset).items())
    keys, values, times = (o((len(found),), kind) for o, kind in zip(out, ("object", "int64", "int64")))
    for i, (name, (value, stamp)) in enumerate(found):
        keys[i], values[i], times[i] = name.encode(), value, stamp
    return keys, values, times


@operator(stateful=True, types={"keys": "string", "values": "int64"}, host="keys values handle")
def StatRegistryUpdate(ctx, keys, values, handle=None):
    """Add values to the statistics of these names.

    keys [S] string, values [S] int64, handle, without which it is the process's own registry -> no tensors. ValueError
    where the shapes differ; TypeError where the handle is no registry.
    """
    if keys.shape != values.shape:
        raise ValueError(f"one value for each key is needed, found {list(keys.shape)} and {list(values.shape)}")
    target = _registry(handle)
    for key, value in zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist()):
        target.add(key.decode("utf-8", "replace"), value)


# ---- timers ------------------------------------------------------------------------------------------------------


class Timer(Object):
    """A clock that has a name among the statistics."""

    title = "a timer (TimerBegin makes one)"
    type_name = "caffe2::TimerInstance*"

    def __init__(self, name: str) -> None:
        self.name = name
        self.start: int | None = time.perf_counter_ns()

    def elapsed(self) -> int:
        """Nanoseconds since it began."""
        if self.start is None:
            raise ValueError(f"the timer {self.name!r} has ended")
        return time.perf_counter_ns() - self.start

    def end(self) -> int:
        """Stop it, and add the time to the statistics."""
        nanos = self.elapsed()
        self.start = None
        registry.add(self.name + "/time_ns/sum", nanos)
        registry.add(self.name + "/time_ns/count", 1)
        return nanos


def _nanos(out: Any, nanos: int, shape: tuple[int, ...] = ()) -> Any:
    Y = out(shape, "int64")
    Y[...] = nanos
    return Y


@operator("timer", stateful=True)
def TimerBegin(ctx, *, counter_name: str = ""):
    """A running timer, named after its output if not by counter_name.

    timer; no tensors but the int64 nanoseconds within. There is no Error to expect.
    """
    return Timer(counter_name or ctx.op.output[0])


@operator(stateful=True, host="timer")
def TimerEnd(ctx, timer):
    """Stop the timer, and add its time to the statistics.

    timer -> no tensors; the statistics NAME/time_ns/sum and /count, int64, grow. ValueError where it has ended;
    TypeError where the input is no timer.
    """
    needed(Timer, timer).end()


@operator("nanos", stateful=True, host="timer nanos")
def TimerGet(ctx, timer, *, out):
    """nanos = the time since the timer began.

    timer -> nanos, a scalar int64. ValueError where it has ended; TypeError where the input is no timer.
    """
    return _nanos(out, needed(Timer, timer).elapsed())


@operator("nanos", stateful=True, host="timer nanos")
def TimerGetAndEnd(ctx, timer, *, out):
    """Stop the timer; nanos = its time, which also goes to the statistics.

    timer -> nanos [1] int64. ValueError where it has ended; TypeError where the input is no timer.
    """
    return _nanos(out, needed(Timer, timer).end(), (1,))
