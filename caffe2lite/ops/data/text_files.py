"""Text files with a row a line and fields between tabs."""

from __future__ import annotations

import weakref

import numpy as np

from caffe2lite.ops.kit import locks
from caffe2lite.ops.kit.dtypes import dtype_of
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.ops.kit.objects import Object, needed
from caffe2lite.ops.kit.registry import MANY, operator
from caffe2lite.paths import open_file


class TextFileReader(Object):
    """An open file, where its reading stands, and the types of its fields."""

    title = "a reader of text (CreateTextFileReader makes one)"
    type_name = "std::unique_ptr<caffe2::TextFileReaderInstance>"

    def __init__(self, filename: str, num_passes: int, types: list[str]) -> None:
        self.filename, self.types = filename, types
        self._passes = num_passes
        self._row = 0
        self._lock = locks.lock()
        try:
            self._file = open_file(filename)
        except OSError as e:
            raise ValueError(f"the text file {filename!r} cannot be read: {e.strerror}") from None
        weakref.finalize(self, self._file.close)

    def read(self, count: int) -> list[list[bytes]]:
        """Up to `count` rows; after the last pass over the file none."""
        rows: list[list[bytes]] = []
        with self._lock:
            while self._passes > 0 and len(rows) < count:
                line = self._file.readline()
                if line:
                    rows.append(self._fields(line))
                else:
                    self._passes -= 1
                    self._file.seek(0)
        return rows

    def _fields(self, line: bytes) -> list[bytes]:
        self._row += 1
        if not line.endswith(b"\n"):
            raise ValueError(f"row {self._row}, the last of {self.filename}, has no end of line")
        fields = line[:-1].split(b"\t")
        if len(fields) != len(self.types):
            raise ValueError(
                f"row {self._row} of {self.filename} has {len(fields)} fields; field_types names {len(self.types)}"
            )
        return fields


@operator("handler", stateful=True, gradient=NO_GRADIENT)
def CreateTextFileReader(ctx, *, filename: str = "", num_passes: int = 1, field_types: list[int] = ()):
    """A reader of a file of rows whose fields are between tabs: FLOAT or STRING, by the numbers of TensorProto.

    handler; no tensors. ValueError where field_types is empty, or names another type than float32 (FLOAT) and string
    (STRING); an OSError where the file cannot be opened.
    """
    types = [dtype_of(t) for t in field_types]
    if not types or not set(types) <= {"float32", "object"}:
        raise ValueError(f"field_types must name FLOAT (1) or STRING (4) for each field, got {list(field_types)}")
    return TextFileReader(filename, num_passes, types)


def _column(name, dtype, values):
    if dtype == "object":
        column = np.empty(len(values), object)
        column[:] = values
        return column
    try:
        return np.array([float(v) for v in values], np.float32)
    except ValueError as e:
        raise ValueError(f"{name} holds a field that is no number: {e}") from None


@operator("fields*", stateful=True, num_outputs=(1, MANY), gradient=NO_GRADIENT)
def TextFileReaderRead(ctx, handler, *, batch_size: int = 1):
    """The next rows, at most `batch_size`, one output a field; empty at the end of the file.

    handler -> fields [rows] float32 or string. ValueError where a row has another number of fields, a field is no
    number, or the outputs are not as many as the fields; TypeError where the input is no reader of text.
    """
    needed(TextFileReader, handler)
    if len(ctx.outputs) != len(handler.types):
        raise ValueError(f"the rows have {len(handler.types)} fields, and {len(ctx.outputs)} outputs are given")
    rows = handler.read(max(batch_size, 1))
    return tuple(_column(handler.filename, t, [row[i] for row in rows]) for i, t in enumerate(handler.types))
