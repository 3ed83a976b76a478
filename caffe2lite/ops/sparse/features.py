"""Features of recommendation models: single features merged into tensors of many, and back for the gradient.

A *single* feature has a value (a scalar, a list, a map) for each example, and says by `presence` which examples have it.
A *multi* feature tensor holds, for each example, how many features it has (`lengths`), their ids (`keys`) and values.
Merging puts the features of each example side by side, in the order of the inputs.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.memory import check_result
from caffe2lite.ops.kit.registry import MANY, operator

_VALUES = ("float32", "float64", "int32", "int64", "bool", "object")


def _joined(xp, arrays):
    """The rows of all features; ValueError where they are not alike."""
    if any(not a.ndim or a.shape[1:] != arrays[0].shape[1:] for a in arrays):
        raise ValueError(f"the values of all features must be alike, found {[list(a.shape) for a in arrays]}")
    return xp.concatenate(arrays)


class Merge:
    """The order of merged items.  Each input gives, for each of its items, the example and the number of its rows."""

    def __init__(self, xp, examples, counts) -> None:
        self.xp = xp
        for e, c in zip(examples, counts):
            if e.shape[0] != c.shape[0] or (c.size and int(c.min()) < 0):
                raise ValueError(f"there must be {e.shape[0]} lengths, none of them negative, found {c.tolist()[:8]}")
        owner = _joined(xp, examples)
        self.order = xp.argsort(owner, kind="stable")  # inputs come in order, and so do items within one
        self.counts = _joined(xp, [c.astype("int64") for c in counts])
        starts = xp.cumsum(self.counts) - self.counts
        chosen = self.counts[self.order]
        total = int(chosen.sum())
        check_result((total,), "int64")
        place = xp.arange(total) - xp.repeat(xp.cumsum(chosen) - chosen, _plain(xp, chosen))
        self.rows = xp.repeat(starts[self.order], _plain(xp, chosen)) + place
        self.owner = owner

    def items(self, arrays):
        """Return what each item has one of, merged."""
        return _joined(self.xp, arrays)[self.order]

    def values(self, arrays):
        """Return the rows of the items, merged."""
        rows = _joined(self.xp, arrays)
        if rows.shape[0] != self.rows.shape[0]:
            raise ValueError(f"the lengths count {self.rows.shape[0]} values, and there are {rows.shape[0]}")
        return rows[self.rows]

    def back(self, merged):
        """Return merged rows in the order of the inputs, one input after the other."""
        if merged.dtype.name not in _VALUES:
            raise TypeError(
                f"the gradient of the values is {merged.dtype.name}; it must be one of {', '.join(_VALUES)}"
            )
        if merged.ndim < 1 or merged.size != self.rows.shape[0]:
            raise ValueError(
                f"the inputs have {self.rows.shape[0]} values, and the gradient the shape {list(merged.shape)}"
            )
        result = self.xp.empty(merged.size, merged.dtype)
        result[self.rows] = merged.reshape(-1)
        return result


def _plain(xp, counts):
    return counts if xp is np else counts.tolist()


def _lengths(xp, merge, examples):
    """Return how many features each example has."""
    return xp.bincount(merge.owner, minlength=examples).astype("int32")


def _groups(inputs, kinds, ids=None):
    """Return the operands of each input; `kinds` are their types, "*" the type that the first input has there."""
    size = len(kinds)
    if not inputs or len(inputs) % size:
        raise ValueError(f"operands come in groups of {size}, got {len(inputs)}")
    for i, operand in enumerate(inputs):
        kind = kinds[i % size]
        wanted = inputs[i % size].dtype if kind == "*" else kind
        if operand.dtype != wanted:
            raise TypeError(f"operand {i % size} of each feature must be {wanted}, input {i} is {operand.dtype}")
        if operand.ndim < 1:
            raise ValueError(f"operand {i % size} of each feature must have rows, input {i} is a scalar")
    groups = [inputs[i : i + size] for i in range(0, len(inputs), size)]
    if ids is not None and len(ids) != len(groups):
        raise ValueError(f"{len(ids)} feature_ids are given for {len(groups)} features")
    return groups


def _same_examples(arrays):
    sizes = {a.shape[0] for a in arrays}
    if len(sizes) != 1:
        raise ValueError(f"all features must have the same number of examples, got {sorted(sizes)}")
    return sizes.pop()


def _check_outputs(features, out):
    if not features or len(out) != len(features):
        raise ValueError(f"a gradient for each of {len(features)} features is needed, found {len(out)} outputs")


def _check_counts(lengths, values, what):
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"a length of {what} is negative: {int(lengths.min())}")
    if int(lengths.sum()) != values.shape[0]:
        raise ValueError(f"the lengths of {what} sum to {int(lengths.sum())}, and there are {values.shape[0]} values")


def _repeat_check(lengths):
    if lengths.ndim != 1 or (lengths.size and int(lengths.min()) < 0):
        raise ValueError(f"lengths must be a vector without negative numbers, found {lengths.tolist()}")
    check_result((int(lengths.sum(dtype="int64")),), "int64")


def _check_vectors(arrays):
    for a in arrays:
        if a.ndim != 1:
            raise ValueError(f"lengths, keys and values must be vectors, found the shape {list(a.shape)}")


def _repeat(xp, lengths):
    _check_vectors([lengths])
    return xp.repeat(xp.arange(lengths.shape[0]), _plain(xp, lengths))


# ---- single features ---------------------------------------------------------------------------------------------------


def _present(xp, presences):
    """Return for each input the examples that have the feature."""
    for presence in presences:
        if presence.dtype != np.bool_ or presence.ndim != 1:
            raise ValueError(f"presence must be bool[N], got {presence.dtype}{list(presence.shape)}")
    return [xp.nonzero(p)[0] for p in presences]


def _ids(xp, feature_ids, examples):
    return [xp.full(e.shape[0], i, "int64") for i, e in zip(feature_ids, examples)]


def _single_gradient(kind, width, value):
    """Return a maker whose operator takes presence (and lengths) of each feature, then the gradient of what was merged."""

    def make(g):
        given, wanted = [], []
        for i in range(0, g.num_inputs, width):
            if width > 2:
                given.append(g.I(i))
            given.append(g.I(i + width - 1))
            wanted.append(g.GI(i + value))
        return g.single(kind, [*given, g.GO(g.num_outputs - 1)], wanted)

    return make


@operator("out_lengths out_keys out_values", types={"in1_presence": "bool"})
def MergeDenseFeatureTensors(xp, in1, in1_presence, *, feature_ids: list[int] = (), out):
    """A matrix (examples, features) as a multi feature of scalars, without what is not present.

    in1 [N, features] of any type, in1_presence alike, bool -> out_lengths [N] int32, out_keys [K] int64, out_values [K]
    of in1's type. ValueError where the shapes differ, or there is not one of `feature_ids` for each column.
    """
    if in1.ndim != 2 or in1.shape != in1_presence.shape or in1.shape[1] != len(feature_ids):
        raise ValueError(
            f"expected values and presence [examples, {len(feature_ids)}], got {list(in1.shape)} and {list(in1_presence.shape)}"
        )
    ids = xp.broadcast_to(xp.asarray(feature_ids, "int64").reshape(1, -1), in1.shape)
    return in1_presence.sum(axis=1).astype("int32"), ids[in1_presence], in1[in1_presence]


@operator(
    "out_lengths out_keys out_values",
    num_inputs=(2, MANY),
    counts=lambda n, m: n % 2 == 0,
    gradient=_single_gradient("MergeSingleScalarFeatureTensorsGradient", 2, 0),
)
def MergeSingleScalarFeatureTensors(xp, *inputs, feature_ids: list[int] = (), out):
    """(value, presence) of each feature, merged.

    For each of `feature_ids`: value [N] of any type, presence [N] bool -> out_lengths [N] int32, out_keys [K] int64,
    out_values [K]. ValueError where the groups are incomplete, differ in N, or are not as many as the ids; TypeError
    where types differ.
    """
    groups = _groups(inputs, ("*", "bool"), feature_ids)
    count = _same_examples(inputs)
    examples = _present(xp, [p for _, p in groups])
    merge = Merge(xp, examples, [xp.ones(e.shape[0], "int64") for e in examples])
    return (
        _lengths(xp, merge, count),
        merge.items(_ids(xp, feature_ids, examples)),
        merge.values([v[e] for (v, _), e in zip(groups, examples)]),
    )


@operator("in_grads*", num_inputs=(2, MANY), num_outputs=(1, MANY))
def MergeSingleScalarFeatureTensorsGradient(xp, *inputs, out):
    """The gradient of each feature; zero where it is not present.

    For each feature its presence [N] bool, then the gradient [K] of the merged values, of any type -> a gradient [N]
    for each. ValueError where the gradient has not K elements, or there is not an output for each feature.
    """
    *presences, dY = inputs
    if dY.ndim != 1:
        raise ValueError(f"the gradient of the values must be a vector, found the shape {list(dY.shape)}")
    _check_outputs(presences, out)
    examples = _present(xp, presences)
    merge = Merge(xp, examples, [xp.ones(e.shape[0], "int64") for e in examples])
    flat, begin, made = merge.back(dY), 0, []
    for presence, e, target in zip(presences, examples, out):
        d = target(presence.shape, dY.dtype)
        d[...] = b"" if dY.dtype == object else 0
        d[e] = flat[begin : begin + e.shape[0]]
        begin += e.shape[0]
        made.append(d)
    return tuple(made)


def _single_lists(xp, groups, feature_ids):
    """Return (lengths, keys, lengths of the values, merge) of lists or maps; a group begins with lengths, ends with presence."""
    count = _same_examples([operand for g in groups for operand in (g[0], g[-1])])
    examples = _present(xp, [g[-1] for g in groups])
    lengths = [g[0][e] for g, e in zip(groups, examples)]
    merge = Merge(xp, examples, lengths)
    return _lengths(xp, merge, count), merge.items(_ids(xp, feature_ids, examples)), merge.items(lengths), merge


def _rows(xp, group, values):
    """Return the rows of the examples that have the feature, which alone have any; more are passed over, as in Caffe2."""
    lengths, presence = group[0], group[-1]
    if lengths.shape != presence.shape:
        raise ValueError(f"lengths {list(lengths.shape)} and presence {list(presence.shape)} must have one shape")
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"a length of a feature is negative: {int(lengths.min())}")
    count = int(lengths[presence].sum())
    if count > values.shape[0]:
        raise ValueError(f"the lengths of a feature sum to {count}, and there are {values.shape[0]} values")
    return values[:count]


@operator(
    "out_lengths out_keys out_values_lengths out_values_values",
    num_inputs=(3, MANY),
    counts=lambda n, m: n % 3 == 0,
    gradient=_single_gradient("MergeSingleListFeatureTensorsGradient", 3, 1),
)
def MergeSingleListFeatureTensors(xp, *inputs, feature_ids: list[int] = (), out):
    """(lengths, values, presence) of each feature of lists, merged.

    For each of `feature_ids`: lengths [N] int32, values [sum of lengths] of any type, presence [N] bool -> out_lengths
    [N] int32, out_keys [K] int64, out_values_lengths [K] int32, out_values_values [sum of these]. ValueError where the
    groups are incomplete, differ in N, or lengths do not sum to the values; TypeError where types differ.
    """
    groups = _groups(inputs, ("int32", "*", "bool"), feature_ids)
    lengths, keys, counts, merge = _single_lists(xp, groups, feature_ids)
    return lengths, keys, counts, merge.values([_rows(xp, g, g[1]) for g in groups])


@operator(
    "out_lengths out_keys out_values_lengths out_values_keys out_values_values",
    num_inputs=(4, MANY),
    counts=lambda n, m: n % 4 == 0,
    gradient=_single_gradient("MergeSingleMapFeatureTensorsGradient", 4, 2),
)
def MergeSingleMapFeatureTensors(xp, *inputs, feature_ids: list[int] = (), out):
    """(lengths, keys, values, presence) of each feature of maps, merged.

    For each of `feature_ids`: lengths [N] int32, keys and values [sum of lengths] of any type, presence [N] bool ->
    out_lengths [N] int32, out_keys [K] int64, out_values_lengths [K] int32, out_values_keys and out_values_values [sum
    of these]. ValueError where the groups are incomplete, differ in N, or lengths do not sum to the values; TypeError
    where types differ.
    """
    groups = _groups(inputs, ("int32", "*", "*", "bool"), feature_ids)
    lengths, keys, counts, merge = _single_lists(xp, groups, feature_ids)
    inner = merge.values([_rows(xp, g, g[1]) for g in groups])
    return lengths, keys, counts, inner, merge.values([_rows(xp, g, g[2]) for g in groups])


def _single_back(xp, *inputs, out):
    *pairs, dY = inputs
    groups = _groups(tuple(pairs), ("int32", "bool"))
    _check_outputs(groups, out)
    for lengths, _ in groups:
        _repeat_check(lengths)
    _same_examples([operand for g in groups for operand in g])
    examples = _present(xp, [p for _, p in groups])
    merge = Merge(xp, examples, [lengths[e] for (lengths, _), e in zip(groups, examples)])
    flat, begin, made = merge.back(dY), 0, []
    for (lengths, _), e, target in zip(groups, examples, out):
        size = int(lengths[e].sum())
        d = target((size,), dY.dtype)
        d[...] = flat[begin : begin + size]
        begin += size
        made.append(d)
    return tuple(made)


for _name in ("MergeSingleListFeatureTensorsGradient", "MergeSingleMapFeatureTensorsGradient"):
    operator(
        "in_grads*",
        name=_name,
        num_inputs=(3, MANY),
        counts=lambda n, m: n % 2 == 1,
        num_outputs=(1, MANY),
        doc="""The gradients of the values of each feature, from those of the merged ones.

        For each feature its lengths [N] int32 and presence [N] bool, then the gradient [K] of the merged values, of any type
        -> a gradient [sum of lengths] for each. ValueError where the gradient has not K elements, or there is not an output
        for each feature.
        """,
    )(_single_back)


# ---- multi features ----------------------------------------------------------------------------------------------------


def _multi_gradient(kind, width, value):
    def make(g):
        given, wanted = [], []
        for i in range(0, g.num_inputs, width):
            given += [g.I(i)] if width == 3 else [g.I(i), g.I(i + 2)]
            wanted.append(g.GI(i + value))
        return g.single(kind, [*given, g.GO(g.num_outputs - 1)], wanted)

    return make


def _multi(xp, groups, counts):
    """Return (lengths, keys, merge): a group begins with lengths and keys."""
    count = _same_examples([g[0] for g in groups])
    for g in groups:
        _check_counts(g[0], g[1], "a tensor")
    merge = Merge(xp, [_repeat(xp, g[0]) for g in groups], counts)
    return sum(g[0] for g in groups).astype("int32").reshape(count), merge.items([g[1] for g in groups]), merge


@operator(
    "out_lengths out_keys out_values",
    num_inputs=(3, MANY),
    counts=lambda n, m: n % 3 == 0,
    gradient=_multi_gradient("MergeMultiScalarFeatureTensorsGradient", 3, 2),
)
def MergeMultiScalarFeatureTensors(xp, *inputs, out):
    """(lengths, keys, values) of each tensor of scalar features, merged.

    For each tensor: lengths [N] int32, keys [sum of lengths] int64, values alike, of any type -> the same three,
    merged. ValueError where the groups are incomplete, differ in N, or lengths do not sum to the keys; TypeError where
    types differ.
    """
    groups = _groups(inputs, ("int32", "int64", "*"))
    lengths, keys, merge = _multi(xp, groups, [xp.ones(g[1].shape[0], "int64") for g in groups])
    return lengths, keys, merge.values([g[2] for g in groups])


@operator(
    "out_lengths out_keys out_values_lengths out_values_values",
    num_inputs=(4, MANY),
    counts=lambda n, m: n % 4 == 0,
    gradient=_multi_gradient("MergeMultiListFeatureTensorsGradient", 4, 3),
)
def MergeMultiListFeatureTensors(xp, *inputs, out):
    """(lengths, keys, lengths of the values, values) of each tensor of list features, merged.

    For each tensor: lengths [N] int32, keys [K] int64, their lengths [K] int32, values [sum of these] of any type ->
    the same four, merged. ValueError where the groups are incomplete, differ in N, or lengths do not sum to what they
    count.
    """
    groups = _groups(inputs, ("int32", "int64", "int32", "*"))
    lengths, keys, merge = _multi(xp, groups, [g[2] for g in groups])
    return lengths, keys, merge.items([g[2] for g in groups]), merge.values([g[3] for g in groups])


@operator(
    "out_lengths out_keys out_values_lengths out_values_keys out_values_values",
    num_inputs=(5, MANY),
    counts=lambda n, m: n % 5 == 0,
    gradient=_multi_gradient("MergeMultiMapFeatureTensorsGradient", 5, 4),
)
def MergeMultiMapFeatureTensors(xp, *inputs, out):
    """(lengths, keys, lengths of the values, their keys, values) of each tensor of map features, merged.

    For each tensor: lengths [N] int32, keys [K] int64, their lengths [K] int32, keys and values [sum of these] of any
    type -> the same five, merged. ValueError where the groups are incomplete, differ in N, or lengths do not sum to
    what they count.
    """
    groups = _groups(inputs, ("int32", "int64", "int32", "*", "*"))
    lengths, keys, merge = _multi(xp, groups, [g[2] for g in groups])
    counts, inner = merge.items([g[2] for g in groups]), merge.values([g[3] for g in groups])
    return lengths, keys, counts, inner, merge.values([g[4] for g in groups])


def _split(merge, dY, sizes, out):
    flat, begin, made = merge.back(dY), 0, []
    for size, target in zip(sizes, out):
        d = target((size,), dY.dtype)
        d[...] = flat[begin : begin + size]
        begin += size
        made.append(d)
    return tuple(made)


@operator("in_grads*", num_inputs=(2, MANY), num_outputs=(1, MANY))
def MergeMultiScalarFeatureTensorsGradient(xp, *inputs, out):
    """The gradients of the values of each tensor, from those of the merged ones.

    For each tensor its lengths [N] int32, then the gradient [K] of the merged values, of any type -> a gradient [sum of
    lengths] for each. ValueError where the gradient has not K elements, or there is not an output for each tensor.
    """
    *lengths, dY = inputs
    _check_outputs(lengths, out)
    _groups(tuple(lengths), ("int32",))
    for n in lengths:
        _repeat_check(n)
    sizes = [int(n.sum()) for n in lengths]
    merge = Merge(xp, [_repeat(xp, n) for n in lengths], [xp.ones(s, "int64") for s in sizes])
    return _split(merge, dY, sizes, out)


def _multi_back(xp, *inputs, out):
    *pairs, dY = inputs
    groups = _groups(tuple(pairs), ("int32", "int32"))
    _check_outputs(groups, out)
    for n, _ in groups:
        _repeat_check(n)
    merge = Merge(xp, [_repeat(xp, n) for n, _ in groups], [c for _, c in groups])
    return _split(merge, dY, [int(c.sum()) for _, c in groups], out)


for _name in ("MergeMultiListFeatureTensorsGradient", "MergeMultiMapFeatureTensorsGradient"):
    operator(
        "in_grads*",
        name=_name,
        num_inputs=(3, MANY),
        counts=lambda n, m: n % 2 == 1,
        num_outputs=(1, MANY),
        doc="""The gradients of the values of each tensor, from those of the merged ones.

        For each tensor its lengths [N] int32 and those of its values [K] int32, then the gradient of the merged values, of
        any type -> a gradient [sum of the latter] for each. ValueError where the gradient has not as many elements, or there
        is not an output for each tensor.
        """,
    )(_multi_back)


@operator("merged_lengths merged_values", num_inputs=(2, MANY), counts=lambda n, m: n % 2 == 0, gradient=NO_GRADIENT)
def MergeIdLists(xp, *inputs, out):
    """The ids of each example, of all lists together, each once (sorted).

    For each list: lengths [N] int32, values [sum of lengths] of integers of one type -> merged_lengths [N] int32,
    merged_values [sum of these]. ValueError where the groups are incomplete, differ in N, or lengths do not sum to the
    values.
    """
    groups = _groups(inputs, ("int32", "*"))
    count = _same_examples([g[0] for g in groups])
    for lengths, values in groups:
        _check_counts(lengths, values, "a list")
        if values.dtype.name not in ("int32", "int64"):
            raise TypeError(f"the ids must be int32 or int64, found {values.dtype}")
    examples = xp.concatenate([_repeat(xp, n) for n, _ in groups])
    _check_vectors([v for _, v in groups])
    ids = xp.concatenate([v for _, v in groups])
    low = int(ids.min()) if ids.size else 0
    span = int(ids.max()) - low + 1 if ids.size else 1
    if count * span < 2**62:  # one number for example and id, which is sorted much quicker than two
        numbers = xp.unique(examples * span + (ids.astype("int64") - low))
        return xp.bincount(numbers // span, minlength=count).astype("int32"), (numbers % span + low).astype(ids.dtype)
    order = xp.lexsort(xp.stack([ids.astype("int64"), examples]))
    examples, ids = examples[order], ids[order]
    fresh = xp.ones(ids.shape[0], bool)
    fresh[1:] = (examples[1:] != examples[:-1]) | (ids[1:] != ids[:-1])
    return xp.bincount(examples[fresh], minlength=count).astype("int32"), ids[fresh]
