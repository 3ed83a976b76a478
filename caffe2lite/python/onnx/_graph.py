"""ONNX graphs as Caffe2 nets: what nodes need to know of each other, branches and loops."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import onnx
from onnx import helper

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx import _reading, _recurrent
from caffe2lite.python.onnx._reading import operator
from caffe2lite.python.onnx._types import array_of
from caffe2lite.python.onnx.error import Unsupported


def context_of(model_or_graph, opset, dummies):
    """Return the Context of a graph: constants of its initializers, shapes of what ONNX can infer."""
    graph = getattr(model_or_graph, "graph", model_or_graph)
    context = _reading.Context(opset=opset, dummies=dummies)
    for tensor in graph.initializer:
        context.shapes[tensor.name] = tuple(tensor.dims)
        if np.prod(tensor.dims) <= 1024:  # what operators take as arguments is short
            context.constants[tensor.name] = array_of(tensor)
    for info in itertools.chain(graph.input, graph.value_info, graph.output):
        learn_shape(context, info)
    if graph is not model_or_graph:
        for info in onnx.shape_inference.infer_shapes(model_or_graph).graph.value_info:
            learn_shape(context, info)
    return context


def learn_shape(context, info):
    """Keep the shape of a ValueInfoProto; a dimension that it leaves open is -1."""
    if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
        dims = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in info.type.tensor_type.shape.dim)
        context.shapes.setdefault(info.name, dims)


def names_in(graph):
    """Return all names of a graph, of its branches and bodies too."""
    names = {v.name for v in (*graph.input, *graph.output, *graph.initializer, *graph.value_info)}
    for node in graph.node:
        names.update(node.input, node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= names_in(attribute.g)
    return names


def check_operators(graph):
    """Unsupported, with all of them, where a graph has nodes that Caffe2 has no operator for."""
    unknown = collections.Counter(_unknown(graph))
    if unknown:
        listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(unknown.items()))
        raise Unsupported(f"Don't know how to translate op {listed}: Caffe2 has no operator for it, or here is no rule")


def _unknown(graph):
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            yield f"{node.domain}.{node.op_type}"
        elif node.op_type not in NETS and not _reading.has_form(node.op_type):
            yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _unknown(attribute.g)


def operators_of(graph, context):
    """Caffe2 operators of the nodes of a graph, in order."""
    return list(itertools.chain.from_iterable(node_operators(node, context) for node in graph.node))


def node_operators(node, context):
    """Caffe2 operators of one node."""
    if node.domain not in ("", "ai.onnx"):
        raise Unsupported(
            f"node {node.name or node.op_type}: operators of the domain {node.domain!r} are not supported"
        )
    rule = NETS.get(node.op_type, _reading.convert)
    return rule(node, context)


def _branch(graph, context, outputs):
    """Return a branch or body as a NetDef that ends in `outputs`."""
    inner = context_of(graph, context.opset, context.dummies)
    inner.constants = {**context.constants, **inner.constants}
    inner.shapes = {**context.shapes, **inner.shapes}
    net = caffe2_pb2.NetDef(name=graph.name)
    net.op.extend(_reading.fill(tensor) for tensor in graph.initializer)
    net.op.extend(operators_of(graph, inner))
    for made, wanted in zip(graph.output, outputs):
        if made.name != wanted:
            net.op.append(operator("Copy", [made.name], [wanted]))
    net.external_output.extend(outputs)
    return net


def _read_from_outside(*nets):
    """Return the blobs that nets read before they write them."""
    reads = []
    for net in nets:
        made = set(net.external_input)
        for op in net.op:
            reads.extend(name for name in op.input if name not in made and name not in reads)
            made.update(op.output)
    return reads


def _if(node, context):
    branches = {a.name: a.g for a in node.attribute}
    nets = [_branch(branches[name], context, node.output) for name in ("then_branch", "else_branch")]
    for net in nets:
        net.external_input.extend(_read_from_outside(net))
    inputs = [node.input[0], *dict.fromkeys(name for net in nets for name in net.external_input)]
    return [operator("If", inputs, node.output, then_net=nets[0], else_net=nets[1])]


def _loop(node, context):
    body = next(helper.get_attribute_value(a) for a in node.attribute if a.name == "body")
    net = _branch(body, context, [o.name for o in body.output])
    net.external_input.extend(i.name for i in body.input)
    net.external_input.extend(_read_from_outside(net))
    trips, condition, *carried = node.input
    ops = []
    if not trips:
        trips = context.dummies.new_dummy_name()
        ops.append(_reading.fill_array(np.array([0]), trips))
    if not condition:
        condition = context.dummies.new_dummy_name()
        ops.append(_reading.fill_array(np.array([True]), condition))
    loop = operator(
        "ONNXWhile",
        [trips, condition, *carried],
        node.output,
        body=net,
        has_trip_count=int(bool(node.input[0])),
        has_cond=1,
    )
    return [*ops, loop]


# Nodes that become operators with nets in them.
NETS = {"If": _if, "Loop": _loop, **dict.fromkeys(_recurrent.KINDS, _recurrent.convert)}
