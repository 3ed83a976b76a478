"""Records of a net: what its inputs and outputs mean (schema.Field over blobs)."""

from __future__ import annotations

from caffe2lite.python._core.fields import (
    FIELD_SEPARATOR,
    Field,
    List,
    ListWithEvicted,
    Scalar,
    Struct,
    equal_schemas,
)
from caffe2lite.python._core.operators import BlobReference, blob_reference
from caffe2lite.python.scope import NameScope


def from_column_list(col_names, col_types=None, col_blobs=None, col_metadata=None):
    """Return the schema whose columns have these names (and types, blobs, metadata)."""
    columns = {}
    for what, values in (("types", col_types), ("blobs", col_blobs), ("metadata", col_metadata)):
        values = [None] * len(col_names) if values is None else values
        if len(values) != len(col_names):
            raise AssertionError(f"col_names and col_{what} must have the same length.")
        columns[what] = values
    scalars = [Scalar(*parts) for parts in zip(columns["types"], columns["blobs"], columns["metadata"])]
    return _from_paths([name.split(FIELD_SEPARATOR) for name in col_names], scalars)


def _from_paths(paths, scalars):
    if paths == [[]]:
        return scalars[0]
    groups = {}
    for path, scalar in zip(paths, scalars):
        below, leaves = groups.setdefault(path[0], ([], []))
        below.append(path[1:])
        leaves.append(scalar)
    for name, (below, _) in groups.items():
        if len(below) > 1 and [] in below:
            raise ValueError(f"Duplicate field name: {name}")
    fields = {name: _from_paths(*group) for name, group in groups.items()}
    if fields.keys() == {"lengths", "values"}:
        return List(fields["values"], lengths_blob=fields["lengths"])
    if fields.keys() == {"lengths", "values", "_evicted_values"}:
        return ListWithEvicted(fields["values"], fields["lengths"], fields["_evicted_values"])
    if fields.keys() == {"lengths", "keys", "values"}:
        return List(Struct(("keys", fields["keys"]), ("values", fields["values"])), lengths_blob=fields["lengths"])
    return Struct(*fields.items())


def from_blob_list(schema, values, throw_on_type_mismatch=False):
    """Return a copy of `schema` over these blobs or arrays, one per column."""
    if not isinstance(schema, Field):
        raise AssertionError(f"a schema is a Field, got {schema!r}")
    if isinstance(values, BlobReference):
        values = [values]
    record = schema.clone_schema()
    scalars = record.all_scalars()
    if len(scalars) != len(values):
        raise AssertionError(f"Values must have {len(scalars)} elements, got {len(values)}.")
    for scalar, value in zip(scalars, values):
        scalar.set_value(value, throw_on_type_mismatch, unsafe=True)
    return record


def NewRecord(net, schema):
    """Return the record over new blobs of `net`, named after the columns (in the name scope)."""
    if isinstance(schema, Scalar):
        record = schema.clone()
        record.set_value(blob=net.NextScopedBlob("unnamed_scalar"), unsafe=True)
        return record
    if not isinstance(schema, Field):
        raise AssertionError(f"a record is made from a Field, got {schema!r}")
    return from_blob_list(schema, [net.NextScopedBlob(prefix=name) for name in schema.field_names()])


def renamed_record(record, blob_remap, net):
    """Return the record over the blobs of `net`, a clone with blobs renamed; None for None."""
    if not record:
        return None
    names = {str(old): str(new) for old, new in (blob_remap or {}).items()}
    return from_blob_list(record, [BlobReference(names.get(str(b), str(b)), net=net) for b in record.field_blobs()])


class Records:
    """The part of Net that knows input and output records."""

    _input_record = None
    _output_record = None

    def set_input_record(self, input_record):
        """Say what the inputs are (a schema.Field); blobs are made where it has none. Return the record with blobs."""
        if self._input_record is not None and not equal_schemas(self._input_record, input_record):
            raise AssertionError(
                f"net {self.Name()} keeps its input record {self._input_record!r}, got {input_record!r}"
            )
        if not input_record.has_blobs():
            with NameScope(self.Name()):
                input_record = NewRecord(self, input_record)
        self._input_record = input_record
        for blob in input_record.field_blobs():
            if not self.is_external_input(blob):
                self.AddExternalInput(blob)
        return self._input_record

    def set_output_record(self, record):
        """Say what the outputs are (a schema.Field over blobs that the net defines)."""
        if self._output_record is not None and not equal_schemas(self._output_record, record):
            raise AssertionError(f"net {self.Name()} keeps its output record {self._output_record!r}, got {record!r}")
        for blob in record.field_blobs():
            if not self.BlobIsDefined(blob):
                raise AssertionError(f"{blob} is not defined in net {self.Name()}")
        for blob in record.field_blobs():
            if str(blob) not in self._net.external_output:
                self.AddExternalOutput(blob)
        self._output_record = record

    def AppendOutputRecordField(self, field_name, record):
        """Add a field to the output record."""
        if self._output_record is None:
            raise AssertionError(f"net {self.Name()} has no output record to append to: call set_output_record first")
        for blob in record.field_blobs():
            if not self.BlobIsDefined(blob):
                raise AssertionError(f"{blob} is not defined in net {self.Name()}")
        for blob in record.field_blobs():
            self.AddExternalOutput(blob)
        self._output_record = self._output_record + Struct((field_name, record))

    def recover_input_record_by_prefix(self, prefix):
        """Make the input record from the external inputs whose names begin with `prefix`."""
        record = recover_record_by_prefix(self._net.external_input, prefix)
        if record:
            self.set_input_record(record)

    def recover_output_record_by_prefix(self, prefix):
        """Make the output record from the external outputs whose names begin with `prefix`."""
        record = recover_record_by_prefix(self._net.external_output, prefix)
        if record:
            self.set_output_record(record)

    def input_record(self):
        """Return the input record, or None."""
        return self._input_record

    def output_record(self):
        """Return the output record, or None."""
        return self._output_record


def recover_record_by_prefix(names, prefix=""):
    """Return a schema record of the names that begin with `prefix`, or None."""
    columns = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    if not columns:
        return None
    return from_column_list(columns, col_blobs=[blob_reference(prefix + name) for name in columns])
