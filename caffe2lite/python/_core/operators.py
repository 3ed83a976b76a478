"""Operator registry, blob references, OperatorDefs."""

from __future__ import annotations

import collections
import functools
import os
import sys

import caffe2lite.python._import_c_extension as C
from caffe2lite.ops.kit.arguments import write as write_argument
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import scope
from caffe2lite.python._core.shown import Tabled
from caffe2lite.python.lazy import TriggerLazyImport


class DataType:
    """Names of TensorProto.DataType."""

    UNDEFINED = 0
    FLOAT = 1
    INT32 = 2
    BYTE = 3
    STRING = 4
    BOOL = 5
    UINT8 = 6
    INT8 = 7
    UINT16 = 8
    INT16 = 9
    INT64 = 10
    FLOAT16 = 12
    DOUBLE = 13
    ZERO_COLLISION_HASH = 14
    REBATCHING_BUFFER = 15


# --- registry --------------------------------------------------------------------------------------------------------

REGISTERED_OPERATORS = set()


def RefreshRegisteredOperators(trigger_lazy=True):
    """Ask the engine anew which operators exist."""
    if trigger_lazy:
        TriggerLazyImport()
    REGISTERED_OPERATORS.clear()
    REGISTERED_OPERATORS.update(C.registered_operators())


RefreshRegisteredOperators(trigger_lazy=False)

_GLOBAL_INIT_ARGS = []


def GlobalInit(args):
    """Initialize the engine with command-line arguments (the first is the program's name)."""
    TriggerLazyImport()
    _GLOBAL_INIT_ARGS.extend(args[1:])
    C.global_init(args)


def GetGlobalInitArgs():
    """Return the arguments that GlobalInit got so far."""
    return _GLOBAL_INIT_ARGS[:]


def IsOperator(op_type):
    """Return whether an operator of this type is registered."""
    return IsOperatorWithEngine(op_type, engine="DEFAULT")


def IsOperatorWithEngine(op_type, engine):
    """Return whether an operator of this type is registered for this engine."""
    TriggerLazyImport()
    return C.op_registry_key(op_type, engine) in REGISTERED_OPERATORS


def check_operator_type(op_type):
    """Raise AttributeError, with close names, for what is no operator."""
    if op_type.startswith("__"):
        raise AttributeError(f"Attribute {op_type} not found.")
    if not IsOperator(op_type) and not IsOperatorWithEngine(op_type, "CUDNN"):
        close = ",".join(C.nearby_opnames(op_type))
        raise AttributeError(f"Method {op_type} is not a registered operator. Did you mean: [{close}]")


# --- blobs -----------------------------------------------------------------------------------------------------------


class BlobReference(Tabled):
    """A blob's full name, and the net it came from (if any), on which operators can be called: `x.Relu([], "y")`.

    It equals and hashes as its name.
    """

    def __init__(self, name, net=None):
        if type(name) is not str:
            name = name.decode("utf-8") if isinstance(name, bytes) else str(name)
        self._name = name
        self._from_net = net
        self.meta = None

    def __hash__(self):
        return hash(self._name)

    def __eq__(self, other):
        if isinstance(other, str):
            return self._name == other
        if isinstance(other, bytes):
            return self._name == other.decode("utf-8")
        if isinstance(other, BlobReference):
            return self._name == other._name
        return False

    def __ne__(self, other):
        return not self == other

    def __str__(self):
        return self._name

    def __repr__(self):
        return f'BlobReference("{self._name}")'

    def __add__(self, other):
        if not isinstance(other, str):
            raise RuntimeError(f"a blob's name is lengthened by a string, got {self._name!r} + {other!r}")
        return BlobReference(self._name + other, self._from_net)

    def __radd__(self, other):
        if not isinstance(other, str):
            raise RuntimeError(f"a blob's name is lengthened by a string, got {other!r} + {self._name!r}")
        return BlobReference(other + self._name, self._from_net)

    def Net(self):
        """Return the net that made this reference, or None."""
        return self._from_net

    def GetUnscopedName(self):
        """Return the name after the last separator."""
        return self._name.rpartition(scope.NAMESCOPE_SEPARATOR)[2]

    def GetNameScope(self):
        """Return the name up to and with the last separator."""
        return self._name.removesuffix(self.GetUnscopedName())

    def _CreateAndAddToNet(self, op_type, inputs=None, *args, **kwargs):
        """Add an operator to the net of this blob, with this blob as first input."""
        operands = [self, *rectified([] if inputs is None else inputs)]
        for blob in operands[1:]:
            net = blob.Net() if isinstance(blob, BlobReference) else None
            if net is not None and net is not self._from_net and not self._from_net.BlobIsDefined(blob):
                self._from_net.AddExternalInput(blob)
        return self._from_net._CreateAndAddToSelf(op_type, operands, *args, **kwargs)

    def __getattr__(self, op_type):
        if op_type.startswith("__"):
            raise AttributeError(f"Attribute {op_type} not found.")
        if self._from_net is None:
            raise AttributeError(
                "You cannot use a blob reference that does not have a net source to create operators. "
                "Create the operator from an explicit net object."
            )
        check_operator_type(op_type)
        return functools.partial(self._CreateAndAddToNet, op_type)

    def __dir__(self):
        return sorted({*object.__dir__(self), *(name for name in REGISTERED_OPERATORS if "_ENGINE_" not in name)})


def ScopedName(name):
    """`name` with the current name scope in front."""
    if isinstance(name, bytes):
        name = name.decode("ascii")
    return scope.CurrentNameScope() + name


def ScopedBlobReference(name, *args, **kwargs):
    """Return a BlobReference to `name` in the current name scope."""
    return BlobReference(ScopedName(name), *args, **kwargs)


def rectified(blobs, net=None):
    """Return a list of BlobReferences for a name, a reference, or a list of these; strings gain the name scope."""
    if type(blobs) is str:  # the most frequent case
        return [BlobReference(scope.CurrentNameScope() + blobs, net)]
    if type(blobs) is BlobReference:
        return [blobs]
    if isinstance(blobs, (str, bytes)):
        return [ScopedBlobReference(blobs, net=net)]
    if type(blobs) not in (list, tuple):
        raise TypeError(f"Unknown input/output type: {blobs} of type {type(blobs)}.")
    rectified = []
    for i, blob in enumerate(blobs):
        if isinstance(blob, (str, bytes)):
            blob = ScopedBlobReference(blob, net=net)
        elif type(blob) is not BlobReference:
            raise TypeError(f"I/O blob #{i} of unsupported type: {blob} of type {type(blob)}")
        rectified.append(blob)
    return rectified


def blob_reference(blob_name_or_ref):
    """Return a reference as it is; a name as a reference."""
    return blob_name_or_ref if isinstance(blob_name_or_ref, BlobReference) else BlobReference(blob_name_or_ref)


# --- OperatorDefs ----------------------------------------------------------------------------------------------------

# Called with every operator that is made; workspace's immediate mode listens here.
listeners = []


def announce(operator):
    """Tell the listeners of an operator that was made."""
    for listener in listeners:
        listener(operator)


def fill_operator(
    operator,
    operator_type,
    inputs,
    outputs,
    /,
    name="",
    control_input=None,
    device_option=None,
    arg=None,
    engine=None,
    debug_info=None,
    **kwargs,
):
    """Write an operator into the OperatorDef `operator`; inputs and outputs are BlobReferences already."""
    operator.type = operator_type
    operator.name = name
    if inputs:
        operator.input.extend([blob._name for blob in inputs])
    if outputs:
        operator.output.extend([blob._name for blob in outputs])
    if control_input is not None:
        operator.control_input.extend([blob._name for blob in rectified(control_input)])
    if device_option is None:
        device_option = scope.CurrentDeviceScope()
    if device_option is not None:
        operator.device_option.CopyFrom(device_option)
    if engine is not None:
        operator.engine = engine
    if debug_info is not None:
        operator.debug_info = debug_info
    if arg is not None:
        operator.arg.extend(arg)
    if kwargs:
        if "random_seed" in kwargs:  # a field of the device option, not an argument
            operator.device_option.random_seed = kwargs.pop("random_seed")
        for key, value in kwargs.items():
            if value is not None:
                write_argument(operator.arg.add(), key, value)
    announce(operator)


def CreateOperator(
    operator_type,
    inputs,
    outputs,
    name="",
    control_input=None,
    device_option=None,
    arg=None,
    engine=None,
    debug_info=None,
    **kwargs,
):
    """Return an OperatorDef: names gain the name scope, the device scope applies, other keywords become arguments."""
    operator = caffe2_pb2.OperatorDef()
    fill_operator(
        operator,
        operator_type,
        rectified(inputs),
        rectified(outputs),
        name,
        control_input,
        device_option,
        arg,
        engine,
        debug_info,
        **kwargs,
    )
    return operator


def register_python_functions(f, grad_f=None, python_func_type=None, pass_workspace=False):
    """Register a Python function (or a tuple that builds one per operator) and its gradient; return the token."""
    if python_func_type:
        func = python_func_type(f)
        f, grad_f = func.forward, func.backward
    for part in (f, grad_f):
        if isinstance(part, tuple) and len(part) != 3:
            raise AssertionError(f"Expected builder tuple (func, args, kwargs), got {part!r}")
    token = C.register_python_op(f, pass_workspace, "")
    if grad_f:
        C.register_python_gradient_op(token, grad_f)
    return token


def CreatePythonOperator(f, inputs, outputs, grad_f=None, pass_workspace=False, python_func_type=None, *args, **kwargs):
    """Return an operator that calls `f(inputs, outputs)` (and the workspace with `pass_workspace`).

    `f` may be a tuple (function, args, kwargs) whose call yields it; `python_func_type(f)` yields an object with
    forward and backward.
    """
    kwargs["token"] = register_python_functions(f, grad_f, python_func_type, pass_workspace=pass_workspace)
    return CreateOperator("Python", inputs, outputs, *args, **kwargs)


# net name -> operator index -> where the script added it: [(file, line, function)], innermost first
operator_tracebacks = collections.defaultdict(dict)

_HERE = os.path.dirname(__file__)


def script_frames():
    """Return where the script is: [(file, line, function)], innermost first, without the frames of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append((code.co_filename, frame.f_lineno, code.co_name))
        if code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            break  # what is further out only runs the script
        frame = frame.f_back
    return frames
