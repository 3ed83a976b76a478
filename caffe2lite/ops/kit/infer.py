"""Shape inference: what an operator's outputs will be, from what its inputs are.

An inference function is called as `infer(args, inputs)`: the parsed arguments with their defaults, "#outputs" (how
many) and "#given" (the arguments that the operator names), and a `Spec` for each input.  It returns a list with a Spec
for each output, or None for one that cannot be known.  An input of unknown shape is None: a function that asks for it
fails, and nothing is known of the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Infer = Callable[[Mapping[str, Any], Sequence["Spec"]], Sequence["Spec | None"]]


class Spec(NamedTuple):
    """Shape (ints) and dtype name ("float32", "object" for strings, None if unknown) of a tensor."""

    shape: tuple[int, ...]
    dtype: str | None = "float32"


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
    """Output k is as input `sources[k]` (None: not known); with `dtype`, of that type instead."""

    def infer(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec | None]:
        return [None if i is None else Spec(inputs[i].shape, dtype or inputs[i].dtype) for i in sources]

    return infer


def each_like(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
    """Every output is as the input of its position."""
    return list(inputs)


def unknown(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[None]:
    """No output can be known: the sizes depend on the values."""
    return [None] * args["#outputs"]


def scalar(dtype: str | None = None, shape: tuple[int, ...] = ()) -> Infer:
    """One output of a fixed shape, of the first input's dtype or the given one."""
    return lambda args, inputs: [Spec(shape, dtype or inputs[0].dtype)]
