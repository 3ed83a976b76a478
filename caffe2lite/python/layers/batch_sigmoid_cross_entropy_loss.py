"""Cross entropy of sigmoids."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers._losses import Loss, check


class BatchSigmoidCrossEntropyLoss(Loss):
    """Mean cross entropy of the sigmoids of input.prediction with input.label, both vectors of float32."""

    def __init__(self, model, input_record, name="batch_sigmoid_cross_entropy_loss", **kwargs):
        super().__init__(model, name, input_record, output="loss", **kwargs)
        check(input_record, label=schema.Scalar(), prediction=schema.Scalar())
        shape = input_record.prediction.field_type().shape
        if len(shape) != 1:
            raise AssertionError(f"prediction must be a vector, got the shape {shape}")

    def add_ops(self, net):
        loss = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.prediction(), self.input_record.label()], net.NextScopedBlob("sigmoid_cross_entropy")
        )
        net.AveragedLoss(loss, self.output_schema.field_blobs())
