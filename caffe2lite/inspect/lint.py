"""Problems of a net that would bite when it runs.  Each has a code, by which it can be silenced."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from caffe2lite.engine.dependencies import blobs_of
from caffe2lite.engine.inference import infer_net, learn
from caffe2lite.engine.instance import check_schema
from caffe2lite.inspect import hazards, shards, side_by_side
from caffe2lite.inspect.clashes import clash_of
from caffe2lite.inspect.gradients import holes
from caffe2lite.inspect.summary import places, weights
from caffe2lite.inspect.sync import sync_of
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2

CODES = {
    "C001": "unknown operator",
    "C002": "wrong number of inputs or outputs, or in place where it is not allowed",
    "C003": "unknown or wrong argument",
    "C004": "an input that nothing makes",
    "C005": "an output that nothing uses and the net does not declare",
    "C006": "an output that is overwritten before anybody used it",
    "C007": "a blob used on another device without a copy",
    "C008": "shapes that clash",
    "C009": "a parameter that does not reach every device",
    "C010": "shards whose collectives do not match",
    "C011": "two names of one storage, in an order that the net's type does not keep",
    "C012": "a blob that steps use side by side",
    "C013": "a weight that a training net does not train",
    "C014": "an order that only a queue or a common world decides",
    "C015": "a missing gradient",
}
_FREE = {  # what Caffe2's own Python gives to operators that have no use for it
    "engine", "order", "is_test", "use_cudnn", "exhaustive_search", "cudnn_exhaustive_search", "ws_nbytes_limit", "init_params",
    "values", "freeze_bias", "use_grad_hack", "only_loss", "dense_gradient",
}  # fmt: skip


class Problem(NamedTuple):
    """A finding: operator position (None: the whole net), the blob in question, what is wrong, and what to do."""

    code: str
    operator: int | None
    blob: str
    message: str
    remedy: str


def lint(
    net: caffe2_pb2.NetDef, shapes: Mapping[str, Spec] | None = None, silence: Collection[str] = ()
) -> list[Problem]:
    """Return the problems of a NetDef.  `shapes` of its inputs let clashes of shapes be found."""
    found = [p for check in (_operators, _within, _flow, _placement, _coverage, _training) for p in check(net)]
    found += _clashes(net, dict(shapes or {}))
    found += [Problem("C011", *hazard) for hazard in hazards.of_net(net)]
    found += [Problem("C014", *hazard) for hazard in hazards.unordered(net)]
    missing = [Problem("C015", *hole) for hole in holes(net)]
    said = {p.blob for p in missing}
    found = [p for p in found if p.code not in ("C004", "C013") or p.blob not in said] + missing
    kept = [p for p in found if p.code not in silence]
    return sorted(kept, key=lambda p: (-1 if p.operator is None else p.operator, p.code))


def _operators(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    for position, op in enumerate(net.op):
        record = registry.get(op.type)
        if record is not None and "user_code" in record.traits:
            message = f"{op.type} calls a function of the process that built the net, which is in no file"
            yield Problem(
                "C001", position, "", message, "add the operator where the net is used, by net.Python(function)"
            )
            continue
        if record is None:
            close = difflib.get_close_matches(op.type, registry.names(), 3)
            hint = f"did you mean {' or '.join(close)}?" if close else "it may come from a library of your own"
            yield Problem("C001", position, "", f"there is no operator {op.type}", hint)
            continue
        try:
            check_schema(record, op)
        except ValueError as e:
            yield Problem("C002", position, "", str(e), "correct the inputs and outputs")
        try:
            arguments.parse(op.type, record.args, op.arg)
        except ValueError as e:
            yield Problem("C003", position, "", str(e), "give the argument the type that the operator takes")
        backward = registry.get(f"{op.type}Gradient")
        for arg in op.arg:
            if arg.name in record.args or arg.name in _FREE or _inherited(op):
                continue
            if backward is not None and arg.name in backward.args:
                continue  # the gradient operator gets all arguments
            close = difflib.get_close_matches(arg.name, record.args, 1)
            if record.stateful and not close:
                continue  # it may read its message itself
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(record.args) or 'none'}"
            yield Problem("C003", position, "", f"{op.type} has no argument {arg.name!r}, and ignores it", hint)


def _within(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    """Yield the operators of nets that are arguments, as the branches of If and the steps of a RecurrentNetwork."""
    for position, op in enumerate(net.op):
        for arg in op.arg:
            for inner in arguments.nets_in(arg):
                for p in (*_operators(inner), *_within(inner)):
                    message = f"in {arg.name} of {op.type}, operator {p.operator}: {p.message}"
                    yield p._replace(operator=position, message=message)


def _inherited(op: caffe2_pb2.OperatorDef) -> bool:
    """Return whether it has arguments that are another operator's: gradient operators get all of the forward one's."""
    return op.is_gradient_op or "Gradient" in op.type


def _flow(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    declared, wanted = set(net.external_input), set(net.external_output)
    made: dict[str, int] = {}
    useful: set[int] = set()  # operators of which something was used
    if not declared:  # then any blob of the workspace may be an input, but hardly one that the net itself makes
        declared = {name for op in net.op for name in op.input} - {name for op in net.op for name in op.output}
    for position, op in enumerate(net.op):
        for name in op.input:
            if name in made:
                useful.add(made[name])
            elif name not in declared:
                declared.add(name)
                message = f"{op.type} takes blob {name!r}, which no operator before it makes"
                yield Problem(
                    "C004", position, name, message, "declare it as external input, or make it before this operator"
                )
        for name in op.output:
            lost = name in made and made[name] not in useful
            if lost and not _provisional(net.op[made[name]]) and not _synchronizes(op):
                message = f"{op.type} overwrites blob {name!r}, which operator {made[name]} made and nobody used"
                yield Problem("C006", position, name, message, "remove the operator that made it, or rename a blob")
        made.update((name, position) for name in op.output)
    if wanted:
        for name, position in made.items():
            op = net.op[position]
            unused = position not in useful and not op.is_gradient_op and not name.startswith("_")
            if unused and wanted.isdisjoint(op.output) and set(op.input).isdisjoint(op.output):
                message = f"nothing uses blob {name!r} of {op.type}, and it is no external output"
                yield Problem("C005", position, name, message, "declare it as external output, or remove the operator")


def _provisional(op: caffe2_pb2.OperatorDef) -> bool:
    """Return whether it makes what the nets of Caffe2 themselves overwrite: first values, and copies of them to devices."""
    return not op.input or not registry.traits(op.type).isdisjoint(("fill", "copy"))


def _synchronizes(op: caffe2_pb2.OperatorDef) -> bool:
    """Return whether it gives a device the first device's value of the same blob."""
    plain = [name.partition("/")[2] for name in (*op.input[:1], *op.output[:1])]
    return op.type == "Copy" and len(plain) == 2 and plain[0] == plain[1] != ""


def _placement(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    place: dict[str, str] = {}
    here_of = places(net)
    for position, op in enumerate(net.op):
        here = here_of[position]
        record = registry.get(op.type)
        names = record.inputs if record is not None else ()
        for i, name in enumerate(op.input):
            there = place.get(name)
            operand = names[min(i, len(names) - 1)] if names else ""
            free = record is None or operand in record.host or operand in record.anywhere or bool(record.peer)
            if there is None or there == here or free or "common_world" in registry.traits(op.type):
                continue
            message = f"{op.type} on {here} takes blob {name!r}, which is on {there}"
            yield Problem("C007", position, name, message, "copy it first (Copy, CopyCPUToGPU, CopyGPUToCPU)")
        outputs = record.outputs if record is not None else ()
        for i, name in enumerate(op.output):
            operand = outputs[min(i, len(outputs) - 1)] if outputs else ""
            if record is None or operand in record.host:
                place[name] = "cpu"
            elif record.traits.isdisjoint(("collective", "among_gpus")):
                place[name] = here


def _clashes(net: caffe2_pb2.NetDef, known: dict[str, Spec]) -> Iterator[Problem]:
    for position, op in enumerate(net.op):
        clash = clash_of(op, known)
        if clash:
            blob = op.output[0] if op.output else op.input[0]
            yield Problem("C008", position, blob, clash, "check shapes, types and arguments")
        learn(known, op)


def shapes_after(net: caffe2_pb2.NetDef, shapes: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return what is known of the blobs after a net has run, from what was known before; nothing of placeholders."""
    stand_ins = placeholders(net)
    return {name: spec for name, spec in infer_net([net], dict(shapes)).items() if name not in stand_ins}


def placeholders(net: caffe2_pb2.NetDef) -> set[str]:
    """Return the blobs that stand for what is fed later: `mobile_exporter` lets init nets make them, as one 0 of shape 1 x 1."""
    found = set()
    for op in net.op:
        values = [(arg.name, [*arg.ints, *arg.floats]) for arg in op.arg]
        if op.type == "GivenTensorFill" and op.output and sorted(values) == [("shape", [1, 1]), ("values", [0.0])]:
            found.add(str(op.output[0]))
    return found


def _coverage(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    sync = sync_of(net)
    if sync is None or len(sync.devices) < 2:
        return
    reached: dict[str, set[str]] = {}
    for move in sync.moves:
        reached.setdefault(move.parameter, set()).update(b.partition("/")[0] for b in (move.source, *move.targets))
    for parameter, scopes in reached.items():
        absent = [d for d in sync.devices if d not in scopes]
        if absent:
            message = f"parameter {parameter!r} does not reach {', '.join(absent)}"
            yield Problem("C009", None, parameter, message, "copy or broadcast it to every device")
    moved = blobs_of([net])
    for name in net.external_input:
        if name not in moved and name.partition("/")[0] in sync.devices:
            message = f"{name!r} is an input of this net, which moves it nowhere"
            yield Problem("C009", None, name, message, "copy or broadcast it to every device")


def _training(net: caffe2_pb2.NetDef) -> Iterator[Problem]:
    """Yield the weights that nothing updates, in a net that updates others by their gradients."""
    if not any(op.is_gradient_op for op in net.op):
        return
    made = {name for op in net.op for name in op.output}
    held = weights(net)
    if made.isdisjoint(held):
        return
    for name, (position, operand) in held.items():
        if name not in made:
            message = f"{net.op[position].type} takes {name!r} for {operand}, and this net updates other weights, not this one"
            yield Problem("C013", position, name, message, "give it to the optimizer, or silence this if it is frozen")


def lint_plan(plan: caffe2_pb2.PlanDef) -> list[Problem]:
    """Return where the steps of a plan that run side by side share a blob or a common world; its nets are for `lint`."""
    shared = [Problem("C012", *hazard) for hazard in side_by_side.blobs(plan)]
    return shared + [Problem("C014", *hazard) for hazard in side_by_side.worlds(plan)]


def lint_shards(nets: Sequence[caffe2_pb2.NetDef], shapes: Mapping[str, Spec] | None = None) -> list[Problem]:
    """Return where the collectives of shards that run these nets together do not match: a deadlock, or wrong values."""
    return [Problem("C010", *hazard) for hazard in shards.mismatches(nets, shapes or {})]
