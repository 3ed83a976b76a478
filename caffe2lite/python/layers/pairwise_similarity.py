"""Similarities of embeddings."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class PairwiseSimilarity(ModelLayer):
    """Dot products, or cosines, of all pairs of rows of input.x_embeddings and input.y_embeddings as one vector.

    With input.all_embeddings these are both; input.indices_to_gather says which pairs are wanted.
    """

    def __init__(
        self, model, input_record, output_dim, pairwise_similarity_func="dot", name="pairwise_similarity", **kwargs
    ):
        super().__init__(model, name, input_record, **kwargs)
        if not isinstance(input_record, schema.Struct):
            raise AssertionError(f"Incorrect input type: {input_record!r}")
        both = {"x_embeddings", "y_embeddings"}
        if not both <= set(input_record.fields) and "all_embeddings" not in input_record.fields:
            raise AssertionError(
                "either (x_embeddings and y_embeddings) or all_embeddings should be given, "
                f"got {list(input_record.fields)}"
            )
        self.pairwise_similarity_func = pairwise_similarity_func
        if both <= set(input_record.fields):
            self.x_embeddings, self.y_embeddings = input_record.x_embeddings, input_record.y_embeddings
        else:
            self.x_embeddings = self.y_embeddings = input_record.all_embeddings
        for part in (self.x_embeddings, self.y_embeddings):
            if not isinstance(part, schema.Scalar):
                raise AssertionError(f"Incorrect input type for embeddings: {part!r}")
        self.indices_to_gather = input_record.indices_to_gather if "indices_to_gather" in input_record.fields else None
        self.output_schema = schema.Scalar((np.float32, (output_dim,)), self.get_next_blob_reference("output"))

    def add_ops(self, net):
        pair = [self.x_embeddings(), self.y_embeddings()]
        if self.pairwise_similarity_func == "cosine_similarity":
            pair = [net.Normalize(blob, axis=1) for blob in pair]
        elif self.pairwise_similarity_func != "dot":
            raise NotImplementedError(f"pairwise_similarity_func={self.pairwise_similarity_func} is not valid")
        products = self.model.net.NextScopedBlob(f"{pair[0]}_matmul")
        net.BatchMatMul(pair, products, trans_b=1)
        if self.indices_to_gather is None:
            net.Flatten([products], self.output_schema())
            return
        flat = net.Flatten([products], products + "_flatten")
        net.BatchGather([flat, self.indices_to_gather()], self.output_schema())
