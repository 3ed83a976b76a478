"""A vector in parts."""

from __future__ import annotations

from caffe2lite.python import schema
from caffe2lite.python.layers.layers import ModelLayer


class Split(ModelLayer):
    """`num_splits` equal parts along `axis` (the batch is 0), or parts of the sizes in `split`."""

    def __init__(self, model, input_record, num_splits=1, axis=1, name="split", split=None, **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        if not isinstance(input_record, schema.Scalar):
            raise AssertionError(f"Incorrect input type {input_record!r}")
        shape = list(input_record.field_type().shape)
        if not 1 <= axis <= len(shape) + 1:
            raise AssertionError(f"axis is from 1 to {len(shape)}, got {axis}")
        if axis > len(shape):
            raise IndexError(f"axis is from 1 to {len(shape)}, got {axis}")
        size = shape[axis - 1]
        if split is not None:
            num_splits = len(split)
            if sum(split) != size or min(split) < 0:
                raise AssertionError(f"{split} does not split {size}")
        elif size % num_splits:
            raise AssertionError(f"{size} does not fall into {num_splits} equal parts")
        self.split = split
        parts = []
        for i in range(num_splits):
            shape[axis - 1] = split[i] if split else size // num_splits
            kind = (input_record.field_type().base, tuple(shape))
            parts.append(schema.Scalar(kind, self.get_next_blob_reference(f"output_{i}")))
        self.output_schema = schema.Tuple(*parts)

    def add_ops(self, net):
        sizes = {} if self.split is None else {"split": self.split}
        net.Split(self.input_record.field_blobs(), self.output_schema.field_blobs(), axis=self.axis, **sizes)
