"""Datasets in memory: the columns of a schema as blobs, with readers and writers."""

from __future__ import annotations

import numpy as np

from caffe2lite.python import core, schema, workspace
from caffe2lite.python.dataio import Reader, Writer


class _DatasetReader(Reader):
    """Reads batches in order; several threads share one cursor."""

    def __init__(self, dataset, name, batch_size=1, enforce_batch_size=False):
        super().__init__(dataset.content())
        self.dataset = dataset
        self.name = name or dataset.name + "_cursor"
        self.batch_size = batch_size
        self.enforce_batch_size = enforce_batch_size
        self.cursor = None

    def setup_ex(self, init_net, exit_net):
        if self.cursor is None:
            self.cursor = init_net.CreateTreeCursor([], init_net.NextScopedBlob(self.name), fields=self.dataset.fields)

    def _columns(self):
        if not self.cursor:
            raise AssertionError(f"setup not called: {self.name} has no cursor yet")
        content = self.dataset.content()
        return content.field_blobs(), content.field_names()

    def _read_batch(self, read_net, op_type, operands, **kwargs):
        blobs, names = self._columns()
        with core.NameScope(read_net.NextName(self.name)):
            fields = core.output_to_list(
                getattr(read_net, op_type)(
                    [*operands, *blobs],
                    names,
                    batch_size=self.batch_size,
                    enforce_batch_size=self.enforce_batch_size,
                    **kwargs,
                )
            )
            return read_net.IsEmpty([fields[0]]), fields

    def read(self, read_net):
        return self._read_batch(read_net, "ReadNextBatch", [self.cursor])

    def reset(self, net):
        net.ResetCursor([self.cursor], [])


class _DatasetRandomReader(_DatasetReader):
    """Reads batches in the order of `indices`, which sort_and_shuffle can make; needs computeoffset first."""

    def __init__(self, dataset, name, indices, batch_size=1, loop_over=False, enforce_batch_size=False):
        super().__init__(dataset, name, batch_size, enforce_batch_size)
        self.indices = indices
        self.loop_over = loop_over
        self.offsets = None

    def computeoffset(self, net):
        """Add the operator that finds where each record begins."""
        self.reset(net)
        blobs, _ = self._columns()
        self.offsets = net.ComputeOffset([self.cursor, *blobs], "offsets")

    def sort_and_shuffle(self, net, sort_by_field=None, shuffle_size=1, batch_size=1):
        """Add the operator that makes the indices: sorted by a field, then batches shuffled within `shuffle_size`."""
        blobs, names = self._columns()
        if sort_by_field and sort_by_field not in names:
            raise AssertionError(f"Must be valid field: {sort_by_field} is none of {names}")
        self.reset(net)
        self.indices = net.SortAndShuffle(
            [self.cursor, *blobs],
            "indices",
            sort_by_field_idx=names.index(sort_by_field) if sort_by_field else -1,
            shuffle_size=shuffle_size,
            batch_size=batch_size,
        )

    def read(self, read_net):
        if self.offsets is None:
            raise AssertionError("computeoffset not called.")
        operands = [self.cursor, self.indices, self.offsets]
        return self._read_batch(read_net, "ReadRandomBatch", operands, loop_over=self.loop_over)


class _DatasetWriter(Writer):
    """Appends records; several threads share one mutex."""

    def __init__(self, content):
        self._content = content
        self.mutex = None

    def setup_ex(self, init_net, exit_net):
        if self.mutex is None:
            self.mutex = init_net.CreateMutex([])

    def write(self, writer_net, fields):
        if self.mutex is None:
            raise AssertionError("setup not called: this writer has no mutex yet")
        columns = self._content.field_blobs()
        if len(fields) != len(columns):
            raise AssertionError(f"Expected {len(columns)} fields, got {len(fields)}.")
        writer_net.CheckDatasetConsistency(fields, [], fields=self._content.field_names())
        writer_net.AtomicAppend([self.mutex, *columns, *fields], columns)

    def commit(self, finish_net):
        """Nothing: records are visible as soon as they are written."""


def Const(net, value, dtype=None, name=None):
    """Return an external input of `net` with a new name, fed with `value` in the current workspace."""
    if not isinstance(net, core.Net):
        raise AssertionError(f"net must be a core.Net, got {net!r}")
    blob = net.AddExternalInput(net.NextName(prefix=name))
    workspace.FeedBlob(str(blob), np.array(value, dtype=dtype))
    return blob


def execution_step_with_progress(name, init_net, substeps, rows_read):
    """Return the steps side by side, while the blob `rows_read` is printed every 5 seconds."""
    report_net = core.Net("report_net")
    report_net.Print([rows_read], [])
    return core.execution_step(name, substeps, report_net=report_net, concurrent_substeps=True, report_interval=5)


class Dataset:
    """Columns of `fields` (a schema, or a list of column names) as blobs.

    The blobs are those of the schema, or made by init_empty or init_from_dataframe.
    """

    def __init__(self, fields, name=None):
        if isinstance(fields, list):
            fields = schema.from_column_list(fields)
        if not isinstance(fields, schema.Struct):
            raise AssertionError(f"fields is a Struct or a list of column names, got {fields!r}")
        self.schema = fields
        self.fields = fields.field_names()
        self.field_types = fields.field_types()
        self.name = name or "dataset"
        self.field_blobs = fields.field_blobs() if fields.has_blobs() else None

    def trim(self, net, multiple_of):
        """Drop records at the end until their number is a multiple of `multiple_of`."""
        net.TrimDataset(self.field_blobs, self.field_blobs, fields=self.fields, multiple_of=multiple_of)

    def init_empty(self, init_net):
        """Let `init_net` make empty columns."""
        self.field_blobs = schema.InitEmptyRecord(init_net, self.schema.clone_schema()).field_blobs()

    def init_from_dataframe(self, net, dataframe):
        """Take the columns of a pandas DataFrame, in order, as external inputs of `net`."""
        if len(self.fields) != len(dataframe.columns):
            raise AssertionError(f"{len(self.fields)} fields, but {len(dataframe.columns)} columns")
        self.field_blobs = [
            Const(net, dataframe.iloc[:, i].to_numpy(), name=field) for i, field in enumerate(self.fields)
        ]

    def get_blobs(self):
        """Return the blobs of the columns, None where there are none yet."""
        return self.field_blobs

    def _check_initialized(self):
        if self.field_blobs is None:
            raise AssertionError(
                "Dataset not initialized: it has no blobs; init_empty or init_from_dataframe makes them"
            )

    def content(self):
        """Return the columns as a record."""
        record = self.schema.clone()
        if self.field_blobs is None:
            raise TypeError("Dataset not initialized: it has no blobs; init_empty or init_from_dataframe makes them")
        return schema.from_blob_list(record, self.field_blobs)

    def field_names(self):
        """Return the names of the columns."""
        return self.fields

    def field_types(self):
        """Return the types of the columns (an instance has them as a list of this name)."""
        return self.schema.field_types()

    def _ready(self, part, init_net):
        if init_net is not None:
            part.setup_ex(init_net, None)
        return part

    def reader(self, init_net=None, cursor_name=None, batch_size=1, enforce_batch_size=False):
        """Return a reader in order; `init_net` sets it up."""
        self._check_initialized()
        return self._ready(_DatasetReader(self, cursor_name, batch_size, enforce_batch_size), init_net)

    def random_reader(
        self,
        init_net=None,
        indices=None,
        cursor_name=None,
        batch_size=1,
        loop_over=False,
        enforce_batch_size=False,
    ):
        """Return a reader in the order of `indices`; `init_net` sets it up."""
        self._check_initialized()
        reader = _DatasetRandomReader(self, cursor_name, indices, batch_size, loop_over, enforce_batch_size)
        return self._ready(reader, init_net)

    def writer(self, init_net=None):
        """Return a writer that appends; `init_net` sets it up."""
        self._check_initialized()
        return self._ready(_DatasetWriter(self.content()), init_net)
