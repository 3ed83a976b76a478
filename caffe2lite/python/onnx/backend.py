"""ONNX models on Caffe2: `prepare(model).run(inputs)`."""

from __future__ import annotations

import collections
import contextlib
import zipfile

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, checker
from onnx.backend.base import Backend, Device, DeviceType, namedtupledict

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace
from caffe2lite.python.onnx import _graph, _reading
from caffe2lite.python.onnx._types import DummyNames, array_of, fill
from caffe2lite.python.onnx.backend_rep import Caffe2Rep
from caffe2lite.python.onnx.error import Unsupported
from caffe2lite.python.onnx.workspace import Workspace
from caffe2lite.python.utils import MakeArgument

_EXTERNAL = b"__EXTERNAL"


def force_unicode(s):
    """Return the text of text or UTF-8 bytes."""
    return s.decode("utf-8") if isinstance(s, bytes) else str(s)


def get_device_option(device):
    """Return the DeviceOption of an onnx.backend Device."""
    kinds = {DeviceType.CPU: caffe2_pb2.CPU, DeviceType.CUDA: workspace.GpuDeviceType}
    return core.DeviceOption(kinds[device.type], device.device_id)


def convertAttributeProto(onnx_arg):
    """Return the value of an AttributeProto: a number, bytes, list or message."""
    return _reading.attribute_value(onnx_arg)


class OnnxAttributes(dict):
    """Attributes of a node by name."""

    @staticmethod
    def from_onnx(args):
        """Of a list of AttributeProto."""
        return OnnxAttributes((arg.name, convertAttributeProto(arg)) for arg in args)

    def caffe2(self, kmap=lambda k: k):
        """As Caffe2's Arguments, under the names that `kmap` gives; '' leaves one out."""
        for name, value in self.items():
            if kmap(name) != "":
                yield MakeArgument(kmap(name), value)


class OnnxNode:
    """A NodeProto in Python's types."""

    def __init__(self, node):
        self.name = str(node.name)
        self.op_type = str(node.op_type)
        self.attrs = OnnxAttributes.from_onnx(node.attribute)
        self.inputs = list(node.input)
        self.outputs = list(node.output)


Caffe2Ops = collections.namedtuple("Caffe2Ops", ["ops", "init_ops", "interface_blobs"])


class Caffe2Backend(Backend):
    """An onnx.backend; the functions of this module are its class methods."""

    _dummy_name = DummyNames()

    @classmethod
    def dummy_name(cls):
        """Return a new name for a blob."""
        return cls._dummy_name.new_dummy_name()

    @classmethod
    def run_node(cls, node, inputs, device="CPU", opset_version=9, outputs_info=None):
        """Return the outputs of one node, by number or name; `inputs` is a dict or a list."""
        if not isinstance(inputs, dict):
            if len(inputs) != len(node.input):
                raise ValueError(f"{node.op_type} has {len(node.input)} inputs, got {len(inputs)}")
            inputs = dict(zip(node.input, inputs))
        cls._dummy_name.reset({*node.input, *node.output})
        context = _reading.Context(
            opset=opset_version,
            constants={k: np.asarray(v) for k, v in inputs.items()},
            shapes={k: np.shape(v) for k, v in inputs.items()},
            dummies=cls._dummy_name,
        )
        option = get_device_option(Device(device))
        ws = Workspace()
        with core.DeviceScope(option):
            for name, value in inputs.items():
                ws.FeedBlob(name, value)
            for op in _graph.node_operators(node, context):
                op.device_option.CopyFrom(option)
                ws.RunOperatorOnce(op)
            values = [ws.FetchBlob(name) for name in node.output]
        return namedtupledict("Outputs", node.output)(*values)

    @classmethod
    def _create_tensor_filling_op(cls, onnx_tensor, name=None):
        return fill(onnx_tensor, name or "")

    @classmethod
    def prepare(cls, model, device="CPU", raw_values_dict=None, **kwargs):
        """Return a model ready to run; `raw_values_dict` holds the bytes of tensors that the model leaves out.

        `no_check_UNSAFE=True` skips ONNX's check of the model.
        """
        if not kwargs.pop("no_check_UNSAFE", False):
            checker.check_model(model)
        if raw_values_dict:
            model = _with_values(model, raw_values_dict)
        init_net, predict_net = cls._nets(model, device, fills=False)
        ws = Workspace()
        made = {tensor.name for tensor in model.graph.initializer}
        with core.DeviceScope(get_device_option(Device(device))):
            for tensor in model.graph.initializer:
                ws.FeedBlob(tensor.name, array_of(tensor))
        uninitialized = [info.name for info in model.graph.input if info.name not in made]
        for name in uninitialized:
            ws.CreateBlob(name)
        return Caffe2Rep(init_net, predict_net, ws, uninitialized)

    @classmethod
    def prepare_zip_archive(cls, file, device="CPU", **kwargs):
        """Return a model of a zip archive: __MODEL_PROTO, and a file with the bytes of each large tensor."""
        with zipfile.ZipFile(file, mode="r") as archive:
            with archive.open("__MODEL_PROTO", "r") as proto:
                model = onnx.load(proto)
            blobs = {name: archive.read(name) for name in archive.namelist() if name != "__MODEL_PROTO"}
        return cls.prepare(model, device, raw_values_dict=blobs, **kwargs)

    @classmethod
    def onnx_graph_to_caffe2_net(cls, model, device="CPU", opset_version=None):
        """Return (init net, predict net) of a model; the init net fills in the initializers."""
        return cls._nets(model, device, fills=True, opset=opset_version)

    @classmethod
    def _nets(cls, model, device, fills, opset=None):
        opset = opset or _opset(model)
        graph = model.graph
        cls._dummy_name.reset(_graph.names_in(graph))
        context = _graph.context_of(model, opset, cls._dummy_name)
        _graph.check_operators(graph)
        option = get_device_option(Device(device))
        init_net = caffe2_pb2.NetDef(name=graph.name + "_init", device_option=option)
        predict_net = caffe2_pb2.NetDef(name=graph.name, device_option=option)
        if fills:
            init_net.op.extend(fill(tensor) for tensor in graph.initializer)
            init_net.external_output.extend(tensor.name for tensor in graph.initializer)
        predict_net.op.extend(_graph.operators_of(graph, context))
        inputs = dict.fromkeys([info.name for info in graph.input] + [tensor.name for tensor in graph.initializer])
        predict_net.external_input.extend(inputs)
        predict_net.external_output.extend(info.name for info in graph.output)
        return init_net, predict_net

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Return whether every node has a form in Caffe2, and the device is there."""
        if not cls.supports_device(device):
            return False
        with contextlib.suppress(Unsupported):
            cls._nets(model, device, fills=False)
            return True
        return False

    @classmethod
    def supports_device(cls, device_str):
        """Return whether "CPU", "CUDA" or "CUDA:1" can be used."""
        device = Device(device_str)
        return device.type == DeviceType.CPU or (device.type == DeviceType.CUDA and workspace.has_gpu_support)

    @staticmethod
    def optimize_onnx(input, init=False, predict=False):
        """The ONNX optimizer left the onnx package; nothing replaces it here."""
        raise RuntimeError("onnx.optimizer no longer exists: use the package onnxoptimizer on the model before")


def _opset(model):
    if not model.ir_version:
        raise Unsupported("the model has no ir_version: it is no ONNX model, or a truncated one")
    if model.ir_version < 3:
        return 1
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx"):
            return opset.version
    raise Unsupported("the model imports no operator set of ONNX")


def _with_values(model, values):
    """Return a copy of the model in which tensors marked as external have their bytes."""
    full = ModelProto()
    full.CopyFrom(model)

    def put(tensor):
        if tensor.raw_data == _EXTERNAL:
            if tensor.name not in values:
                raise ValueError(f"the bytes of tensor {tensor.name!r} are not in the archive")
            tensor.raw_data = values[tensor.name]

    for tensor in full.graph.initializer:
        put(tensor)
    for node in full.graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                put(attribute.t)
    return full


prepare = Caffe2Backend.prepare
prepare_zip_archive = Caffe2Backend.prepare_zip_archive
run_node = Caffe2Backend.run_node
run_model = Caffe2Backend.run_model
supports_device = Caffe2Backend.supports_device
is_compatible = Caffe2Backend.is_compatible
