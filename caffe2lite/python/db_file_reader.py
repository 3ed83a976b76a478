"""Reads records from a database file whose entries are whole columns."""

from __future__ import annotations

import os

from caffe2lite.python import core, scope, workspace
from caffe2lite.python.dataio import Reader
from caffe2lite.python.dataset import Dataset
from caffe2lite.python.schema import from_column_list


class DBFileReader(Reader):
    """Loads the columns of a database file into memory and reads batches from there.

    `field_names` name the columns in order; without them the file is looked into when the reader is made.
    """

    default_name_suffix = "db_file_reader"

    def __init__(self, db_path, db_type, name=None, batch_size=100, loop_over=False, field_names=None):
        if db_path is None:
            raise AssertionError("DBFileReader needs the path of a database, got None")
        self.db_path = db_path
        self.db_type = db_type
        self.name = self._init_name(name)
        self.batch_size = batch_size
        self.loop_over = loop_over
        super().__init__(self._init_reader_schema(field_names))
        self.ds = Dataset(self._schema, self.name + "_dataset")
        self.ds_reader = None

    def _init_name(self, name):
        return name or f"{self._extract_db_name_from_db_path()}_{self.default_name_suffix}"

    def _check_file(self):
        if not os.path.exists(self.db_path):
            raise AssertionError(f"db_path [{self.db_path}] does not exist")

    def _init_reader_schema(self, field_names=None):
        if field_names:
            return from_column_list(field_names)
        self._check_file()
        with core.NameScope(self.name):
            prefix = scope.CurrentNameScope()
            workspace.RunOperatorOnce(
                core.CreateOperator(
                    "Load",
                    [],
                    [],
                    absolute_path=True,
                    db=self.db_path,
                    db_type=self.db_type,
                    load_all=True,
                    add_prefix=prefix,
                )
            )
        columns = [name[len(prefix) :] for name in sorted(workspace.Blobs()) if name.startswith(prefix)]
        return from_column_list(columns)

    def setup_ex(self, init_net, finish_net):
        if self.ds_reader:
            return
        self._init_field_blobs_as_empty(init_net)
        self._feed_field_blobs_from_db_file(init_net)
        self.ds_reader = self.ds.random_reader(init_net, batch_size=self.batch_size, loop_over=self.loop_over)
        self.ds_reader.sort_and_shuffle(init_net)
        self.ds_reader.computeoffset(init_net)

    def read(self, read_net):
        if not self.ds_reader:
            raise AssertionError(f"reader of {self.db_path} is not set up: setup_ex comes before read")
        return self.ds_reader.read(read_net)

    def _init_field_blobs_as_empty(self, init_net):
        with core.NameScope(self.name):
            self.ds.init_empty(init_net)

    def _feed_field_blobs_from_db_file(self, net):
        self._check_file()
        net.Load(
            [],
            self.ds.get_blobs(),
            db=self.db_path,
            db_type=self.db_type,
            absolute_path=True,
            source_blob_names=self.ds.field_names(),
        )

    def _extract_db_name_from_db_path(self):
        return os.path.basename(self.db_path).rsplit(".", 1)[0]
