"""Classes of Caffe2's C extension: handles for the engine's own objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from google.protobuf.message import Message

from caffe2lite import db as databases
from caffe2lite.db import DB, Cursor, Mode
from caffe2lite.devices import HOST
from caffe2lite.engine import feeding, observers, runner, serialize, steps, threads
from caffe2lite.engine.blob import Blob as EngineBlob
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.feeding import Value
from caffe2lite.engine.workspace import CompiledNet
from caffe2lite.engine.workspace import Workspace as EngineWorkspace
from caffe2lite.ops.kit import dtypes
from caffe2lite.proto import caffe2_pb2

__all__ = [
    "DB",
    "BackgroundPlan",
    "Blob",
    "Cursor",
    "GradientWrapper",
    "Mode",
    "Net",
    "OpenDB",
    "Predictor",
    "TensorCPU",
    "Transaction",
    "Workspace",
    "message",
    "option",
]


_log = logging.getLogger("caffe2lite")


Definition: TypeAlias = "Message | bytes"  # a protobuf message, or its bytes
M = TypeVar("M", bound=Message)
T = TypeVar("T")


def message(kind: type[M], content: Definition) -> M:
    """A message that may come as message or as bytes; EngineError for bytes that are none."""
    if isinstance(content, kind):
        return content
    if not isinstance(content, bytes):
        try:
            content = content.SerializeToString()  # the same message from another copy of the module
        except AttributeError:
            raise TypeError(f"expected a {kind.DESCRIPTOR.name} or its bytes, got {content!r}") from None
    made = kind()
    try:
        made.ParseFromString(content)
    except Exception as e:
        raise EngineError(f"these {len(content)} bytes are no {kind.DESCRIPTOR.name}: {e}") from None
    return made


def option(content: Definition | None) -> caffe2_pb2.DeviceOption | None:
    """A DeviceOption that may come as message, as bytes or as None."""
    return None if content is None else message(caffe2_pb2.DeviceOption, content)


class TensorCPU:
    """What a Python operator gets for each operand: a tensor whose data it may read, write, reshape and replace."""

    __slots__ = ("_blob",)

    def __init__(self, blob: EngineBlob) -> None:
        self._blob = blob

    @property
    def data(self) -> np.ndarray:
        """The tensor's memory itself, as a NumPy array (float32 where nothing was in it)."""
        blob = self._blob
        if blob.storage is None:
            blob.resize((0,), np.float32)
        return blob.value if blob.device is HOST else blob.device.to_host(blob.value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return () if self._blob.storage is None else tuple(self._blob.value.shape)

    _shape = shape

    def reshape(self, dims: Sequence[int]) -> None:
        """Give it these dimensions; the values are undefined where it grows."""
        blob = self._blob
        dtype = np.float32 if blob.storage is None else blob.value.dtype
        blob.resize(tuple(int(d) for d in dims), dtype)

    _reshape = reshape

    def init(self, dims: Sequence[int], data_type: int) -> None:
        """Give it these dimensions and this TensorProto.DataType; strings can only be fed."""
        if data_type not in dtypes.NUMPY or dtypes.NUMPY[data_type].kind == "O":
            raise EngineError(f"a tensor cannot be made of the data type {data_type} from Python: feed an array")
        self._blob.resize(tuple(int(d) for d in dims), dtypes.NUMPY[data_type])

    def feed(self, array: Value) -> None:
        """Replace dimensions, type and values by those of a NumPy array."""
        feeding.feed(self._blob, array)

    def fetch(self) -> np.ndarray:
        """A copy as NumPy array."""
        return feeding.fetch(self._blob)


class Blob:
    """A blob of a workspace."""

    __slots__ = ("_blob",)

    def __init__(self, blob: EngineBlob) -> None:
        self._blob = blob

    def fetch(self) -> Any:
        """A copy of the value."""
        return feeding.fetch(self._blob)

    def feed(self, value: Value, device_option: Definition | None = None) -> bool:
        """Put a NumPy array or a string in."""
        feeding.feed(self._blob, value, option(device_option))
        return True

    _feed = feed

    def is_tensor(self) -> bool:
        """Whether a tensor is in it."""
        return self._blob.is_tensor

    def tensor(self) -> TensorCPU:
        """The tensor in it, whose `data` is live."""
        if not self._blob.is_tensor:
            raise EngineError(f"blob {self._blob.name!r} holds no tensor")
        return TensorCPU(self._blob)

    def as_tensor(self) -> TensorCPU:
        """A tensor to fill, whatever was in it."""
        return TensorCPU(self._blob)

    def serialize(self, name: str) -> bytes:
        """As BlobProto under that name."""
        return serialize.blob_bytes(name, self._blob)

    def deserialize(self, content: bytes) -> None:
        """Replace the value by the one of a BlobProto."""
        serialize.read(self._blob, content)


class Net:
    """A net of a workspace."""

    __slots__ = ("_net",)

    def __init__(self, net: CompiledNet) -> None:
        self._net = net

    def run(self) -> None:
        """Run it once."""
        if not self._net.run():
            raise EngineError(f"Error running net {self._net.name}: it stopped ({self._net.why_stopped})")

    def cancel(self) -> None:
        """Ask a run in another thread to stop."""
        self._net.cancel()


class _View(Mapping[str, T]):
    """A workspace's blobs or nets as a mapping."""

    def __init__(self, names: Callable[[], list[str]], get: Callable[[str], T]) -> None:
        self._names, self._get = names, get

    def __getitem__(self, name: str) -> T:
        if name not in self._names():
            raise KeyError(name)
        return self._get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


class _Current(type):
    """Gives the class the attribute `current`, the workspace that functions work on."""

    held: Workspace

    @property
    def current(cls) -> Workspace:
        """The workspace that functions without one work on."""
        return _Current.held


class Workspace(metaclass=_Current):
    """A workspace; `Workspace.current` is the one that the module's functions work on."""

    def __init__(self, parent: Workspace | None = None, engine: EngineWorkspace | None = None) -> None:
        above = parent._ws if parent is not None else None
        self._ws: EngineWorkspace = engine or EngineWorkspace(parent=above)

    @property
    def blobs(self) -> Mapping[str, Blob]:
        """{name: blob}."""
        return _View(self._ws.names, lambda name: Blob(self._ws.need_blob(name)))

    @property
    def nets(self) -> Mapping[str, Net]:
        """{name: net}."""
        return _View(lambda: list(self._ws.nets), lambda name: Net(self._ws.nets[name]))

    def _last_failed_op_net_position(self) -> int:
        return self._ws.last_failed_op

    def create_blob(self, name: str) -> Blob:
        """The blob of that name, made if need be."""
        return Blob(self._ws.create_blob(str(name)))

    def fetch_blob(self, name: str) -> Any:
        """A copy of the blob's value."""
        return self._ws.fetch(str(name))

    def fetch_int8_blob(self, name: str) -> Any:
        """An Int8 tensor as (data, scale, zero_point)."""
        return self._ws.fetch_int8(str(name))

    def has_blob(self, name: str) -> bool:
        """Whether there is a blob of that name."""
        return self._ws.get_blob(str(name)) is not None

    def _remove_blob(self, name: str) -> bool:
        return self._ws.remove_blob(str(name))

    def _create_net(self, definition: Definition, overwrite: bool = False) -> Net:
        return Net(runner.create_net(self._ws, message(caffe2_pb2.NetDef, definition), overwrite))

    def _run_net(self, definition: Definition) -> None:
        runner.run_net_once(self._ws, message(caffe2_pb2.NetDef, definition))

    def _run_operator(self, definition: Definition) -> None:
        runner.run_operator(self._ws, definition)

    def _run_plan(self, definition: Definition) -> None:
        if not steps.run_plan(self._ws, message(caffe2_pb2.PlanDef, definition)):
            raise EngineError("the plan stopped: one of its nets did")


class GradientWrapper:
    """A gradient: empty, dense (the name of a blob) or sparse (the names of indices and values)."""

    __slots__ = ("dense", "indices", "values")

    def __init__(self) -> None:
        self.dense = self.indices = self.values = ""

    def is_empty(self) -> bool:
        """Whether there is none."""
        return not (self.dense or self.indices or self.values)

    def is_dense(self) -> bool:
        """Whether it is dense."""
        return bool(self.dense)

    def is_sparse(self) -> bool:
        """Whether it is sparse."""
        return bool(self.indices or self.values)


class BackgroundPlan:
    """A plan that runs in a thread."""

    def __init__(self, workspace: EngineWorkspace, plan: caffe2_pb2.PlanDef) -> None:
        self._done = False
        self._good = False

        def work() -> None:
            try:
                self._good = steps.run_plan(workspace, plan)
            except Exception as e:  # told by is_succeeded; the words go to the log
                _log.error("plan %r failed: %s", plan.name, e)
            finally:
                self._done = True

        threads.submit(work)

    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._done

    def is_succeeded(self) -> bool:
        """Whether it has ended well."""
        return self._good


class Predictor:
    """A pair of nets: one that makes the parameters, one that predicts."""

    def __init__(self, init_net: Definition, predict_net: Definition) -> None:
        self._ws = EngineWorkspace()
        runner.run_net_once(self._ws, message(caffe2_pb2.NetDef, init_net))
        self._net = message(caffe2_pb2.NetDef, predict_net)
        self._inputs = [n for n in self._net.external_input if self._ws.get_blob(n) is None]
        for name in self._net.external_input:
            self._ws.create_blob(name)
        runner.create_net(self._ws, self._net)

    def run(self, inputs: Mapping[str, Value] | Sequence[Value]) -> list[Any]:
        """Outputs for inputs, given as a list (in the order of the net's inputs without parameters) or by name."""
        if isinstance(inputs, Mapping):
            pairs = inputs.items()
        else:
            if len(inputs) > len(self._net.external_input):
                raise EngineError(f"{len(inputs)} inputs are given; the net has {len(self._net.external_input)}")
            pairs = zip(self._net.external_input, inputs)  # type: ignore[assignment]
        for name, array in pairs:
            if name not in self._net.external_input:
                raise EngineError(f"the net has no input {name!r}; it has {', '.join(self._inputs)}")
            self._ws.feed(name, array)
        runner.run_net(self._ws, self._net.name)
        return [self._ws.fetch(name) for name in self._net.external_output]


def observer(kind: str) -> observers.Observer:
    """A new observer of that kind."""
    if kind not in observers.KINDS:
        raise EngineError(f"there is no observer {kind!r}; there are {', '.join(observers.KINDS)}")
    return observers.KINDS[kind]()


class OpenDB:
    """A database as scripts see it; keys and values may be str or bytes."""

    def __init__(self, db: DB) -> None:
        self._db = db

    def new_cursor(self) -> Cursor:
        return self._db.new_cursor()

    def new_transaction(self) -> Transaction:
        return Transaction(self._db.new_transaction())

    def close(self) -> None:
        self._db.close()


class Transaction:
    """Records that become visible together."""

    def __init__(self, transaction: databases.Transaction) -> None:
        self._transaction = transaction

    def put(self, key: str | bytes, value: str | bytes) -> None:
        """Add a record."""
        self._transaction.put(_bytes(key), _bytes(value))

    def commit(self) -> None:
        """Write what was put."""
        self._transaction.commit()


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
