"""Rewritings of nomnigraph's graphs."""

from __future__ import annotations

from caffe2lite.python import core


def transpose_network(nn):
    """Let every Conv of a net in NCHW order compute in NHWC order, between as few transpositions as possible."""
    turned = {}

    def in_nhwc(tensor):
        """Return the tensor in NHWC order, transposed once for all who read it."""
        if id(tensor) not in turned:
            op = nn.createNode(core.CreateOperator("NCHW2NHWC", [], []))
            turned[id(tensor)] = nn.createUniqueDataNode(tensor.name)
            nn.createEdge(tensor, op)
            nn.createEdge(op, turned[id(tensor)])
        return turned[id(tensor)]

    for conv in nn.controlFlow:
        if conv.name != "Conv":
            continue
        definition = conv.annotation.operator_def
        kept = [a for a in definition.arg if a.name != "order"]
        if len(kept) < len(definition.arg) and any(a.s == b"NHWC" for a in definition.arg if a.name == "order"):
            continue
        del definition.arg[:]
        definition.arg.extend(kept)
        definition.arg.add(name="order", s=b"NHWC")
        conv.annotation.operator_def = definition
        inputs, (output,) = conv.inputs, conv.outputs
        for tensor in inputs:
            nn.deleteEdge(tensor, conv)
        for i, tensor in enumerate(inputs):
            nn.createEdge(in_nhwc(tensor) if i < 2 else tensor, conv)
        nn.deleteEdge(conv, output)
        turned[id(output)] = nn.createUniqueDataNode(output.name)
        back = nn.createNode(core.CreateOperator("NHWC2NCHW", [], []))
        nn.createEdge(conv, turned[id(output)])
        nn.createEdge(turned[id(output)], back)
        nn.createEdge(back, output)
