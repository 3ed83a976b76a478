"""Errors of the engine: what failed, in which operator, and where the script added it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from caffe2lite.engine.blob import Blob
from caffe2lite.ops.kit.registry import Operator
from caffe2lite.ops.kit.signals import StopNet
from caffe2lite.proto import caffe2_pb2

__all__ = [
    "EngineError",
    "OperatorError",
    "StopNet",
    "UserCodeError",
    "describe",
    "explain",
    "operator_line",
]


class EngineError(RuntimeError):
    """A net, plan or blob that cannot be used as asked."""

    if sys.version_info < (3, 11):  # later Pythons have notes, and show them in tracebacks

        def add_note(self, note: str) -> None:
            self.__notes__ = [*getattr(self, "__notes__", ()), note]

        def __str__(self) -> str:
            return "\n".join([super().__str__(), *getattr(self, "__notes__", ())])


class OperatorError(EngineError):
    """An operator that cannot be created or has failed."""


class UserCodeError(Exception):
    """Carries an exception of a Python operator, which surfaces as itself."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def describe(value: object) -> str:
    """What a blob holds, in few words: `float32[2, 3]`."""
    if value is None:
        return "nothing"
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return type(value).__name__
    kind = "string" if value.dtype == object else str(value.dtype)
    place = "" if isinstance(value, np.ndarray) else f"@{getattr(value, 'device', 'gpu')}"
    return f"{kind}[{', '.join(map(str, value.shape))}]{place}"


def _is_object(value: object) -> bool:
    """Whether a blob holds something that is no tensor."""
    return value is not None and not hasattr(value, "dtype")


def _list(names: Sequence[str]) -> str:
    """Names for an error message, which must stay readable."""
    shown = list(names[:6])
    return ", ".join(shown + [f"… and {len(names) - 6} more"] if len(names) > 6 else shown)


def operator_line(op: caffe2_pb2.OperatorDef, inputs: Iterable[object] | None = None) -> str:
    """One line that shows an operator with what its inputs hold: `FC(x: float32[2, 3], w: float32[4, 5]) -> y`."""
    if inputs is None:
        left = _list(op.input)
    else:
        left = _list([f"{n}: {describe(v)}" for n, v in zip(op.input, inputs)])
    name = f" {op.name!r}" if op.name else ""
    device = (
        f" on device {op.device_option.device_type}:{op.device_option.device_id}"
        if op.device_option.device_type
        else ""
    )
    return f"{op.type}{name}({left}) -> {_list(op.output)}{device}"


class Failed(Protocol):
    """An operator that has failed, with its blobs."""

    op: caffe2_pb2.OperatorDef
    record: Operator
    inputs: list[Blob]


def explain(error: BaseException, instance: Failed, net: str = "") -> BaseException:
    """The exception to raise for one that a kernel raised: it says which operator, on what, in which net."""
    if isinstance(error, UserCodeError):
        return error.error
    if isinstance(error, OperatorError) or not isinstance(error, Exception):
        return error
    values = [b.value for b in instance.inputs]
    where = f" of net {net!r}" if net else ""
    text = str(error) or type(error).__name__
    objects = [f"{b.name!r} holds a {type(b.value).__name__}" for b in instance.inputs if _is_object(b.value)]
    if isinstance(error, AttributeError) and objects:
        text = f"input blob {', '.join(objects)}; a tensor is needed"
    elif isinstance(error, (LookupError, AttributeError, AssertionError, ArithmeticError)):
        record = instance.record
        formula = record.doc.partition("\n\n")[0]
        text = (
            f"inputs or arguments do not fit the operator ({type(error).__name__}: {text})\n"
            f"  {record.name}({', '.join(record.inputs)}): {' '.join(formula.split())}"
        )
    kind = type(error) if getattr(error, "surfaces", False) else OperatorError
    made = kind(f"{text}\n  enforce fail in {operator_line(instance.op, values)}{where}")
    made.__cause__ = error
    return made
