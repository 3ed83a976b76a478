"""Ranking with a margin."""

from __future__ import annotations

from caffe2lite.python import core, schema
from caffe2lite.python.layers._losses import Loss, check


class MarginRankLoss(Loss):
    """max(0, negative - positive + margin) for each of the list input.neg_prediction, summed, or averaged."""

    def __init__(self, model, input_record, name="margin_rank_loss", margin=0.1, average_loss=False, **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if margin < 0:
            raise AssertionError(f"the margin is 0 or more, got {margin}")
        check(input_record, pos_prediction=schema.Scalar(), neg_prediction=schema.List(schema.Scalar()))
        self.margin = margin
        self.average_loss = average_loss

    def add_ops(self, net):
        negative = self.input_record.neg_prediction
        repeated = net.LengthsTile(
            [self.input_record.pos_prediction(), negative.lengths()], net.NextScopedBlob("pos_score_repeated")
        )
        one = net.ConstantFill(negative.items(), net.NextScopedBlob("const_1"), value=1, dtype=core.DataType.INT32)
        loss = net.MarginRankingCriterion(
            [repeated, negative.items(), one], net.NextScopedBlob("rank_loss"), margin=self.margin
        )
        (net.AveragedLoss if self.average_loss else net.ReduceFrontSum)(loss, self.output_schema.field_blobs())
