"""Chosen examples."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class GatherRecord(ModelLayer):
    """The examples of input.record, columns and lists of any depth, whose numbers are in input.indices."""

    def __init__(self, model, input_record, name="gather_record", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        for field in ("indices", "record"):
            if field not in input_record:
                raise AssertionError(f"GatherRecord needs the field {field}, got {input_record.field_names()}")
        self.output_schema = schema.NewRecord(model.net, input_record.record.clone_schema())
        self._indices = input_record.indices()

    def _gather_scalar(self, net, record, lengths_blob, output_record):
        if lengths_blob is None:
            net.Gather([record(), self._indices], output_record())
        else:
            net.LengthsGather([record(), lengths_blob, self._indices], output_record())

    def _gather_struct(self, net, record, lengths_blob, output_record):
        for name, field in record.get_children():
            self._dispatch(net, field, lengths_blob, output_record[name])

    def _gather_list(self, net, record, lengths_blob, output_record):
        self._gather_scalar(net, record.lengths, lengths_blob, output_record.lengths)
        inner = record.lengths()
        if lengths_blob is not None:  # how many items all lists of an example have
            as_float = net.Cast(inner, net.NextScopedBlob(str(inner) + "_float"), to=core.DataType.FLOAT)
            sums = net.LengthsSum([as_float, lengths_blob], net.NextScopedBlob(str(inner) + "_nested_float"))
            inner = net.Cast(sums, net.NextScopedBlob(str(inner) + "_nested"), to=core.DataType.INT32)
        self._dispatch(net, record._items, inner, output_record._items)

    def _dispatch(self, net, record, lengths_blob, output_record):
        for kind, gather in (
            (schema.Scalar, self._gather_scalar),
            (schema.Struct, self._gather_struct),
            (schema.List, self._gather_list),
        ):
            if isinstance(record, kind):
                return gather(net, record, lengths_blob, output_record)
        raise NotImplementedError(f"GatherRecord of {record!r}")

    def add_ops(self, net):
        self._dispatch(net, self.input_record.record, None, self.output_schema)
