"""Records of a net: what its inputs and outputs mean (schema.Field over blobs)."""

from __future__ import annotations

from caffe2lite.python._core.operators import _get_blob_ref
from caffe2lite.python.scope import NameScope


class Records:
    """The part of Net that knows input and output records."""

    _input_record = None
    _output_record = None

    def set_input_record(self, input_record):
        """Say what the inputs are (a schema.Field); blobs are made where it has none. Returns the record with blobs."""
        from caffe2lite.python import schema

        if self._input_record is not None and not schema.equal_schemas(self._input_record, input_record):
            raise AssertionError(f"net {self.Name()} keeps its input record {self._input_record!r}, got {input_record!r}")
        if not input_record.has_blobs():
            with NameScope(self.Name()):
                input_record = schema.NewRecord(self, input_record)
        self._input_record = input_record
        for blob in input_record.field_blobs():
            if not self.is_external_input(blob):
                self.AddExternalInput(blob)
        return self._input_record

    def set_output_record(self, record):
        """Say what the outputs are (a schema.Field over blobs that the net defines)."""
        from caffe2lite.python import schema

        if self._output_record is not None and not schema.equal_schemas(self._output_record, record):
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
        from caffe2lite.python import schema

        if self._output_record is None:
            raise AssertionError(f"net {self.Name()} has no output record to append to: call set_output_record first")
        for blob in record.field_blobs():
            if not self.BlobIsDefined(blob):
                raise AssertionError(f"{blob} is not defined in net {self.Name()}")
        for blob in record.field_blobs():
            self.AddExternalOutput(blob)
        self._output_record = self._output_record + schema.Struct((field_name, record))

    def recover_input_record_by_prefix(self, prefix):
        """Make the input record from the external inputs whose names begin with `prefix`."""
        record = _recover_record_by_prefix(self._net.external_input, prefix)
        if record:
            self.set_input_record(record)

    def recover_output_record_by_prefix(self, prefix):
        """Make the output record from the external outputs whose names begin with `prefix`."""
        record = _recover_record_by_prefix(self._net.external_output, prefix)
        if record:
            self.set_output_record(record)

    def input_record(self):
        """The input record, or None."""
        return self._input_record

    def output_record(self):
        """The output record, or None."""
        return self._output_record


def _recover_record_by_prefix(names, prefix=""):
    """A schema record of the names that begin with `prefix`, or None."""
    from caffe2lite.python import schema

    columns = [name[len(prefix) :] for name in names if name.startswith(prefix)]
    if not columns:
        return None
    return schema.from_column_list(columns, col_blobs=[_get_blob_ref(prefix + name) for name in columns])
