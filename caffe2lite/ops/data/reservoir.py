"""A sample of bounded size from a stream of which nobody knows the length."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.control.atomics import Mutex
from caffe2lite.ops.kit.infer import UNKNOWN
from caffe2lite.ops.kit.objects import needed
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, operator
from caffe2lite.ops.sparse.indices import Map


@operator(
    "reservoir num_visited object_to_pos? pos_to_object?",
    stateful=True,
    num_inputs={4, 7},
    num_outputs={2, 4},
    counts=lambda n, m: (n, m) in ((4, 2), (7, 4)),
    mutates={0: 0, 1: 1, 5: 2, 6: 3},
    types={"num_visited": "int64", "object_id": "int64", "pos_to_object": "int64"},
    host="reservoir num_visited data object_id pos_to_object",
    infer=lambda args, inputs: [UNKNOWN, inputs[1], UNKNOWN, UNKNOWN],
    uninitialised="reservoir",
    gradient=FORBID_GRADIENT,
    limits="num_to_collect > 0",
)
def ReservoirSampling(
    ctx,
    reservoir,
    num_visited,
    data,
    mutex,
    object_id=None,
    object_to_pos=None,
    pos_to_object=None,
    *,
    num_to_collect: int,
):
    """Keep up to num_to_collect rows of all data that ever came, each with the same probability.

    With identifiers a row counts only where its identifier is neither in the reservoir nor twice in the data; a map
    tells the row of each identifier, and a vector the identifier of each row.  An empty reservoir begins anew.

    reservoir [n, ...] like the data, or nothing yet, num_visited [1] int64, data [N, ...] of any type, mutex, object_id
    [N] int64, object_to_pos, a map from int64 to int32, pos_to_object [n] int64 -> the reservoir and what goes with it.
    ValueError where rows or numbers do not fit together, or num_to_collect is not above 0; TypeError where there is no
    map or mutex.

    J. Vitter, "Random sampling with a reservoir", 1985 (algorithm R).
    """
    for what, rows in (("data", data), ("reservoir", reservoir), ("pos_to_object", pos_to_object)):
        if rows is not None and rows.ndim < 1:
            raise ValueError(f"the {what} must have rows, got a scalar")
    if object_id is not None:
        needed(Map, object_to_pos)
    with needed(Mutex, mutex).lock:
        if num_visited.size != 1 or num_visited.item() < 0:
            raise ValueError(f"num_visited must be one number from 0, got {num_visited.tolist()}")
        if object_id is not None and object_id.shape != (len(data),):
            raise ValueError(
                f"one identifier for each of the {len(data)} rows is needed, got the shape {list(object_id.shape)}"
            )
        if reservoir is None or not reservoir.size or reservoir.flat[0] is None:  # None: a record that was saved
            reservoir = data[:0]
            num_visited[...] = 0
            if object_id is not None:
                object_to_pos.items.clear()
                pos_to_object = pos_to_object[:0]
        visited = _visited(reservoir, num_visited, data, num_to_collect)
        rows = np.arange(len(data)) if object_id is None else _fresh(object_id, object_to_pos)
        order = visited + np.arange(len(rows))
        drawn = ctx.device.to_host(ctx.rng.random(len(rows))) * (order + 1)
        at = np.where(order < num_to_collect, order, drawn.astype(np.int64))
        rows, at = rows[at < num_to_collect], at[at < num_to_collect]

        reservoir = _grown(reservoir, at.max(initial=-1) + 1)
        reservoir[at] = data[rows]  # of several for one place the last stays
        ctx.outputs[0].assign(reservoir)
        num_visited += len(order)
        if object_id is not None:
            pos_to_object = _grown(pos_to_object, len(reservoir))
            for place, row in zip(at.tolist(), rows.tolist()):
                if object_to_pos.items.get(int(pos_to_object[place])) == place:
                    del object_to_pos.items[int(pos_to_object[place])]
                pos_to_object[place] = object_id[row]
                object_to_pos.items[int(object_id[row])] = place
            ctx.outputs[3].assign(pos_to_object)


def _visited(reservoir: Any, num_visited: Any, data: Any, most: int) -> int:
    """How many rows have come before; raises where reservoir, number and data do not fit together."""
    if reservoir.shape[1:] != data.shape[1:] or reservoir.dtype != data.dtype:
        raise ValueError(
            f"the reservoir has rows of {reservoir.dtype}{list(reservoir.shape[1:])}, "
            f"and the data of {data.dtype}{list(data.shape[1:])}"
        )
    visited = num_visited.item()
    if len(reservoir) < min(visited, most):
        raise ValueError(f"the reservoir has {len(reservoir)} rows, of {visited} visited and {most} to collect")
    return visited


def _fresh(object_id: Any, object_to_pos: Any) -> Any:
    """Rows of the data whose identifiers come for the first time and are not in the reservoir."""
    first: dict[int, int] = {}
    for row, identifier in enumerate(object_id.tolist()):
        if identifier not in object_to_pos.items:
            first.setdefault(identifier, row)
    return np.array(list(first.values()), np.int64)


def _grown(array: Any, count: int) -> Any:
    """The array with at least `count` rows."""
    if len(array) >= count:
        return array
    grown = np.zeros((count, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
