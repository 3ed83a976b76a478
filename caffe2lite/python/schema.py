"""Schemas of records: named, typed, nested fields, whose scalars may hold blobs or arrays.

A record is a Field: a Scalar (one tensor), a Struct (named fields) or a List (lengths, and values of all its items one
after the other). Flattened, it is a list of columns named by their path: `a`, `b:lengths`, `b:values:x`.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.ops.kit import dtypes
from caffe2lite.python import workspace
from caffe2lite.python._core.fields import (  # noqa: F401 - all of them are this module's
    FIELD_SEPARATOR,
    FeatureSpec,
    Field,
    List,
    ListWithEvicted,
    Metadata,
    Scalar,
    Struct,
    equal_schemas,
    logger,
)
from caffe2lite.python._core.fields import normalized_field as _normalize_field
from caffe2lite.python._core.records import NewRecord, from_blob_list, from_column_list  # noqa: F401
from caffe2lite.python.core import BlobReference

# --- making schemas --------------------------------------------------------------------------------------------------


def Map(keys, values, keys_name="keys", values_name="values", lengths_blob=None):
    """Return a List of (key, value) Structs."""
    return List(Struct((keys_name, keys), (values_name, values)), lengths_blob=lengths_blob)


def MapWithEvicted(keys, values, keys_name="keys", values_name="values", lengths_blob=None, evicted_values=None):
    """Return a ListWithEvicted of (key, value) Structs."""
    return ListWithEvicted(
        Struct((keys_name, keys), (values_name, values)), lengths_blob=lengths_blob, evicted_values=evicted_values
    )


def NamedTuple(name_prefix, *fields):
    """Return a Struct with the fields `name_prefix_0`, `name_prefix_1`, …"""
    return Struct(*[(f"{name_prefix}_{i}", field) for i, field in enumerate(fields)])


def Tuple(*fields):
    """Return a Struct with the fields `field_0`, `field_1`, …"""
    return NamedTuple("field", *fields)


def RawTuple(num_fields, name_prefix="field"):
    """Return a NamedTuple of untyped scalars."""
    if not isinstance(num_fields, int):
        raise AssertionError(f"num_fields is a number, got {num_fields!r}")
    return NamedTuple(name_prefix, *[np.void] * num_fields)


def from_dtype(dtype, _outer_shape=()):
    """Return the schema of a NumPy type: a Struct of a structured one, else a Scalar."""
    dtype = np.dtype(dtype)
    shape = _outer_shape + dtype.shape
    if dtype.base.fields:
        return Struct(*[(name, from_dtype(kind, shape)) for name, (kind, *_) in dtype.base.fields.items()])
    return Scalar((dtype.base, shape))


def as_record(value):
    """Return a field for fields, types, blobs, and lists, tuples and dicts of them."""
    if isinstance(value, Field):
        return value
    if isinstance(value, (list, tuple)):
        if all(type(f) is tuple and len(f) == 2 and isinstance(f[0], str) for f in value):
            return Struct(*[(name, as_record(field)) for name, field in value])
        return Tuple(*[as_record(field) for field in value])
    if isinstance(value, dict):
        return Struct(*[(name, as_record(field)) for name, field in value.items()])
    return _normalize_field(value)


# --- records in a workspace or net -----------------------------------------------------------------------------------


def _blobs_of(record):
    if not isinstance(record, Field):
        raise AssertionError(f"expected a record, got {record!r}")
    blobs = record.field_blobs()
    if not all(isinstance(blob, BlobReference) for blob in blobs):
        raise AssertionError(f"the record has to be over blobs: {record!r}")
    return blobs


def FetchRecord(blob_record, ws=None, throw_on_type_mismatch=False):
    """Return the record with arrays, fetched from the workspace (or from `ws`)."""
    blobs = [str(blob) for blob in _blobs_of(blob_record)]
    arrays = [workspace.FetchBlob(blob) if ws is None else ws.blobs[blob].fetch() for blob in blobs]
    return from_blob_list(blob_record, arrays, throw_on_type_mismatch)


def FeedRecord(blob_record, arrays, ws=None):
    """Feed arrays (a list, or a record over arrays) to the blobs of a record."""
    blobs = _blobs_of(blob_record)
    if isinstance(arrays, Field):
        arrays = arrays.field_blobs()
    if len(arrays) != len(blobs):
        raise AssertionError(f"Values must contain exactly {len(blobs)} ndarrays.")
    for blob, array in zip(blobs, arrays):
        if ws is None:
            workspace.FeedBlob(str(blob), array)
        else:
            ws.create_blob(str(blob)).feed(array)


def ConstRecord(net, array_record):
    """Return a record over new blobs that `net` fills with the arrays of `array_record`."""
    record = NewRecord(net, array_record)
    for blob, array in zip(record.field_blobs(), array_record.field_blobs()):
        net.Const(array, blob)
    return record


def InitEmptyRecord(net, schema_or_record, enforce_types=False):
    """Return a record over blobs that `net` fills with empty tensors; untyped ones become float unless `enforce_types`."""
    record = schema_or_record if schema_or_record.has_blobs() else NewRecord(net, schema_or_record)
    for kind, blob in zip(record.field_types(), record.field_blobs()):
        try:
            arguments = {"shape": [0, *kind.shape], "dtype": data_type_for_dtype(kind)}
        except TypeError:
            logger.warning("Blob %s has type error", blob)
            if enforce_types:
                raise
            arguments = {"shape": [0]}
        net.ConstantFill([], blob, **arguments)
    return record


# --- types and comparisons -------------------------------------------------------------------------------------------

_DATA_TYPE_FOR_DTYPE = [
    ({"object": str, "bool": bool}.get(name) or getattr(np, name), number) for name, number in dtypes.NUMBERS.items()
]


def is_schema_subset(schema, original_schema):
    """Return whether every column of `schema` is one of `original_schema`, by name."""
    return set(schema.field_names()) <= set(original_schema.field_names())


def schema_check(schema, previous=None):
    """`schema` as a record; AssertionError where it differs from `previous`."""
    record = as_record(schema)
    if previous is not None and not equal_schemas(record, previous):
        raise AssertionError(f"the schema changed from {previous!r} to {record!r}")
    return record


def data_type_for_dtype(dtype):
    """Return the core.DataType of a NumPy type; TypeError for others."""
    base = np.dtype(dtype).base
    for numpy_type, data_type in _DATA_TYPE_FOR_DTYPE:
        if base == numpy_type or (numpy_type is str and base.kind == "U"):
            return data_type
    raise TypeError("Unknown dtype: " + str(base))


def dtype_for_core_type(core_type):
    """Return the NumPy type of a core.DataType; TypeError for others."""
    for numpy_type, data_type in _DATA_TYPE_FOR_DTYPE:
        if data_type == core_type:
            return numpy_type
    raise TypeError("Unknown core type: " + str(core_type))


def attach_metadata_to_scalars(field, metadata):
    """Attach Metadata to every scalar of a field."""
    for scalar in field.all_scalars():
        scalar.set_metadata(metadata)
