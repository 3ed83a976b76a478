"""Another record in each context."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import InstantiationContext, ModelLayer


class SelectRecordByContext(ModelLayer):
    """Of a Struct with the fields training, evaluation and prediction, the one that belongs to the net being made.

    `default_output_record_field` names what stands for a context that is not given.
    """

    def __init__(
        self,
        model,
        input_record,
        name="select_record_by_context",
        check_field_metas=True,
        use_copy=False,
        default_output_record_field=None,
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Struct) or len(input_record) < 2:
            raise AssertionError(f"SelectRecordByContext takes a Struct of at least two records, got {input_record!r}")
        self.use_copy = use_copy
        self.default_output_record = (
            input_record[default_output_record_field] if default_output_record_field is not None else None
        )
        first = input_record[next(iter(input_record.fields))]
        for name_, record in input_record.fields.items():
            if not schema.equal_schemas(first, record, check_field_metas=check_field_metas):
                raise AssertionError(f"record {name_} is not like the first: {record!r} and {first!r}")
        self.output_schema = schema.NewRecord(model.net, first)

    def _set_output_blobs(self, net, context):
        record = self.input_record.fields.get(context) or self.default_output_record
        if record is None:
            raise AssertionError(f"{context} context is not in input record without providing default output")
        for given, made in zip(record.field_blobs(), self.output_schema.field_blobs()):
            (net.Copy if self.use_copy else net.Alias)(given, made)

    def add_ops(self, net):
        self._set_output_blobs(net, InstantiationContext.PREDICTION)

    def add_eval_ops(self, net):
        self._set_output_blobs(net, InstantiationContext.EVAL)

    def add_train_ops(self, net):
        self._set_output_blobs(net, InstantiationContext.TRAINING)

    def add_ops_to_accumulate_pred(self, net):
        self._set_output_blobs(net, InstantiationContext.ACCUMULATE_PRED)
