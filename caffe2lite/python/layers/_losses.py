"""What losses share."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.layers.tags import Tags


class Loss(ModelLayer):
    """A layer whose output is one number, left out of predictions unless a subclass says otherwise."""

    in_predictions = False

    def __init__(self, model, name, input_record, output="output", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not self.in_predictions:
            self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        if output is not None:
            self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference(output))

    def as_float(self, net, field, name):
        """Return the blob of a field, cast to float32 into `name` where it is of another type."""
        blob = field()
        return blob if field.field_type().base == np.float32 else net.Cast(blob, name, to=core.DataType.FLOAT)

    def weighted(self, net, loss, name):
        """`loss` times the field weight of the input, if there is one; no gradient goes to the weight."""
        if "weight" not in self.input_record.fields:
            return loss
        field = self.input_record.weight
        weight = self.as_float(net, field, field() + "_float32")
        stopped = net.StopGradient([weight], [net.NextScopedBlob("weight_stop_gradient")])
        return net.Mul([loss, stopped], [net.NextScopedBlob(name)])


def check(record, **fields):
    """AssertionError unless the record has fields that agree with these schemas."""
    for name, wanted in fields.items():
        if name not in record.fields:
            raise AssertionError(f"the loss needs the field {name}, got {record.field_names()}")
        if not isinstance(record[name], type(wanted)):
            raise AssertionError(f"the field {name} must be a {type(wanted).__name__}, got {record[name]!r}")
