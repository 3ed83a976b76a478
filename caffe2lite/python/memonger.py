"""Less memory for nets: blobs that are never needed at the same time share storage."""

from __future__ import annotations

import collections
import copy
import enum
import itertools
import logging

import numpy as np

from caffe2lite.ops.kit import dtypes, registry
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace
from caffe2lite.python.workspace import C

log = logging.getLogger("memonger")

# From which operator to which one a blob is needed, and its size in bytes; None where that is not known.
LiveRange = collections.namedtuple("LiveRange", ["defined", "used", "size"])


def _recycled(netproto, heads, op_indices, shareable, namescope, dont_share, shapes):
    optimized = caffe2_pb2.NetDef()
    optimized.ParseFromString(
        C.memonger_compute_blob_recycling_for_dag(
            netproto.SerializeToString(),
            [str(blob).encode("utf-8") for blob in heads],
            op_indices,
            {str(blob).encode("utf-8") for blob in shareable},
            namescope.encode("utf-8"),
            {str(blob).encode("utf-8") for blob in dont_share or ()},
            {str(blob).encode("utf-8"): shape for blob, shape in (shapes or {}).items()},
        )
    )
    if not verify_graph_equality(netproto, optimized):
        raise AssertionError("the renamed net computes something else: a blob was reused too early")
    if not verify_inplace_blobs(netproto, optimized):
        raise AssertionError("the renamed net works in place elsewhere than the given one")
    return optimized


def share_grad_blobs(
    net, losses, param_grads, namescope, dont_share_blobs=None, share_activations=False, blob_shapes=None
):
    """Return a NetDef in which gradients (whose names end with `_grad`, in `namescope`) share blobs, except parameters'.

    With `share_activations` so do outputs of layers with weights, except the last two.
    """
    if namescope and not namescope.endswith("/"):
        namescope += "/"
    proto = net.Proto()
    kept = {str(blob) for blob in param_grads}

    def is_grad_blob(blob):
        # Gradients that were split for a sum are called _{namescope}…
        in_scope = blob.startswith(namescope) or blob.startswith("_" + namescope)
        return blob.endswith("_grad") and in_scope and blob not in kept

    activations = []
    outputs = set(proto.external_output)
    for op in proto.op:
        for blob in op.output:
            if blob + "_w" in op.input and blob not in outputs:
                activations.append(blob)
    activations = set(activations[:-2]) if share_activations else set()
    op_indices = [i for i, op in enumerate(proto.op) if any(map(is_grad_blob, (*op.input, *op.output)))]
    shareable = {
        blob for op in proto.op for blob in (*op.input, *op.output) if is_grad_blob(blob) or blob in activations
    }
    return _recycled(proto, losses, op_indices, shareable, namescope, dont_share_blobs, blob_shapes)


def optimize_inference_for_dag(net, input_blobs, namescope=""):
    """Return a NetDef of an inference net in which intermediate results share blobs, safe for parallel executors."""
    proto = net.Proto()
    fixed = {*proto.external_input, *proto.external_output}
    intermediate, made = set(), set()
    for op in proto.op:
        for blob in op.input:
            if blob not in fixed:
                if blob not in made:
                    raise AssertionError(f"{blob} not in external input")
                intermediate.add(blob)
        intermediate.update(blob for blob in op.output if blob not in fixed)
        made.update(op.output)
        if op.is_gradient_op:
            raise AssertionError(
                f"{op.type} -> {list(op.output)} is a gradient operator: this plan is for inference nets"
            )
    return _recycled(proto, input_blobs, list(range(len(proto.op))), intermediate, namescope, None, None)


_BYTES = {number: dtype.itemsize for number, dtype in dtypes.NUMPY.items() if dtype.kind != "O"}


def estimate_memory_usage(protos, shapes, types, devicescope):
    """Return (total, peak, {operator type: total}) bytes that nets allocate on one device, run one after the other.

    Shapes and types are those of InferShapesAndTypes; memory inside operators is not counted.
    """

    def nbytes(blob):
        if blob not in shapes or blob not in types:
            log.warning("Unknown blob encountered: %s", blob)
            return 0
        return _BYTES[types[blob]] * int(np.prod(shapes[blob]))

    total = current = peak = 0
    by_type = collections.defaultdict(int)
    allocated = {}
    for proto in protos:
        for op in proto.op:
            if op.type in ("Free", "Alias"):
                current -= sum(allocated.pop(blob, 0) for blob in op.output)
            elif op.device_option == devicescope:
                for blob in op.output:
                    if blob not in allocated:
                        allocated[blob] = nbytes(blob)
                        total += allocated[blob]
                        current += allocated[blob]
                        by_type[op.type] += allocated[blob]
                peak = max(peak, current)
    return total, peak, by_type


def release_blobs_when_used(netproto, dont_free_blobs, selector_fun=None):
    """Return a NetDef that frees each intermediate blob after its last use.

    Blobs of Alias operators, external outputs, `dont_free_blobs` and those for which `selector_fun(blob)` is false
    stay.
    """
    netproto = copy.deepcopy(netproto)
    read, releasable, aliased = set(), set(), set()
    for op in netproto.op:
        if op.type == "Alias":
            aliased.add(op.input[0])
            continue
        read.update(op.input)
        for blob in op.output:
            if blob not in read and (selector_fun is None or selector_fun(blob)):
                releasable.add(blob)
    releasable = (releasable & read) - set(netproto.external_output) - set(dont_free_blobs) - aliased

    reversed_ops = []
    for op in reversed(list(netproto.op)):
        for blob in dict.fromkeys(op.input):
            if blob in releasable:
                releasable.discard(blob)
                name = core.BlobReference(blob)
                reversed_ops.append(core.CreateOperator("Free", [name], [name]))
        reversed_ops.append(copy.deepcopy(op))
    del netproto.op[:]
    netproto.op.extend(reversed(reversed_ops))
    return netproto


# --- orders of execution ---------------------------------------------------------------------------------------------


def compute_interference_graph(ops):
    """Return a networkx graph of operators, with an edge where the second reads what the first writes (`deps`)."""
    import networkx

    graph = networkx.DiGraph()
    for i, op in enumerate(ops):
        graph.add_node(i, op=op)
    for i, parent in enumerate(ops):
        written = set(parent.output)
        for j in range(i + 1, len(ops)):
            deps = written.intersection(ops[j].input)
            if deps:
                graph.add_edge(i, j, deps=deps)
    return graph


def topological_sort_traversal(g):
    """Return the operators in an order that respects the graph: the last of them and what it needs come as late as can be."""
    order, seen = [], set()
    for start in g:
        pending = [(start, False)]
        while pending:
            node, done = pending.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                pending.append((node, True))
                pending.extend((child, False) for child in reversed(list(g.successors(node))) if child not in seen)
    return order[::-1]


def topological_sort_traversal_longest_path(g):
    """Such an order in which operators far from the end come first, so that blobs live shorter."""
    distance = {}
    for node in reversed(topological_sort_traversal(g)):
        distance[node] = max((distance[child] + 1 for child in g.successors(node)), default=0)
    waiting = {node: len(list(g.predecessors(node))) for node in g}
    order = []

    def visit(node):
        pending = [node]
        while pending:
            node = pending.pop()
            order.append(node)
            ready = []
            for child in g.successors(node):
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
            pending.extend(sorted(ready, key=lambda child: distance[child]))

    sources = [node for node in g if waiting[node] == 0]
    for source in sorted(sources, key=lambda node: -distance[node]):
        visit(source)
    return order


# --- assignments: lists of blobs that share one --------------------------------------------------------------------


def compute_ranges(linearized_ops, blob_sizes=None):
    """Return {blob: LiveRange} for operators in the order they run."""
    ranges = collections.defaultdict(lambda: LiveRange(defined=None, used=None, size=None))

    def size(blob):
        if not blob_sizes:
            return None
        if blob_sizes.get(blob) is None:
            raise AssertionError(f"blob_sizes has no {blob}")
        return blob_sizes[blob]

    for i, op in enumerate(linearized_ops):
        for blob in op.input:
            ranges[blob] = ranges[blob]._replace(used=i, size=size(blob))
        for blob in op.output:
            defined = ranges[blob].defined
            ranges[blob] = ranges[blob]._replace(defined=i if defined is None else defined, size=size(blob))
    return ranges


def is_compatible(candidate_range, assignment, static_blobs):
    """Return whether a blob of this range may follow the last one of an assignment."""
    name, last = assignment[-1]
    if name in static_blobs or None in (candidate_range.defined, last.defined, last.used):
        return False
    return candidate_range.defined > last.used


def compute_blob_assignments(assignments):
    """Return {blob: the blob whose storage it takes} of the assignments that hold several."""
    return {blob: assignment[-1][0] for assignment in assignments if len(assignment) > 1 for blob, _ in assignment}


def _get_max_size(assignment):
    return max((range_.size or 0 for _, range_ in assignment), default=0)


def get_memory_usage(assignments):
    """Return the bytes that the assignments need together."""
    return sum(map(_get_max_size, assignments))


def compute_assignments_greedy(ranges_sorted, init_assignments=None):
    """Put each blob, in order, where it fits and the size is nearest."""
    assignments = init_assignments or []
    placed = {name for assignment in assignments for name, _ in assignment}
    for name, range_ in ranges_sorted:
        if name in placed:
            continue
        fitting = [a for a in assignments if is_compatible(range_, a, [])]
        if fitting:
            min(fitting, key=lambda a: abs(_get_max_size(a) - (range_.size or 0))).append((name, range_))
        else:
            assignments.append([(name, range_)])
    return assignments


_BEAM = 32  # partial solutions that compute_assignments_dp keeps


def compute_assignments_dp(ranges_sorted, init_assignment, counter=None):
    """Put blobs, in order, so that the memory needed is least among the most promising partial solutions.

    `counter`, a list, gets the number of partial solutions looked at appended.
    """
    solutions = [tuple(map(tuple, init_assignment or ()))]
    looked_at = 0
    for item in ranges_sorted:
        candidates = {}
        for solution in solutions:
            for i, assignment in enumerate(solution):
                if is_compatible(item[1], assignment, []):
                    candidates[(*solution[:i], (*assignment, item), *solution[i + 1 :])] = None
            candidates[(*solution, (item,))] = None
        looked_at += len(candidates)
        solutions = sorted(candidates, key=get_memory_usage)[:_BEAM]
    if counter is not None:
        counter.append(looked_at)
    return [list(assignment) for assignment in solutions[0]]


def get_updated_ranges(ranges, max_live=None):
    """Return ranges without None: defined before everything, used until the end, of size 1."""
    if max_live is None:
        max_live = max((r.used for _, r in ranges if r.used is not None), default=0) + 1

    def filled(r):
        return LiveRange(
            defined=-1 if r.defined is None else r.defined,
            used=max_live if r.used is None else r.used,
            size=1 if r.size is None else r.size,
        )

    return [(name, filled(r)) for name, r in ranges]


class AssignmentAlgorithm(enum.Enum):
    """How assignments are found."""

    GREEDY = 0
    DYNAMIC_PROGRAMMING = 1


def compute_assignments(ranges, static_blobs, algo):
    """Return assignments for {blob: LiveRange}; `static_blobs` stay alone."""
    # Blobs that nobody reads may be read from outside: they come last, and nothing follows them.
    ordered = sorted(ranges.items(), key=lambda item: (item[1].used is None, item[1].used or 0))
    ordered = get_updated_ranges(ordered)
    sharable = [item for item in ordered if item[0] not in static_blobs]
    find = {
        AssignmentAlgorithm.GREEDY: compute_assignments_greedy,
        AssignmentAlgorithm.DYNAMIC_PROGRAMMING: compute_assignments_dp,
    }[algo]
    return find(sharable, []) + [[item] for item in ordered if item[0] in static_blobs]


def verify_assignments(assignments):
    """Raise AssertionError where two blobs of one assignment are needed at the same time."""
    for assignment in assignments:
        for (name, before), (next_name, after) in itertools.pairwise(assignment):
            if before.used >= after.defined:
                raise AssertionError(f"{next_name} is written before {name} was used last")


# --- applying them ---------------------------------------------------------------------------------------------------

Optimization = collections.namedtuple("Optimization", ["net", "assignments", "blob_assignments"])


def apply_assignments(net, blob_assignments):
    """Rename blobs of a NetDef, in place."""

    def canonical_name(blob):
        return blob_assignments.get(blob, blob)

    for op in net.op:
        record = registry.get(op.type)
        if record is not None and record.step_nets:
            apply_recurrent_blob_assignments(op, blob_assignments, canonical_name)
        op.input[:] = [canonical_name(blob) for blob in op.input]
        op.output[:] = [canonical_name(blob) for blob in op.output]


def apply_recurrent_blob_assignments(op, blob_assignments, canonical_name):
    """Rename blobs in the step nets of a RecurrentNetwork operator; it records the renaming in arguments."""
    for argument in op.arg:
        if argument.name in ("step_net", "backward_step_net"):
            for step_op in argument.n.op:
                apply_recurrent_blob_assignments(step_op, blob_assignments, canonical_name)
                step_op.input[:] = [canonical_name(blob) for blob in step_op.input]
                step_op.output[:] = [canonical_name(blob) for blob in step_op.output]
            for blobs in (argument.n.external_input, argument.n.external_output):
                blobs[:] = [canonical_name(blob) for blob in blobs]
    for blob in blob_assignments:
        if blob in op.input or blob in op.output:
            op.arg.add(name=blob + ".rename", s=str(canonical_name(blob)).encode("utf-8"))


def optimize_inference_fast(net, static_blobs):
    """Return a NetDef that runs in order, in which all blobs but `static_blobs` share storage where they can."""
    optimized = caffe2_pb2.NetDef()
    optimized.ParseFromString(
        C.memonger_optimize_inference_net(net.SerializeToString(), [str(blob).encode("utf-8") for blob in static_blobs])
    )
    return optimized


def optimize_interference(
    net, static_blobs, ordering_function=topological_sort_traversal, blob_sizes=None, algo=AssignmentAlgorithm.GREEDY
):
    """Return an Optimization of a NetDef: operators in the order of `ordering_function`, blobs shared by `algo`.

    It is only safe for nets that run in order. `blob_sizes` (bytes, see collect_blob_sizes) make it better.
    """
    net = copy.deepcopy(net)
    ordered = [copy.deepcopy(net.op[i]) for i in ordering_function(compute_interference_graph(net.op))]
    del net.op[:]
    net.op.extend(ordered)
    assignments = compute_assignments(compute_ranges(ordered, blob_sizes), static_blobs, algo)
    blob_assignments = compute_blob_assignments(assignments)
    apply_assignments(net, blob_assignments)
    return Optimization(net=net, assignments=assignments, blob_assignments=blob_assignments)


# --- checks and statistics -------------------------------------------------------------------------------------------


def verify_inplace_blobs(net_a, net_b):
    """Return whether the operators of two NetDefs work in place on the same operands."""

    def inplaces(op):
        outputs = list(op.output)
        return [(i, outputs.index(blob)) for i, blob in enumerate(op.input) if blob in outputs]

    return all(a.type == b.type and inplaces(a) == inplaces(b) for a, b in zip(net_a.op, net_b.op))


def verify_graph_equality(net_a, net_b):
    """Return whether two NetDefs are the same operators, each reading what the same operators wrote."""

    def parents(ops):
        writer, found = {}, []
        for i, op in enumerate(ops):
            found.append([writer[blob] for blob in op.input if blob in writer])
            writer.update(dict.fromkeys(op.output, i))
        return found

    def kind(op):
        return op.type, op.engine, op.device_option.SerializeToString(deterministic=True)

    return [kind(op) for op in net_a.op] == [kind(op) for op in net_b.op] and parents(net_a.op) == parents(net_b.op)


Statistics = collections.namedtuple("Statistics", ["baseline_nbytes", "optimized_nbytes"])


def blob_nbytes(blob):
    """Return the bytes of a blob of the workspace; 0 where it cannot be fetched."""
    try:
        return workspace.FetchBlob(blob).nbytes
    except Exception:  # of any kind: missing, not a tensor
        log.warning("Error when fetching blob %s", blob)
        return 0


def compute_statistics(assignments):
    """Return the bytes of the workspace's blobs without and with the assignments."""
    sizes = [[blob_nbytes(blob) for blob, _ in assignment] for assignment in assignments]
    return Statistics(baseline_nbytes=sum(map(sum, sizes)), optimized_nbytes=sum(map(max, sizes)))


def collect_blob_sizes(net):
    """Return {blob: bytes} of the blobs of a NetDef, as they are in the workspace."""
    return {blob: blob_nbytes(blob) for op in net.op for blob in (*op.input, *op.output)}
