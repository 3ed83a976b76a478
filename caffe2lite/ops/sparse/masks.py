"""Sparse features laid out by a list of identifiers, and rows brought back together."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2lite.ops.kit.compiled import pays
from caffe2lite.ops.kit.infer import UNKNOWN, Spec
from caffe2lite.ops.kit.memory import clear
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.ops.kit.rows import last_of_each, put_rows, take_rows


def _columns(xp: Any, indices: Any, mask: Any) -> Any:
    """The place of each index in the mask, -1 where it is not there."""
    if min(mask, default=0) < 0:
        raise ValueError(f"the indices in mask must be 0 or more, found {min(mask)}")
    wanted = xp.asarray(mask, dtype="int64")
    if not indices.size or not wanted.size:
        return xp.full(indices.shape, -1, "int64")
    if max(mask) < 8 * (indices.size + wanted.size):  # a table of all indices up to the largest, and one beyond
        table = xp.full(max(mask) + 2, -1, "int64")
        keep = last_of_each(xp, wanted[::-1])
        table[wanted[::-1][keep]] = xp.arange(wanted.size)[::-1][keep]
        inside = (indices >= 0) & (indices <= max(mask))
        return table[xp.where(inside, indices, max(mask) + 1)]
    order = xp.argsort(wanted, kind="stable")
    place = xp.minimum(xp.searchsorted(wanted[order], indices), wanted.size - 1)
    found = order[place]
    return xp.where(wanted[found] == indices, found, -1)


def _places(xp: Any, indices: Any, mask: Any, lengths: Any) -> tuple[Any, Any, int]:
    """(row of each index, its column or -1, number of rows)."""
    if indices.ndim != 1:
        raise ValueError(f"the indices must be a vector, found {list(indices.shape)}")
    if lengths is None:
        return xp.zeros(indices.size, "int64"), _columns(xp, indices, mask), 1
    counts = lengths.tolist()
    if lengths.ndim != 1 or sum(counts) != indices.size or min(counts, default=0) < 0:
        raise ValueError(f"the lengths add up to {sum(counts)}, and there are {indices.size} indices")
    return xp.repeat(xp.arange(len(counts)), counts), _columns(xp, indices, mask), len(counts)


def _put(xp: Any, target: Any, rows: Any, source: Any) -> None:
    """target[rows[i]] = source[i], the last of several."""
    if source.size and pays(xp, source):
        put_rows(target, rows, source)
    else:
        keep = last_of_each(xp, rows)
        target[rows[keep]] = source[keep]


def _gradient(g: Any) -> Any:
    inputs = [g.I(0), g.GO(0), *([g.I(3)] if g.num_inputs == 4 else [])]
    return g.single("SparseToDenseMaskGradient", inputs, [g.GI(1)])


def _infer(args: Any, inputs: Any) -> list[Spec]:
    shape = (*(n for lengths in inputs[3:] for n in lengths.shape), len(args["mask"]))
    return [
        Spec((*shape, *inputs[2].shape), inputs[1].dtype),
        Spec(shape, "bool") if args["return_presence_mask"] else UNKNOWN,
    ]


def _count_skipped(ctx: Any, indices: Any, rows: Any, limit: int) -> None:
    """Refuse once that many rows, in all runs of this operator, had an index that cannot be: below 0, or the type's largest."""
    xp = ctx.xp
    wrong = (indices < 0) | (indices == np.iinfo(indices.dtype).max)
    ctx.state.skipped = getattr(ctx.state, "skipped", 0) + int(xp.unique(rows[wrong]).size)
    if 0 <= limit <= ctx.state.skipped:
        raise ValueError(
            f"{ctx.state.skipped} rows had indices below 0, or the largest of their type; max_skipped_indices allows "
            f"for fewer than {limit}"
        )


@operator(
    "Y presence?",
    stateful=True,
    types={"indices": "int32 int64", "default": "=values", "lengths": "int32"},
    host="lengths",
    gradient=_gradient,
    infer=_infer,
)
def SparseToDenseMask(
    ctx,
    indices,
    values,
    default,
    lengths=None,
    *,
    mask: list[int],
    return_presence_mask: bool = False,
    max_skipped_indices: int = 50,
    out,
):
    """Y[..., k] = the value whose index is mask[k], the default where there is none; and which of these there were.

    indices [N] int32 or int64, values [N, ...] of any type, default [...] like a value, lengths [R] int32 -> Y [R, K,
    ...], presence [R, K] bool, for the K indices in `mask`; without lengths Y [K, ...]. Of several values with one
    index the last stays. ValueError where the shapes or lengths do not fit, where the mask is empty or has a negative
    index, or where as many rows as `max_skipped_indices` (below 0: any number), those of the operator's earlier runs
    among them, had an index below 0.
    """
    xp = ctx.xp
    if values.ndim < 1 or values.shape[0] != indices.size:
        raise ValueError(f"one value for each of {indices.size} indices is needed, found {list(values.shape)}")
    block = values.shape[1:]
    if default.shape != block and not (not indices.size and default.size):
        raise ValueError(f"the default must have the shape of a value, {list(block)}, found {list(default.shape)}")
    block = default.shape
    if not mask:
        raise ValueError("the argument mask must have the indices of the columns, found none")
    if return_presence_mask and len(out) < 2:
        raise ValueError("return_presence_mask needs a second output")
    rows, columns, count = _places(xp, indices, mask, lengths)
    if count:
        _count_skipped(ctx, indices, rows, max_skipped_indices)
    front = () if lengths is None else (count,)
    Y = out[0]((*front, len(mask), *block), values.dtype)
    each = Y.reshape(count, len(mask), *block)
    each[:1] = default
    each[1:] = each[:1]  # in long runs, which are quicker than many short ones
    there = xp.nonzero(columns >= 0)[0]
    taken = xp.empty((there.size, *block), values.dtype)
    take_rows(xp, values, there, taken)
    _put(xp, Y.reshape(count * len(mask), *block), rows[there] * len(mask) + columns[there], taken)
    if len(out) < 2 or not return_presence_mask:
        return Y
    presence = out[1]((*front, len(mask)), "bool")
    presence[...] = False
    presence.reshape(count, len(mask))[rows[there], columns[there]] = True
    return Y, presence


@operator("dvalues", types={"indices": "int32 int64", "lengths": "int32"}, host="lengths")
def SparseToDenseMaskGradient(
    xp, indices, dY, lengths=None, *, mask: list[int], return_presence_mask: bool = False, out
):
    """dvalues = dY in the places of the values, 0 for those that were not seen in the result.

    indices [N] int32 or int64, dY [R, K, ...] of any type, lengths [R] int32 -> dvalues [N, ...]. ValueError where the
    shapes or lengths do not fit, or the mask is empty or has a negative index.
    """
    if not mask:
        raise ValueError("the argument mask must have the indices of the columns, found none")
    rows, columns, count = _places(xp, indices, mask, lengths)
    front = (len(mask),) if lengths is None else (count, len(mask))
    if dY.shape[: len(front)] != front:
        raise ValueError(f"dY must begin with the shape {list(front)}, found {list(dY.shape)}")
    block = dY.shape[len(front) :]
    dX = out((indices.size, *block), dY.dtype)
    clear(dX)
    there = xp.nonzero(columns >= 0)[0]
    places = rows[there] * len(mask) + columns[there]
    last = xp.full(count * len(mask), -1, "int64")  # of several values for one place the last stood in the result
    keep = last_of_each(xp, places)
    last[places[keep]] = there[keep]
    seen = xp.nonzero(last >= 0)[0]
    taken = xp.empty((seen.size, *block), dY.dtype)
    take_rows(xp, dY.reshape(count * len(mask), *block), seen, taken)
    _put(xp, dX, last[seen], taken)
    return dX


def _gather_by_key_gradient(g: Any) -> Any:
    """Partition of the gradient, by the keys; the keys themselves fall off."""
    dense = g.is_dense_GO(0)
    outputs = []
    for i in range(1, g.num_inputs):
        if dense:
            grad = g.GI(i)
            outputs += [f"_{grad}_keys", grad]
        else:
            grad = g.GI_I(i)
            outputs += [f"_{grad}_keys", grad, g.GI_V(i)]
    inputs = [g.I(0), g.GO(0)] if dense else [g.I(0), g.GO_I(0), g.GO_V(0)]
    if not dense and not g.has_GO(0):
        raise ValueError(f"the gradient of output {g.O(0)!r} of GatherByKey is not provided")
    return g.single("Partition", inputs, outputs, pack_first_input=0)


@operator("Y", types={"keys": "int32 int64"}, num_inputs=(2, MANY), gradient=_gather_by_key_gradient)
def GatherByKey(xp, keys, *parts, out):
    """Y = the rows that Partition has put into the parts, by key modulo their number, in the order of the keys.

    keys [N] int32 or int64, parts [n, ...] of any type, all of one -> Y [N, ...]. ValueError where the parts differ in
    type or rows, or one has not as many rows as there are keys that belong there.
    """
    first = parts[0]
    if keys.ndim != 1:
        raise ValueError(f"the keys must be a vector, found {list(keys.shape)}")
    shard = xp.remainder(keys.reshape(-1), len(parts))
    shape = (*keys.shape, *first.shape[1:])
    for k, part in enumerate(parts):
        if part.dtype != first.dtype or part.ndim < 1 or part.shape[1:] != first.shape[1:]:
            raise ValueError(f"part {k} must have rows like part 0, {first.dtype}{list(first.shape[1:])}")
        if part.shape[0] != int((shard == k).sum()):
            raise ValueError(f"part {k} has {part.shape[0]} rows, and {int((shard == k).sum())} keys belong there")
    Y = out(shape, first.dtype)
    rows = Y.reshape(keys.size, *first.shape[1:])
    for k, part in enumerate(parts):
        rows[shard == k] = part
    return Y
