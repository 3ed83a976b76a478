"""Workspaces: named blobs and nets."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite.devices import HOST, Device
from caffe2lite.engine import feeding, serialize
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.errors import EngineError, OperatorError, StopNet, explain
from caffe2lite.engine.instance import Instance
from caffe2lite.engine.net import Net, make_net, quiet
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.names import check_names

_ONCE_CACHE = 256  # operators that run_operator keeps ready

engine_preferences: dict[int, list[str]] = {}  # by device type
operator_engine_preferences: dict[str, dict[int, list[str]]] = {}


class Workspace:
    """Blobs and nets by name.  With a parent, the parent's blobs are seen too, and written where they exist.

    forwarded   {name here: (workspace, name there)}: blobs that are really another workspace's
    """

    def __init__(
        self,
        root_folder: str = ".",
        parent: Workspace | None = None,
        forwarded: dict[str, tuple[Workspace, str]] | None = None,
    ) -> None:
        self.root_folder = root_folder
        self.parent = parent
        self.blobs: dict[str, Blob] = {}
        self.nets: dict[str, Net] = {}
        self.last_failed_op = -1
        self._ready: dict[bytes, Instance] = {}
        self._seeds: Any = None
        self._lock = threading.RLock()
        for name, (other, theirs) in (forwarded or {}).items():
            blob = other.get_blob(theirs)
            if blob is None:
                raise EngineError(f"blob {theirs!r} does not exist in the parent workspace")
            self.blobs[name] = blob

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
        return self.blobs.setdefault(name, Blob(name))

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
        self._ready.clear()
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

    def feed(self, name: str, value: Any, option: Any = None) -> None:
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
        if blob.storage is not None and blob.device is HOST:
            return blob.value.copy()
        return feeding.fetch(blob)

    def fetch_int8(self, name: str) -> Any:
        """An Int8 tensor as an object with `data`, `scale` and `zero_point`."""
        value = self.need_blob(name).value
        if not hasattr(value, "zero_point"):
            raise EngineError(f"blob {name!r} holds no Int8 tensor")
        return value

    def chunks(self, blob: Blob, name: str, chunk_size: int = 0, bfloat16: bool = False) -> Iterator[tuple[str, bytes]]:
        """(key, serialised BlobProto) of a blob, for the operators that save."""
        return serialize.chunks(name, blob, chunk_size, bfloat16)

    def load(self, blob: Blob, content: bytes, device: Device | None, source: str) -> serialize.Piece:
        """Put a serialised BlobProto into a blob, for the operators that load; errors name the source."""
        try:
            return serialize.read(blob, content, device)
        except EngineError as e:
            raise EngineError(f"{source}: {e}") from None

    def handle(self) -> Any:
        """This workspace as scripts hold it."""
        from caffe2lite.engine.c_types import Workspace as Handle

        return Handle(engine=self)

    # ---- nets ------------------------------------------------------------------------------------------------

    def create_net(self, net: Any, overwrite: bool = False) -> Net:
        """Compile a NetDef and keep it under its name."""
        if net.name in self.nets:
            if not overwrite:
                raise EngineError(
                    f"net {net.name!r} exists in this workspace; pass overwrite=True to replace it, or ResetWorkspace"
                )
            self.delete_net(net.name)
        made = make_net(net, self)
        self.nets[net.name] = made
        return made

    def get_net(self, name: str) -> Net:
        """The net of that name, here or in a parent; EngineError where there is none."""
        found: Net | None = self.nets.get(name)
        if found is not None:
            return found
        if self.parent is not None:
            return self.parent.get_net(name)
        known = ", ".join(sorted(self.nets)[:5]) or "none"
        raise EngineError(f"Can't find net {name!r} in this workspace (nets here: {known}); CreateNet makes it")

    def delete_net(self, name: str) -> None:
        """Forget a net; nothing happens where there is none."""
        net = self.nets.pop(name, None)
        if net is not None:
            net.release()

    def run_net(self, name: str, times: int = 1, allow_fail: bool = False) -> bool:
        """Run a net that was created.  False where it stopped (a closed queue) and `allow_fail`."""
        net = self.nets.get(name) or self.get_net(name)
        for _ in range(times):
            if not net.run():
                if allow_fail:
                    return False
                raise EngineError(f"Error running net {name}: it stopped ({net.why_stopped})")
        return True

    def run_net_once(self, net: Any) -> bool:
        """Compile a NetDef, run it and forget it."""
        made = make_net(net, self, once=True)
        if not made.run():
            raise EngineError(f"Error running net {net.name}: it stopped ({made.why_stopped})")
        return True

    def run_operator(self, op: Any) -> bool:
        """Run one OperatorDef, which may come serialised; one that stops, as at a closed queue, is an error."""
        key = op if isinstance(op, bytes) else op.SerializeToString()
        ready = self._ready.get(key)
        if ready is None:
            ready = self._make_ready(key)
        with quiet():
            return self._run_alone(ready)

    def _make_ready(self, key: bytes) -> Instance:
        message = caffe2_pb2.OperatorDef()
        try:
            message.ParseFromString(key)
            check_names(caffe2_pb2.NetDef(op=[message]))
        except (DecodeError, ValueError) as e:
            raise EngineError(f"these {len(key)} bytes are no OperatorDef: {e}") from None
        made = Instance(message, self, self.engines(message))
        if not made.record.stateful:  # state lives for one run here
            if len(self._ready) >= _ONCE_CACHE:
                self._ready.clear()
            self._ready[key] = made
        return made

    def _run_alone(self, ready: Instance) -> bool:
        try:
            ready.run()
        except StopNet as e:
            raise OperatorError(f"operator {ready.op.type} stopped: {e}") from None
        except Exception as e:
            raise explain(e, ready) from e.__cause__
        return True

    def engines(self, op: Any) -> list[str]:
        """Engines to try for an operator after those it names itself."""
        kind = op.device_option.device_type
        return [*operator_engine_preferences.get(op.type, {}).get(kind, ()), *engine_preferences.get(kind, ())]

    def next_seed(self) -> int | None:
        """A seed for an operator that has none of its own; None: take one from the system."""
        with self._lock:
            if self.parent is not None:
                return self.parent.next_seed()
            return None if self._seeds is None else next(self._seeds)

    def seed(self, value: int) -> None:
        """Make the random operators without a seed repeatable."""
        self._seeds = itertools.count(value)
