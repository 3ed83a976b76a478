"""Squared error."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers._losses import Loss, check


class BatchMSELoss(Loss):
    """Mean of (input.prediction - input.label)^2 / 2, weighted by input.weight."""

    def __init__(self, model, input_record, name="batch_mse_loss", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        check(input_record, label=schema.Scalar(), prediction=schema.Scalar())

    def add_ops(self, net):
        label_field, prediction = self.input_record.label, self.input_record.prediction
        label = label_field()
        if label_field.field_type().base != prediction.field_type().base:
            kind = schema.data_type_for_dtype(prediction.field_type().base)
            label = net.Cast(label, net.NextScopedBlob("cast_label"), to=kind)
        label = net.ExpandDims(label, 1, dims=[1])
        label = net.StopGradient(label, net.NextScopedBlob("stopped_label"))
        loss = net.SquaredL2Distance([label, prediction()], net.NextScopedBlob("l2"))
        net.AveragedLoss(self.weighted(net, loss, "weighted_l2_distance"), self.output_schema.field_blobs())
