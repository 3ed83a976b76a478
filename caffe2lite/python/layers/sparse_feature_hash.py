"""Ids brought below a limit."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import IdList, IdScoreList, ModelLayer, almost_equal_schemas
from caffe2lite.python.layers.tags import Tags


class SparseFeatureHash(ModelLayer):
    """The ids of an id list or id score list below `modulo` (default: their categorical limit).

    By a hash; by the remainder where `use_hashing` is off, after a division by `divisor` with `use_divide_mod`.
    """

    def __init__(
        self,
        model,
        input_record,
        seed=0,
        modulo=None,
        use_hashing=True,
        use_divide_mod=False,
        divisor=None,
        name="sparse_feature_hash",
        **kwargs,
    ):
        super().__init__(model, name, input_record, **kwargs)
        if use_hashing and use_divide_mod:
            raise AssertionError("use_hashing and use_divide_mod exclude each other")
        if use_divide_mod and not divisor:
            raise AssertionError(f"use_divide_mod needs a divisor, got {divisor}")
        self.seed = seed
        self.use_hashing = use_hashing
        self.use_divide_mod = use_divide_mod
        if use_divide_mod:
            self.divisor = self.create_param(
                param_name="divisor",
                shape=[1],
                initializer=("GivenTensorInt64Fill", {"values": np.array([divisor])}),
                optimizer=model.NoOptim,
            )
        is_list = almost_equal_schemas(input_record, IdList)
        if not is_list and not almost_equal_schemas(input_record, IdScoreList):
            raise AssertionError(f"SparseFeatureHash takes an IdList or IdScoreList, got {input_record!r}")
        given = (input_record.items if is_list else input_record._items.keys).metadata
        self.modulo = modulo or self.extract_hash_size(given)
        metadata = schema.Metadata(
            categorical_limit=self.modulo,
            feature_specs=given.feature_specs if given else None,
            expected_value=given.expected_value if given else None,
        )
        names = ("lengths", "values") if is_list else ("lengths", "values:keys", "values:values")
        blobs = {column: self.get_next_blob_reference(column) for column in names}
        if is_list:
            ids = schema.Scalar(np.int64, blobs["values"], metadata=metadata)
            self.output_schema = schema.List(values=ids, lengths_blob=blobs["lengths"])
        else:
            self.output_schema = schema.Map(
                keys=schema.Scalar(np.int64, blobs["values:keys"], metadata=metadata),
                values=schema.Scalar(np.float32, blobs["values:values"]),
                lengths_blob=blobs["lengths"],
            )
        self._ids = "values" if is_list else "values:keys"
        self.tags.update([Tags.CPU_ONLY])

    def extract_hash_size(self, metadata):
        """Return the size wanted by the metadata: of its feature specs, else the categorical limit."""
        if metadata.feature_specs and metadata.feature_specs.desired_hash_size:
            return metadata.feature_specs.desired_hash_size
        if metadata.categorical_limit is not None:
            return metadata.categorical_limit
        raise AssertionError(f"layer {self.name} needs a modulo: its input has no categorical limit")

    def add_ops(self, net):
        given = dict(zip(self.output_schema.field_names(), self.input_record.field_blobs()))
        made = dict(zip(self.output_schema.field_names(), self.output_schema.field_blobs()))
        for column in made:
            if column != self._ids:
                net.Copy(given[column], made[column])
        ids, output = given[self._ids], made[self._ids]
        if self.use_hashing:
            net.IndexHash(ids, output, seed=self.seed, modulo=self.modulo)
            return
        if self.use_divide_mod:
            ids = net.Div([ids, self.divisor], [net.NextScopedBlob("quotient")])
        net.Mod([ids], output, divisor=self.modulo, sign_follow_divisor=True)
