"""Rows dealt out to several outputs by the remainder of their keys."""

from __future__ import annotations

from caffe2lite.ops.kit import segments
from caffe2lite.ops.kit.registry import MANY, NO_GRADIENT, operator
from caffe2lite.ops.kit.rows import take_rows


def _parts_of(xp, keys, count):
    """Return for each partition the rows whose key gives that remainder."""
    remainder = keys % count
    return [xp.nonzero(remainder == p)[0] for p in range(count)]


def _check_partition(inputs, out, first):
    if not inputs or len(out) % len(inputs):
        raise ValueError(f"{len(out)} outputs cannot be divided among {len(inputs)} inputs")
    keys = inputs[first]
    for i, X in enumerate(inputs[first + 1 :], first + 1):
        if X.shape[: keys.ndim] != keys.shape:
            raise ValueError(f"input {i} has the shape {list(X.shape)}; it must begin with {list(keys.shape)}")


def _take_parts(xp, inputs, first, parts, pack_first_input, out, each):
    made = {}
    keys = inputs[first]
    for p, rows in enumerate(parts):
        for i, X in enumerate(inputs[first:], first):
            flat = X.reshape(keys.size, *X.shape[keys.ndim :])
            Y = out[p * each + i]((rows.shape[0], *flat.shape[1:]), X.dtype)
            take_rows(xp, flat, rows, Y)
            if i == first and pack_first_input:
                Y //= len(parts)
            made[p * each + i] = Y
    return made


@operator(
    "partitions*", num_inputs=(1, MANY), num_outputs=(1, MANY), counts=lambda n, m: m % n == 0, gradient=NO_GRADIENT
)
def Partition(xp, *inputs, pack_first_input: int = 0, out):
    """Rows of all inputs dealt out by the remainder of the first input's value; `pack_first_input` divides it.

    Inputs [d, ...] that begin with the first one's shape, the first int32 or int64, others of any type -> for each
    partition as many outputs [rows, ...]. ValueError where the outputs cannot be divided among the inputs, or shapes do
    not fit.
    """
    _check_partition(inputs, out, 0)
    if inputs[0].dtype.kind != "i":
        raise ValueError(f"the first input must hold integers, got {inputs[0].dtype}")
    parts = _parts_of(xp, inputs[0].reshape(-1), len(out) // len(inputs))
    made = _take_parts(xp, inputs, 0, parts, pack_first_input, out, len(inputs))
    return tuple(made[i] for i in range(len(out)))


@operator(
    "partitions*", num_inputs=(2, MANY), num_outputs=(1, MANY), counts=lambda n, m: m % n == 0, gradient=NO_GRADIENT
)
def LengthsPartition(xp, *inputs, pack_first_input: int = 0, out):
    """As Partition by the second input; the first one holds lengths, and each partition gets its own.

    lengths [S] int32, keys [N] int32 or int64, more inputs [N, ...] of any type -> for each partition as many outputs.
    ValueError where the lengths do not sum to N, the outputs cannot be divided among the inputs, or shapes do not fit.
    """
    if len(inputs) < 2:
        raise ValueError(f"LengthsPartition needs lengths and the values to partition by, found {len(inputs)} input")
    _check_partition(inputs, out, 1)
    lengths, keys = inputs[0], inputs[1]
    if keys.dtype.kind != "i" or keys.ndim != 1 or lengths.dtype != "int32":
        raise ValueError(
            f"the first input must be int32 lengths, the second a vector of integers; found {lengths.dtype}"
            f"{list(lengths.shape)} and {keys.dtype}{list(keys.shape)}"
        )
    starts, counts = segments.lengths_to_starts(xp, lengths, keys.shape[0], exact=True)
    count = len(out) // len(inputs)
    parts = _parts_of(xp, keys, count)
    made = _take_parts(xp, inputs, 1, parts, pack_first_input, out, len(inputs))
    for p in range(count):
        kept = xp.concatenate([xp.zeros(1, "int64"), xp.cumsum(keys % count == p)])
        Y = out[p * len(inputs)](lengths.shape, "int32")
        Y[...] = kept[starts + counts] - kept[starts]
        made[p * len(inputs)] = Y
    return tuple(made[i] for i in range(len(out)))
