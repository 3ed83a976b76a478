"""Bayesian personalized ranking."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers._losses import Loss, check


class BPRLoss(Loss):
    """-log sigmoid(positive - negative), summed over the list input.neg_prediction."""

    def __init__(self, model, input_record, name="bpr_loss", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        check(input_record, pos_prediction=schema.Scalar(), neg_prediction=schema.List(schema.Scalar()))

    def add_ops(self, net):
        negative = self.input_record.neg_prediction
        repeated = net.LengthsTile(
            [self.input_record.pos_prediction(), negative.lengths()], net.NextScopedBlob("pos_score_repeated")
        )
        net.ReduceFrontSum(net.Softplus([net.Sub([negative.items(), repeated])]), self.output_schema.field_blobs())
