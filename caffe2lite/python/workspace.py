"""Feed, create, run, fetch: the calls by which a script drives the engine."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import shutil
import tempfile

import numpy as np
from google.protobuf.message import Message

import caffe2lite.python._import_c_extension as C
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import scope
from caffe2lite.python._core import operators
from caffe2lite.python._core.devices import GpuDeviceType
from caffe2lite.python._core.operators import operator_tracebacks
from caffe2lite.python._core.plan import ExecutionStep, Plan
from caffe2lite.python._core.shown import workspace_html
from caffe2lite.python._core.tensors import Caffe2TensorToNumpyArray
from caffe2lite.python.lazy import TriggerLazyImport

logger = logging.getLogger(__name__)

BenchmarkNet = C.benchmark_net
BenchmarkNetOnce = C.benchmark_net_once
Blobs = C.blobs
CreateBlob = C.create_blob
CreateOfflineTensor = C.create_offline_tensor
CurrentWorkspace = C.current_workspace
DeserializeBlob = C.deserialize_blob
GetBlobNUMANode = C.get_blob_numa_node
GetBlobSizeBytes = C.get_blob_size_bytes
GetNumNUMANodes = C.get_num_numa_nodes
GetStats = C.get_stats
GlobalInit = C.global_init
HasBlob = C.has_blob
IsNUMAEnabled = C.is_numa_enabled
RegisteredOperators = C.registered_operators
ResetBlob = C.reset_blob
RootFolder = C.root_folder
SerializeBlob = C.serialize_blob
SwitchWorkspace = C.switch_workspace
Workspaces = C.workspaces

# What a notebook shows of the module, and of a workspace of its own; the engine knows no HTML.
_repr_html_ = lambda: workspace_html(C.Workspace.current)
C.Workspace._repr_html_ = workspace_html

is_asan = C.is_asan
has_fbgemm = C.has_fbgemm

_LIVE_FLAGS = ("has_cuda_support", "has_hip_support", "has_gpu_support")


def __getattr__(name):
    # Emulated GPUs may be switched on after this module was imported.
    if name in _LIVE_FLAGS:
        return getattr(C, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *_LIVE_FLAGS]


# --- devices ---------------------------------------------------------------------------------------------------------


def NumGpuDevices():
    """Return how many GPUs there are, emulated ones included."""
    return C.num_cuda_devices()


NumCudaDevices = NumGpuDevices


def GetCUDAVersion():
    """Return CUDA's version as one number (12040 is 12.4), 0 without CUDA."""
    return C.get_cuda_version()


def GetCuDNNVersion():
    """Return cuDNN's version as one number, 0 without it."""
    return C.get_cudnn_version()


def GetDeviceProperties(x):
    """Return the properties of GPU `x` as a dict; None without GPUs."""
    return C.get_device_properties(x) if C.has_gpu_support else None


def GetGpuPeerAccessPattern():
    """Return a square array: [i, j] says whether GPU i can read GPU j's memory."""
    if not C.has_gpu_support:
        return np.asarray([])
    return np.asarray(C.get_cuda_peer_access_pattern())


GetCudaPeerAccessPattern = GetGpuPeerAccessPattern


def GetGPUMemoryInfo():
    """Return (free, total) bytes of each GPU; None without GPUs."""
    if not C.has_gpu_support:
        return None
    return [C.get_gpu_memory_info(i) for i in range(NumGpuDevices())]


# --- names and messages ----------------------------------------------------------------------------------------------


def _StringifyName(name, expected_type):
    if isinstance(name, (str, bytes)):
        return name
    if type(name).__name__ != expected_type:
        raise AssertionError(f"Expected a string or {expected_type}, got {name!r}")
    return str(name)


def StringifyBlobName(name):
    """Return the name of a blob given as string or BlobReference."""
    return _StringifyName(name, "BlobReference")


def StringifyNetName(name):
    """Return the name of a net given as string or core.Net."""
    return _StringifyName(name, "Net")


def GetNetName(net):
    """Return the name of a net given as string, core.Net or NetDef."""
    if isinstance(net, (str, bytes)):
        return net
    if isinstance(net, caffe2_pb2.NetDef):
        return net.name
    if type(net).__name__ == "Net":
        return net.Name()
    raise Exception(f"Not a Net object: {net!r}")


def StringifyProto(obj):
    """Serialized bytes of a message, of an object with Proto(), or bytes as they are."""
    if isinstance(obj, (bytes, str)):
        return obj
    if isinstance(obj, Message):
        return obj.SerializeToString()
    if hasattr(obj, "Proto"):
        return obj.Proto().SerializeToString()
    raise ValueError(f"expected a message, or an object with Proto(), got {type(obj).__name__}")


def _definition(obj):
    """Return what the engine reads a definition from: bytes or a message, without a copy."""
    return obj.Proto() if hasattr(obj, "Proto") else obj


# --- nets, operators, plans ------------------------------------------------------------------------------------------


def _note_origin(error, op_id, net_name):
    """Tell on `error` which line of the script added the failed operator."""
    if isinstance(net_name, bytes):
        net_name = net_name.decode("utf-8", "replace")
    if net_name not in operator_tracebacks:
        return
    frames = operator_tracebacks[net_name].get(op_id)
    if not frames:
        return
    lines = [f"Operator {op_id} of net `{net_name}` was added here (most recent call last):"]
    lines += [f'  File "{file}", line {line}, in {function}' for file, line, function in reversed(frames)]
    note = "\n".join(lines)
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        logger.warning(note)


def CallWithExceptionIntercept(func, op_id_fetcher, net_name, *args, **kwargs):
    """Call `func`; an exception gains a note of the script line that added the operator `op_id_fetcher()`."""
    try:
        return func(*args, **kwargs)
    except Exception as error:
        _note_origin(error, op_id_fetcher(), net_name)
        raise


def _failed_operator():
    return C.Workspace.current._last_failed_op_net_position()


def ResetWorkspace(root_folder=None):
    """Drop all blobs and nets of the current workspace; with `root_folder`, move it there."""
    if root_folder is None:
        return C.reset_workspace(C.root_folder())
    os.makedirs(root_folder, exist_ok=True)
    return C.reset_workspace(root_folder)


def CreateNet(net, overwrite=False, input_blobs=None):
    """Compile a net (core.Net, NetDef or bytes) in the workspace, creating `input_blobs` first."""
    TriggerLazyImport()
    if input_blobs is not None:
        for blob in input_blobs:
            C.create_blob(StringifyBlobName(blob))
    return CallWithExceptionIntercept(C.create_net, _failed_operator, GetNetName(net), _definition(net), overwrite)


def Predictor(init_net, predict_net):
    """Return an object whose run(inputs) answers with the outputs of `predict_net`; its workspace is its own."""
    return C.Predictor(_definition(init_net), _definition(predict_net))


Cost = collections.namedtuple("Cost", ["flops", "bytes_written", "bytes_read"])


def GetOperatorCost(operator, blobs):
    """Return (flops, bytes_written, bytes_read) of an operator on the given input blobs."""
    return Cost(*C.get_operator_cost(StringifyProto(operator), [str(blob) for blob in blobs]))


def RunOperatorOnce(operator):
    """Run one operator (OperatorDef or bytes)."""
    return C.run_operator_once(_definition(operator))


def RunOperatorMultiple(operator, num_runs):
    """Make one operator and run it `num_runs` times."""
    return C.run_operator_multiple(_definition(operator), num_runs)


def RunOperatorsOnce(operators):
    """Run operators in order; False as soon as one reports failure."""
    return all(RunOperatorOnce(operator) for operator in operators)


def ClearGlobalNetObserver():
    """Remove the observer that every net got."""
    return C.clear_global_net_observer()


def RunNetOnce(net):
    """Create a net, run it once, forget it."""
    return CallWithExceptionIntercept(C.run_net_once, _failed_operator, GetNetName(net), _definition(net))


def RunNet(name, num_iter=1, allow_fail=False):
    """Run a created net `num_iter` times; with `allow_fail` a net that reports failure yields False."""
    if type(name) is not str:
        name = StringifyNetName(name)
    try:
        return C.run_net(name, num_iter, allow_fail)
    except Exception as error:
        _note_origin(error, _failed_operator(), name)
        raise


def _as_plan(plan_or_step):
    if isinstance(plan_or_step, ExecutionStep):
        plan_or_step = Plan(plan_or_step)
    return _definition(plan_or_step)


def RunPlan(plan_or_step):
    """Run a Plan (or PlanDef, bytes, ExecutionStep) to its end."""
    return C.run_plan(_as_plan(plan_or_step))


def RunPlanInBackground(plan_or_step):
    """Start a plan on a thread; return an object with is_done() and is_succeeded()."""
    return C.run_plan_in_background(_as_plan(plan_or_step))


def InferShapesAndTypes(nets, blob_dimensions=None, nets_proto=False, blob_types=None):
    """Return ({blob: shape}, {blob: data type}) of what `nets` compute, from the workspace or from given input shapes."""
    protos = [StringifyProto(net if nets_proto else net.Proto()) for net in nets]
    if blob_dimensions is None:
        if blob_types is not None:
            raise AssertionError("blob_types needs blob_dimensions")
        answer = C.infer_shapes_and_types_from_workspace(protos)
    else:
        known = [{str(blob): dims for blob, dims in blob_dimensions.items()}]
        if blob_types is not None:
            known.append({str(blob): kind for blob, kind in blob_types.items()})
        answer = C.infer_shapes_and_types_from_map(protos, *known)
    described = caffe2_pb2.TensorShapes()
    described.ParseFromString(answer)
    found = [shape for shape in described.shapes if not shape.unknown_shape]
    return {s.name: list(s.dims) for s in found}, {s.name: s.data_type for s in found}


def FillRandomNetworkInputs(net, input_dims, input_types):
    """Feed random tensors to a net's inputs: for each operator shapes, and types by name ('float', 'int')."""
    C.fill_random_network_inputs(StringifyProto(net), input_dims, input_types)


def ApplyTransform(transform_key, net):
    """Return the NetDef that the registered transform makes of `net`."""
    transformed = caffe2_pb2.NetDef()
    transformed.ParseFromString(C.apply_transform(str(transform_key), StringifyProto(net)))
    return transformed


def ApplyTransformIfFaster(transform_key, net, init_net, **kwargs):
    """Like ApplyTransform, but the net itself unless the result runs `improvement_threshold` times faster."""
    transformed = caffe2_pb2.NetDef()
    transformed.ParseFromString(
        C.apply_transform_if_faster(
            str(transform_key),
            StringifyProto(net),
            StringifyProto(init_net),
            kwargs.get("warmup_runs", 5),
            kwargs.get("main_runs", 10),
            kwargs.get("improvement_threshold", 1.01),
        )
    )
    return transformed


def StartMint(root_folder=None, port=None):
    """Raise RuntimeError: Caffe2's web viewer no longer exists."""
    raise RuntimeError("Mint, Caffe2's web viewer, no longer exists; see `caffe2lite draw` for pictures of nets.")


# --- blobs -----------------------------------------------------------------------------------------------------------


def _feedable(arr):
    """Return what the engine takes for `arr`: arrays and bytes as they are, NumPy strings as objects."""
    if isinstance(arr, caffe2_pb2.TensorProto):
        return Caffe2TensorToNumpyArray(arr)
    if isinstance(arr, np.ndarray) and arr.dtype.kind in "SU":
        return arr.astype(object)
    if _is_torch(arr):
        return arr.detach().cpu().numpy()
    return arr


def _is_torch(arr):
    return type(arr).__module__ == "torch" and hasattr(arr, "detach")


def FeedBlob(name, arr, device_option=None):
    """Copy an array (or a string) into blob `name`, on `device_option` or the device scope's device.

    A contiguous torch tensor on the CPU is not copied: it becomes the blob's tensor, as in Caffe2.
    """
    if type(name) is not str:
        name = StringifyBlobName(name)
    if type(arr) is not np.ndarray or arr.dtype.kind in "SU":
        if _is_torch(arr) and device_option is None and scope.CurrentDeviceScope() is None:
            from caffe2lite.python._extension import torch_tensors  # not above: torch is no dependency

            torch_tensors.feed(C.Workspace.current.create_blob(name)._blob, arr)
            return True
        arr = _feedable(arr)
    if device_option is None:
        device_option = scope.CurrentDeviceScope()
        if device_option is None:
            return C.feed_blob(name, arr)
    if device_option.device_type == GpuDeviceType and getattr(arr, "dtype", None) == np.float64:
        logger.warning(
            "GPU operators do not support 64-bit doubles, please use arr.astype(np.float32) or np.int32 for ints. "
            "Blob: %s type: %s",
            name,
            arr.dtype,
        )
    return C.feed_blob(name, arr, _definition(device_option))


def FetchBlob(name):
    """Return a copy of what blob `name` holds."""
    value = C.fetch_blob(name if type(name) is str else StringifyBlobName(name))
    if type(value) is tuple:
        raise TypeError(f"Use FetchInt8Blob to fetch Int8 Blob {name}")
    return value


def FetchBlobs(names):
    """Return copies of several blobs, as a list."""
    return [FetchBlob(name) for name in names]


def FetchTorch(name):
    """Return a torch tensor that is the blob's tensor: shares its memory, follows its shape, and resizes it by `resize_`."""
    return C.Workspace.current.blobs[StringifyBlobName(name)].to_torch()


Int8Tensor = collections.namedtuple("Int8Tensor", ["data", "scale", "zero_point"])


def FetchInt8Blob(name):
    """Return (data, scale, zero_point) of a quantized blob."""
    value = C.fetch_blob(StringifyBlobName(name))
    if not isinstance(value, tuple):
        raise AssertionError(f"You are not fetching an Int8Blob {name}. Please use FetchBlob")
    return Int8Tensor(*value)


def FetchInt8BlobRealVal(name):
    """Return a quantized blob as float32 numbers."""
    quantized = FetchInt8Blob(name)
    return (quantized.data.astype(np.int32) - np.int32(quantized.zero_point)).astype(np.float32) * np.float32(
        quantized.scale
    )


class _BlobDict:
    """The blobs of the current workspace as a dictionary of arrays."""

    def __getitem__(self, key):
        return FetchBlob(key)

    def __setitem__(self, key, value):
        FeedBlob(key, value)

    def __len__(self):
        return len(C.blobs())

    def __iter__(self):
        return iter(C.blobs())

    def __contains__(self, item):
        return C.has_blob(StringifyBlobName(item))


blobs = _BlobDict()


def GetNameScope():
    """Return the current name scope."""
    return scope.CurrentNameScope()


@contextlib.contextmanager
def WorkspaceGuard(workspace_name):
    """Inside the block, the current workspace is `workspace_name` (created when new)."""
    outer = CurrentWorkspace()
    SwitchWorkspace(workspace_name, True)
    try:
        yield
    finally:
        SwitchWorkspace(outer)


# --- immediate mode --------------------------------------------------------------------------------------------------

_immediate_mode = False
_immediate_workspace_name = "_CAFFE2_IMMEDIATE"
_immediate_root_folder = ""


def IsImmediate():
    """Return whether operators run as soon as they are created."""
    return _immediate_mode


def StartImmediate(i_know=False):
    """From here on every operator also runs when it is created, in a workspace of its own: for debugging only."""
    global _immediate_mode, _immediate_root_folder
    if _immediate_mode:
        return
    if not i_know:
        logger.warning(
            "Immediate mode runs every operator when it is created, in a workspace beside yours. It is meant for "
            "debugging small nets: nothing is optimized, nothing is freed before StopImmediate()."
        )
    _immediate_mode = True
    operators.listeners.append(RunOperatorImmediate)
    _immediate_root_folder = tempfile.mkdtemp(prefix="caffe2lite-immediate-")
    with WorkspaceGuard(_immediate_workspace_name):
        ResetWorkspace(_immediate_root_folder)


def StopImmediate():
    """Leave immediate mode and delete its workspace."""
    global _immediate_mode, _immediate_root_folder
    if not _immediate_mode:
        return
    with WorkspaceGuard(_immediate_workspace_name):
        ResetWorkspace()
    shutil.rmtree(_immediate_root_folder, ignore_errors=True)
    _immediate_mode = False
    operators.listeners.remove(RunOperatorImmediate)
    _immediate_root_folder = ""


def _immediately(call, *args, **kwargs):
    with WorkspaceGuard(_immediate_workspace_name):
        return call(*args, **kwargs)


def FeedImmediate(*args, **kwargs):
    """FeedBlob in the immediate workspace."""
    return _immediately(FeedBlob, *args, **kwargs)


def FetchImmediate(*args, **kwargs):
    """FetchBlob in the immediate workspace."""
    return _immediately(FetchBlob, *args, **kwargs)


def ImmediateBlobs():
    """Return the names of the blobs of the immediate workspace."""
    return _immediately(Blobs)


def RunOperatorImmediate(op):
    """Run one operator in the immediate workspace."""
    _immediately(RunOperatorOnce, op)


# --- methods that C's classes get from here --------------------------------------------------------------------------


def _Workspace_create_net_with_exception_intercept(ws, net, overwrite=False):
    """Create a net in this workspace."""
    return CallWithExceptionIntercept(
        ws._create_net, ws._last_failed_op_net_position, GetNetName(net), StringifyProto(net), overwrite
    )


def _Workspace_run(ws, obj):
    """Run a net, plan or operator in this workspace."""
    proto = obj.Proto() if hasattr(obj, "Proto") else obj
    if isinstance(proto, caffe2_pb2.PlanDef):
        return ws._run_plan(proto.SerializeToString())
    if isinstance(proto, caffe2_pb2.NetDef):
        return CallWithExceptionIntercept(
            ws._run_net, ws._last_failed_op_net_position, proto.name, proto.SerializeToString()
        )
    if isinstance(proto, caffe2_pb2.OperatorDef):
        return ws._run_operator(proto.SerializeToString())
    raise ValueError(f"Don't know how to do Workspace.run() on {type(proto)}")


def _Blob_feed(blob, arg, device_option=None):
    """Copy an array (or a string) into this blob."""
    if device_option is not None:
        device_option = StringifyProto(device_option)
    return blob._feed(_feedable(arg), device_option)


def _Workspace_feed_blob(ws, name, arr, device_option=None):
    """Copy an array (or a string) into blob `name` of this workspace."""
    return _Blob_feed(ws.create_blob(StringifyBlobName(name)), arr, device_option)


def _Workspace_remove_blob(ws, blob):
    """Delete a blob of this workspace."""
    ws._remove_blob(str(blob))


def _Workspace_fetch_int8_blob(ws, name):
    """Return (data, scale, zero_point) of a quantized blob of this workspace."""
    value = ws.fetch_blob(StringifyBlobName(name))
    if not isinstance(value, tuple):
        raise AssertionError(f"You are not fetching an Int8Blob {name}. Please use fetch_blob")
    return Int8Tensor(*value)


def _Tensor_to_torch(tensor):
    """Return a torch tensor that shares this tensor's memory and follows its shape."""
    from caffe2lite.python._extension import torch_tensors  # not above: torch is no dependency

    return torch_tensors.fetch(tensor._blob)


def _Blob_to_torch(blob):
    """Return a torch tensor that shares the memory of this blob's tensor."""
    if not blob.is_tensor():
        raise RuntimeError("only a tensor can become a torch tensor")
    return blob.as_tensor().to_torch()


Workspace = C.Workspace
Workspace.create_net = _Workspace_create_net_with_exception_intercept
Workspace.run = _Workspace_run
Workspace.feed_blob = _Workspace_feed_blob
Workspace.remove_blob = _Workspace_remove_blob
Workspace.fetch_int8_blob = _Workspace_fetch_int8_blob
C.Blob.feed = _Blob_feed
C.Blob.to_torch = _Blob_to_torch
C.TensorCPU.to_torch = _Tensor_to_torch
C.TensorCPU.reshape = lambda tensor, shape: tensor._reshape(list(shape))
C.TensorCPU.shape = property(lambda tensor: tuple(tensor._shape))
