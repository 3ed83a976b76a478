"""Pictures of nets by Graphviz (needs pydot); `caffe2lite draw` needs nothing and shows more."""

from __future__ import annotations

import argparse
import collections
import json
import logging

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, utils

logger = logging.getLogger(__name__)

try:
    import pydot
except ImportError:
    pydot = None

OP_STYLE = {"shape": "box", "color": "#0F9D58", "style": "filled", "fontcolor": "#FFFFFF"}
BLOB_STYLE = {"shape": "octagon"}


def _need_pydot():
    if pydot is None:
        raise ImportError("drawing nets needs the package pydot: pip install pydot")


def _rectify_operator_and_name(operators_or_net, name):
    """Return the operators and the name of a net, NetDef or list of operators."""
    if isinstance(operators_or_net, core.Net):
        operators_or_net = operators_or_net.Proto()
    if isinstance(operators_or_net, caffe2_pb2.NetDef):
        return operators_or_net.op, operators_or_net.name if name is None else name
    return operators_or_net, "unnamed" if name is None else name


def _escape_label(name):
    return json.dumps(name)


def GetOpNodeProducer(append_output, **kwargs):
    """Return a function (op, op_id) that makes an operator's node; with `append_output` the outputs are in its label."""

    def producer(op, op_id):
        label = f"{op.name} ({op.type})" if op.name else op.type
        if append_output:
            label += "".join(" --> " + output for output in op.output)
        return pydot.Node(f"{op_id}_{op.name or op.type}", label=_escape_label(label), **kwargs)

    return producer


def GetBlobNodeProducer(**kwargs):
    """Return a function (name, label) that makes a blob's node."""
    return lambda node_name, label: pydot.Node(node_name, label=label, **kwargs)


class _BlobNodes:
    """One node per version of a blob: writing a blob that has a node makes a new one."""

    def __init__(self, make):
        self.make = make
        self.current = {}
        self.versions = collections.Counter()

    def read(self, blob):
        if blob not in self.current:
            self.current[blob] = self.make(_escape_label(f"{blob}{self.versions[blob]}"), _escape_label(blob))
        return self.current[blob]

    def written(self, blob):
        if blob in self.current:
            self.versions[blob] += 1
            del self.current[blob]
        return self.read(blob)


def GetPydotGraph(operators_or_net, name=None, rankdir="LR", op_node_producer=None, blob_node_producer=None):
    """Return a pydot graph of operators and blobs."""
    _need_pydot()
    operators, name = _rectify_operator_and_name(operators_or_net, name)
    make_op = op_node_producer or GetOpNodeProducer(False, **OP_STYLE)
    make_blob = blob_node_producer or GetBlobNodeProducer(**BLOB_STYLE)
    graph = pydot.Dot(name, rankdir=rankdir)

    def add_blob(node_name, label):
        node = make_blob(node_name, label=label)
        graph.add_node(node)
        return node

    blobs = _BlobNodes(add_blob)
    for i, op in enumerate(operators):
        op_node = make_op(op, i)
        graph.add_node(op_node)
        for blob in op.input:
            graph.add_edge(pydot.Edge(blobs.read(blob), op_node))
        for blob in op.output:
            graph.add_edge(pydot.Edge(op_node, blobs.written(blob)))
    return graph


def GetPydotGraphMinimal(operators_or_net, name=None, rankdir="LR", minimal_dependency=False, op_node_producer=None):
    """Return a pydot graph of operators only; with `minimal_dependency` an edge that a longer path implies is left out."""
    _need_pydot()
    operators, name = _rectify_operator_and_name(operators_or_net, name)
    make_op = op_node_producer or GetOpNodeProducer(True, **OP_STYLE)
    graph = pydot.Dot(name, rankdir=rankdir)
    writer = {}
    nodes, ancestors = [], []
    for i, op in enumerate(operators):
        node = make_op(op, i)
        graph.add_node(node)
        parents = sorted({writer[blob] for blob in op.input if blob in writer})
        if minimal_dependency:
            parents = [p for p in parents if not any(p in ancestors[q] for q in parents)]
        ancestors.append(set(parents).union(*(ancestors[p] for p in parents)))
        for parent in parents:
            graph.add_edge(pydot.Edge(nodes[parent], node))
        nodes.append(node)
        writer.update(dict.fromkeys(op.output, i))
    return graph


def GetOperatorMapForPlan(plan_def):
    """Return {net name: operators} of a PlanDef."""
    return {net.name: net.op for net in plan_def.network}


def _draw_steps(graph, steps, operators, op_index):
    """Add the nets of execution steps one after the other; return (first, last) operator nodes."""
    first = last = None

    def follow(begin, end):
        nonlocal first, last
        if last is not None and begin is not None:
            graph.add_edge(pydot.Edge(last, begin))
        first = begin if first is None else first
        last = end if end is not None else last

    for step in steps:
        cluster = pydot.Subgraph(f"cluster_{step.name}", label=_escape_label(step.name))
        make = GetOpNodeProducer(True, **OP_STYLE)
        for net in step.network:
            for op in operators[net]:
                node = make(op, op_index[0])
                op_index[0] += 1
                cluster.add_node(node)
                follow(node, node)
        graph.add_subgraph(cluster)
        if step.substep:
            follow(*_draw_steps(cluster, step.substep, operators, op_index))
    return first, last


def GetPlanGraph(plan_def, name=None, rankdir="TB"):
    """Return a pydot graph of a PlanDef: a box a step, operators in order."""
    _need_pydot()
    graph = pydot.Dot(plan_def.name if name is None else name, rankdir=rankdir)
    _draw_steps(graph, plan_def.execution_step, GetOperatorMapForPlan(plan_def), [0])
    return graph


def GetGraphInJson(operators_or_net, output_filepath):
    """Write nodes (operators and blobs) and edges to a JSON file."""
    operators, _ = _rectify_operator_and_name(operators_or_net, None)
    nodes, edges = [], []

    def add(**node):
        nodes.append({"id": len(nodes), **node})
        return nodes[-1]["id"]

    blobs = _BlobNodes(lambda name, label: add(label=label, type="blob"))
    for i, op in enumerate(operators):
        here = add(label=f"{op.name}/{op.type}" if op.name else op.type, op_id=i, type="op")
        edges += [{"source": blobs.read(blob), "target": here} for blob in op.input]
        edges += [{"source": here, "target": blobs.written(blob)} for blob in op.output]
    with open(output_filepath, "w") as file:
        json.dump({"nodes": nodes, "edges": edges}, file)


def GetGraphPngSafe(func, *args, **kwargs):
    """Return the PNG of the graph that `func` makes, or of a graph with the error."""
    _need_pydot()
    try:
        graph = func(*args, **kwargs)
        if not isinstance(graph, pydot.Dot):
            raise ValueError(f"a drawing function returns a pydot.Dot, got {type(graph).__name__}")
        return graph.create_png()
    except Exception as e:
        logger.error("Failed to draw graph: %s", e)
        graph = pydot.Dot("error")
        graph.add_node(pydot.Node("error", label=_escape_label(f"Error occurred when creating the graph: {e}")))
        return graph.create_png()


def main():
    """Draw a serialized net or plan: --input FILE [--output_prefix NAME]."""
    parser = argparse.ArgumentParser(description="Draw a Caffe2 net or plan.")
    parser.add_argument("--input", required=True, help="the serialized NetDef or PlanDef")
    parser.add_argument("--output_prefix", default="", help="prefix of the files")
    parser.add_argument("--minimal", action="store_true", help="operators only")
    parser.add_argument("--minimal_dependency", action="store_true", help="operators only, without implied edges")
    parser.add_argument("--append_output", action="store_true", help="name the outputs in operator nodes")
    parser.add_argument("--rankdir", default="LR", help="direction of the graph")
    args = parser.parse_args()
    with open(args.input, "rb") as file:
        content = file.read()

    def draw_net(net):
        if args.minimal or args.minimal_dependency:
            return GetPydotGraphMinimal(net, rankdir=args.rankdir, minimal_dependency=args.minimal_dependency)
        return GetPydotGraph(net, rankdir=args.rankdir)

    graphs = utils.GetContentFromProtoString(
        content,
        {
            caffe2_pb2.PlanDef: lambda plan: (
                {plan.name: GetPlanGraph(plan)} | {net.name: draw_net(net) for net in plan.network}
            ),
            caffe2_pb2.NetDef: lambda net: {net.name: draw_net(net)},
        },
    )
    for name, graph in graphs.items():
        graph.write_pdf(f"{args.output_prefix}{name}.pdf")


if __name__ == "__main__":
    main()
