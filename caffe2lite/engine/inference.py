"""Shapes, types and devices of a net's blobs, found without running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from caffe2lite.engine.serialize import DATA_TYPES, NUMPY_TYPES, data_type
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import arguments, registry
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2


def infer_net(nets: Iterable[Any], known: dict[str, Spec], present: Iterable[str] = ()) -> dict[str, Spec]:
    """Every blob whose shape follows from the `known` ones through the nets' operators.

    An operator with an input of which nothing was ever heard says nothing: its outputs stay what they were.  Of the
    blobs `present` no more than that they are there is known.
    """
    heard = {*known, *present}
    joined: dict[str, list[Spec | None]] = {}  # what Concat put together, by the blob of the sizes
    for net in nets:
        for op in net.op:
            if not heard.issuperset(op.input):
                continue
            heard.update(op.output)
            if op.type == "Concat" and len(op.output) > 1:
                joined[op.output[1]] = [known.get(name) for name in op.input]
            if op.type == "Split" and op.is_gradient_op and len(op.input) > 1 and op.input[1] in joined:
                specs = joined[op.input[1]]
            else:
                specs = infer_operator(op, known)
            for name, spec in zip(op.output, specs):
                if spec is not None:
                    known[name] = spec
                else:
                    known.pop(name, None)
    return known


def infer_operator(op: Any, known: Mapping[str, Spec]) -> list[Spec | None]:
    """A Spec for each output of an operator, None for those that cannot be known."""
    nothing: list[Spec | None] = [None] * len(op.output)
    record = registry.get(op.type)
    if record is None:
        return nothing
    inputs = [known.get(name) for name in op.input]
    for i, o in record.enforced:  # what is written in place stays as it is
        if i < len(op.input) and o < len(op.output):
            nothing[o] = inputs[i]
    if record.infer is None:
        return nothing
    try:
        specs = list(record.infer(arguments_of(op, record), inputs))
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError, AttributeError):
        return nothing  # an input is not known, or the operator would refuse to run
    return (specs + nothing[len(specs) :])[: len(op.output)]


def arguments_of(op: Any, record: registry.Operator) -> dict[str, Any]:
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


def to_shapes(nets: Iterable[Any], known: Mapping[str, Spec]) -> Any:
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
            shape.data_type = DATA_TYPES.get(spec.dtype or "", caffe2_pb2.TensorProto.UNDEFINED)
    return message


def spec_of(shape: Any) -> Spec:
    """The Spec of a TensorShape message."""
    kind = NUMPY_TYPES.get(shape.data_type)
    return Spec(tuple(shape.dims), None if kind is None else kind.name)


def operator_cost_of(op: Any, known: Mapping[str, Spec]) -> tuple[int, int, int] | None:
    """As operator_cost, from the shapes that are known; None where the operator has no model of its cost."""
    record = registry.get(op.type)
    if record is None or record.cost is None or any(name not in known for name in op.input):
        return None
    try:
        return record.cost(arguments_of(op, record), [known[name] for name in op.input])
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError):
        return None  # an operator that would refuse to run


def operator_cost(op: Any, workspace: Workspace) -> tuple[int, int, int]:
    """(FLOPs, bytes read and written, bytes of parameters) of an operator on the workspace's present blobs."""
    record = registry.find(op.type)
    if record.cost is None:
        raise ValueError(f"the cost of {op.type} is not known")
    specs = workspace_specs(workspace)
    return record.cost(arguments_of(op, record), [specs[name] for name in op.input])


def operand_devices(op: Any) -> tuple[list[Any], list[Any]]:
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
    "data_type",
    "infer_net",
    "infer_operator",
    "operand_devices",
    "operator_cost",
    "operator_cost_of",
    "spec_of",
    "to_shapes",
    "workspace_specs",
]
