"""Shape inference: what an operator's outputs will be, from what its inputs are.

An inference function is called as `infer(args, inputs)`: the parsed arguments with their defaults, "#outputs" (how
many) and "#given" (the arguments that the operator names), and a `Spec` for each input, or UNKNOWN.  It returns a list
with a Spec or UNKNOWN for each output.  A function that asks for the shape of an UNKNOWN input ends there (NotKnown), and
nothing is known of the outputs; ValueError says that the operator would refuse to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, SupportsIndex, overload

import numpy as np


class Spec(NamedTuple):
    """Shape (ints), dtype name ("float32", "object" for strings, None if unknown) and, where known, values of a tensor."""

    shape: tuple[int, ...]
    dtype: str | None = "float32"
    values: tuple[int, ...] | None = None


class NotKnown(Exception):
    """What a shape depends on is not known."""


class Unknown:
    """In the place of a Spec: a tensor of which nothing is known."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"

    def _ask(self) -> NoReturn:
        raise NotKnown

    shape = dtype = values = property(_ask)

    def _replace(self, **fields: Any) -> NoReturn:
        raise NotKnown


UNKNOWN: Any = Unknown()  # to a type checker it is a Spec as well

Infer = Callable[[Mapping[str, Any], Sequence[Spec]], Sequence[Spec]]
Cost = Callable[[Mapping[str, Any], Sequence[Spec]], tuple[int, int, int]]


class Shape(tuple[int, ...]):
    """The shape of an input: to ask for a dimension that it has not is to find out that the operator would refuse it."""

    @overload
    def __getitem__(self, k: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[int, ...]: ...
    def __getitem__(self, k: SupportsIndex | slice) -> int | tuple[int, ...]:
        try:
            return super().__getitem__(k)
        except IndexError:
            raise ValueError(f"an input of shape {list(self)} has no dimension {k}") from None


def size_of(*specs: Spec) -> int:
    """Bytes of tensors."""
    return sum(math.prod(s.shape) * np.dtype(s.dtype or "float32").itemsize for s in specs)


def pointwise_cost(args: Mapping[str, Any], inputs: Sequence[Spec]) -> tuple[int, int, int]:
    """(FLOPs, bytes written, bytes read) of one operation for each input after the first, element by element."""
    most = max(inputs, key=lambda s: math.prod(s.shape))
    return (len(inputs) - 1) * math.prod(most.shape), size_of(most), size_of(*inputs)


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the operator names, without the defaults of others."""
    return {name: args[name] for name in args["#given"]}


def like(*sources: int | None, dtype: str | None = None) -> Infer:
    """Output k is as input `sources[k]` (None, or an input that is not there: UNKNOWN); with `dtype`, of that type instead."""

    def infer(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
        known = [inputs[i] if i is not None and i < len(inputs) else None for i in sources]
        return [UNKNOWN if spec is None else Spec(spec.shape, dtype or spec.dtype) for spec in known]

    return infer


def each_like(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
    """Every output is as the input of its position."""
    return list(inputs)


def unknown(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
    """No output can be known: the sizes depend on the values."""
    return [UNKNOWN] * args["#outputs"]


def scalar(dtype: str | None = None, shape: tuple[int, ...] = ()) -> Infer:
    """One output of a fixed shape, of the first input's dtype or the given one."""
    return lambda args, inputs: [Spec(shape, dtype or inputs[0].dtype)]
