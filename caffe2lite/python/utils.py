"""Small helpers around protobuf messages, arguments and array layouts."""

from __future__ import annotations

import copy
import functools
import pdb
import sys
import traceback

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.text import ParseError, parse
from caffe2lite.python import scope, workspace
from caffe2lite.python._core.arguments import ArgsToDict, MakeArgument  # noqa: F401 - two of this module's names
from caffe2lite.python._core.devices import DeviceOption
from caffe2lite.python._core.operators import CreateOperator, DataType
from caffe2lite.python._core.tensors import (  # noqa: F401 - these too
    Caffe2TensorToNumpyArray,
    CaffeBlobToNumpyArray,
    NumpyArrayToCaffe2Tensor,
)

integer_types = (int,)
string_types = (str,)
binary_type = bytes
text_type = str

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
ITERATION_MUTEX_NAME = "iteration_mutex"


def OpAlmostEqual(op_a, op_b, ignore_fields=None):
    """Return whether two OperatorDefs agree once the fields named in `ignore_fields` are left out."""
    fields = [ignore_fields] if isinstance(ignore_fields, str) else ignore_fields or ()
    stripped = []
    for op in (op_a, op_b):
        op = copy.deepcopy(op)
        for field in fields:
            op.ClearField(field)
        stripped.append(op)
    return stripped[0] == stripped[1]


def TryReadProtoWithClass(cls, s):
    """Parse `s` as a `cls`: text format first, then binary."""
    message = cls()
    try:
        return parse(s, message)
    except (ParseError, UnicodeDecodeError):
        message = cls()
        message.ParseFromString(s)
        return message


def GetContentFromProto(obj, function_map):
    """`function_map[type](obj)` for the type of message that `obj` is, or None."""
    for cls, function in function_map.items():
        if type(obj) is cls:
            return function(obj)
    return None


def GetContentFromProtoString(s, function_map):
    """Like GetContentFromProto, for a message serialized in `s` as one of the types of `function_map`."""
    for cls, function in function_map.items():
        try:
            message = TryReadProtoWithClass(cls, s)
        except DecodeError:
            continue
        return function(message)
    raise DecodeError(f"these bytes are none of {[kind.__name__ for kind in function_map]}")


def ConvertProtoToBinary(proto_class, filename, out_filename):
    """Rewrite a text-format file as a binary one."""
    with open(filename, "rb") as source:
        message = TryReadProtoWithClass(proto_class, source.read())
    with open(out_filename, "wb") as target:
        target.write(message.SerializeToString())


def GetGPUMemoryUsageStats():
    """Return bytes per GPU: `total_by_gpu`, `max_by_gpu`, and their sums `total` and `max_total`."""
    workspace.RunOperatorOnce(
        CreateOperator("GetGPUMemoryUsage", [], ["____mem____"], device_option=DeviceOption(workspace.GpuDeviceType, 0))
    )
    total, peak = workspace.FetchBlob("____mem____")
    return {"total_by_gpu": total, "max_by_gpu": peak, "total": np.sum(total), "max_total": np.sum(peak)}


def ResetBlobs(blobs):
    """Free the contents of `blobs`; the blobs stay."""
    names = list(blobs)
    workspace.RunOperatorOnce(CreateOperator("Free", names, names))


class DebugMode:
    """Runs a function under pdb's post-mortem debugger."""

    @classmethod
    def run(cls, func):
        """Call `func` under a debugger that stops at an error."""
        try:
            return func()
        except KeyboardInterrupt:
            raise
        except Exception:
            print("Entering interactive debugger. Type 'bt' to print the full stacktrace.")
            traceback.print_exc()
            pdb.post_mortem(sys.exc_info()[2])


def raiseIfNotEqual(a, b, msg):
    """Raise unless a == b."""
    if a != b:
        raise Exception(f"{msg}. {a} != {b}")


def debug(f):
    """Decorator: an exception in `f` ends in the debugger, at the place where it was raised."""

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return DebugMode.run(lambda: f(*args, **kwargs))

    return wrapper


def BuildUniqueMutexIter(init_net, net, iter=None, iter_mutex=None, iter_val=0):
    """Add an AtomicIter with its mutex, on the CPU whatever the device scope; return the iteration blob."""
    iter = OPTIMIZER_ITERATION_NAME if iter is None else iter
    iter_mutex = ITERATION_MUTEX_NAME if iter_mutex is None else iter_mutex
    on_cpu = DeviceOption(caffe2_pb2.CPU, extra_info=["device_type_override:cpu"])
    if init_net.BlobIsDefined(iter):  # the net that made it counts
        return init_net.GetBlobRef(iter)
    with scope.DeviceScope(on_cpu):
        iteration = init_net.ConstantFill([], iter, shape=[1], value=iter_val, dtype=DataType.INT64)
        mutex = init_net.CreateMutex([], [iter_mutex])
        net.AddExternalInput(mutex)
        net.AtomicIter([mutex, iteration], [iteration])
    return iteration


def EnumClassKeyVals(cls):
    """Return the public string constants of a class: {name: value}."""
    if not isinstance(cls, type):
        raise AssertionError(f"expected a class, got {cls!r}")
    return {k: v for k in dir(cls) if not k.startswith("_") and isinstance(v := getattr(cls, k), str)}


def NHWC2NCHW(tensor):
    """Move the last axis (channels) to place 1."""
    return np.moveaxis(tensor, -1, 1)


def NCHW2NHWC(tensor):
    """Move axis 1 (channels) to the end."""
    return np.moveaxis(tensor, 1, -1)
