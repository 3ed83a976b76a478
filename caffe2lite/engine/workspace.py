"""Workspaces: tables of named blobs, and of the nets that were compiled in them (engine.runner compiles and runs them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from caffe2lite.devices import HOST
from caffe2lite.engine import feeding
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.observers import Observer
from caffe2lite.proto import caffe2_pb2


class CompiledNet(Protocol):
    """What a compiled net offers to those that hold it (see engine.net)."""

    name: str
    definition: caffe2_pb2.NetDef
    why_stopped: str
    observers: list[Observer]

    def run(self) -> bool:
        """Run all operators once; False where the net stopped without an error."""

    def cancel(self) -> None:
        """Ask a run in another thread to stop."""

    def release(self) -> None:
        """The net will not run again."""


class Workspace:
    """Blobs and nets by name.  With a parent, the parent's blobs are seen too, and written where they exist."""

    def __init__(self, root_folder: str = ".", parent: Workspace | None = None) -> None:
        self.root_folder = root_folder
        self.parent = parent
        self.blobs: dict[str, Blob] = {}
        self.nets: dict[str, CompiledNet] = {}
        self.single_operators: dict[
            bytes, Callable[[], bool]
        ] = {}  # what runs operators outside of nets, by OperatorDef
        self.last_failed_op = -1

    def child(self) -> Workspace:
        """A new workspace under this one."""
        return Workspace(parent=self)

    # ---- blobs -----------------------------------------------------------------------------------------------

    def get_blob(self, name: str) -> Blob | None:
        """The blob of that name, here or in a parent; None where there is none."""
        blob = self.blobs.get(name)
        if blob is None and self.parent is not None:
            return self.parent.get_blob(name)
        return blob

    def create_blob(self, name: str) -> Blob:
        """The blob of that name, made here if it is nowhere yet."""
        blob = self.get_blob(name)
        if blob is None:
            blob = self.blobs.setdefault(name, Blob(name))
        return blob

    def create_local_blob(self, name: str) -> Blob:
        """The blob of that name in this workspace, whatever the parent has."""
        blob = self.blobs.get(name)
        return self.blobs.setdefault(name, Blob(name)) if blob is None else blob

    def need_blob(self, name: str) -> Blob:
        """The blob of that name; EngineError where there is none."""
        blob = self.get_blob(name)
        if blob is None:
            raise EngineError(f"Can't find blob: {name} does not exist in this workspace")
        return blob

    def remove_blob(self, name: str) -> bool:
        """Take a blob out of this workspace; nets that use it keep it."""
        blob = self.blobs.pop(name, None)
        if blob is not None:
            blob.changed()
        self.single_operators.clear()
        return blob is not None

    def local_names(self) -> list[str]:
        """Names of the blobs of this workspace itself, sorted."""
        return sorted(self.blobs)

    def names(self) -> list[str]:
        """Names of all blobs that are seen from here, sorted."""
        seen = set(self.blobs)
        if self.parent is not None:
            seen.update(self.parent.names())
        return sorted(seen)

    def feed(self, name: str, value: feeding.Value, option: caffe2_pb2.DeviceOption | None = None) -> None:
        """Put a NumPy array (a copy) or a string into a blob, on the device of the DeviceOption."""
        blob = self.blobs.get(name) or self.create_blob(name)
        if (
            option is None
            and type(value) is np.ndarray
            and blob.storage is not None
            and blob.device is HOST
            and blob.value.shape == value.shape
            and blob.value.dtype == value.dtype
            and value.dtype != object
        ):
            np.copyto(blob.value, value)
            return
        feeding.feed(blob, value, option)

    def fetch(self, name: str) -> Any:
        """A copy of a tensor as a NumPy array; strings as bytes; a description of anything else."""
        blob = self.blobs.get(name) or self.need_blob(name)
        if blob.storage is not None and blob.device is HOST and blob.storage.dtype is not feeding.OBJECT:
            return blob.value.copy()
        return feeding.fetch(blob)

    def fetch_int8(self, name: str) -> Any:
        """An Int8 tensor as an object with `data`, `scale` and `zero_point`."""
        value = self.need_blob(name).value
        if not hasattr(value, "zero_point"):
            raise EngineError(f"blob {name!r} holds no Int8 tensor")
        return value
