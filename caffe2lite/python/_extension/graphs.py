"""A net as a graph of operators and tensors (nomnigraph): nodes, edges, patterns, and the way back to a NetDef.

Edges lead from a tensor to the operators that read it and from an operator to the tensors that it writes, in the order
of their operands.  A blob that is written again is another tensor of the same name.
"""

from __future__ import annotations

import heapq
import itertools

from caffe2lite.proto import caffe2_pb2


class NeuralNetData:
    """A tensor, by the name of its blob."""

    def __init__(self, name):
        self._name = name

    def getName(self):
        """Return the blob's name."""
        return self._name


class NeuralNetOperator:
    """An operator, by its type."""

    def __init__(self, name):
        self._name = name

    def getName(self):
        """Return the operator's type."""
        return self._name


class Annotation:
    """What is known of a node beyond its name: its OperatorDef, its device, notes of distributed transformations."""

    def __init__(self):
        self._operator = None
        self._device_option = None
        self._notes = {"Device": "", "DeviceType": 0, "KeyNode": None, "LengthNode": None, "ComponentLevels": []}

    @property
    def operator_def(self):
        """A copy of the OperatorDef; assign one to change it."""
        if self._operator is None:
            raise RuntimeError("this annotation holds no OperatorDef")
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(self._operator)
        return copy

    @operator_def.setter
    def operator_def(self, op):
        self._operator = caffe2_pb2.OperatorDef()
        self._operator.CopyFrom(op)

    @property
    def device_option(self):
        """A copy of the DeviceOption; assign one to change it."""
        copy = caffe2_pb2.DeviceOption()
        if self._device_option is not None:
            copy.CopyFrom(self._device_option)
        return copy

    @device_option.setter
    def device_option(self, option):
        self._device_option = caffe2_pb2.DeviceOption()
        self._device_option.CopyFrom(option)

    def hasDeviceOption(self):
        """Return whether a DeviceOption was set."""
        return self._device_option is not None


def _note(what):
    def get(annotation):
        return annotation._notes[what]

    def put(annotation, value):
        annotation._notes[what] = value

    get.__name__, put.__name__ = f"get{what}", f"set{what}"
    get.__doc__, put.__doc__ = f"The note {what}.", f"Change the note {what}."
    setattr(Annotation, get.__name__, get)
    setattr(Annotation, put.__name__, put)


for _what in ("Device", "DeviceType", "KeyNode", "LengthNode", "ComponentLevels"):
    _note(_what)


class NodeRef:
    """A node of a graph."""

    def __init__(self, value):
        self._value = value
        self._from = []
        self._to = []
        self._annotation = Annotation()

    def isOperator(self):
        return isinstance(self._value, NeuralNetOperator)

    def isTensor(self):
        return isinstance(self._value, NeuralNetData)

    def getType(self):
        """ "Operator" or "Tensor"."""
        return "Operator" if self.isOperator() else "Tensor"

    def getName(self):
        return self._value.getName()

    def getOperator(self):
        if not self.isOperator():
            raise RuntimeError(f"node {self.name!r} is no operator")
        return self._value

    def getTensor(self):
        if not self.isTensor():
            raise RuntimeError(f"node {self.name!r} is no tensor")
        return self._value

    def getInputs(self):
        """Return what an operator reads, in order."""
        self.getOperator()
        return list(self._from)

    def getOutputs(self):
        """Return what an operator writes, in order."""
        self.getOperator()
        return list(self._to)

    def hasProducer(self):
        """Return whether an operator writes this tensor."""
        self.getTensor()
        return bool(self._from)

    def getProducer(self):
        """Return the operator that writes this tensor."""
        if not self.hasProducer():
            raise RuntimeError(f"nothing in the graph writes tensor {self.name!r}")
        return self._from[0]

    def getConsumers(self):
        """Return the operators that read this tensor."""
        self.getTensor()
        return list(self._to)

    def getOperatorPredecessors(self):
        """Return the operators whose outputs this one reads."""
        return _unique(t.getProducer() for t in self.getInputs() if t.hasProducer())

    def getOperatorSuccessors(self):
        """Return the operators that read an output of this one."""
        return _unique(op for t in self.getOutputs() for op in t.getConsumers())

    def getAnnotation(self):
        return self._annotation

    def setAnnotation(self, annotation):
        self._annotation = annotation

    name = property(getName)
    type = property(getType)
    operator = property(getOperator)
    tensor = property(getTensor)
    inputs = property(getInputs)
    outputs = property(getOutputs)
    producer = property(getProducer)
    consumers = property(getConsumers)
    annotation = property(getAnnotation, setAnnotation)


def _unique(nodes):
    return list({id(node): node for node in nodes}.values())


def _dot(nodes, edges):
    """Return Graphviz's text: operators are boxes."""
    number = {id(node): i for i, node in enumerate(nodes)}
    lines = ["digraph G {", "rankdir=LR"]
    for node in nodes:
        name = str(node.name).replace("\\", "\\\\").replace('"', '\\"')
        shape = ',shape="box"' if node.isOperator() else ""
        lines.append(f'{number[id(node)]}[label="{name}"{shape}];')
    lines.extend(f"{number[id(a)]} -> {number[id(b)]};" for a, b in edges)
    return "\n".join([*lines, "}"])


def _connect(a, b):
    a._to.append(b)
    b._from.append(a)


def _disconnect(a, b):
    _take(a._to, b)
    _take(b._from, a)


def replaceProducer(tensor, producer):
    """Let another operator write a tensor."""
    for old in list(tensor._from):
        _disconnect(old, tensor)
    _connect(producer, tensor)


def replaceAllUsesWith(old, new):
    """Let those who read one tensor read another, at the same place among their inputs."""
    for reader in _unique(old._to):
        reader._from = [new if t is old else t for t in reader._from]
    new._to.extend(old._to)
    old._to = []


def replaceAsConsumer(old, new):
    """Let another operator read what this one reads."""
    for tensor in list(old._from):
        _disconnect(tensor, old)
        _connect(tensor, new)


class NNGraph:
    """Nodes and edges."""

    def __init__(self):
        self._nodes = []

    def createNode(self, value):
        """Return a node of a NeuralNetData, a NeuralNetOperator or an OperatorDef."""
        if isinstance(value, caffe2_pb2.OperatorDef):
            node = NodeRef(NeuralNetOperator(value.type))
            node.annotation.operator_def = value
        elif isinstance(value, (NeuralNetData, NeuralNetOperator)):
            node = NodeRef(value)
        else:
            raise TypeError(
                f"a node is made of NeuralNetData, NeuralNetOperator or OperatorDef, not of {type(value).__name__}"
            )
        self._nodes.append(node)
        return node

    def createEdge(self, a, b):
        """Let operator `b` read tensor `a`, or operator `a` write tensor `b`."""
        if a.isOperator() == b.isOperator():
            raise RuntimeError(f"an edge joins an operator and a tensor, not {a.name!r} and {b.name!r}")
        _connect(a, b)

    def deleteEdge(self, a, b=None):
        """Take the edge from `a` to `b` away."""
        if all(node is not b for node in a._to):
            raise RuntimeError(f"there is no edge from {a.name!r} to {b.name!r}")
        _disconnect(a, b)

    def deleteNode(self, node):
        """Take a node and its edges away."""
        for other in node._from:
            other._to = [n for n in other._to if n is not node]
        for other in node._to:
            other._from = [n for n in other._from if n is not node]
        node._from, node._to = [], []
        _take(self._nodes, node)

    def replaceNode(self, old, new):
        """Give the edges of `old` to `new`."""
        for other in _unique(old._from):
            other._to = [new if n is old else n for n in other._to]
        for other in _unique(old._to):
            other._from = [new if n is old else n for n in other._from]
        new._from.extend(old._from)
        new._to.extend(old._to)
        old._from, old._to = [], []

    def getMutableNodes(self):
        """Return all nodes."""
        return list(self._nodes)

    nodes = property(getMutableNodes)

    @property
    def operators(self):
        """The nodes that are operators."""
        return [n for n in self._nodes if n.isOperator()]

    @property
    def tensors(self):
        """The nodes that are tensors."""
        return [n for n in self._nodes if n.isTensor()]

    def __repr__(self):
        return _dot(self._nodes, [(a, b) for a in self._nodes for b in a._to])


def _take(nodes, node):
    del nodes[next(i for i, n in enumerate(nodes) if n is node)]


class Graph:
    """A graph of anything that has a text."""

    class Node:
        def __init__(self, value):
            self.name = str(value)

        def isOperator(self):
            return True

    def __init__(self):
        self._nodes, self._edges = [], []

    def createNode(self, value):
        """Return a node of anything."""
        self._nodes.append(Graph.Node(value))
        return self._nodes[-1]

    def createEdge(self, a, b):
        """Return an edge from one node to another."""
        self._edges.append((a, b))
        return self._edges[-1]

    def __repr__(self):
        return _dot(self._nodes, self._edges)


class NNSubgraph:
    """Some nodes of a graph, and the edges among them once they are induced."""

    def __init__(self):
        self._nodes, self._edges = [], []

    def addNode(self, node):
        """Take a node in."""
        if not self.hasNode(node):
            self._nodes.append(node)

    def hasNode(self, node):
        """Return whether the node is in."""
        return any(n is node for n in self._nodes)

    def induceEdges(self):
        """Take in the edges among the nodes."""
        self._edges = [(a, b) for a in self._nodes for b in a._to if self.hasNode(b)]

    @property
    def nodes(self):
        """The nodes."""
        return list(self._nodes)

    def __len__(self):
        return len(self._nodes)

    def __repr__(self):
        return _dot(self._nodes, self._edges)


class _Pattern:
    """A node of a pattern: an operator of that type, or any tensor; a strict one has no further edges."""

    def __init__(self, value, strict):
        self.value, self.strict = value, strict
        self.reads, self.writes = [], []

    def accepts(self, node):
        if isinstance(self.value, NeuralNetData):
            fits = node.isTensor()
        else:
            fits = node.isOperator() and node.name == self.value.getName()
        if not fits or not self.strict:
            return fits
        return len(node._from) == len(self.reads) and len(node._to) == len(self.writes)


class NNMatchGraph:
    """A pattern that `NNModule.match` looks for."""

    def __init__(self):
        self._nodes = []

    def createNode(self, node, strict=False):
        """Return a node of the pattern, for an operator of that type or for any tensor."""
        self._nodes.append(_Pattern(node, strict))
        return self._nodes[-1]

    def createEdge(self, a, b):
        """Node `b` reads node `a`."""
        a.writes.append(b)
        b.reads.append(a)

    def getMutableNodes(self):
        """Return the nodes of the pattern."""
        return list(self._nodes)


def matchSubgraph(node, pattern):
    """Return the NNSubgraph of which `node` is the end that the pattern has; empty where it does not match."""
    found = NNSubgraph()
    ends = [p for p in pattern._nodes if not p.writes]
    if len(ends) != 1:
        raise RuntimeError(f"a pattern ends in one node; this one has {len(ends)} ends")
    match = _match(ends[0], node, {})
    for matched in (match or {}).values():
        found.addNode(matched)
    found.induceEdges()
    return found


def _match(pattern, node, taken):
    """Return {pattern: node} of `pattern` and all before it, or None; operands match in their order, some may be left out."""
    if pattern in taken:
        return taken if taken[pattern] is node else None
    if not pattern.accepts(node):
        return None
    for chosen in itertools.combinations(node._from, len(pattern.reads)):
        match = {**taken, pattern: node}
        for before, candidate in zip(pattern.reads, chosen):
            match = _match(before, candidate, match)
            if match is None:
                break
        else:
            return match
    return None


class NNModule:
    """A net as a graph."""

    def __init__(self):
        self._graph = NNGraph()
        self._name = ""
        self._external_input, self._external_output = [], []
        self._created = 0

    def dataFlow(self):
        """Return the graph."""
        return self._graph

    def getExecutionOrder(self):
        """Return the operators, each after those whose outputs it reads, else in the order in which they were made."""
        operators = self._graph.operators
        place = {id(op): i for i, op in enumerate(operators)}
        waits = {id(op): len(op.getOperatorPredecessors()) for op in operators}
        ready = [i for i, op in enumerate(operators) if not waits[id(op)]]
        heapq.heapify(ready)
        order = []
        while ready:
            op = operators[heapq.heappop(ready)]
            order.append(op)
            for successor in op.getOperatorSuccessors():
                waits[id(successor)] -= 1
                if not waits[id(successor)]:
                    heapq.heappush(ready, place[id(successor)])
        if len(order) < len(operators):
            stuck = [op.name for op in operators if waits[id(op)]]
            raise RuntimeError(f"operators wait for each other: {', '.join(stuck)}")
        return order

    def createUniqueDataNode(self, prefix="_unique"):
        """Return a tensor whose name begins with `prefix` and that no other has."""
        used = {t.name for t in self._graph.tensors}
        name = next(n for n in (f"{prefix}{i}" for i in itertools.count(self._created)) if n not in used)
        self._created += 1
        return self._graph.createNode(NeuralNetData(name))

    def deleteSubgraph(self, subgraph):
        """Delete the nodes of a subgraph."""
        for node in subgraph.nodes:
            self._graph.deleteNode(node)

    def replaceSubgraph(self, subgraph, node, inputs, outputs):
        """Put one operator, which reads `inputs` and writes `outputs`, in the place of a subgraph."""
        kept = [*inputs, *outputs]
        for old in subgraph.nodes:
            if all(old is not k for k in kept):
                self._graph.deleteNode(old)
        for tensor in outputs:
            for old in list(tensor._from):
                self._graph.deleteEdge(old, tensor)
        for tensor in inputs:
            self._graph.createEdge(tensor, node)
        for tensor in outputs:
            self._graph.createEdge(node, tensor)

    def convertToCaffe2Proto(self, old_proto=None):
        """Return a NetDef, serialized; what is no operator or blob is that of `old_proto`, a NetDef."""
        net = caffe2_pb2.NetDef(name=self._name)
        if old_proto is not None:
            net.CopyFrom(old_proto)
            for field in ("op", "external_input", "external_output"):
                net.ClearField(field)
        for node in self.getExecutionOrder():
            op = net.op.add()
            annotation = node.annotation
            if annotation._operator is not None:
                op.CopyFrom(annotation._operator)
            op.type = node.name
            del op.input[:], op.output[:]
            op.input.extend(t.name for t in node.inputs)
            op.output.extend(t.name for t in node.outputs)
            if annotation.hasDeviceOption():
                op.device_option.CopyFrom(annotation._device_option)
        read = [t.name for t in self._graph.tensors if not t.hasProducer() and t.getConsumers()]
        known = dict.fromkeys(self._external_input)
        net.external_input.extend([*known, *(name for name in dict.fromkeys(read) if name not in known)])
        net.external_output.extend(self._external_output)
        return net.SerializeToString()


def NNModuleFromProtobuf(content):
    """Return (module, its operators in order) of a serialized NetDef."""
    net = caffe2_pb2.NetDef.FromString(content)
    module = NNModule()
    module._name = net.name
    module._external_input = list(net.external_input)
    module._external_output = list(net.external_output)
    graph, current, operators = module._graph, {}, []

    def tensor(name):
        if name not in current:
            current[name] = graph.createNode(NeuralNetData(name))
        return current[name]

    for op in net.op:
        node = graph.createNode(op)
        for name in op.input:
            graph.createEdge(tensor(name), node)
        for name in op.output:
            current[name] = graph.createNode(NeuralNetData(name))
            graph.createEdge(node, current[name])
        if op.HasField("device_option"):
            node.annotation.device_option = op.device_option
        operators.append(node)
    return module, operators


def NNModuleFromProtobufDistributed(content, device_map):
    """Return a module whose tensors have the devices of `device_map`, {blob: serialized DeviceOption}."""
    module, _ = NNModuleFromProtobuf(content)
    for name, option in device_map.items():
        tensors = [t for t in module._graph.tensors if t.name == name]
        if not tensors:
            raise RuntimeError(f"the net has no blob {name!r}, for which the device map names a device")
        for tensor in tensors:
            tensor.annotation.device_option = caffe2_pb2.DeviceOption.FromString(option)
    return module
