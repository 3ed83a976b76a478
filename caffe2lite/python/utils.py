"""Small helpers around protobuf messages, arguments and array layouts."""

from __future__ import annotations

import collections.abc
import copy
import functools
import pdb
import sys
import traceback

import numpy as np
from google.protobuf.message import DecodeError, Message

from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.text import ParseError, parse

integer_types = (int,)
string_types = (str,)
binary_type = bytes
text_type = str

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
ITERATION_MUTEX_NAME = "iteration_mutex"


def OpAlmostEqual(op_a, op_b, ignore_fields=None):
    """Whether two OperatorDefs agree once the fields named in `ignore_fields` are left out."""
    fields = [ignore_fields] if isinstance(ignore_fields, str) else ignore_fields or ()
    stripped = []
    for op in (op_a, op_b):
        op = copy.deepcopy(op)
        for field in fields:
            op.ClearField(field)
        stripped.append(op)
    return stripped[0] == stripped[1]


def CaffeBlobToNumpyArray(blob):
    """The float32 array in a (BVLC) Caffe BlobProto, new or old style of shape."""
    shape = list(blob.shape.dim) if blob.num == 0 else [blob.num, blob.channels, blob.height, blob.width]
    return np.asarray(blob.data, dtype=np.float32).reshape(shape)


_TensorProto = caffe2_pb2.TensorProto
# numpy type -> (data type, field that carries it)
_TENSOR_FIELDS = {
    np.dtype(np.float32): (_TensorProto.FLOAT, "float_data"),
    np.dtype(np.float64): (_TensorProto.DOUBLE, "double_data"),
    np.dtype(np.int64): (_TensorProto.INT64, "int64_data"),
    np.dtype(np.int32): (_TensorProto.INT32, "int32_data"),
    np.dtype(np.int16): (_TensorProto.INT16, "int32_data"),
    np.dtype(np.uint16): (_TensorProto.UINT16, "int32_data"),
    np.dtype(np.int8): (_TensorProto.INT8, "int32_data"),
    np.dtype(np.uint8): (_TensorProto.UINT8, "int32_data"),
}
_TENSOR_READERS = {data_type: (dtype, field) for dtype, (data_type, field) in _TENSOR_FIELDS.items()}
_TENSOR_READERS[_TensorProto.INT32] = (np.dtype(np.int64), "int32_data")  # as Caffe2 hands it out


def Caffe2TensorToNumpyArray(tensor):
    """The array in a TensorProto of numbers (INT32 comes as int64)."""
    if tensor.data_type not in _TENSOR_READERS:
        raise RuntimeError(f"a TensorProto of data type {tensor.data_type} holds no numbers that NumPy takes")
    dtype, field = _TENSOR_READERS[tensor.data_type]
    values = np.array(getattr(tensor, field), dtype=np.int64 if dtype.kind in "iu" else dtype)
    return values.astype(dtype).reshape(list(tensor.dims))


def NumpyArrayToCaffe2Tensor(arr, name=None):
    """A TensorProto with the numbers of `arr`."""
    tensor = _TensorProto()
    tensor.dims.extend(arr.shape)
    if name:
        tensor.name = name
    if arr.dtype not in _TENSOR_FIELDS:
        raise RuntimeError(f"a TensorProto cannot hold {arr.dtype}")
    tensor.data_type, field = _TENSOR_FIELDS[arr.dtype]
    getattr(tensor, field).extend(arr.ravel().tolist())
    return tensor


def fill_argument(argument, key, value):
    """Write `key` and `value` into the Argument message `argument`."""
    argument.name = key
    kind = type(value)
    if kind is int:
        argument.i = value
        return
    if kind is float:
        argument.f = value
        return
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        argument.s = value.encode("utf-8")
    elif isinstance(value, bytes):
        argument.s = value
    elif isinstance(value, int):
        argument.i = int(value)  # a bool, to protobuf, is no int
    elif isinstance(value, float):
        argument.f = value
    elif isinstance(value, caffe2_pb2.NetDef):
        argument.n.CopyFrom(value)
    elif isinstance(value, Message):
        argument.s = value.SerializeToString()
    elif isinstance(value, collections.abc.Iterable):
        _fill_list(argument, key, value)
    else:
        raise ValueError(f"Unknown argument type: key={key} value={value}, value type={type(value)}")


def _fill_list(argument, key, value):
    items = list(value)
    if all(isinstance(v, float) for v in items):
        argument.floats.extend(items)
    elif all(isinstance(v, (int, np.integer, np.bool_)) for v in items):
        argument.ints.extend(int(v) for v in items)
    elif all(isinstance(v, (str, bytes)) for v in items):
        argument.strings.extend(v.encode("utf-8") if isinstance(v, str) else v for v in items)
    elif all(isinstance(v, caffe2_pb2.NetDef) for v in items):
        argument.nets.extend(items)
    elif all(isinstance(v, Message) for v in items):
        argument.strings.extend(v.SerializeToString() for v in items)
    else:
        kinds = {type(v) for v in items}
        raise ValueError(
            f"Unknown iterable argument type: key={key} value={value}, value type={type(value)}[{kinds}]; "
            "a list holds numbers of one kind, strings or messages"
        )


def MakeArgument(key, value):
    """The Argument message for `key` = `value`: a number, string, NetDef, other message, array or list of one kind."""
    argument = caffe2_pb2.Argument()
    fill_argument(argument, key, value)
    return argument


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
    """Bytes per GPU: `total_by_gpu`, `max_by_gpu`, and their sums `total` and `max_total`."""
    from caffe2lite.python import core, workspace

    workspace.RunOperatorOnce(
        core.CreateOperator(
            "GetGPUMemoryUsage", [], ["____mem____"], device_option=core.DeviceOption(workspace.GpuDeviceType, 0)
        )
    )
    total, peak = workspace.FetchBlob("____mem____")
    return {"total_by_gpu": total, "max_by_gpu": peak, "total": np.sum(total), "max_total": np.sum(peak)}


def ResetBlobs(blobs):
    """Free the contents of `blobs`; the blobs stay."""
    from caffe2lite.python import core, workspace

    names = list(blobs)
    workspace.RunOperatorOnce(core.CreateOperator("Free", names, names))


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
    """An AtomicIter with its mutex, on the CPU whatever the device scope; returns the iteration blob."""
    from caffe2lite.python import core

    iter = OPTIMIZER_ITERATION_NAME if iter is None else iter
    iter_mutex = ITERATION_MUTEX_NAME if iter_mutex is None else iter_mutex
    on_cpu = core.DeviceOption(caffe2_pb2.CPU, extra_info=["device_type_override:cpu"])
    if init_net.BlobIsDefined(iter):  # the net that made it counts
        return init_net.GetBlobRef(iter)
    with core.DeviceScope(on_cpu):
        iteration = init_net.ConstantFill([], iter, shape=[1], value=iter_val, dtype=core.DataType.INT64)
        mutex = init_net.CreateMutex([], [iter_mutex])
        net.AddExternalInput(mutex)
        net.AtomicIter([mutex, iteration], [iteration])
    return iteration


def EnumClassKeyVals(cls):
    """The public string constants of a class: {name: value}."""
    if not isinstance(cls, type):
        raise AssertionError(f"expected a class, got {cls!r}")
    return {k: v for k in dir(cls) if not k.startswith("_") and isinstance(v := getattr(cls, k), str)}


_ARGUMENT_LISTS = ("floats", "ints", "strings", "nets")
_ARGUMENT_SINGLES = ("f", "i", "s", "n")


def ArgsToDict(args):
    """{name: value} of Argument messages; None where an argument carries no value, strings as bytes."""
    values = {}
    for argument in args:
        values[argument.name] = None
        for field in _ARGUMENT_SINGLES:
            if argument.HasField(field):
                values[argument.name] = getattr(argument, field)
        for field in _ARGUMENT_LISTS:
            if len(getattr(argument, field)):
                values[argument.name] = list(getattr(argument, field))
    return values


def NHWC2NCHW(tensor):
    """Move the last axis (channels) to place 1."""
    return np.moveaxis(tensor, -1, 1)


def NCHW2NHWC(tensor):
    """Move axis 1 (channels) to the end."""
    return np.moveaxis(tensor, 1, -1)
