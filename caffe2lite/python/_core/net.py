"""Nets: adding operators, naming blobs, cloning, records, gradients."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools

import numpy as np

import caffe2lite.python._import_c_extension as C
from caffe2lite.ops.kit.arguments import write as write_argument
from caffe2lite.proto import caffe2_pb2
from caffe2lite.proto.names import check_names
from caffe2lite.python._core import operators, ssa
from caffe2lite.python._core.blob_table import BlobTable
from caffe2lite.python._core.builder import Builder
from caffe2lite.python._core.devices import GpuDeviceType
from caffe2lite.python._core.gradients import GradientRegistry, GradientSlice
from caffe2lite.python._core.operators import (
    BlobReference,
    DataType,
    fill_operator,
    operator_tracebacks,
    rectified,
    register_python_functions,
    script_frames,
)
from caffe2lite.python._core.records import Records, renamed_record
from caffe2lite.python._core.renaming import recompute_externals, renamed_copy
from caffe2lite.python._core.shown import Pictured


class Net(BlobTable, Records, Pictured):
    """A NetDef under construction. Every registered operator is a method: `y = net.Relu(x, "y")`.

    Such a call returns the output's BlobReference, a tuple of them, or None where there is no output. `outputs` may be
    left out (one output, named for you) or be a number. Inputs that the net does not know become external inputs.
    """

    _net_names_used = set()
    operator_registry_ = {}

    @staticmethod
    def current_prefix():
        """Return the name of the NetBuilder around this call, '' outside of one."""
        builder = Builder.current(required=False)
        return builder.name if builder else ""

    @staticmethod
    def _get_next_net_name(basename):
        basename = "/".join(part for part in (Net.current_prefix(), basename) if part)
        name = basename
        for i in itertools.count(1):
            if name not in Net._net_names_used:
                break
            name = f"{basename}_{i}"
        Net._net_names_used.add(name)
        return name

    def __init__(self, name_or_proto, inplace=False):
        """A new net by name, or one over a NetDef (a copy of it unless `inplace`); the name is made unique."""
        self._recreate_lookup_tables = False  # set by whatever lets callers edit the proto
        self._op_outputs = set()
        self._external_input_map = set()
        self._attr_dict = {}
        self._observers = []
        self._registered_blob_names = set()  # handed out by NextBlob
        self._next_blob_index = 0
        self._name_counters = {}  # base name -> next number, for NextName
        if type(name_or_proto) is caffe2_pb2.NetDef:
            proto = name_or_proto
            check_names(proto)
            self._net = proto if inplace else copy.deepcopy(proto)
            self._RecreateLookupTables()
            prefix = proto.name + "_blob_"
            numbers = [
                blob[len(prefix) :] for op in proto.op for blob in (*op.input, *op.output) if blob.startswith(prefix)
            ]
            self._next_blob_index = max((int(n) + 1 for n in numbers if n.isdecimal()), default=0)
            name = proto.name
        else:
            name = name_or_proto
            if name is not None and not isinstance(name, str):
                raise TypeError(f"A net is made from a name or a NetDef, not from {type(name).__name__}: {name!r}")
            self._net = caffe2_pb2.NetDef()
        self._net.name = Net._get_next_net_name(name)

    # --- what it is ---

    def Name(self):
        """Return the net's unique name."""
        return self._net.name

    def __str__(self):
        return self._net.name

    def Proto(self):
        """Return the NetDef itself; it may be edited."""
        self._InvalidateLookupTables()
        return self._net

    def add_attribute(self, name, obj):
        """Append `obj` to the list of attributes called `name` (they are not serialized)."""
        self._attr_dict.setdefault(name, []).append(obj)

    def get_attributes(self, name):
        """Return the list of attributes called `name`."""
        return self._attr_dict.get(name, [])

    def AddArgument(self, arg_name, arg_value):
        """Add an argument to the net itself."""
        write_argument(self._net.arg.add(), arg_name, arg_value)

    def set_rand_seed(self, seed=100, sequence_seed=True, seed_on_op_def=False):
        """Seed every operator: seed, seed + 1, … with `sequence_seed`; by its definition with `seed_on_op_def`."""
        if sequence_seed and seed_on_op_def:
            raise AssertionError("sequence_seed and seed_on_op_def are both true: give one of them")
        for i, op in enumerate(self.Proto().op):
            value = seed
            if sequence_seed:
                value += i
            elif seed_on_op_def:
                op.device_option.ClearField("random_seed")
                digest = hashlib.md5(op.SerializeToString(deterministic=True), usedforsecurity=False).digest()
                value = (seed + int.from_bytes(digest[:4], "little")) % (2**31 - 1)
            op.device_option.random_seed = value

    # --- adding operators ---

    def extend_ops(self, new_ops):
        """Append OperatorDefs."""
        self._ExtendOps(new_ops)

    def _ExtendOps(self, new_ops):
        self._net.op.extend(new_ops)
        for op in new_ops:
            self._op_outputs.update(op.output)

    def _CreateAndAddToSelf(self, op_type, inputs, outputs=None, **kwargs):
        """Add an operator; return its outputs as described for the class."""
        inputs = rectified(inputs)
        for blob in inputs:
            if not self.BlobIsDefined(blob):
                if blob._from_net is self:
                    raise AssertionError(
                        f"{op_type} reads `{blob}`, which was made by net `{self.Name()}` but is not defined in it"
                    )
                self.AddExternalInput(blob)
        if outputs is None:
            outputs = self.NextName(prefix=op_type)
        elif isinstance(outputs, int):
            outputs = [self.NextName(prefix=op_type, output_id=i) for i in range(outputs)]
        outputs = rectified(outputs, net=self)
        ops = self._net.op
        try:
            fill_operator(ops.add(), op_type, inputs, outputs, **kwargs)
        except BaseException:
            del ops[-1]
            raise
        self._op_outputs.update([blob._name for blob in outputs])
        operator_tracebacks[self._net.name][len(ops) - 1] = script_frames()
        if len(outputs) == 1:
            return outputs[0]
        return tuple(outputs) if outputs else None

    def __getattr__(self, op_type):
        operators.check_operator_type(op_type)
        return functools.partial(self._CreateAndAddToSelf, op_type)

    def __dir__(self):
        names = (name for name in operators.REGISTERED_OPERATORS if "_ENGINE_" not in name)
        return sorted({*object.__dir__(self), *names})

    def Python(
        self,
        f,
        grad_f=None,
        python_func_type=None,
        pass_workspace=False,
        grad_output_indices=None,
        grad_input_indices=None,
    ):
        """Return a function that adds an operator calling `f(inputs, outputs)`: `net.Python(f)("x", "y")`.

        `grad_f(inputs, outputs)` is its gradient: it reads the inputs, outputs and output gradients (only those of
        `grad_output_indices`) and writes input gradients (only those of `grad_input_indices`). For a function that
        keeps state, `f` and `grad_f` may be tuples (function, args, kwargs) whose call yields it.
        """
        if grad_f and isinstance(f, tuple) != isinstance(grad_f, tuple):
            raise AssertionError(f"f and grad_f are both functions or both tuples, got {f!r} and {grad_f!r}")
        token = register_python_functions(f, grad_f, python_func_type, pass_workspace=pass_workspace)
        arguments = {"grad_output_indices": grad_output_indices or [], "grad_input_indices": grad_input_indices or []}

        def add(*args, **kwargs):
            return self._CreateAndAddToSelf("Python", *args, **arguments, **kwargs, token=token)

        return add

    def Const(self, array, blob_out=None, dtype=None):
        """Return an operator that yields `array` (a number, string, bool, list or array)."""
        if isinstance(array, bool):
            return self.ConstantFill([], blob_out or 1, dtype=DataType.BOOL, value=array)
        array = np.array(array, dtype=dtype)
        kind = array.dtype.kind
        fill = _CONST_FILLS.get(kind if kind in "SUb" else array.dtype.str[1:], "GivenTensorFill")
        return self._CreateAndAddToSelf(fill, [], blob_out or 1, shape=array.shape, values=array.flatten().tolist())

    def LogInfo(self, *msg_or_blobs):
        """Add operators that print messages and blobs when the net runs."""
        for item in msg_or_blobs:
            if not isinstance(item, BlobReference):
                item = self.GivenTensorStringFill([], [self.NextName("log")], shape=[], values=[item])
            self.Print(item, [])

    def AppendNet(self, net, device_option=None):
        """Append the operators of another net (on `device_option` if given) and merge its inputs and outputs."""
        if not isinstance(net, Net):
            raise AssertionError(f"AppendNet takes a Net, got {net!r}")
        for blob in net._net.external_input:
            if not self.BlobIsDefined(blob):
                self.AddExternalInput(blob)
        known = set(self._net.external_output)
        self._net.external_output.extend([blob for blob in net._net.external_output if blob not in known])
        ops = net._net.op
        if device_option is not None:
            ops = [copy.deepcopy(op) for op in ops]
            for op in ops:
                op.device_option.CopyFrom(device_option)
                if op.type == "RecurrentNetwork":
                    for argument in op.arg:
                        if argument.name.endswith("step_net"):
                            for step_op in argument.n.op:
                                step_op.device_option.CopyFrom(device_option)
        self._ExtendOps(ops)
        return self

    def insert_op_at_idx(self, op, op_idx):
        """Put an OperatorDef before the operator at `op_idx`."""
        if op_idx < 0:
            raise AssertionError(f"op_idx must not be negative: {op_idx}")
        ops = self.Proto().op
        later = [copy.deepcopy(o) for o in ops[op_idx:]]
        del ops[op_idx:]
        ops.extend([op, *later])

    def reroute_tensor(self, tensor, new_producer, can_modify=None):
        """Insert `new_producer`, which reads `tensor`, and let it feed the operators in `can_modify`.

        Assumes that no operator works in place. Return how many operators were changed.
        """
        tensor = str(tensor)
        if tensor not in new_producer.input:
            raise AssertionError(f"new producer {new_producer.type} is not taking in {tensor}")
        places = {blob: i for i, op in reversed(list(enumerate(self._net.op))) for blob in op.output}
        if tensor not in places and not self.is_external_input(tensor):
            raise AssertionError(f"{tensor} is neither an external input of net {self.Name()} nor computed by it")
        self.insert_op_at_idx(new_producer, 1 + max(places.get(blob, -1) for blob in new_producer.input))
        new_tensor = new_producer.output[0]
        outputs = self._net.external_output
        for i, blob in enumerate(outputs):
            if blob == tensor:
                outputs[i] = new_tensor
        changed = 0
        for op in self._net.op:
            if can_modify and op in can_modify:
                remap_input(op, {tensor: new_tensor})
                changed += 1
        return changed

    def PopulateProtoWithFileName(self):
        """Name every operator after the line of the script that added it: file:line:function."""
        tracebacks = operator_tracebacks.get(str(self), {})
        for i, op in enumerate(self.Proto().op):
            if tracebacks.get(i):
                op.name = ":".join(map(str, tracebacks[i][0]))

    # --- gradients ---

    def AddGradientOperators(self, ys, skip=0):
        """Append the gradient operators for the blobs `ys` (a list, or {blob: its gradient}).

        The first `skip` operators are left out. Return {blob: gradient}.
        """
        grad_ops, input_to_grad = GradientRegistry.GetBackwardPass(self._net.op[skip:], ys)
        for op in grad_ops:
            operators.announce(op)
        self._ExtendOps(grad_ops)
        return input_to_grad

    def DeduplicateGradientSlices(self, g, aggregator="sum"):
        """Sum (or average, 'mean') the values of a sparse gradient that have the same index."""
        if not isinstance(g, GradientSlice):
            raise AssertionError(f"expected a GradientSlice, got {g!r}")
        if aggregator not in _SEGMENT_AGGREGATORS:
            raise ValueError(f"{aggregator} is not supported")
        unique, remapping = self.Unique([g.indices], 2, engine="SparseHash")
        aggregated = getattr(self, _SEGMENT_AGGREGATORS[aggregator])([g.values, remapping], 1)
        return GradientSlice(indices=unique, values=aggregated)

    # --- placing the whole net ---

    @staticmethod
    def _RunAllOnGPU(net, gpu_id=0, use_cudnn=False):
        net.device_option.Clear()
        net.device_option.device_type = GpuDeviceType
        net.device_option.device_id = gpu_id
        for op in net.op:
            if use_cudnn:
                op.engine = "CUDNN"
            if op.type == "RecurrentNetwork":
                for argument in op.arg:
                    if argument.name == "step_net":
                        Net._RunAllOnGPU(argument.n, gpu_id, use_cudnn)

    def RunAllOnGPU(self, gpu_id=0, use_cudnn=False):
        """Place the net, and the step nets in it, on a GPU."""
        self._RunAllOnGPU(self._net, gpu_id, use_cudnn)

    def RunAllOnMKL(self):
        """Place the net on MKL devices."""
        self._place_all(caffe2_pb2.MKLDNN)

    def RunAllOnIDEEP(self):
        """Place the net on IDEEP devices."""
        self._place_all(caffe2_pb2.IDEEP)

    def _place_all(self, device_type):
        self._net.device_option.CopyFrom(caffe2_pb2.DeviceOption(device_type=device_type))

    # --- observers ---

    def AddObserver(self, observer_type):
        """Attach an observer ('TimeObserver', …) to the created net; return it."""
        observer = C.add_observer_to_net(self.Name(), observer_type)
        self._observers.append(observer)
        return observer

    def RemoveObserver(self, observer):
        """Detach an observer."""
        C.remove_observer_from_net(self.Name(), observer)
        self._observers = [o for o in self._observers if o is not observer]

    def NumObservers(self):
        """Return how many observers the created net has."""
        return C.num_observers_on_net(self.Name())

    # --- clones ---

    def Clone(
        self,
        name,
        blob_remap=None,
        op_id_mask=None,
        remap_funcs=None,
        keep_schema=True,
        update_external_list=False,
    ):
        """Return a copy called `name`, with blobs renamed by `blob_remap` and only the operators of `op_id_mask`.

        `remap_funcs[type](op, prefix, blob_remap)` renames in operators that carry names in arguments;
        `update_external_list` recomputes external inputs and outputs from the operators kept.
        """
        proto = renamed_copy(self._net, name, blob_remap, op_id_mask, remap_funcs)
        if update_external_list:
            recompute_externals(proto)
        clone = Net(proto, inplace=True)
        if keep_schema:
            clone._input_record = renamed_record(self._input_record, blob_remap, clone)
            clone._output_record = renamed_record(self._output_record, blob_remap, clone)
        clone._attr_dict.update({key: list(values) for key, values in self._attr_dict.items()})
        return clone

    def ClonePartial(self, name, inputs, outputs, remap_funcs=None):
        """Return a copy of the part that computes `outputs` from `inputs` (a list, or {blob: new name}).

        Blobs in between are prefixed with `name/`. Return (net, output references).
        """
        pairs = isinstance(inputs, list) and all(isinstance(i, tuple) and len(i) == 2 for i in inputs)
        given = dict(inputs) if pairs or isinstance(inputs, dict) else dict(zip(inputs, inputs))
        input_names = {str(old): str(new) for old, new in given.items()}
        for blob in outputs:
            if not self.BlobIsDefined(blob):
                raise AssertionError(f"{blob} is not defined in net {self.Name()}")
        versioned, versions = ssa.get_ssa(self._net, dict.fromkeys(input_names, 0))
        used = ssa.get_op_ids_in_path(versioned, versions, input_names, outputs)
        producing = ssa.get_op_ids_in_path(versioned, versions, [], input_names)
        if set(used) & set(producing):
            raise AssertionError(
                f"Cannot partially clone net {self.Name()}: some of the ops required would generate the given input "
                f"({', '.join(self._net.op[i].type for i in sorted({*used} & {*producing}))})"
            )
        read = dict.fromkeys(blob for i in used for blob, _ in versioned[i][0])
        undefined = ssa.get_undefined_blobs([versioned[i] for i in used]) - input_names.keys()
        prefix = name + "/" if name else ""
        mapping = {blob: input_names.get(blob, blob if blob in undefined else prefix + blob) for blob in versions}
        clone = self.Clone(name, mapping, used, remap_funcs)
        new_outputs = [mapping[str(blob)] for blob in outputs]
        proto = clone.Proto()
        proto.external_input[:] = [mapping[blob] for blob in input_names] + [blob for blob in read if blob in undefined]
        proto.external_output[:] = new_outputs
        return clone, [clone.GetBlobRef(blob) for blob in new_outputs]


_SEGMENT_AGGREGATORS = {"sum": "UnsortedSegmentSum", "mean": "UnsortedSegmentMean"}
_CONST_FILLS = {
    "i4": "GivenTensorIntFill",
    "i8": "GivenTensorInt64Fill",
    "b": "GivenTensorBoolFill",
    "S": "GivenTensorStringFill",
    "U": "GivenTensorStringFill",
}


def remap_input(op, blob_name_remapping):
    """Rename, in place, what an OperatorDef reads."""
    for i, blob in enumerate(op.input):
        op.input[i] = blob_name_remapping.get(blob, blob)


def get_net_name(netlike):
    """Return the name of a net, of a NetDef, or the name itself."""
    if isinstance(netlike, Net):
        return netlike.Proto().name
    if isinstance(netlike, caffe2_pb2.NetDef):
        return netlike.name
    return netlike


def output_to_list(op_output):
    """Return what an operator call returned, as a list."""
    if isinstance(op_output, BlobReference):
        return [op_output]
    if not isinstance(op_output, (list, tuple)):
        raise AssertionError(f"expected the outputs of an operator, got {op_output!r}")
    return list(op_output)
