"""Nets as graphs that can be searched and rewritten: `nn = NNModule(net)`, …, `nn.convertToCaffe2Proto()`."""

from __future__ import annotations

from subprocess import PIPE  # noqa: F401 - a public name here

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core
from caffe2lite.python._extension import graphs
from caffe2lite.python._extension.graphs import (
    Annotation,
    Graph,
    NeuralNetData,
    NeuralNetOperator,
    NNMatchGraph,
    NNSubgraph,
)

__all__ = [
    "Annotation", "Data", "Graph", "NNMatchGraph", "NNModule", "NNSubgraph", "NeuralNetData", "NeuralNetOperator",
    "Operator", "render",
]  # fmt: skip

Data = NeuralNetData
Operator = NeuralNetOperator


class NNModule:
    """A net (core.Net or NetDef; none: an empty one) as a graph.

    device_map    {blob: DeviceOption} of blobs of the net
    """

    def __init__(self, net=None, device_map=None):
        if net is None:
            self._NNModule = graphs.NNModule()
            return
        if isinstance(net, core.Net):
            net = net.Proto()
        if not isinstance(net, caffe2_pb2.NetDef):
            raise TypeError(f"NNModule takes a Net or a NetDef, not a {type(net).__name__}")
        content = net.SerializeToString()
        if device_map:
            devices = {blob: option.SerializeToString() for blob, option in device_map.items()}
            self._NNModule = graphs.NNModuleFromProtobufDistributed(content, devices)
        else:
            self._NNModule, _ = graphs.NNModuleFromProtobuf(content)

    @property
    def dataFlow(self):
        """The graph."""
        return self._NNModule.dataFlow()

    @property
    def controlFlow(self):
        """The operators in an order in which they can run."""
        return self._NNModule.getExecutionOrder()

    @property
    def nodes(self):
        """All nodes."""
        return set(self.dataFlow.nodes)

    @property
    def operators(self):
        """The operators."""
        return set(self.dataFlow.operators)

    @property
    def tensors(self):
        """The tensors."""
        return set(self.dataFlow.tensors)

    def createNode(self, val):
        """Return a node of NeuralNetData, NeuralNetOperator or OperatorDef."""
        return self.dataFlow.createNode(val)

    def deleteNode(self, node):
        """Delete a node and its edges."""
        self.dataFlow.deleteNode(node)

    def createEdge(self, a, b):
        """An edge from a tensor to its reader, or from an operator to what it writes."""
        self.dataFlow.createEdge(a, b)

    def deleteEdge(self, a, b=None):
        """Delete the edge from `a` to `b`."""
        self.dataFlow.deleteEdge(a, b)

    def replaceNode(self, old_node, new_node):
        """Give the edges of one node to another."""
        self.dataFlow.replaceNode(old_node, new_node)

    def replaceProducer(self, tensor, new_producer):
        """Let another operator write a tensor."""
        graphs.replaceProducer(tensor, new_producer)

    def replaceAllUsesWith(self, old_tensor, new_tensor):
        """Let those who read one tensor read another, at the same place among their inputs."""
        graphs.replaceAllUsesWith(old_tensor, new_tensor)

    def replaceAsConsumer(self, old_consumer, new_consumer):
        """Let another operator read what this one reads."""
        graphs.replaceAsConsumer(old_consumer, new_consumer)

    def createUniqueDataNode(self, prefix="_unique"):
        """Return a tensor with a name that no other has."""
        return self._NNModule.createUniqueDataNode(prefix)

    def convertToCaffe2Proto(self, old_proto=None):
        """Return the NetDef; what is neither operator nor blob comes from `old_proto`."""
        content = self._NNModule.convertToCaffe2Proto(old_proto)
        return caffe2_pb2.NetDef.FromString(content)

    def match(self, pattern):
        """Yield the NNSubgraphs that match an NNMatchGraph, one after the other."""
        for node in self.dataFlow.getMutableNodes():
            found = graphs.matchSubgraph(node, pattern)
            if len(found):
                yield found

    def deleteSubgraph(self, subgraph):
        """Delete the nodes of a subgraph."""
        self._NNModule.deleteSubgraph(subgraph)

    def replaceSubgraph(self, subgraph, new_node, inputs, outputs):
        """Put one operator in the place of a subgraph."""
        self._NNModule.replaceSubgraph(subgraph, new_node, inputs, outputs)


def render(s):
    """Print a graph as Graphviz's text; `caffe2lite draw` makes pictures of nets."""
    print(s)
