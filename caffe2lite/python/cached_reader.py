"""A reader that keeps what another one reads in a database file."""

from __future__ import annotations

import os

from caffe2lite.python import core
from caffe2lite.python.db_file_reader import DBFileReader
from caffe2lite.python.pipeline import pipe
from caffe2lite.python.task import Cluster, TaskGroup


class CachedReader(DBFileReader):
    """Run build_cache_step first: it copies the records of `original_reader` to `db_path`, unless the file is there."""

    default_name_suffix = "cached_reader"

    def __init__(self, original_reader, db_path, db_type="LevelDB", name=None, batch_size=100, loop_over=False):
        if original_reader is None:
            raise AssertionError("CachedReader needs the reader that it caches, got None")
        self.original_reader = original_reader
        super().__init__(db_path, db_type, name, batch_size, loop_over)

    def _init_reader_schema(self, *args, **kwargs):
        return self.original_reader._schema

    def build_cache_step(self, overwrite=False):
        """Return the step that writes the file; an empty one where the file exists and is not to be overwritten."""
        if os.path.exists(self.db_path) and not overwrite:
            return core.execution_step("build_step", [])
        init_net = core.Net("init")
        self._init_field_blobs_as_empty(init_net)
        with Cluster(), core.NameScope(self.name), TaskGroup() as copy_group:
            pipe(self.original_reader, self.ds.writer(), num_threads=16)
            copy_step = copy_group.to_task().get_step()
        save_net = core.Net("save")
        self._save_field_blobs_to_db_file(save_net)
        return core.execution_step("build_cache", [init_net, copy_step, save_net])

    def _save_field_blobs_to_db_file(self, net):
        net.Save(
            self.ds.get_blobs(),
            [],
            db=self.db_path,
            db_type=self.db_type,
            blob_name_overrides=self.ds.field_names(),
            absolute_path=True,
        )
