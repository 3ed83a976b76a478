"""The names of Caffe2's C extension, `workspace.C`: functions over the current workspace.

Protobufs come as bytes, as Caffe2's own Python files send them, or as messages, which saves a copy.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from caffe2lite import db as databases
from caffe2lite import devices
from caffe2lite.engine import (
    fillers,
    gradients,
    inference,
    memonger,
    observers,
    preferences,
    python_op,
    runner,
    serialize,
    steps,
    transforms,
)
from caffe2lite.engine.c_machine import (
    builtin_cpu_supports_avx2,
    get_build_options,
    get_cuda_peer_access_pattern,
    get_cuda_version,
    get_cudnn_version,
    get_device_properties,
    get_gpu_memory_info,
    get_num_numa_nodes,
    global_init,
    is_numa_enabled,
    num_cuda_devices,
)
from caffe2lite.engine.c_types import (
    DB,
    BackgroundPlan,
    Blob,
    Cursor,
    Definition,
    GradientWrapper,
    Mode,
    Net,
    OpenDB,
    Predictor,
    TensorCPU,
    Transaction,
    Workspace,
    message,
    observer,
    option,
)
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.feeding import Value
from caffe2lite.engine.memonger import Name
from caffe2lite.engine.schema import OpSchema
from caffe2lite.engine.workspace import Workspace as EngineWorkspace
from caffe2lite.ops.control import stats
from caffe2lite.ops.kit import dtypes, registry
from caffe2lite.proto import caffe2_pb2

__all__ = [  # what other modules hold; the functions below are public too
    "DB", "BackgroundPlan", "Blob", "Cursor", "GradientWrapper", "Mode", "Net", "OpSchema", "Predictor", "TensorCPU",
    "Transaction", "Workspace", "builtin_cpu_supports_avx2", "get_build_options", "get_cuda_peer_access_pattern",
    "get_cuda_version", "get_cudnn_version", "get_device_properties", "get_gpu_memory_info", "get_num_numa_nodes",
    "global_init", "is_numa_enabled", "num_cuda_devices",
]  # fmt: skip

read, write, new = Mode.read, Mode.write, Mode.new

is_asan = False
has_fbgemm = True  # floats can be saved as bfloat16
has_hip_support = False
has_mkldnn = False
use_mkldnn = True  # operators for IDEEP and MKLDNN devices run, on the CPU
use_rocm = use_trt = False
define_caffe2_no_operator_schema = False

_handles: dict[str, Workspace] = {}
_current_name = "default"


# {name: module} of what lies above the engine and is imported when it is asked for.
above: dict[str, str] = {}


def __getattr__(name: str) -> Any:
    if name in ("has_gpu_support", "has_cuda_support"):  # GPUs may be emulated at any time
        return devices.gpu_count() > 0
    if name in above:
        return getattr(importlib.import_module(above[name]), name)
    raise AttributeError(f"caffe2lite has no {name!r} in its C extension")


# ---- workspaces --------------------------------------------------------------------------------------------------


def _switch(handle: Workspace, name: str) -> None:
    global _current_name, _ws
    _current_name = name
    _ws = handle._ws
    type(Workspace).held = handle  # type: ignore[attr-defined]


def switch_workspace(name: str, create_if_missing: bool | None = None) -> None:
    """Make the workspace of that name the current one."""
    if name not in _handles:
        if not create_if_missing:
            raise EngineError(f"workspace {name!r} does not exist; create_if_missing=True makes it")
        _handles[name] = Workspace()
    _switch(_handles[name], name)


def create_child_workspace(parent_ws_name: str, child_ws_name: str) -> None:
    """A workspace that sees the blobs of its parent."""
    if parent_ws_name not in _handles:
        raise EngineError(f"workspace {parent_ws_name!r} does not exist")
    if child_ws_name in _handles:
        raise EngineError(f"workspace {child_ws_name!r} exists already")
    _handles[child_ws_name] = Workspace(_handles[parent_ws_name])


def current_workspace() -> str:
    """Name of the current workspace."""
    return _current_name


def workspaces() -> list[str]:
    """Names of all workspaces."""
    return sorted(_handles)


def reset_workspace(root_folder: str | os.PathLike[str] | None = None) -> bool:
    """Empty the current workspace, and give it a root folder."""
    handle = _handles[_current_name]
    for net in list(handle._ws.nets):
        runner.delete_net(handle._ws, net)
    handle._ws = EngineWorkspace(root_folder=str(root_folder) if root_folder is not None else ".")
    _switch(handle, _current_name)
    return True


def root_folder() -> str:
    """Root folder of the current workspace."""
    return _ws.root_folder


# ---- blobs -------------------------------------------------------------------------------------------------------


def blobs() -> list[str]:
    """Names of the blobs that the current workspace sees."""
    return _ws.names()


def local_blobs() -> list[str]:
    """Names of the blobs of the current workspace itself."""
    return _ws.local_names()


def has_blob(name: str) -> bool:
    """Whether there is a blob of that name."""
    return _ws.get_blob(str(name)) is not None


def create_blob(name: str) -> bool:
    """Make a blob of that name if there is none."""
    _ws.create_blob(str(name))
    return True


def reset_blob(name: str) -> None:
    """Make a blob uninitialised."""
    _ws.need_blob(str(name)).reset()


def feed_blob(name: str, value: Value, device_option: Definition | None = None) -> bool:
    """Put a NumPy array or a string into a blob."""
    _ws.feed(name, value, None if device_option is None else option(device_option))
    return True


def fetch_blob(name: str) -> Any:
    """A copy of a blob's value."""
    return _ws.fetch(name)


def serialize_blob(name: str) -> bytes:
    """A blob as BlobProto."""
    return serialize.blob_bytes(str(name), _ws.need_blob(str(name)))


def deserialize_blob(name: str, content: bytes) -> None:
    """Put the value of a BlobProto into a blob."""
    fresh = _ws.get_blob(str(name)) is None
    try:
        serialize.read(_ws.create_blob(str(name)), content)
    except Exception:
        if fresh:
            _ws.remove_blob(str(name))
        raise


def get_blob_size_bytes(name: str) -> int:
    """Bytes of the tensor in a blob."""
    blob = _ws.need_blob(str(name))
    if not blob.is_tensor:
        raise EngineError(f"blob {name!r} holds no tensor: its size is not known")
    return blob.value.size * blob.value.dtype.itemsize


def get_blob_numa_node(name: str) -> int:
    """-1: memory is not bound to a NUMA node here."""
    _ws.need_blob(str(name))
    return -1


def create_offline_tensor(name: str, dims: Sequence[int], data_type: int) -> bool:
    """A tensor of that shape and type, for nets that are only looked at."""
    _ws.create_blob(str(name)).resize(tuple(dims), dtypes.NUMPY[data_type])
    return True


# ---- running -----------------------------------------------------------------------------------------------------


def create_net(net_def: Definition, overwrite: bool = False) -> bool:
    """Compile a NetDef."""
    runner.create_net(_ws, message(caffe2_pb2.NetDef, net_def), overwrite)
    return True


def run_net(name: str, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was created."""
    return runner.run_net(_ws, name, num_iter, allow_fail)


def run_net_once(net_def: Definition) -> bool:
    """Compile a NetDef, run it and forget it."""
    return runner.run_net_once(_ws, message(caffe2_pb2.NetDef, net_def))


def delete_net(name: str) -> bool:
    """Forget a net."""
    runner.delete_net(_ws, name)
    return True


def nets() -> list[str]:
    """Names of the nets of the current workspace."""
    return sorted(_ws.nets)


def run_operator_once(op_def: Definition) -> bool:
    """Run one operator."""
    return runner.run_operator(_ws, op_def)


def run_operator_multiple(op_def: Definition, num_runs: int) -> bool:
    """Make one operator and run it several times."""
    return runner.run_operator(_ws, op_def, num_runs)


def fill_random_network_inputs(
    net_def: Definition, dims: Sequence[Sequence[Sequence[int]]], types: Sequence[Sequence[str]]
) -> None:
    """Feed random tensors to what a net reads: shapes and names of types for each operator that has such inputs."""
    fillers.fill(_ws, message(caffe2_pb2.NetDef, net_def), dims, types)


def run_plan(plan_def: Definition) -> bool:
    """Run a plan."""
    return steps.run_plan(_ws, message(caffe2_pb2.PlanDef, plan_def))


def run_plan_in_background(plan_def: Definition) -> BackgroundPlan:
    """Run a plan in a thread."""
    return BackgroundPlan(_ws, message(caffe2_pb2.PlanDef, plan_def))


def benchmark_net_once(name: str) -> float:
    """Milliseconds of one run of a net."""
    return benchmark_net(name, 0, 1, False)[0]


def benchmark_net(name: str, warmup_runs: int, main_runs: int, run_individual: bool) -> list[float]:
    """Milliseconds of a run of the net, and of each operator where `run_individual`."""
    net = runner.get_net(_ws, name)
    for _ in range(warmup_runs):
        net.run()
    whole = observers.TimeObserver()
    whole.start_net(net)
    for _ in range(main_runs):
        net.run()
    whole.stop_net(net)
    times = [1e3 * whole.total / max(1, main_runs)]
    if run_individual:
        each = observers.ProfileObserver()
        net.observers.append(each)
        try:
            for _ in range(main_runs):
                net.run()
        finally:
            net.observers.remove(each)
        times += [1e3 * each.seconds[i] / max(1, main_runs) for i in sorted(each.seconds)]
    return times


# ---- schemas, gradients, inference -------------------------------------------------------------------------------


def registered_operators() -> list[str]:
    """Keys of all kernels: the type, and TYPE_ENGINE_NAME for further engines."""
    keys = []
    for name in registry.names():
        keys.append(name)
        keys += [op_registry_key(name, e) for e in sorted({e for e, _ in registry.find(name).kernels if e})]
    return keys


def op_registry_key(op_type: str, engine: str) -> str:
    """The key of an operator's kernel for an engine."""
    return f"{op_type}_ENGINE_{engine}" if engine not in ("", "DEFAULT") else op_type


def nearby_opnames(name: str) -> list[str]:
    """Names of operators that are spelled like this one."""
    return difflib.get_close_matches(name, registry.names(), 5, 0.7)


def get_gradient_defs(
    op_def: Definition, output_gradients: Iterable[GradientWrapper]
) -> tuple[list[bytes], list[GradientWrapper]]:
    """(gradient operators, gradients of the inputs) of an operator, given the gradients of its outputs."""
    given = [None if w.is_empty() else w.dense or (w.indices, w.values) for w in output_gradients]
    made, g_input = gradients.gradient_defs(message(caffe2_pb2.OperatorDef, op_def), given)
    wrapped = []
    for gradient in g_input:
        w = GradientWrapper()
        if isinstance(gradient, str):
            w.dense = gradient
        elif gradient is not None:
            w.indices, w.values = gradient
        wrapped.append(w)
    return [op.SerializeToString() for op in made], wrapped


def infer_shapes_and_types_from_workspace(nets: Iterable[Definition]) -> bytes:
    """TensorShapes of the nets' blobs, beginning with the tensors of the workspace."""
    parsed = [message(caffe2_pb2.NetDef, n) for n in nets]
    known = inference.infer_net(parsed, inference.workspace_specs(_ws), _ws.names())
    return inference.to_shapes(parsed, known).SerializeToString()


def infer_shapes_and_types_from_map(
    nets: Iterable[Definition],
    blob_dimensions: Mapping[str, Sequence[int]],
    blob_types: Mapping[str, int] | None = None,
) -> bytes:
    """TensorShapes of the nets' blobs, beginning with the given {name: dims} (and {name: data type})."""
    parsed = [message(caffe2_pb2.NetDef, n) for n in nets]
    known = {}
    for name, dims in blob_dimensions.items():
        kind = (blob_types or {}).get(name)
        dtype = "float32" if kind is None else dtypes.NUMPY[kind].name
        known[name] = inference.Spec(tuple(dims), dtype)
    return inference.to_shapes(parsed, inference.infer_net(parsed, known)).SerializeToString()


def infer_op_input_output_device(op_def: Definition) -> tuple[list[bytes], list[bytes]]:
    """DeviceOptions of an operator's inputs and outputs."""
    ins, outs = inference.operand_devices(message(caffe2_pb2.OperatorDef, op_def))
    return [o.SerializeToString() for o in ins], [o.SerializeToString() for o in outs]


def get_operator_cost(op_def: Definition, input_names: Iterable[str] = ()) -> tuple[int, int, int]:
    """(FLOPs, bytes written, bytes read) of an operator on the workspace's blobs."""
    return inference.operator_cost(message(caffe2_pb2.OperatorDef, op_def), _ws)


def memonger_compute_blob_recycling_for_dag(
    net: Definition,
    heads: Iterable[str],
    op_indices: Iterable[int],
    shareable: Iterable[Name],
    namescope: Name,
    dont_share: Iterable[Name],
    shapes: Mapping[Name, Sequence[int]],
) -> bytes:
    """A NetDef in which the shareable blobs share storage (see engine.memonger)."""
    parsed = message(caffe2_pb2.NetDef, net)
    return memonger.share_blobs(parsed, heads, op_indices, shareable, namescope, dont_share, shapes).SerializeToString()


def memonger_optimize_inference_net(net: Definition, static_blobs: Iterable[Name]) -> bytes:
    """A NetDef that runs in order, in which all but the static blobs share storage."""
    return memonger.share_in_order(message(caffe2_pb2.NetDef, net), static_blobs).SerializeToString()


def transform_exists(key: str) -> bool:
    """Whether a transform of nets has that name."""
    return key in transforms.OF_NETS


def workspace_transform_exists(key: str) -> bool:
    """Whether a transform of nets and their weights has that name."""
    return key in transforms.OF_WORKSPACES


def run_transform(key: str, net: Definition) -> bytes:
    """The NetDef that a transform of nets makes of one."""
    return transforms.apply(key, message(caffe2_pb2.NetDef, net)).SerializeToString()


def run_workspace_transform(key: str, net: Definition) -> bytes:
    """The NetDef that a transform makes of one; it also changes weights in the current workspace."""
    return transforms.apply(key, message(caffe2_pb2.NetDef, net), _ws).SerializeToString()


def transform_addNNPACK(net: Definition) -> bytes:
    """The NetDef with convolutions by NNPACK."""
    return run_transform("AddNNPACK", net)


def transform_fuseNNPACKConvRelu(net: Definition) -> bytes:
    """The NetDef with Relu in NNPACK's convolutions."""
    return run_transform("FuseNNPACKConvRelu", net)


def transform_optimizeForMKLDNN(net: Definition, training_mode: bool = False) -> bytes:
    """The same NetDef: there is no MKL-DNN here."""
    return run_transform("OptimizeForMKLDNN", net)


def transform_fuseConvBN(net: Definition) -> bytes:
    """The NetDef with batch normalization in the weights of convolutions."""
    return run_workspace_transform("FuseConvBN", net)


def _text(key: str | bytes) -> str:
    """Caffe2's own Python files give names of transforms as bytes."""
    return key.decode() if isinstance(key, bytes) else key


def apply_transform(key: str | bytes, net: Definition) -> bytes:
    """The NetDef that a named transform makes of one."""
    return transforms.apply(_text(key), message(caffe2_pb2.NetDef, net)).SerializeToString()


def apply_transform_if_faster(
    key: str | bytes,
    net: Definition,
    init_net: Definition,
    warmup_runs: int,
    main_runs: int,
    improvement_threshold: float,
) -> bytes:
    """The NetDef that a named transform makes of one, or the same where it does not run that much faster."""
    before, init = message(caffe2_pb2.NetDef, net), message(caffe2_pb2.NetDef, init_net)
    made = transforms.apply_if_faster(_text(key), before, init, warmup_runs, main_runs, improvement_threshold)
    return made.SerializeToString()


# ---- engines, observers, Python operators, databases ---------------------------------------------------------------


def set_global_engine_pref(pref: Mapping[int, Sequence[str]]) -> None:
    """{device type: engines to try}, for all operators."""
    preferences.everywhere.clear()
    preferences.everywhere.update({int(k): list(v) for k, v in pref.items()})


def set_per_op_engine_pref(pref: Mapping[int, Mapping[str, Sequence[str]]]) -> None:
    """{device type: {operator: engines to try}}."""
    preferences.of_operators.clear()
    for device, table in pref.items():
        for op, engines in table.items():
            preferences.of_operators.setdefault(op, {})[int(device)] = list(engines)


def set_op_engine_pref(op: str, pref: Mapping[int, Sequence[str]]) -> None:
    """{device type: engines to try}, for one operator."""
    preferences.of_operators[op] = {int(k): list(v) for k, v in pref.items()}


def set_engine_pref(per_op: Mapping[int, Mapping[str, Sequence[str]]], everywhere: Mapping[int, Sequence[str]]) -> None:
    """Both kinds of preferences at once."""
    set_per_op_engine_pref(per_op)
    set_global_engine_pref(everywhere)


def add_observer_to_net(net_name: str, observer_type: str) -> observers.Observer:
    """Attach a new observer to a net."""
    made = observer(observer_type)
    runner.get_net(_ws, net_name).observers.append(made)
    return made


def remove_observer_from_net(net_name: str, attached: observers.Observer) -> None:
    """Take an observer off a net."""
    runner.get_net(_ws, net_name).observers.remove(attached)


def num_observers_on_net(net_name: str) -> int:
    """How many observers a net has."""
    return len(runner.get_net(_ws, net_name).observers)


def clear_global_net_observer() -> None:
    """Nothing to clear: observers belong to nets here."""


def get_stats() -> dict[str, int]:
    """The process's statistics."""
    return {name: value for name, (value, _) in stats.registry.publish().items()}


def register_python_op(function: python_op.Function | python_op.Builder, pass_workspace: bool, name: str = "") -> str:
    """The token of a Python function for operators of type Python."""
    return python_op.register(function, pass_workspace, name)


def register_python_gradient_op(token: str, function: python_op.Function) -> None:
    """The gradient function of a Python operator."""
    python_op.register_gradient(token, function)


def registered_dbs() -> list[str]:
    """Types of databases."""
    return databases.db_types()


def create_db(db_type: str, source: str, mode: int) -> OpenDB:
    """Open a database."""
    return OpenDB(databases.open_db(db_type, source, Mode(mode)))


def on_module_exit() -> None:
    """Forget all workspaces."""
    _handles.clear()


_ws: EngineWorkspace
_handles["default"] = Workspace()
_switch(_handles["default"], "default")
