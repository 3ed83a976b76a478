"""Features side by side."""

from __future__ import annotations

from collections import defaultdict

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


def get_concatenated_feature_to_index(blobs_to_concat):
    """Return {feature: its positions in the concatenation} of columns that say where their features are."""
    made = defaultdict(list)
    start = 0
    for scalar in blobs_to_concat:
        specs = scalar.metadata and scalar.metadata.feature_specs
        if specs and specs.feature_to_index:
            for feature, positions in specs.feature_to_index.items():
                made[feature] += [start + position for position in positions]
        start += scalar.field_type().shape[0]
    return dict(made) if made.keys() else None


class Concat(ModelLayer):
    """The columns of a Struct along `axis` (the batch is axis 0), or stacked along a new one with `add_axis`."""

    def __init__(self, model, input_record, axis=1, add_axis=0, name="concat", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        self.add_axis = add_axis
        if axis == 0 or not isinstance(input_record, schema.Struct):
            raise AssertionError(f"Concat takes a Struct and an axis other than 0, the batch: {input_record!r}, {axis}")
        shapes = []
        for name, column in input_record.fields.items():
            if not isinstance(column, schema.Scalar):
                raise AssertionError(f"Concat takes Scalars, field {name} is {column!r}")
            shape = list(column.field_type().shape)
            if len(shape) < axis and not add_axis:
                raise AssertionError(f"field {name} has the shape {shape}, so there is no axis {axis}")
            if add_axis:
                shape.insert(axis - 1, 1)
            shapes.append(shape)
        made = list(shapes[0])
        made[axis - 1] = sum(shape[axis - 1] for shape in shapes)
        for shape in shapes[1:]:
            masked = [s[: axis - 1] + [0] + s[axis:] for s in (shape, shapes[0])]
            if masked[0] != masked[1]:
                raise AssertionError(f"Shapes {masked[0]} and {masked[1]} are not compatible for Concat")
        kind = next(iter(input_record.fields.values())).field_type().base
        self.output_schema = schema.Scalar((kind, tuple(made)), self.get_next_blob_reference("output"))
        positions = get_concatenated_feature_to_index(list(input_record.fields.values()))
        if positions:
            given = self.output_schema.metadata or schema.Metadata(None, None, None)
            specs = (given.feature_specs or schema.FeatureSpec())._replace(feature_to_index=positions)
            self.output_schema.set_metadata(given._replace(feature_specs=specs))

    def add_ops(self, net):
        output = self.output_schema()
        net.Concat(
            self.input_record.field_blobs(), [output, output + "_concat_dims"], axis=self.axis, add_axis=self.add_axis
        )
