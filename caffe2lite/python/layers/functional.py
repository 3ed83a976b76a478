"""A layer around operators of a net."""

from __future__ import annotations

import logging

import numpy as np

from caffe2lite.python import core, schema, scope, workspace
from caffe2lite.python.layers.layers import ModelLayer

logger = logging.getLogger(__name__)


class Functional(ModelLayer):
    """`function(net, input_record, output_record)` adds the operators.

    The outputs are named, or counted, or like a given record; their types are `output_dtypes`, or inferred.
    """

    def __init__(
        self,
        model,
        input_record,
        output_names_or_num,
        function,
        name="functional",
        output_dtypes=None,
        tags=None,
        **kwargs,
    ):
        super().__init__(model, name, input_record, tags=tags, **kwargs)
        self._function = function
        self._kwargs = kwargs
        return_struct = isinstance(output_names_or_num, list) or (
            isinstance(output_names_or_num, int) and output_names_or_num != 1
        )
        with scope.NameScope(self.name, reset=True):
            if isinstance(output_names_or_num, int):
                made = schema.NewRecord(model.net, schema.RawTuple(output_names_or_num))
            elif isinstance(output_names_or_num, schema.Field):
                self.output_schema = output_names_or_num.clone(keep_blobs=True)
                return
            else:
                names = [output_names_or_num] if not isinstance(output_names_or_num, list) else output_names_or_num
                made = schema.NewRecord(model.net, schema.Struct(*((n, schema.Scalar()) for n in names)))
        self.output_schema = made if return_struct else made[0]

        if output_dtypes is not None:
            given = output_dtypes if isinstance(output_dtypes, list | tuple) and return_struct else [output_dtypes]
            columns = self.output_schema.field_types()
            if len(given) == 1:
                given = list(given) * len(columns)
            for column, dtype in zip(self.output_schema.all_scalars(), given):
                column.set_type(dtype)
        elif any(column.field_type().base == np.void for column in self.output_schema.all_scalars()):
            self._infer_types()

    def _infer_types(self):
        had = self.input_record.field_types()
        net = core.Net("_temp_type_and_shape_inference_net")
        with scope.NameScope("", reset=True):
            self._function(net, self.input_record, self.output_schema)
        blobs = [str(blob) for blob in self.input_record.field_blobs()]
        # A column has one more dimension, the batch: any size will do.
        dims = {blob: [1, *dtype.shape] for blob, dtype in zip(blobs, had)}
        types = {}
        for blob, dtype in zip(blobs, had):
            kind = schema.data_type_for_dtype(dtype.base) if dtype.base != np.void else None
            if kind is not None:
                types[blob] = kind
        try:
            shapes, kinds = workspace.InferShapesAndTypes([net], dims, blob_types=types)
        except (RuntimeError, TypeError, ValueError) as e:
            logger.warning("Type inference had problems for layer: %s: %s", self.name, e)
            return
        for column in self.output_schema.all_scalars():
            blob = str(column())
            if blob not in kinds or blob not in shapes:
                continue
            known = schema.dtype_for_core_type(kinds[blob])
            if known is not None:
                column.set_type((known, tuple(shapes[blob][1:])))

    def add_ops(self, net):
        self._function(net, self.input_record, self.output_schema)
