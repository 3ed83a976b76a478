"""Lengths, segment ids and ranges turned into each other, and rows chosen, split and tiled by them."""

from __future__ import annotations

from typing import Any

from caffe2lite.ops.kit import segments
from caffe2lite.ops.kit.compiled import compiled, loop, pays
from caffe2lite.ops.kit.gradient import single
from caffe2lite.ops.kit.infer import UNKNOWN, Spec
from caffe2lite.ops.kit.memory import check_result, clear
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, MANY, NO_GRADIENT, operator
from caffe2lite.ops.kit.rows import copy_runs, owners, take_rows
from caffe2lite.ops.kit.shapes import one

_INT = "int32 int64"


def _one_dimension(lengths, what="lengths"):
    if lengths.ndim != 1:
        raise ValueError(f"{what} must have one dimension, got shape {list(lengths.shape)}")


def _vector(lengths, what="lengths"):
    _one_dimension(lengths, what)
    if lengths.size and int(lengths.min()) < 0:
        raise ValueError(f"{what} must not be negative, got {int(lengths.min())}")


@operator("segment_ids", types={"lengths": "int32"}, gradient=FORBID_GRADIENT)
def LengthsToSegmentIds(xp, lengths, *, out):
    """[1, 3, 0, 2] becomes [0, 1, 1, 1, 3, 3].

    lengths [S] int32 -> segment_ids [sum of lengths] int32. ValueError where the lengths are no vector, or one is
    negative.
    """
    _vector(lengths)
    filled = xp.nonzero(lengths)[0]
    counts = lengths[filled].astype("int64")
    ends = xp.cumsum(counts)
    ids = out((int(ends[-1]) if counts.size else 0,), "int32")
    if ids.size:  # how much the id rises where a segment begins; the sums of that are the ids
        ids[...] = 0
        ids[0] = filled[0]
        ids[ends[:-1]] = filled[1:] - filled[:-1]
        xp.cumsum(ids, dtype="int32", out=ids)
    return ids


@operator("ranges", types={"lengths": "int32"}, infer=lambda args, inputs: [Spec((inputs[0].shape[0], 2), "int32")])
def LengthsToRanges(xp, lengths, *, out):
    """(first row, number of rows) of each segment: [1, 3, 0] becomes [[0, 1], [1, 3], [4, 0]].

    lengths [S] int32 -> ranges [S, 2] int32. ValueError where the lengths are no vector.
    """
    _one_dimension(lengths)
    ranges = out((lengths.shape[0], 2), lengths.dtype)
    if lengths.size and pays(xp, lengths):
        _begin_ranges(lengths, ranges)
        return ranges
    if lengths.size:
        ranges[0, 0] = 0
        xp.cumsum(lengths[:-1], dtype=lengths.dtype, out=ranges[1:, 0])
    ranges[:, 1] = lengths
    return ranges


@loop
def _begin_ranges(lengths, ranges):
    begin = lengths[0] - lengths[0]
    for k in range(lengths.size):
        ranges[k, 0], ranges[k, 1] = begin, lengths[k]
        begin += lengths[k]


@operator(
    "offsets",
    types={"lengths": "int32"},
    infer=lambda args, inputs: [Spec((inputs[0].shape[0] + args["include_last_offset"],), inputs[0].dtype)],
)
def LengthsToOffsets(xp, lengths, *, include_last_offset: bool = False, out):
    """The first row of each segment, and with `include_last_offset` the number of all rows.

    lengths [S] int32 -> offsets [S], or [S + 1], int32. ValueError where the lengths are no vector.
    """
    _one_dimension(lengths)
    offsets = out((lengths.shape[0] + include_last_offset,), lengths.dtype)
    if offsets.size:
        offsets[0] = 0
        xp.cumsum(lengths[: offsets.size - 1], dtype=lengths.dtype, out=offsets[1:])
    return offsets


@operator("Y", types="int32", gradient=FORBID_GRADIENT)
def LengthsToShape(xp, X, *, out):
    """[n, n, …] becomes the shape (number of segments, n).

    X [S] int32 -> Y [2] int32. ValueError where X is no vector, is empty, or has different or negative values.
    """
    _vector(X)
    if not X.size or bool((X[0] != X).any()):
        raise ValueError(f"all lengths must be the same, for rows to make a matrix; found {X[:8].tolist()}")
    Y = out((2,), "int32")
    Y[0], Y[1] = X.shape[0], X[0]
    return Y


@operator("weights", types={"lengths": _INT}, gradient=None)
def LengthsToWeights(xp, lengths, *, power: float = 0.5, out):
    """1 / length^power for each row.

    lengths [S] int32 or int64 -> weights [sum of lengths] float32. ValueError where the lengths are no vector, or one
    is negative.
    """
    _vector(lengths)
    each = 1 / xp.power(lengths.astype("float32"), xp.float32(power))
    weights = out((int(lengths.sum()),), "float32")
    if pays(xp, weights):
        _repeat_each(lengths, each, weights)
        return weights
    take_rows(xp, each, owners(xp, lengths), weights)
    return weights


@loop
def _repeat_each(lengths, each, weights):
    at = 0
    for k in range(lengths.size):
        weights[at : at + lengths[k]] = each[k]
        at += lengths[k]


def _unsorted(ids):
    """Return the first id that is negative or below the one before it, with that one."""
    at = int((ids < 0).argmax()) if int(ids.min()) < 0 else int((ids[1:] < ids[:-1]).argmax()) + 1
    return f"{int(ids[at])} at {at}" + (f", after {int(ids[at - 1])}" if at else "")


def _segment_count(segment_ids, data):
    """Return the number of segments that sorted ids tell, or the rows of the second input."""
    if segment_ids.ndim != 1:
        raise ValueError(f"segment ids must have one dimension, got shape {list(segment_ids.shape)}")
    last = int(segment_ids[-1]) if segment_ids.size else -1
    check_result((last + 1,), "int64")
    if segment_ids.size and (int(segment_ids.min()) < 0 or bool((segment_ids[1:] < segment_ids[:-1]).any())):
        raise ValueError(f"segment ids must be sorted and not negative; found {_unsorted(segment_ids)}")
    if data is None:
        return last + 1
    if data.ndim < 1 or data.shape[0] <= last:
        raise ValueError(f"the last segment id is {last}, and the second input has the shape {list(data.shape)}")
    return data.shape[0]


@operator("lengths", types={"segment_ids": _INT}, gradient=FORBID_GRADIENT)
def SegmentIdsToLengths(xp, segment_ids, data=None, *, out):
    """[0, 0, 2] becomes [2, 0, 1]; as many as the second input has rows, where it is given.

    segment_ids [N] int32 or int64, sorted, data [S, ...] whose values are not read -> lengths [S] int32. ValueError
    where the ids are no vector, unsorted, negative, or not below S.
    """
    count = _segment_count(segment_ids, data)
    lengths = out((count,), "int32")
    if segment_ids.size and pays(xp, segment_ids):
        clear(lengths)
        _count_ids(segment_ids, lengths)
        return lengths
    lengths[...] = xp.bincount(segment_ids, minlength=count) if segment_ids.size else 0
    return lengths


@loop
def _count_ids(ids, lengths):
    begin = 0
    for i in range(1, ids.size):
        if ids[i] != ids[i - 1]:
            lengths[ids[i - 1]] = i - begin
            begin = i
    lengths[ids[ids.size - 1]] = ids.size - begin


@operator("ranges", types={"segment_ids": _INT}, gradient=FORBID_GRADIENT)
def SegmentIdsToRanges(xp, segment_ids, data=None, *, out):
    """[0, 0, 2] becomes [[0, 2], [2, 0], [2, 1]].

    segment_ids [N] int32 or int64, sorted, data [S, ...] whose values are not read -> ranges [S, 2] int32. ValueError
    where the ids are no vector, unsorted, negative, or not below S.
    """
    count = _segment_count(segment_ids, data)
    lengths = xp.bincount(segment_ids, minlength=count) if segment_ids.size else xp.zeros(count, "int64")
    ranges = out((count, 2), "int32")
    ranges[:, 0] = xp.cumsum(lengths) - lengths
    ranges[:, 1] = lengths
    if segment_ids.size:
        ranges[int(segment_ids[-1]) + 1 :] = 0
    return ranges


@operator("one_hots", types={"lengths": "int32", "indices": "int64", "index_size": "int64"}, gradient=NO_GRADIENT)
def SegmentOneHot(xp, lengths, indices, index_size, *, out):
    """1 at the indices of each segment, 0 elsewhere.

    lengths [S] int32, indices [N] int64, index_size [1] int64 -> one_hots [S, index_size] float32. ValueError where the
    lengths do not sum to N, or an index is not in [0, index_size).
    """
    _vector(lengths)
    size = int(one(index_size, "the size of the index"))
    if size <= 0:
        raise ValueError(f"the size of the index must be above 0, found {size}")
    total = int(lengths.sum())
    if total != indices.size:
        raise ValueError(f"the lengths sum to {total}, and there are {indices.size} indices")
    segments.check_indices(indices, size)
    hot = out((lengths.shape[0], size), "float32")
    clear(hot)
    hot.reshape(-1)[owners(xp, lengths) * size + indices] = 1
    return hot


@operator(
    "OUTPUT",
    shapes="ITEMS [N, ...], LENGTHS [K], INDICES [I]",
    types={"LENGTHS": "int32", "INDICES": _INT},
    gradient=FORBID_GRADIENT,
)
def LengthsGather(xp, ITEMS, LENGTHS, INDICES, *, out):
    """The items of the segments at the given indices, one after the other.

    ITEMS [N, ...] of any type, LENGTHS [S] int32, INDICES [K] int32 or int64 -> OUTPUT [rows of these segments, ...].
    ValueError where the lengths do not sum to N, or an index is not in [0, S).
    """
    starts, counts = segments.lengths_to_starts(xp, LENGTHS, ITEMS.shape[0], exact=True)
    segments.check_indices(INDICES, counts.shape[0])
    chosen = counts[INDICES]
    ends = xp.cumsum(chosen)
    Y = out((int(ends[-1]) if chosen.size else 0, *ITEMS.shape[1:]), ITEMS.dtype)
    copy_runs(xp, ITEMS, starts[INDICES], Y, ends - chosen, chosen)
    return Y


@operator(
    "OUTPUT",
    shapes="DATA [N, ...], LENGTHS [K]",
    types={"DATA": "float32 float64 int32 int64", "LENGTHS": "int32"},
    gradient=NO_GRADIENT,
    infer=lambda args, inputs: [
        Spec((inputs[1].shape[0] * args["target_length"], *inputs[0].shape[1:]), inputs[0].dtype)
    ],
    limits="target_length >= 1",
)
def LengthsPad(xp, DATA, LENGTHS, *, padding_value: float = -1.0, target_length: int = -1, out):
    """Each segment of the data made `target_length` rows long, with rows of `padding_value` at its end.

    DATA [N, ...] float32, float64, int32 or int64, LENGTHS [S] int32 -> OUTPUT [S * target_length, ...]. ValueError
    where the lengths do not sum to N, a segment is longer than target_length, or that is below 1.
    """
    starts, counts = segments.lengths_to_starts(xp, LENGTHS, DATA.shape[0], exact=True)
    if counts.size and int(counts.max()) > target_length:
        raise ValueError(f"a segment has {int(counts.max())} rows, more than target_length = {target_length}")
    Y = out((counts.shape[0] * target_length, *DATA.shape[1:]), DATA.dtype)
    Y[...] = padding_value
    copy_runs(xp, DATA, starts, Y, xp.arange(counts.shape[0]) * target_length, counts)
    return Y


@operator(
    "Y",
    types={"LENGTHS": "int32", "n_split_input": "int32 int64 uint8 int8 int16 uint16"},
    host="n_split_input",
    infer=lambda args, inputs: [
        Spec((inputs[0].shape[0] * args["n_split"],), "int32") if len(inputs) == 1 and args["n_split"] > 0 else UNKNOWN
    ],
)
def LengthsSplit(xp, LENGTHS, n_split_input=None, *, n_split: int = -1, out):
    """Each length split into `n_split` (the second input before the argument) nearly equal ones, larger first.

    LENGTHS [S] int32, n_split_input [1] of any integers -> Y [S * n_split] int32. ValueError where a length is
    negative, or n_split is not above 0.
    """
    _vector(LENGTHS)
    if n_split_input is not None and n_split_input.ndim != 1:
        raise ValueError(f"n_split must be a vector of one value, found the shape {list(n_split_input.shape)}")
    parts = n_split if n_split_input is None else int(one(n_split_input, "n_split"))
    if parts <= 0:
        raise ValueError(f"n_split must be positive, got {parts}")
    check_result((LENGTHS.shape[0] * parts + parts,), "int64")
    Y = out((LENGTHS.shape[0] * parts,), "int32")
    share = LENGTHS.reshape(-1, 1) // parts
    Y.reshape(-1, parts)[...] = share + (xp.arange(parts).reshape(1, -1) < LENGTHS.reshape(-1, 1) - share * parts)
    return Y


@operator("OUTPUT", types={"LENGTHS": "int32"}, host="LENGTHS", gradient=single("LengthsSum", "GO0 I1 -> GI0"))
def LengthsTile(xp, DATA, LENGTHS, *, out):
    """Row i of the data, LENGTHS[i] times.

    DATA [S, ...] of any type, LENGTHS [S] int32 -> OUTPUT [sum of lengths, ...]. ValueError where there is not one
    length for each row, or one is negative.
    """
    _vector(LENGTHS)
    if DATA.ndim < 1 or DATA.shape[0] != LENGTHS.shape[0]:
        raise ValueError(f"there must be one length for each row, got {list(DATA.shape)} and {list(LENGTHS.shape)}")
    Y = out((int(LENGTHS.sum()), *DATA.shape[1:]), DATA.dtype)
    take_rows(xp, DATA, owners(xp, LENGTHS), Y)
    return Y


def _top_places(xp, DATA, LENGTHS, k):
    """Return (order, rows, which of them there are, first rows): for each segment its k best rows, the first of equal ones first."""
    _, counts = segments.lengths_to_starts(xp, LENGTHS, DATA.shape[0], exact=True)
    starts = xp.cumsum(counts) - counts
    by_value = xp.argsort(-DATA, kind="stable")
    order = by_value[xp.argsort(owners(xp, LENGTHS)[by_value], kind="stable")]
    places = xp.arange(k).reshape(1, -1)
    there = places < counts.reshape(-1, 1)
    rows = xp.where(there, starts.reshape(-1, 1) + places, 0)
    return order, rows, there, starts


@operator(
    "TopKValue TopKIndices",
    shapes="DATA [N], LENGTHS [K]",
    types={"DATA": "float32", "LENGTHS": "int32"},
    infer=lambda args, inputs: [Spec((inputs[1].shape[0], args["k"])), Spec((inputs[1].shape[0], args["k"]), "int32")],
    gradient=single("LengthsTopKGradient", "I1 O1 GO0 -> GI0"),
    limits="k >= 1",
)
def LengthsTopK(xp, DATA, LENGTHS, *, k: int, out):
    """The k largest values of each segment and where they are in it; 0 and -1 where there are fewer.

    DATA [N] float32, LENGTHS [S] int32 -> TopKValue [S, k] float32, TopKIndices [S, k] int32; of equal values the
    earlier one comes first. ValueError where the data is no vector, the lengths do not sum to N, or k is below 1.
    """
    if DATA.ndim != 1:
        raise ValueError(f"the data must have one dimension, got shape {list(DATA.shape)}")
    segments.lengths_to_starts(xp, LENGTHS, DATA.shape[0], exact=True)
    values, indices = out[0]((LENGTHS.shape[0], k), DATA.dtype), out[1]((LENGTHS.shape[0], k), "int32")
    values[...] = 0
    indices[...] = -1
    if DATA.size:
        order, rows, there, starts = _top_places(xp, DATA, LENGTHS, k)
        best = order[rows]
        values[...] = xp.where(there, DATA[best], 0)
        indices[...] = xp.where(there, best - starts.reshape(-1, 1), -1)
    return values, indices


@compiled(LengthsTopK)
def _lengths_top_k_compiled(xp, DATA, LENGTHS, *, k: int, out):
    if DATA.ndim != 1 or k > 64:  # beyond that a sort is quicker than putting in place one by one
        return LengthsTopK(xp, DATA, LENGTHS, k=k, out=out)
    segments.lengths_to_starts(xp, LENGTHS, DATA.shape[0], exact=True)
    values, indices = out[0]((LENGTHS.shape[0], k), DATA.dtype), out[1]((LENGTHS.shape[0], k), "int32")
    _top_of_runs(DATA, LENGTHS, values, indices)
    return values, indices


@loop
def _top_of_runs(data, lengths, values, indices):
    """The best so far stand in order; what is better than the last of them moves up to its place.  NaN comes last."""
    begin, k = 0, values.shape[1]
    for n in range(lengths.size):
        best, where = values[n], indices[n]
        have = 0
        for i in range(lengths[n]):
            x = data[begin + i]
            if have == k and not (x > best[k - 1] or (x == x and best[k - 1] != best[k - 1])):
                continue
            at = have if have < k else k - 1
            while at > 0 and (x > best[at - 1] or (x == x and best[at - 1] != best[at - 1])):
                best[at], where[at] = best[at - 1], where[at - 1]
                at -= 1
            best[at], where[at] = x, i
            have = min(have + 1, k)
        for i in range(have, k):
            best[i], where[i] = 0, -1
        begin += lengths[n]


@operator("dX", types={"LENGTHS": "int32", "indices": "int32", "dY": "float32"}, limits="k >= 1")
def LengthsTopKGradient(xp, LENGTHS, indices, dY, *, k: int = 0, out):
    """The gradient goes to the rows that were among the best.

    LENGTHS [S] int32, indices [S, k] int32, dY [S, k] float32 -> dX [sum of lengths]. ValueError where the shapes
    differ, or k is below 1.
    """
    _vector(LENGTHS)
    if indices.shape != (LENGTHS.size, k) or dY.shape != indices.shape:
        raise ValueError(
            f"indices and dY must be [{LENGTHS.size}, {k}], found {list(indices.shape)} and {list(dY.shape)}"
        )
    dX = out((int(LENGTHS.sum()),), dY.dtype)
    clear(dX)
    if pays(xp, indices):
        beyond = _put_best(LENGTHS, indices, dY, dX)
    else:
        there = indices >= 0
        beyond = bool((there & (indices >= LENGTHS.reshape(-1, 1))).any())
        if not beyond:
            starts = xp.cumsum(LENGTHS) - LENGTHS
            dX[(starts.reshape(-1, 1) + indices)[there]] = dY[there]
    if beyond:
        raise ValueError(
            f"an index is beyond its segment: lengths {LENGTHS.tolist()[:8]}, indices {indices.tolist()[:8]}"
        )
    return dX


@loop
def _put_best(lengths, indices, dY, dX):
    """Whether an index is beyond its segment; if none is, dX has the gradients."""
    start = 0
    for n in range(indices.shape[0]):
        for i in range(indices.shape[1]):
            k = indices[n, i]
            if k >= lengths[n]:
                return True
            if k >= 0:
                dX[start + k] = dY[n, i]
        start += lengths[n]
    return False


@operator(
    "OUTPUT LENGTHS",
    types={"RANGES": _INT},
    infer=lambda args, inputs: [inputs[0], Spec(inputs[1].shape[:1], inputs[1].dtype)],
)
def GatherRanges(xp, DATA, RANGES, *, out):
    """The elements of the ranges (first, number), one after the other, and how many each example has.

    DATA [N] of any type, RANGES [examples, ranges, 2] int32 or int64 -> OUTPUT [sum of the numbers], LENGTHS [examples]
    int32. ValueError where the shapes are others, or a range reaches beyond the data.
    """
    if DATA.ndim != 1 or RANGES.ndim != 3 or RANGES.shape[2] != 2:
        raise ValueError(
            f"expected data [N] and ranges [examples, ranges, 2], got {list(DATA.shape)} and {list(RANGES.shape)}"
        )
    starts, counts = RANGES[..., 0].reshape(-1).astype("int64"), RANGES[..., 1].reshape(-1).astype("int64")
    _check_ranges(starts, counts, DATA.shape[0])
    ends = xp.cumsum(counts)
    Y = out[0]((int(ends[-1]) if counts.size else 0,), DATA.dtype)
    copy_runs(xp, DATA, starts, Y, ends - counts, counts)
    lengths = out[1]((RANGES.shape[0],), "int32")
    lengths[...] = RANGES[..., 1].sum(axis=1)
    return Y, lengths


def _check_ranges(starts, counts, size):
    if starts.size and (
        int(starts.min()) < 0
        or int(counts.min()) < 0
        or int((counts - size + starts.clip(None, size)).max()) > 0
        or int(starts.max()) > size
    ):
        bad = int(((starts < 0) | (counts < 0) | (starts > size) | (counts > size - starts)).argmax())
        raise ValueError(
            f"range {bad}, {int(counts[bad])} elements from {int(starts[bad])} on, reaches beyond the {size} elements of the data"
        )


@operator(
    "OUTPUTS*",
    num_inputs=(2, 3),
    num_outputs=(1, MANY),
    types={"RANGES": _INT, "KEY": "int64"},
    gradient=NO_GRADIENT,
    infer=lambda args, inputs: [Spec((inputs[1].shape[0], n), inputs[0].dtype) for n in args["lengths"]],
)
def GatherRangesToDense(
    xp,
    DATA,
    RANGES,
    KEY=None,
    *,
    lengths: list[int],
    min_observation: int = 10000,
    max_mismatched_ratio: float = 0.01,
    max_empty_ratio: float = 1.0,
    out,
):
    """For each feature j the elements of the ranges; zeros where a range is empty. With KEY, the elements of a range are sorted by

    their keys.

    DATA [N] of any type, RANGES [examples, features, 2] int32 or int64, KEY [N] int64 -> OUTPUTS [examples, lengths[j]]
    each. ValueError where the shapes do not fit, a range reaches beyond the data, or more ranges than the ratios allow
    are empty or have not the length.
    """
    if DATA.ndim != 1 or RANGES.ndim != 3 or RANGES.shape[2] != 2:
        raise ValueError(
            f"expected data [N] and ranges [examples, features, 2], got {list(DATA.shape)} and {list(RANGES.shape)}"
        )
    if min_observation <= 0:
        raise ValueError(f"min_observation must be above 0, found {min_observation}")
    if len(lengths) != RANGES.shape[1] or len(out) < len(lengths):
        raise ValueError(f"{len(lengths)} lengths are given for {RANGES.shape[1]} features and {len(out)} outputs")
    if KEY is not None and KEY.shape != DATA.shape:
        raise ValueError(f"there must be one key for each of {DATA.shape[0]} elements, got {list(KEY.shape)}")
    _check_ranges(RANGES[..., 0].reshape(-1), RANGES[..., 1].reshape(-1), DATA.shape[0])
    made = []
    for j, length in enumerate(lengths):
        if length <= 0:
            raise ValueError(f"lengths must be positive, got {length}")
        starts, counts = RANGES[:, j, 0].astype("int64"), RANGES[:, j, 1].astype("int64")
        wrong = int(((counts != length) & (counts != 0)).sum())
        empty = int((counts == 0).sum())
        seen = max(RANGES.shape[0], min_observation)
        if wrong > max_mismatched_ratio * seen:
            raise ValueError(
                f"{wrong} ranges of feature {j} have another length than {length}; max_mismatched_ratio={max_mismatched_ratio} "
                f"of {seen} may"
            )
        if empty > max_empty_ratio * seen:
            raise ValueError(
                f"{empty} of {RANGES.shape[0]} ranges of feature {j} are empty; max_empty_ratio={max_empty_ratio} of {seen} may be"
            )
        whole = counts == length
        Y = out[j]((RANGES.shape[0], length), DATA.dtype)
        if KEY is None and pays(xp, Y):
            _copy_whole(DATA, starts, whole, Y)
            made.append(Y)
            continue
        Y[...] = b"" if DATA.dtype == object else 0
        if bool(whole.any()):
            rows = starts[whole].reshape(-1, 1) + xp.arange(length).reshape(1, -1)
            if KEY is not None:
                rows = xp.take_along_axis(rows, xp.argsort(KEY[rows], axis=1, kind="stable"), axis=1)
            Y[whole] = DATA[rows]
        made.append(Y)
    return tuple(made)


@loop
def _copy_whole(data, starts, whole, Y):
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = data[starts[i] + j] if whole[i] else 0


@operator("masked_lengths", types={"lengths": _INT, "mask": "bool"}, gradient=NO_GRADIENT)
def BooleanMaskLengths(xp, lengths, mask, *, out):
    """How many places of each segment the mask keeps.

    lengths [S] int32 or int64, mask [N] bool -> masked_lengths [S] of the lengths' type. ValueError where the lengths
    do not sum to N, or the mask is no vector.
    """
    starts, counts = segments.lengths_to_starts(xp, lengths, mask.size, exact=True)
    if mask.ndim != 1:
        raise ValueError(f"the mask must have one dimension, got shape {list(mask.shape)}")
    kept = xp.concatenate([xp.zeros(1, "int64"), xp.cumsum(mask)])
    Y = out(lengths.shape, lengths.dtype)
    Y[...] = kept[starts + counts] - kept[starts]
    return Y


def _infer_grams(args: Any, inputs: Any) -> list[Spec]:
    return [Spec(inputs[0].shape[:1], "int64")]


@operator("Y", types={"X": "float32"}, gradient=NO_GRADIENT, infer=_infer_grams)
def NGramFromCategorical(xp, X, *, col_ids: list[int], categorical_limits: list[int], vals: list[int], out):
    """One number for the categories in the columns `col_ids` together; column k has categorical_limits[k] of `vals`.

    X [N, D] float32 -> Y [N] int64: the sum of the places of the categories, each times the
    product of the limits before. ValueError where the three lists do not fit each other, or a column is not in [0, D).
    """
    if len(col_ids) != len(categorical_limits) or sum(categorical_limits) != len(vals):
        raise ValueError(
            f"there must be one limit for each column, and as many vals as the limits sum to; found {len(col_ids)} columns, "
            f"{len(categorical_limits)} limits with the sum {sum(categorical_limits)}, and {len(vals)} vals"
        )
    if X.ndim != 2 or any(not 0 <= c < X.shape[1] for c in col_ids):
        raise ValueError(f"the columns {list(col_ids)} are not within the shape {list(X.shape)}")
    Y = out((X.shape[0],), "int64")
    Y[...] = 0
    base, begin = 1, 0
    rounded = X if X.dtype.kind == "i" else xp.trunc(X + xp.copysign(X.dtype.type(0.5), X))  # halves away from 0
    for column, limit in zip(col_ids, categorical_limits):
        table = vals[begin : begin + limit]
        for code, value in enumerate(table):
            Y[...] += xp.where(rounded[:, column] == value, code * base, 0)
        base *= limit
        begin += limit
    return Y
