"""Pictures of nets by Graphviz (needs pydot); `caffe2lite draw` needs nothing and shows more."""

from __future__ import annotations

import argparse
import base64
import collections
import json
import logging

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import utils

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
    if hasattr(operators_or_net, "Proto"):
        operators_or_net = operators_or_net.Proto()
    if isinstance(operators_or_net, caffe2_pb2.NetDef):
        return operators_or_net.op, operators_or_net.name if name is None else name
    return operators_or_net, "unnamed" if name is None else name


def _escape_label(name):
    return json.dumps(name)


def GetOpNodeProducer(append_output, **kwargs):
    """Return a function (op, op_id) that makes an operator's node, named NAME/TYPE (op#N).

    With `append_output` the outputs are in the name, a line each.
    """

    def producer(op, op_id):
        name = f"{op.name}/{op.type}" if op.name else op.type
        lines = [f"{name} (op#{op_id})", *(op.output if append_output else ())]
        return pydot.Node("\n".join(lines), **kwargs)

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
    blobs = _BlobNodes(lambda node_name, label: make_blob(node_name, label=label))

    def connect(blob_node, source, target):
        graph.add_node(blob_node)
        graph.add_edge(pydot.Edge(source, target))

    for i, op in enumerate(operators):
        op_node = make_op(op, i)
        graph.add_node(op_node)
        for blob in op.input:
            node = blobs.read(blob)
            connect(node, node, op_node)
        for blob in op.output:
            node = blobs.written(blob)
            connect(node, op_node, node)
    return graph


def GetPydotGraphMinimal(operators_or_net, name=None, rankdir="LR", minimal_dependency=False, op_node_producer=None):
    """Return a pydot graph of operators only; with `minimal_dependency` an edge that a longer path implies is left out."""
    _need_pydot()
    operators, name = _rectify_operator_and_name(operators_or_net, name)
    make_op = op_node_producer or GetOpNodeProducer(False, **OP_STYLE)
    graph = pydot.Dot(name, rankdir=rankdir)
    writer = {}
    nodes, ancestors = [], []
    for i, op in enumerate(operators):
        node = make_op(op, i)
        graph.add_node(node)
        parents = [writer[blob] for blob in op.input if blob in writer]
        ancestors.append(set(parents).union(*(ancestors[p] for p in parents)))
        for parent in parents:
            if not minimal_dependency or not any(parent in ancestors[other] for other in parents):
                graph.add_edge(pydot.Edge(nodes[parent], node))
        nodes.append(node)
        writer.update(dict.fromkeys(op.output, i))
    return graph


def GetOperatorMapForPlan(plan_def):
    """Return {PLAN_NET: operators} of a PlanDef; nets without a name are PLAN_network_N."""
    return {
        f"{plan_def.name}_{net.name if net.HasField('name') else f'network_{i}'}": net.op
        for i, net in enumerate(plan_def.network)
    }


_MOST_PARALLEL = 3  # concurrent substeps that are drawn; the others are counted


def _step_label(step):
    lines = [step.name, ""]
    if step.report_net:
        lines.append(f"Reporter: {step.report_net}")
    if step.should_stop_blob:
        lines.append(f"Stopper: {step.should_stop_blob}")
    lines += ["Concurrent"] * step.concurrent_substeps + ["Once"] * step.only_once
    return "\n".join(lines)


def _chain(graph, nodes, linked=True):
    """Add nodes as they come, each linked to the one before; return the nodes."""
    made = []
    for node in nodes:
        graph.add_node(node)
        if made and linked:
            graph.add_edge(pydot.Edge(made[-1], node))
        made.append(node)
    return made


def _step_nodes(graph, steps, linked=True):
    """Add the steps with what they consist of; return the steps' nodes."""

    def made():
        for step in steps:
            node = pydot.Node(_escape_label(_step_label(step)), **OP_STYLE)
            yield node
            _draw_inside(graph, step, node)

    return _chain(graph, made(), linked)


def _draw_inside(graph, step, node):
    parallel = step.concurrent_substeps
    if step.network:
        inside = _chain(graph, [pydot.Node(_escape_label(net)) for net in step.network])
    elif step.substep:
        inside = _step_nodes(graph, step.substep[: _MOST_PARALLEL if parallel else None], linked=not parallel)
    else:
        raise ValueError(f"step {step.name!r} has neither nets nor substeps")
    if parallel and len(step.substep) > _MOST_PARALLEL:
        inside += _chain(graph, [pydot.Node(f"{len(step.substep) - _MOST_PARALLEL} more steps", **OP_STYLE)])
    for child in inside if parallel else inside[:1]:
        graph.add_edge(pydot.Edge(node, child, arrowhead="dot", style="dashed"))


def GetPlanGraph(plan_def, name=None, rankdir="TB"):
    """Return a pydot graph of a PlanDef: its steps, and the nets of each, in order."""
    _need_pydot()
    graph = pydot.Dot(name, rankdir=rankdir)
    _step_nodes(graph, plan_def.execution_step)
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


# A picture of one pixel: what is shown of a graph that cannot be drawn.
_NO_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)


def GetGraphPngSafe(func, *args, **kwargs):
    """Return the PNG of the graph that `func` makes; where that fails the log says why, and it is one of a single pixel."""
    try:
        graph = func(*args, **kwargs)
        if not isinstance(graph, pydot.Dot):
            raise ValueError(f"a drawing function returns a pydot.Dot, got {type(graph).__name__}")
        return graph.create_png()
    except Exception as e:
        logger.error("Failed to draw graph: %s", e)
        return _NO_PICTURE


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
