"""Learned weights of ranges of scores."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer
from caffe2lite.python.layers.tags import Tags


class BucketWeighted(ModelLayer):
    """For each id of an id score list, a learned weight of its score's bucket.

    Buckets lie between `bucket_boundaries`, else they are whole numbers up to `max_score`; `hash_buckets` hashes them.
    """

    def __init__(
        self,
        model,
        input_record,
        max_score=0,
        bucket_boundaries=None,
        hash_buckets=True,
        weight_optim=None,
        name="bucket_weighted",
    ):
        super().__init__(model, name, input_record)
        if not isinstance(input_record, schema.List):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        self.bucket_boundaries = bucket_boundaries
        self.hash_buckets = hash_buckets
        self.shape = len(bucket_boundaries) + 1 if bucket_boundaries is not None else max_score
        if not self.shape > 0:
            raise AssertionError(f"BucketWeighted needs bucket_boundaries or a max_score > 0, got {max_score}")
        self.bucket_w = self.create_param(
            param_name="bucket_w",
            shape=[self.shape],
            initializer=("ConstantFill", {"value": 1.0}),
            optimizer=weight_optim,
        )
        weights = schema.Scalar((np.float32, self.shape), self.get_next_blob_reference("bucket_w_gather"))
        self.output_schema = schema.Struct(("bucket_weights", weights))
        self.tags.update([Tags.HANDLE_AS_SPARSE_LAYER])

    def get_memory_usage(self):
        return self.shape

    def add_ops(self, net):
        scores = self.input_record._items.values()
        buckets = net.NextScopedBlob("buckets_int")
        if self.bucket_boundaries is not None:
            net.Bucketize(scores, buckets, boundaries=self.bucket_boundaries)
        else:
            net.Cast(scores, buckets, to=core.DataType.INT32)
        if self.hash_buckets:
            hashed = net.NextScopedBlob("hashed_buckets_int")
            buckets = net.IndexHash(buckets, hashed, seed=0, modulo=self.shape)
        net.Gather([self.bucket_w, buckets], self.output_schema.bucket_weights.field_blobs())
