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

    def _gather(self, net, given, made, lengths):
        """Gather `given` into `made`; `lengths` says how many entries an example has, None: one."""
        if isinstance(given, schema.Scalar):
            if lengths is None:
                net.Gather([given(), self._indices], made())
            else:
                net.LengthsGather([given(), lengths, self._indices], made())
        elif isinstance(given, schema.Struct):
            for name in given.fields:
                self._gather(net, given[name], made[name], lengths)
        elif isinstance(given, schema.List):
            self._gather(net, given.lengths, made.lengths, lengths)
            self._gather(net, given._items, made._items, self._lengths_of_items(net, given.lengths(), lengths))
        else:
            raise NotImplementedError(f"GatherRecord of {given!r}")

    def _lengths_of_items(self, net, inner, outer):
        """Return how many items all lists of an example have, where an example has `outer` lists of `inner` items."""
        if outer is None:
            return inner
        as_float = net.Cast(inner, net.NextScopedBlob(str(inner) + "_float"), to=core.DataType.FLOAT)
        sums = net.LengthsSum([as_float, outer], net.NextScopedBlob(str(inner) + "_nested_float"))
        return net.Cast(sums, net.NextScopedBlob(str(inner) + "_nested"), to=core.DataType.INT32)

    def add_ops(self, net):
        self._gather(net, self.input_record.record, self.output_schema, None)
