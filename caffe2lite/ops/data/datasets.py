"""Datasets: fields of a nested schema, read in batches.

A field's name says where it is: `b:values:lengths` holds the lengths of the lists in `b:values`.  The domain of a field
is the field of lengths that its rows are counted by; the rows of the outermost domain are the examples.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.data.shuffle import shuffled
from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.infer import unknown
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import FORBID_GRADIENT, MANY, NO_GRADIENT, operator
from caffe2lite.ops.kit.rows import check_range
from caffe2lite.ops.kit.shapes import rows_of

_LENGTHS = "lengths"


class Tree:
    """The domains of a list of field names.

    domain_of[i]   domain of field i: 0 for the examples, k for the rows that the k-th field of lengths counts
    lengths_of[k]  the field that counts domain k (None for 0), parent[k] the domain which that field is in
    """

    def __init__(self, fields) -> None:
        self.fields = list(fields)
        self.domain_of: list[int] = []
        self.lengths_of: list[int | None] = [None]
        self.parent: list[int] = [0]
        prefixes = {"": 0}  # what stands before ":values:" or ":items:" … of a field inside a list
        for i, field in enumerate(self.fields):
            domain = 0
            parts = field.split(":")
            for k in range(len(parts), 0, -1):
                prefix = ":".join(parts[: k - 1])
                if prefix in prefixes and not (parts[-1] == _LENGTHS and k == len(parts)):
                    domain = prefixes[prefix]
                    break
            self.domain_of.append(domain)
            if parts[-1] == _LENGTHS or field == _LENGTHS:
                prefixes[":".join(parts[:-1])] = len(self.lengths_of)
                self.lengths_of.append(i)
                self.parent.append(domain)

    def ends(self, tensors, begins, ends0):
        """Where a batch ends in every domain, that begins at `begins` and ends at `ends0` in the outermost."""
        ends = [0] * len(self.lengths_of)
        ends[0] = ends0
        for k in range(1, len(ends)):
            lengths = tensors[self.lengths_of[k]]
            if lengths.ndim == 1:
                lengths = lengths[begins[self.parent[k]] : ends[self.parent[k]]]
            if lengths.ndim != 1 or lengths.dtype != np.int32 or (lengths.size and int(lengths.min()) < 0):
                raise ValueError(
                    f"field {self.fields[self.lengths_of[k]]!r} must be int32 lengths, one dimension, none negative"
                )
            ends[k] = begins[k] + int(lengths.sum())
        return ends

    def check(self, tensors) -> None:
        """ValueError where the fields do not belong together."""
        if len(tensors) != len(self.fields):
            raise ValueError(f"the schema has {len(self.fields)} fields, and {len(tensors)} tensors are given")
        sizes: dict[int, tuple[int, str]] = {}
        for k in range(1, len(self.lengths_of)):
            lengths = tensors[self.lengths_of[k]]
            if lengths.ndim != 1 or lengths.dtype != np.int32:
                raise ValueError(
                    f"field {self.fields[self.lengths_of[k]]!r} must be int32 with one dimension, found "
                    f"{lengths.dtype}{list(lengths.shape)}"
                )
            sizes[k] = (int(lengths.sum()), self.fields[self.lengths_of[k]])
        for field, domain, tensor in zip(self.fields, self.domain_of, tensors):
            rows = tensor.shape[0] if tensor.ndim else -1
            if domain in sizes and rows != sizes[domain][0]:
                count, by = sizes[domain]
                raise ValueError(f"field {field!r} has {rows} rows, and {by!r} asks for {count}")
            sizes.setdefault(domain, (rows, field))


class TreeCursor(Object):
    """A place in a dataset, shared by the operators that read from it."""

    title = "a cursor (CreateTreeCursor makes one)"
    type_name = "std::unique_ptr<caffe2::dataset_ops::TreeCursor>"
    blob_type = "std::unique_ptr<TreeCursor>"

    def __init__(self, fields) -> None:
        self.tree = Tree(fields)
        self.lock = locks.lock()
        self.offsets = [0] * len(self.tree.lengths_of)

    def write(self, proto) -> None:
        if any(self.offsets):
            proto.tensor.dims.append(len(self.offsets))
            proto.tensor.data_type = 10
            proto.tensor.int64_data.extend(self.offsets)
            proto.tensor.name = proto.name
        proto.content = b"".join(f.encode() + b" " for f in self.tree.fields)

    @classmethod
    def read(cls, proto):
        cursor = cls(proto.content.decode().split())
        if proto.tensor.int64_data:
            cursor.offsets = list(proto.tensor.int64_data)
        return cursor


@operator("cursor", stateful=True)
def CreateTreeCursor(ctx, *, fields: list[str] = ()):
    """A cursor at the first example of a dataset with these fields.

    cursor; no tensors, of any type. TypeError where a field is no string.
    """
    return TreeCursor(fields)


@operator("", stateful=True, num_inputs=(1, 1), gradient=NO_GRADIENT)
def ResetCursor(ctx, cursor):
    """Back to the first example.

    cursor; no tensors, of any type. TypeError where the input is no cursor.
    """
    with needed(TreeCursor, cursor).lock:
        cursor.offsets = [0] * len(cursor.offsets)


@operator("offsets", stateful=True, gradient=NO_GRADIENT)
def GetCursorOffset(ctx, cursor, *, out):
    """Where the cursor stands in each domain (int32).

    cursor -> offsets [domains]. TypeError where the input is no cursor.
    """
    with needed(TreeCursor, cursor).lock:
        offsets = out((len(cursor.offsets),), np.int32)
        offsets[...] = cursor.offsets
    return offsets


@operator("", stateful=True, num_inputs=(1, MANY), gradient=NO_GRADIENT)
def CheckDatasetConsistency(ctx, *tensors, fields: list[str]):
    """An error where the tensors are no dataset of these fields.

    Tensors [rows of their domain, ...] of any type; lengths are int32 vectors. ValueError where they are not as many as
    the fields, lengths are others, or a field has not the rows that its domain asks for.
    """
    Tree(fields).check(tensors)


def _check_fields(cursor, tensors):
    """Raise an error where the cursor is none, or has another number of fields than there are tensors."""
    needed(TreeCursor, cursor)
    if len(tensors) != len(cursor.tree.fields):
        raise ValueError(f"the cursor has {len(cursor.tree.fields)} fields, and {len(tensors)} tensors are given")


def _check_rows(tensors) -> None:
    if any(t.ndim < 1 for t in tensors):
        raise ValueError(f"fields have rows, and one is a scalar: {[list(t.shape) for t in tensors]}")


def _check_outputs(ctx, tensors) -> None:
    if len(ctx.outputs) != len(tensors):
        raise ValueError(f"there must be an output for each of {len(tensors)} fields, {len(ctx.outputs)} are named")


def _put(ctx, i, rows) -> None:
    ctx.outputs[i].assign(rows)


@operator("fields*", stateful=True, num_inputs=(1, MANY), num_outputs=(1, MANY), gradient=NO_GRADIENT)
def ReadNextBatch(ctx, cursor, *tensors, batch_size: int = 1, enforce_batch_size: bool = False):
    """The next `batch_size` examples; fewer, and then none, at the end (or none at once, with enforce_batch_size).

    cursor, tensors [rows of their domain, ...] of any type -> fields [rows of these examples, ...]. ValueError where
    the tensors are not as many as the cursor's fields, or shorter than the lengths say.
    """
    _check_fields(cursor, tensors)
    _check_outputs(ctx, tensors)
    tree = cursor.tree
    examples = _examples(tree, tensors)
    with cursor.lock:
        begins = list(cursor.offsets)
        stop = min(begins[0] + batch_size, examples)
        if enforce_batch_size and stop < begins[0] + batch_size:
            stop = begins[0]
        ends = tree.ends(tensors, begins, max(stop, begins[0]))
        cursor.offsets = ends
    for i, tensor in enumerate(tensors):
        domain = tree.domain_of[i]
        if ends[domain] > tensor.shape[0]:
            raise ValueError(
                f"field {tree.fields[i]!r} has {tensor.shape[0]} rows, and row {ends[domain]} is asked for"
            )
        _put(ctx, i, tensor[begins[domain] : ends[domain]])


def _examples(tree, tensors) -> int:
    """Return the number of examples: rows of the first field of the outermost domain."""
    _check_rows(tensors)
    return next(t.shape[0] for t, d in zip(tensors, tree.domain_of) if d == 0)


def _offset_matrix(tree, tensors):
    """Return [examples + 1, domains]: where each example begins in every domain."""
    examples = _examples(tree, tensors)
    matrix = np.zeros((examples + 1, len(tree.lengths_of)), np.int64)
    matrix[:, 0] = np.arange(examples + 1)
    for k in range(1, len(tree.lengths_of)):
        lengths, rows = tensors[tree.lengths_of[k]], int(matrix[-1, tree.parent[k]])
        if (
            lengths.ndim != 1
            or lengths.dtype != np.int32
            or len(lengths) < rows
            or (lengths.size and lengths.min() < 0)
        ):
            raise ValueError(
                f"field {tree.fields[tree.lengths_of[k]]!r} must be int32 lengths for {rows} rows, none negative"
            )
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        matrix[:, k] = starts[matrix[:, tree.parent[k]]]
    return matrix


@operator("offsets", stateful=True, num_inputs=(1, MANY), gradient=NO_GRADIENT)
def ComputeOffset(ctx, cursor, *tensors, out):
    """Where each example begins in every domain.

    cursor, tensors [rows of their domain, ...] of any type -> offsets [examples + 1, domains] int64. ValueError where
    the tensors are not as many as the cursor's fields.
    """
    _check_fields(cursor, tensors)
    matrix = _offset_matrix(cursor.tree, tensors)
    offsets = out(matrix.shape, np.int64)
    offsets[...] = matrix
    return offsets


@operator("indices", stateful=True, num_inputs=(1, MANY), gradient=NO_GRADIENT)
def SortAndShuffle(ctx, cursor, *tensors, sort_by_field_idx: int = 1, batch_size: int = 1, shuffle_size: int = 1, out):
    """Examples sorted by a field, shuffled within runs of shuffle_size batches, and the batches among themselves.

    It is always the same order, that of Caffe2.

    cursor, tensors [rows of their domain, ...] of any type -> indices [examples] int64. ValueError where
    sort_by_field_idx is not from -1 to the last field, batch_size or shuffle_size is below 1, or the field is shorter
    than the examples.
    """
    _check_fields(cursor, tensors)
    if not -1 <= sort_by_field_idx < len(tensors):
        raise ValueError(f"sort_by_field_idx must be -1 or within 0 to {len(tensors) - 1}, got {sort_by_field_idx}")
    if batch_size < 1 or shuffle_size < 1:
        raise ValueError(f"batch_size and shuffle_size must be positive, got {batch_size} and {shuffle_size}")
    count = _examples(cursor.tree, tensors)
    order = np.arange(count)
    if sort_by_field_idx >= 0:
        key = tensors[sort_by_field_idx]
        if key.shape[0] < count:
            raise ValueError(f"field {sort_by_field_idx} has {key.shape[0]} rows for {count} examples")
        order = np.argsort(rows_of(key[:count])[:, 0], kind="stable")
    run = batch_size * shuffle_size
    for begin in range(0, count - run, run):  # the last run stays sorted, as in Caffe2
        order[begin : begin + run] = order[begin : begin + run][shuffled(run)]
    whole = count // batch_size
    batches = order[: whole * batch_size].reshape(whole, batch_size)
    order[: whole * batch_size] = batches[shuffled(whole)].reshape(-1)
    indices = out((count,), np.int64)
    indices[...] = order
    return indices


@operator("fields*", stateful=True, num_inputs=(3, MANY), num_outputs=(1, MANY), gradient=NO_GRADIENT,
          types={"idx": "int64", "offsets": "int64"})  # fmt: skip
def ReadRandomBatch(
    ctx, cursor, idx, offsets, *tensors, batch_size: int = 1, enforce_batch_size: bool = False, loop_over: bool = False
):
    """The next `batch_size` examples in the order of `idx`; with loop_over the first come again after the last.

    cursor, idx [N] int64, offsets [examples + 1, domains] int64, tensors [rows of their domain, ...] of any type ->
    fields [rows of these examples, ...]. ValueError where the tensors are not as many as the cursor's fields, or idx is
    beyond the examples.
    """
    _check_fields(cursor, tensors)
    _check_outputs(ctx, tensors)
    if idx.ndim != 1 or offsets.ndim != 2 or offsets.shape[1] != len(cursor.tree.lengths_of):
        raise ValueError(
            f"idx must be [N] and offsets [examples + 1, {len(cursor.tree.lengths_of)}], found {list(idx.shape)} and "
            f"{list(offsets.shape)}"
        )
    _check_rows(tensors)
    tree = cursor.tree
    with cursor.lock:
        begin = cursor.offsets[0]
        if loop_over and begin >= idx.shape[0]:
            begin = 0
        stop = min(begin + batch_size, idx.shape[0])
        if enforce_batch_size and stop < begin + batch_size:
            stop = begin
        cursor.offsets[0] = stop
    chosen = idx[begin:stop]
    check_range(chosen, offsets.shape[0] - 1, "an element of idx")
    for i, tensor in enumerate(tensors):
        column = offsets[:, tree.domain_of[i]]
        parts = [tensor[int(column[c]) : int(column[c + 1])] for c in chosen]
        _put(ctx, i, np.concatenate(parts) if parts else tensor[:0])


@operator(
    "fields*",
    stateful=True,
    num_inputs=(1, MANY),
    num_outputs=(1, MANY),
    mutates=[(i, i) for i in range(64)],
    gradient=NO_GRADIENT,
    infer=unknown,
    limits="multiple_of >= 1",
)
def TrimDataset(ctx, *tensors, fields: list[str], multiple_of: int = 1):
    """Cut off examples at the end, so that their number is a multiple of `multiple_of`.

    Tensors [rows of their domain, ...] of any type -> the same, shorter. ValueError where they are no dataset of these
    fields, or multiple_of is below 1.
    """
    tree = Tree(fields)
    tree.check(tensors)
    _check_outputs(ctx, tensors)
    keep = _examples(tree, tensors) // multiple_of * multiple_of
    ends = tree.ends(tensors, [0] * len(tree.lengths_of), keep)
    for i, tensor in enumerate(tensors):
        _put(ctx, i, tensor[: ends[tree.domain_of[i]]].copy())


class PackedRecords(Object):
    """Examples as objects: a list with, for each of them, the rows of every field."""

    type_name = "caffe2::Tensor"
    operand = True

    def __init__(self, records) -> None:
        self.records = records

    def fetch(self):
        """The number of records is what NumPy can show of them."""
        return np.arange(len(self.records))


@operator("tensor", stateful=True, num_inputs=(1, MANY), gradient=NO_GRADIENT)
def PackRecords(ctx, *tensors, fields: list[str], pack_to_single_shared_ptr: bool = False):
    """All fields of each example packed into one element of a tensor.

    Tensors [rows of their domain, ...] of any type -> tensor [examples] of records; with `pack_to_single_shared_ptr`
    one record of the whole. ValueError where they are no dataset of these fields.
    """
    tree = Tree(fields)
    tree.check(tensors)
    offsets = _offset_matrix(tree, tensors)
    domains = tree.domain_of
    records = [
        [t[offsets[e, d] : offsets[e + 1, d]].copy() for t, d in zip(tensors, domains)] for e in range(len(offsets) - 1)
    ]
    if pack_to_single_shared_ptr:
        return PackedRecords([[t.copy() for t in tensors]])
    made = np.empty(len(records), object)
    for i, record in enumerate(records):
        made[i] = record
    return made


@operator("fields*", stateful=True, num_inputs=(1, MANY), num_outputs=(1, MANY), gradient=NO_GRADIENT)
def UnPackRecords(ctx, packed, *prototypes, fields: list[str] = ()):
    """The fields of packed examples, one after the other; prototypes give shapes and types where there is none.

    packed [examples] of records, prototypes [n, ...] of any type -> fields [rows, ...]. ValueError where the fields are
    not as many as the outputs, there are neither records nor prototypes, or a record was saved and loaded and is empty.
    """
    if getattr(packed, "dtype", np.dtype(object)) != np.dtype(object):  # nothing is packed: the tensor is a field
        if len(ctx.inputs) > 1 or len(ctx.outputs) > 1:
            raise ValueError("a tensor that is not packed is one field: it takes no prototypes, and one output")
        ctx.outputs[0].assign(packed, ctx.device)
        return
    records = packed.records if isinstance(packed, PackedRecords) else list(packed.reshape(-1))
    if len(ctx.outputs) != len(fields):
        raise ValueError(f"{len(fields)} fields are given for {len(ctx.outputs)} outputs")
    if not all(r is None or isinstance(r, (list, tuple)) for r in records):
        raise TypeError("the tensor holds strings or numbers, and no packed records")
    if any(r is None for r in records):
        at = next(i for i, r in enumerate(records) if r is None)
        raise ValueError(f"record {at} has lost its contents: packed records that are saved and loaded keep nothing")
    if not records and not prototypes:
        raise ValueError("nothing is packed, and no prototypes tell what the fields look like")
    for i in range(len(fields)):
        if records:
            _put(ctx, i, np.concatenate([r[i] for r in records]))
        else:
            _put(ctx, i, prototypes[i][:0])


@operator("shrunk", gradient=FORBID_GRADIENT)
def RemoveDataBlocks(xp, data, indices, *, out):
    """The data without the rows of the given indices.

    data [N, ...] of any type, indices [M] int32 or int64 -> shrunk [rows left, ...]. ValueError where the indices are
    no vector, or one is not in [0, N); TypeError where they are no integers.
    """
    if data.ndim < 1 or indices.ndim != 1:
        raise ValueError(f"expected data [N, …] and indices [M], got {list(data.shape)} and {list(indices.shape)}")
    if indices.size and indices.dtype.kind != "i":
        raise TypeError(f"indices must be int32 or int64, got {indices.dtype}")
    check_range(indices, data.shape[0], "an index")
    keep = xp.ones(data.shape[0], bool)
    if indices.size:  # of another type, which Caffe2 does not look at, there may be none
        keep[indices] = False
    Y = out((int(keep.sum()), *data.shape[1:]), data.dtype)
    Y[...] = data[keep]
    return Y
