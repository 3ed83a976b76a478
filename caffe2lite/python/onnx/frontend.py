"""Caffe2 nets as ONNX models."""

from __future__ import annotations

import collections
import itertools
import logging

import numpy as np
import onnx
from onnx import checker, helper, numpy_helper

from caffe2lite.ops.kit import arguments
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx import _writing
from caffe2lite.python.onnx._types import DummyNames, onnx_type
from caffe2lite.python.onnx.error import Unsupported
from caffe2lite.python.onnx.helper import c2_native_run_net

log = logging.getLogger(__name__)


def without_form(net):
    """Return {type: how many} of the operators of a NetDef that ONNX has no form for."""
    return collections.Counter(
        op.type
        for op in net.op
        if op.type not in _writing.RULES
        and op.type not in _writing.TYPES
        and (not onnx.defs.has(op.type) or any(map(arguments.nets_in, op.arg)))
    )


class Caffe2Frontend:
    """Conversions from Caffe2 to ONNX, as class methods; the module has them as functions too."""

    target_opset_version = 9
    _dummy_name = DummyNames()

    @classmethod
    def dummy_name(cls):
        """Return a new name for a blob."""
        return cls._dummy_name.new_dummy_name()

    @classmethod
    def caffe2_arg_to_onnx_attr(cls, op_def, arg):
        """Return the ONNX attribute of one Argument of an operator, or None where it means nothing in ONNX."""
        alone = caffe2_pb2.OperatorDef(type=op_def.type, arg=[arg])
        for name, value in _writing.attributes_of(alone).items():
            return helper.make_attribute(name, value)
        return None

    @classmethod
    def caffe2_op_to_onnx_node(cls, op_def, shapes):
        """Return (nodes, constant tensors) of an OperatorDef; `shapes` by blob."""
        context = _writing.Context(shapes, dummies=cls._dummy_name)
        return _writing.convert(op_def, context), context.constants

    @classmethod
    def caffe2_net_to_onnx_graph(cls, predict_net, init_net=None, value_info=None):
        """Return a GraphProto.

        `value_info`: {input: (ONNX type, shape)} of the inputs that `init_net` does not make.  The net is run once, on
        zeros, to know the shapes of its blobs.
        """
        value_info = {} if value_info is None else value_info
        if not isinstance(value_info, dict):
            raise ValueError(
                f"Please pass value_info as a name -> (type, shape) dictionary, not {type(value_info).__name__}"
            )
        predict, init = _copy(predict_net), _copy(init_net)
        _drop_fakes(init, value_info)
        cls._ssa_rewrite(predict, init, value_info)
        return cls._graph(predict, {} if init is None else cls._values(init), value_info)

    @classmethod
    def _graph(cls, predict, values, value_info):
        """Return the graph of a net that writes each blob once; `values` are its parameters, arrays by name."""
        missing = set(predict.external_input) - set(value_info) - set(values)
        if missing:
            raise RuntimeError(
                f"Could not find value info of inputs: {', '.join(sorted(missing))}; give {{name: (type, shape)}}"
            )
        blobs = _run_on_zeros(predict, values, {k: v for k, v in value_info.items() if k not in values})
        cls._dummy_name.reset(cls._all_names_in_net(predict) | set(values))
        context = _writing.Context(
            {k: v.shape for k, v in blobs.items() if isinstance(v, np.ndarray)}, dummies=cls._dummy_name
        )
        nodes = list(itertools.chain.from_iterable(_writing.convert(op, context) for op in predict.op))
        initializer = [*_tensors(values), *context.constants]
        known = {**{t.name: (t.data_type, list(t.dims)) for t in initializer}, **value_info}
        inputs = [*predict.external_input, *(t.name for t in context.constants)]
        outputs = {name: (onnx_type(blobs[name].dtype), blobs[name].shape) for name in _written(predict, nodes, inputs)}
        return helper.make_graph(
            nodes,
            predict.name,
            [helper.make_tensor_value_info(name, *known[name]) for name in inputs],
            [helper.make_tensor_value_info(name, *info) for name, info in outputs.items()],
            initializer,
        )

    @classmethod
    def caffe2_init_net_to_initializer(cls, init_net):
        """ONNX tensors of what a net of fill operators makes."""
        return _tensors(cls._values(init_net))

    @classmethod
    def _values(cls, init_net):
        for op in init_net.op:
            if op.input:
                raise RuntimeError(
                    f"operator {op.type} of the init net reads {', '.join(op.input)}: only fill operators without inputs "
                    "can become initializers"
                )
        names = [name for op in init_net.op for name in op.output]
        net = _copy(init_net)
        del net.external_output[:]
        net.external_output.extend(names)
        _, values = c2_native_run_net(None, net, [])
        return dict(zip(names, values))

    @classmethod
    def caffe2_net_to_onnx_model(cls, *args, **kwargs):
        """Return a ModelProto, checked; arguments as of `caffe2_net_to_onnx_graph`."""
        return cls._model(cls.caffe2_net_to_onnx_graph(*args, **kwargs))

    @classmethod
    def model_of(cls, predict_net, params, value_info):
        """As `caffe2_net_to_onnx_model`, with the parameters as arrays by name instead of an init net."""
        predict = _copy(predict_net)
        _write_once(predict)
        return cls._model(cls._graph(predict, dict(params), value_info))

    @classmethod
    def _model(cls, graph):
        model = helper.make_model(
            graph,
            producer_name="onnx-caffe2",
            opset_imports=[helper.make_opsetid("", cls.target_opset_version)],
            ir_version=min(onnx.IR_VERSION, 8),
        )
        checker.check_model(model)
        return model

    @classmethod
    def ssa_rewrite(cls, net, init_net, value_info):
        """`net` and `init_net` rewritten in place: each blob is written once."""
        cls._ssa_rewrite(net, init_net, value_info)

    @classmethod
    def _ssa_rewrite(cls, net, init_net, value_info):
        if init_net is not None:
            _check_written_once(init_net)
        _write_once(net)

    @classmethod
    def _all_names_in_net(cls, net):
        if net is None:
            return set()
        names = {*net.external_input, *net.external_output}
        return names.union(*({*op.input, *op.output} for op in net.op))


def _copy(net):
    """A copy of a net that runs on the CPU: devices mean nothing to ONNX, and shapes are the same on all."""
    if net is None:
        return None
    proto = net if isinstance(net, caffe2_pb2.NetDef) else net.Proto()
    copy = caffe2_pb2.NetDef()
    copy.CopyFrom(proto)
    _forget_devices(copy)
    return copy


def _forget_devices(net):
    net.ClearField("device_option")
    for op in net.op:
        op.ClearField("device_option")
        for argument in op.arg:
            for inner in arguments.nets_in(argument):
                _forget_devices(inner)


def _written(net, nodes, inputs):
    """The external outputs of a net that its nodes write.

    Exporters name every blob that nothing reads, and so what Caffe2's operators write beside their results (LRN's scale,
    Dropout's mask), which has no form in ONNX.
    """
    made = {*inputs, *(name for node in nodes for name in node.output)}
    lost = [name for name in net.external_output if name not in made]
    if lost and len(lost) == len(net.external_output):
        raise Unsupported(f"nothing is left of the net: ONNX has no form for its external outputs {', '.join(lost)}")
    if lost:
        log.warning("external outputs without a form in ONNX are left out: %s", ", ".join(lost))
    return [name for name in net.external_output if name in made]


def _drop_fakes(init_net, value_info):
    """Published init nets fill the input with something of any shape: that is no initializer."""
    if init_net is None:
        return
    kept = [op for op in init_net.op if not (len(op.output) == 1 and op.output[0] in value_info)]
    if len(kept) < len(init_net.op):
        log.info("the init net fills inputs of the net (%s): left out", ", ".join(sorted(value_info)))
        del init_net.op[:]
        init_net.op.extend(kept)


def _check_written_once(init_net):
    writes = collections.Counter(name for op in init_net.op for name in op.output)
    twice = sorted(name for name, count in writes.items() if count > 1)
    if twice:
        raise RuntimeError(f"the init net writes {', '.join(twice)} more than once: it cannot become initializers")


def _write_once(net):
    """Give each version of a blob that is written again a name of its own: x_1, x_2; inputs keep theirs."""
    writes = collections.Counter(name for op in net.op for name in op.output)
    external = set(net.external_input)
    used = Caffe2Frontend._all_names_in_net(net)
    version = collections.Counter()
    current = {}
    for op in net.op:
        for i, name in enumerate(op.input):
            op.input[i] = current.get(name, name)
        for i, name in enumerate(op.output):
            if writes[name] == 1 and name not in external:
                continue
            version[name] += 1
            new = f"{name}_{version[name]}"
            while new in used:
                new += "_"
            used.add(new)
            op.output[i] = current[name] = new
    for i, name in enumerate(net.external_output):
        net.external_output[i] = current.get(name, name)


def _tensors(values):
    return [numpy_helper.from_array(np.ascontiguousarray(v), name) for name, v in values.items()]


def _run_on_zeros(predict_net, values, value_info):
    """Return all blobs of a run, by name."""
    zeros = {name: np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)) for name, (kind, shape) in value_info.items()}
    workspace, _ = c2_native_run_net(None, predict_net, {**values, **zeros})
    return {name: workspace.FetchBlob(name) for name in Caffe2Frontend._all_names_in_net(predict_net)}


caffe2_net_to_onnx_graph = Caffe2Frontend.caffe2_net_to_onnx_graph
caffe2_net_to_onnx_model = Caffe2Frontend.caffe2_net_to_onnx_model
caffe2_init_net_to_initializer = Caffe2Frontend.caffe2_init_net_to_initializer
ssa_rewrite = Caffe2Frontend.ssa_rewrite
