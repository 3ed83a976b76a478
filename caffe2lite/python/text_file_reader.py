"""Reads records from a text file, one a line, fields separated by tabs."""

from __future__ import annotations

from caffe2lite.python import core
from caffe2lite.python.dataio import Reader
from caffe2lite.python.schema import Scalar, Struct, data_type_for_dtype


class TextFileReader(Reader):
    """Reads `filename` `num_passes` times, `batch_size` lines at once; `init_net` opens it."""

    def __init__(self, init_net, filename, schema, num_passes=1, batch_size=1):
        if not isinstance(schema, Struct):
            raise AssertionError(f"the schema is a Struct of columns, got {schema!r}")
        if not all(isinstance(field, Scalar) for _, field in schema.get_children()):
            raise AssertionError(f"the columns of a text file are Scalars, got {schema!r}")
        super().__init__(schema)
        self._reader = init_net.CreateTextFileReader(
            [],
            filename=filename,
            num_passes=num_passes,
            field_types=[data_type_for_dtype(kind) for kind in schema.field_types()],
        )
        self._batch_size = batch_size

    def read(self, net):
        fields = core.output_to_list(
            net.TextFileReaderRead([self._reader], len(self.schema().field_names()), batch_size=self._batch_size)
        )
        return net.IsEmpty([fields[0]], net.NextName("should_stop")), fields
