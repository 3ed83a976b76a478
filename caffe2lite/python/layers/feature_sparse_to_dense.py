"""Features by id as columns."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import AccessedFeatures, ModelLayer

# What a feature of each type consists of beside the range of its items: {type: ((column, its numbers), …)}.
_COLUMNS = {
    "ID_LIST": (("values", np.int64),),
    "ID_SCORE_LIST": (("ids", np.int64), ("scores", np.float32)),
    "EMBEDDING": (("values", np.float32),),
}
_RANGES = {"ID_LIST": "id_list_ranges", "ID_SCORE_LIST": "id_score_list_ranges", "EMBEDDING": "embeddings_ranges"}


class FeatureSparseToDense(ModelLayer):
    """Columns that map feature ids to values, as dense columns of the features in `input_specs`.

    `input_specs` are pairs (column, FeatureSpec). FLOAT features become a matrix with `default_dense_value` (0 or NaN)
    where one is missing; lists of ids, of ids with scores, and embeddings become ranges into their items.
    """

    def __init__(
        self, model, input_record, input_specs, name="feature_sparse_to_dense", default_dense_value=None, **kwargs
    ):
        super().__init__(model, name, input_record, **kwargs)
        if default_dense_value is None:
            default_dense_value = 0.0
        default_dense_value = float(default_dense_value)
        if not (np.isnan(default_dense_value) or default_dense_value == 0.0):
            raise AssertionError(f"default_dense_value is 0.0 or NaN, got {default_dense_value}")
        self.input_specs = input_specs
        self.default_float_value = model.global_constants["NAN" if np.isnan(default_dense_value) else "ZERO"]
        self.zero_range = model.global_constants["ZERO_RANGE"]
        fields = []
        for column, spec in input_specs:
            if len(spec.feature_names) != len(spec.feature_ids):
                raise AssertionError(f"{column}: {spec.feature_names} are not the names of {spec.feature_ids}")
            size = len(spec.feature_names)
            if spec.feature_type == "FLOAT":
                blob = self.get_next_blob_reference(column + "_output")
                fields.append((column, schema.Scalar((np.float32, (size,)), blob)))
            elif spec.feature_type in _COLUMNS:
                ranges = schema.Scalar((np.int32, (size, 2)), self.get_next_blob_reference(column + "_ranges"))
                parts = [
                    (part, schema.Scalar(dtype, self.get_next_blob_reference(f"{column}_{part}")))
                    for part, dtype in _COLUMNS[spec.feature_type]
                ]
                fields.append((column, schema.Struct(("ranges", ranges), *parts)))
            else:
                raise TypeError(f"Unsupported input type: {spec.feature_type}")
        self.output_schema = schema.Struct(*fields)
        for column, spec in input_specs:
            schema.attach_metadata_to_scalars(self.output_schema[column], schema.Metadata(feature_specs=spec))

    def add_ops(self, net):
        for column, spec in self.input_specs:
            record, made = self.input_record[column], self.output_schema[column]
            keys, lengths = record._items.keys(), record.lengths()
            if spec.feature_type == "FLOAT":
                inputs = [keys, record._items.values(), self.default_float_value, lengths]
                net.SparseToDenseMask(inputs, [made()], mask=spec.feature_ids)
                continue
            items = record._items.values
            ranges = net.LengthsToRanges(items.lengths(), net.NextScopedBlob(_RANGES[spec.feature_type]))
            net.SparseToDenseMask([keys, ranges, self.zero_range, lengths], made.ranges(), mask=spec.feature_ids)
            # The items stay as they are: Alias gives them the output's name.
            parts = [made[part]() for part, _ in _COLUMNS[spec.feature_type]]
            for given, output in zip(items._items.field_blobs(), parts):
                net.Alias(given, output)

    def get_metadata(self):
        """For those who export the model: (what the features are, output blobs, their types) for each column."""
        made = []
        for column, spec in self.input_specs:
            record = self.output_schema[column]
            about = {"type": spec.feature_type, "names": spec.feature_names, "ids": spec.feature_ids}
            if spec.feature_type == "FLOAT":
                about["cardinality"] = 1
            made.append((about, record.field_blobs(), record.field_types()))
        return made

    def get_accessed_features(self):
        made = defaultdict(list)
        for column, spec in self.input_specs:
            made[column].append(AccessedFeatures(spec.feature_type, set(spec.feature_ids)))
        return made
