"""The checks of tools/gpu_check.py: what is right (values), in order (order), among processes (processes), and fast (speed).

A check is a function without arguments: it returns what is worth telling, raises where something is wrong, and raises
`Skip` where this machine cannot tell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from caffe2lite import devices


class Skip(Exception):
    """This machine cannot tell: why."""


class Check(NamedTuple):
    """A check, and the group that it is told under."""

    group: str
    name: str
    run: Callable[[], Any]


def option(gpu: int) -> caffe2_pb2.DeviceOption:
    """The device option of a GPU."""
    return core.DeviceOption(caffe2_pb2.CUDA, gpu)


def run(
    kind: str, inputs: list[Any], outputs: int = 1, gpu: int = 0, host: tuple[int, ...] = (), **args: Any
) -> list[Any]:
    """The outputs of one operator on a GPU."""
    workspace.ResetWorkspace()
    names = [f"i{k}" for k in range(len(inputs))]
    for k, (name, value) in enumerate(zip(names, inputs)):
        workspace.FeedBlob(name, value, None if k in host else option(gpu))
    made = [f"o{k}" for k in range(outputs)]
    workspace.RunOperatorOnce(core.CreateOperator(kind, names, made, device_option=option(gpu), **args))
    return [workspace.FetchBlob(name) for name in made]


def several(least: int = 2) -> int:
    """How many GPUs there are; Skip where they are too few."""
    count = devices.gpu_count()
    if count < least:
        raise Skip(f"{least} GPUs are needed, and {count} is here" if count == 1 else f"{least} GPUs are needed")
    return count


def emulated() -> bool:
    """Whether the GPUs are emulated ones."""
    return devices.gpu_count() > 0 and devices.cuda_version() == 0


@contextlib.contextmanager
def refused(words: str) -> Iterator[None]:
    """What is within must be refused, in these words."""
    try:
        yield
    except Exception as e:
        if words not in str(e):
            raise AssertionError(f"refused in other words than {words!r}: {e}") from e
        return
    raise AssertionError(f"not refused: {words!r} was expected")


def close(have: Any, want: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """AssertionError where the values differ."""
    np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)
