"""A weighted sum with learned weights."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class BlobWeightedSum(ModelLayer):
    """Sum of weight * tensor over the columns of the input, all of one shape; weights are learned."""

    def __init__(self, model, input_record, init_weights=None, weight_optim=None, name="blob_weighted_sum", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        self.blobs = self.input_record.field_blobs()
        self.num_weights = len(self.blobs)
        if self.num_weights < 2:
            raise AssertionError(f"BlobWeightedSum expects more than one input blobs, got {self.num_weights}")
        kind = input_record.field_types()[0]
        if not kind.shape:
            raise AssertionError(f"BlobWeightedSum needs the shape of its inputs in the schema, got {kind}")
        for other in input_record.field_types():
            if other.shape != kind.shape:
                raise AssertionError(f"Shape of input blobs should be the same shape {kind.shape}")
        init_weights = init_weights or [1.0] * self.num_weights
        if len(init_weights) != self.num_weights:
            raise AssertionError(f"{self.num_weights} blobs got {len(init_weights)} weights")
        self.weights = [
            self.create_param(
                param_name=f"w_{i}",
                shape=[1],
                initializer=("ConstantFill", {"value": float(weight)}),
                optimizer=weight_optim,
            )
            for i, weight in enumerate(init_weights)
        ]
        self.output_schema = schema.Scalar(kind, self.get_next_blob_reference("blob_weighted_sum_out"))

    def add_ops(self, net):
        pairs = [blob for pair in zip(self.blobs, self.weights) for blob in pair]
        net.WeightedSum(pairs, self.output_schema(), grad_on_w=True)
