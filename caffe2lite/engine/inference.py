"""Shapes, types and devices of a net's blobs, found without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from caffe2lite.engine.instance import check_schema
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments, dtypes, registry
from caffe2lite.ops.kit.infer import UNKNOWN, NotKnown, Shape, Spec
from caffe2lite.proto import caffe2_pb2


def infer_net(
    nets: Iterable[caffe2_pb2.NetDef], known: dict[str, Spec], present: Iterable[str] = ()
) -> dict[str, Spec]:
    """Every blob whose shape follows from the `known` ones through the nets' operators.

    An operator with an input of which nothing was ever heard says nothing: its outputs stay what they were.  Of the
    blobs `present` no more than that they are there is known.
    """
    heard = {*known, *present}
    for net in nets:
        for op in net.op:
            if not heard.issuperset(op.input):
                continue
            heard.update(op.output)
            learn(known, op)
    return known


def learn(known: dict[str, Spec], op: caffe2_pb2.OperatorDef) -> None:
    """Note what is known of an operator's outputs; what was known of them before is forgotten."""
    for name, spec in zip(op.output, infer_operator(op, known)):
        if spec is UNKNOWN:
            known.pop(name, None)
        else:
            known[name] = spec


def infer_operator(op: caffe2_pb2.OperatorDef, known: Mapping[str, Spec]) -> list[Spec]:
    """A Spec for each output of an operator, UNKNOWN for those that cannot be told, as where it would refuse to run."""
    record = registry.get(op.type)
    inputs = [known.get(name, UNKNOWN) for name in op.input]
    outputs: list[Spec] = [UNKNOWN] * len(op.output)
    if record is None:
        return outputs
    for i, o in record.enforced:  # what is written in place keeps its shape
        if i < len(inputs) and o < len(outputs):
            outputs[o] = _without_values(inputs[i])
    try:
        check_schema(record, op)
        made = inferred(record, op, inputs)
    except (NotKnown, ValueError):
        return outputs
    return [*made, *outputs[len(made) :]][: len(outputs)]


def inferred(record: registry.Operator, op: caffe2_pb2.OperatorDef, inputs: Iterable[Spec]) -> Sequence[Spec]:
    """What the operator's own inference says of the outputs of an operator that fits its schema.

    NotKnown where it needs to know more, ValueError where the operator would refuse such inputs or arguments.
    """
    if record.infer is None:
        raise NotKnown
    asked = [_asked(spec) for spec in inputs]
    made = record.infer(arguments_of(op, record), asked)
    return [_without_values(spec) if any(spec is i for i in asked) else spec for spec in made]


def _asked(spec: Spec) -> Spec:
    return spec if spec is UNKNOWN else spec._replace(shape=Shape(spec.shape))


def _without_values(spec: Spec) -> Spec:
    """Of an output that is like an input: its values are others."""
    return spec if spec is UNKNOWN else spec._replace(values=None)


def arguments_of(op: caffe2_pb2.OperatorDef, record: registry.Operator) -> dict[str, Any]:
    """The arguments as inference functions take them."""
    parsed = arguments.parse(op.type, record.args, op.arg, limited=False)
    values = {a.name: a.default for a in record.args.values() if a.default is not arguments.REQUIRED}
    return {**values, **parsed, "#outputs": len(op.output), "#given": list(parsed)}


def workspace_specs(workspace: Workspace) -> dict[str, Spec]:
    """What the tensors of a workspace are."""
    specs = {}
    for name in workspace.names():
        blob = workspace.get_blob(name)
        if blob is not None and blob.storage is not None:
            kind = "object" if blob.value.dtype == object else blob.value.dtype.name
            specs[name] = Spec(tuple(blob.value.shape), kind)
    return specs


def to_shapes(nets: Iterable[caffe2_pb2.NetDef], known: Mapping[str, Spec]) -> caffe2_pb2.TensorShapes:
    """A TensorShapes message for all blobs of the nets and all that is known besides."""
    names = dict.fromkeys(known)
    for net in nets:
        for op in net.op:
            names.update(dict.fromkeys([*op.input, *op.output]))
    message = caffe2_pb2.TensorShapes()
    for name in names:
        shape = message.shapes.add(name=name)
        spec = known.get(name)
        if spec is None:
            shape.unknown_shape = True
        else:
            shape.dims.extend(spec.shape)
            shape.data_type = dtypes.NUMBERS.get(spec.dtype or "", caffe2_pb2.TensorProto.UNDEFINED)
    return message


def spec_of(shape: caffe2_pb2.TensorShape) -> Spec:
    """The Spec of a TensorShape message."""
    kind = dtypes.NUMPY.get(shape.data_type)
    return Spec(tuple(shape.dims), None if kind is None else kind.name)


def operator_cost_of(op: caffe2_pb2.OperatorDef, known: Mapping[str, Spec]) -> tuple[int, int, int] | None:
    """As operator_cost, from the shapes that are known; None where they do not suffice, or there is no model of the cost."""
    record = registry.get(op.type)
    if record is None or record.cost is None:
        return None
    try:
        return _cost(record.cost, record, op, known)
    except (NotKnown, ValueError):
        return None


def operator_cost(op: caffe2_pb2.OperatorDef, workspace: Workspace) -> tuple[int, int, int]:
    """(FLOPs, bytes read and written, bytes of parameters) of an operator on the workspace's present blobs."""
    record = registry.find(op.type)
    if record.cost is None:
        raise ValueError(f"the cost of {op.type} is not known")
    known = workspace_specs(workspace)
    missing = [name for name in op.input if name not in known]
    if missing:
        raise ValueError(f"the cost of {op.type} depends on the shape of {missing[0]!r}, which holds no tensor")
    return _cost(record.cost, record, op, known)


def _cost(
    cost: Callable[..., tuple[int, int, int]],
    record: registry.Operator,
    op: caffe2_pb2.OperatorDef,
    known: Mapping[str, Spec],
) -> tuple[int, int, int]:
    check_schema(record, op)
    return cost(arguments_of(op, record), [_asked(known.get(name, UNKNOWN)) for name in op.input])


def operand_devices(op: caffe2_pb2.OperatorDef) -> tuple[list[Any], list[Any]]:
    """The DeviceOption of each input and output of an operator."""
    record = registry.get(op.type)
    host = caffe2_pb2.DeviceOption()

    def option(names: tuple[str, ...], i: int) -> Any:
        name = names[min(i, len(names) - 1)] if names else ""
        return host if record is not None and name in record.host else op.device_option

    inputs = record.inputs if record is not None else ()
    outputs = record.outputs if record is not None else ()
    return [option(inputs, i) for i in range(len(op.input))], [option(outputs, i) for i in range(len(op.output))]


__all__ = [
    "arguments_of",
    "infer_net",
    "infer_operator",
    "inferred",
    "learn",
    "operand_devices",
    "operator_cost",
    "operator_cost_of",
    "spec_of",
    "to_shapes",
    "workspace_specs",
]
