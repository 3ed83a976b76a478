"""Ids numbered as they come."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema
from caffe2lite.python.layers.layers import ModelLayer


class MapToRange(ModelLayer):
    """Ids as numbers from 1 to `max_index`, given out in training as ids appear; elsewhere unknown ids are 0."""

    def __init__(self, model, input_record, max_index, name="map_to_range", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        if not max_index > 0 or not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"MapToRange takes a Scalar and a max_index > 0, got {input_record!r}, {max_index}")
        self.max_index = max_index
        self.handler = self.create_param(
            param_name="handler",
            shape=[],
            initializer=("LongIndexCreate", {"max_elements": max_index}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Struct(
            ("indices", schema.Scalar(np.int64, self.get_next_blob_reference("indices"))),
            ("handler", schema.Scalar(np.void, self.handler)),
        )

    def add_train_ops(self, net):
        ids = self.input_record()
        if self.input_record.field_type().base != np.int64:
            ids = net.Cast(ids, net.NextScopedBlob("indices_before_mapping"), to=core.DataType.INT64)
        indices = self.output_schema.indices()
        net.IndexGet([self.handler, ids], indices)
        net.StopGradient(indices, indices)

    def add_eval_ops(self, net):
        net.IndexFreeze(self.handler, self.handler)
        self.add_train_ops(net)

    def add_ops(self, net):
        self.add_eval_ops(net)
