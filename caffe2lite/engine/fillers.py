"""Random values for the inputs of a net that is only to run, not to compute something."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.proto import caffe2_pb2

_TYPES = {"float": "f4", "double": "f8", "int": "i4", "long": "i8", "unsigned char": "u1", "bool": "u1"}


def fill(
    workspace: Workspace,
    net: caffe2_pb2.NetDef,
    dims: Sequence[Sequence[Sequence[int]]],
    types: Sequence[Sequence[str]],
) -> None:
    """Feed every input that no earlier operator of the net makes.

    dims, types    for each operator that has such inputs, shapes and names of types ("float", "long") of these
    """
    made: set[str] = set()
    wanted = []
    for op in net.op:
        missing = [name for name in op.input if name not in made]
        if missing:
            wanted.append((op, missing))
        made.update(missing)
        made.update(op.output)
    if not len(dims) == len(types) == len(wanted):
        raise EngineError(
            f"net {net.name!r} has {len(wanted)} operators with inputs to fill; shapes are given for {len(dims)}, types "
            f"for {len(types)}"
        )
    rng = np.random.default_rng()
    for (op, names), shapes, kinds in zip(wanted, dims, types):
        if not len(shapes) == len(kinds) == len(names):
            raise EngineError(
                f"operator {op.type} has {len(names)} inputs to fill ({', '.join(names)}); {len(shapes)} shapes and "
                f"{len(kinds)} types are given"
            )
        for name, value in zip(names, _values(op, names, shapes, kinds, rng)):
            workspace.feed(name, value)


def _values(
    op: caffe2_pb2.OperatorDef,
    names: Sequence[str],
    shapes: Sequence[Sequence[int]],
    kinds: Sequence[str],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Random tensors: indices that are rows of the data, lengths that add up to the number of indices."""
    slots = registry.find(op.type).inputs
    meaning = {name: slots[min(i, len(slots) - 1)] for i, name in enumerate(op.input)} if slots else {}
    size = {meaning.get(name): tuple(int(d) for d in shape) for name, shape in zip(names, shapes)}
    values = []
    for name, shape, kind in zip(names, shapes, kinds):
        if kind not in _TYPES:
            raise EngineError(f"filler does not support type {kind}: one of {', '.join(_TYPES)}")
        dtype, shape = np.dtype(_TYPES[kind]), tuple(int(d) for d in shape)
        what = meaning.get(name)
        if dtype.kind == "f":
            value: np.ndarray = rng.random(shape)
        elif what == "lengths" and len(shape) == 1 and shape[0]:
            total = size.get("indices", size.get("data", (0,)))[0]
            value = np.full(shape, total // shape[0])
            value[: total % shape[0]] += 1
        else:
            rows = size["data"][0] if what == "indices" and "data" in size else 2
            value = rng.integers(0, max(rows, 1), shape)
        values.append(value.astype(dtype))
    return values
