"""What all fills share: the shape to fill, and random values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from caffe2lite.ops.kit.arguments import Misplaced, read
from caffe2lite.ops.kit.dtypes import NAMES
from caffe2lite.ops.kit.infer import UNKNOWN, Infer, Spec


def shape_to_fill(
    X: np.ndarray, shape: Sequence[int], extra_shape: Sequence[int] = (), input_as_shape: bool = False
) -> tuple[int, ...]:
    """The argument `shape`, or the input's shape (or its values), with `extra_shape` behind it."""
    if X is None:
        if extra_shape:
            raise ValueError(
                f"extra_shape={list(extra_shape)} goes behind the shape of an input, and there is no input"
            )
        if input_as_shape:
            raise ValueError("input_as_shape is set, but there is no input to read the shape from")
        return tuple(read(shape))
    if shape and not isinstance(shape, Misplaced):
        raise ValueError(
            f"the shape comes either from the argument shape={list(shape)} or from the input, not from both"
        )
    if not input_as_shape:
        return (*X.shape, *extra_shape)
    if X.ndim != 1 or X.dtype.name != "int64":
        raise ValueError(f"a shape is expected in the input, int64[n], found {X.dtype}{list(X.shape)}")
    return (*map(int, X), *extra_shape)


def infer_fill(default: str | None) -> Infer:
    """Inference of a fill whose type is `default`, or what its argument `dtype` says."""

    def infer(args: Mapping[str, Any], inputs: Sequence[Spec]) -> list[Spec]:
        kind = NAMES.get(args["dtype"]) if args.get("dtype") else default
        if args.get("input_as_shape"):
            return [UNKNOWN]
        front = inputs[0].shape if inputs else tuple(args.get("shape") or ())
        return [Spec((*front, *(args.get("extra_shape") or ())), kind)]

    return infer


def draw(distribution: Callable[..., np.ndarray], Y: np.ndarray) -> None:
    """Fill Y with float32 of a generator's, without another array where that can be."""
    if isinstance(Y, np.ndarray) and Y.dtype == np.float32:
        distribution(out=Y, dtype=np.float32)
    else:
        Y[...] = distribution(Y.shape, dtype=np.float32)
