"""Id lists as one."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import IdList, ModelLayer, get_categorical_limit


class MergeIdLists(ModelLayer):
    """The different ids of several id lists, example by example."""

    def __init__(self, model, input_record, name="merged"):
        super().__init__(model, name, input_record)
        fields = [input_record[name] for name in input_record.fields]
        if not fields:
            raise AssertionError("MergeIdLists takes at least one id list")
        limit = 0
        for field in fields:
            if not schema.equal_schemas(field, IdList, check_field_names=False):
                raise AssertionError(f"MergeIdLists takes id lists, got {field!r}")
            if field.items.metadata is None:
                raise AssertionError(f"MergeIdLists needs the categorical limit of every list, {field!r} has none")
            limit = max(limit, get_categorical_limit(field))
        self.output_schema = schema.NewRecord(
            model.net, schema.List(schema.Scalar(IdList.items.field_type(), metadata=schema.Metadata(limit)))
        )

    def add_ops(self, net):
        net.MergeIdLists(self.input_record.field_blobs(), self.output_schema.field_blobs())
