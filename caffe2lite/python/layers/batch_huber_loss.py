"""Huber loss."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers._losses import Loss, check


class BatchHuberLoss(Loss):
    """Mean over the batch of e^2 / 2 for an error e up to `delta`, and linear beyond."""

    def __init__(self, model, input_record, name="batch_huber_loss", delta=1.0, **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        check(input_record, label=schema.Scalar(), prediction=schema.Scalar())
        if delta <= 0:
            raise AssertionError(f"delta must be positive, got {delta}")
        self.delta = delta

    def add_ops(self, net):
        name = net.NextScopedBlob
        label_field, prediction_field = self.input_record.label, self.input_record.prediction
        prediction = net.Squeeze(prediction_field(), name("squeezed_prediction"), dims=[1])
        label = label_field()
        if label_field.field_type().base != prediction_field.field_type().base:
            kind = schema.data_type_for_dtype(prediction_field.field_type().base)
            label = net.Cast(label, name("cast_label"), to=kind)
        delta = net.ConstantFill(label, name("delta"), value=float(self.delta), dtype=core.DataType.FLOAT)
        label = net.StopGradient(label, name("stopped_label"))
        delta = net.StopGradient(delta, name("stopped_delta"))
        error = net.L1Distance([label, prediction], name("abs_error"))
        near = net.Min([error, delta], name("min_error_delta"))
        quadratic = net.Scale(net.Sqr(near), scale=0.5)
        linear = net.Mul([net.Sub([error, near]), delta], name("huber_linear_term"))
        loss = net.Add([quadratic, linear], name("huber_dist"))
        net.AveragedLoss(self.weighted(net, loss, "weighted_huber_distance"), self.output_schema.field_blobs())
