"""What Caffe2's C extension knows of ONNX, with messages as bytes."""

from __future__ import annotations

import onnx

from caffe2lite.engine.c_types import message
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx import _graph, _reading, _writing, backend
from caffe2lite.python.onnx._types import DummyNames as DummyName
from caffe2lite.python.onnx._types import fill
from caffe2lite.python.onnx.onnxifi import onnxifi_get_option, onnxifi_set_option

__all__ = [
    "Caffe2BackenRep",
    "Caffe2Backend",
    "DummyName",
    "export_to_onnx",
    "onnxifi_get_option",
    "onnxifi_set_option",
    "support_onnx_export",
]  # fmt: skip


def support_onnx_export(op_type):
    """Return whether an operator has a form in ONNX."""
    return op_type in _writing.RULES or op_type in _writing.TYPES


def export_to_onnx(dummies, definition, shapes):
    """Return (nodes, constant tensors), serialized, of an OperatorDef."""
    context = _writing.Context(shapes, dummies=dummies)
    nodes = _writing.convert(message(caffe2_pb2.OperatorDef, definition), context)
    return [n.SerializeToString() for n in nodes], [t.SerializeToString() for t in context.constants]


class Caffe2Backend:
    """Conversions of ONNX nodes and models."""

    def __init__(self, dummies=None):
        self._dummies = DummyName() if dummies is None else dummies

    def support_onnx_import(self, op_type):
        """Return whether nodes of that type are converted by a rule or under another name."""
        return any(op_type in table for table in (_reading.RULES, _reading.TYPES, _graph.NETS))

    def convert_node(self, node_str, value_infos_bytes=(), opset_version=9):
        """Return [init operators, operators], serialized, of a serialized NodeProto."""
        context = _reading.Context(opset=opset_version, dummies=self._dummies)
        for content in value_infos_bytes:
            _graph.learn_shape(context, onnx.ValueInfoProto.FromString(content))
        operators = _graph.node_operators(onnx.NodeProto.FromString(node_str), context)
        return [[], [op.SerializeToString() for op in operators]]

    def _build_tensor_filling_op(self, tensor_str, name=""):
        return fill(onnx.TensorProto.FromString(tensor_str), name).SerializeToString()

    def prepare(self, model_str, device, ops=()):
        """Return a Caffe2BackenRep of a serialized ModelProto."""
        return Caffe2BackenRep(backend.prepare(onnx.ModelProto.FromString(model_str), device))


class Caffe2BackenRep:
    """Nets that can run, as the C extension names them."""

    def __init__(self, rep):
        self._rep = rep

    def init_net(self):
        return self._rep.init_net.SerializeToString()

    def pred_net(self):
        return self._rep.predict_net.SerializeToString()

    def external_inputs(self):
        return list(self._rep.predict_net.external_input)

    def external_outputs(self):
        return list(self._rep.predict_net.external_output)

    def uninitialized_inputs(self):
        return list(self._rep.uninitialized)

    def run(self, inputs):
        """Return the outputs as a list."""
        return list(self._rep.run(inputs))
