"""Where the backward part of a net has a hole: an operator that was not differentiated, a gradient that nothing makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from caffe2lite.engine.errors import OperatorError
from caffe2lite.engine.gradients import gradient_defs
from caffe2lite.inspect.summary import weights
from caffe2lite.ops.kit import registry
from caffe2lite.ops.kit.gradient import NO_GRADIENT
from caffe2lite.proto import caffe2_pb2

_GRADIENT = re.compile(r"(.+?)(?:_autogen)?_grad(?:_.*)?$", re.DOTALL)


class Hole(NamedTuple):
    """The operator where a gradient ends or is wanted, a blob of it, what is wrong, and what to do."""

    position: int
    blob: str
    message: str
    remedy: str


def holes(net: caffe2_pb2.NetDef) -> Iterator[Hole]:
    """Yield the holes of a net that has gradient operators; nothing for any other."""
    backward = [op for op in net.op if op.is_gradient_op]
    if not backward:
        return
    forward = _forward(net)
    made = {name for op in net.op for name in op.output}
    wanted = _wanted(net)
    graded = {source for name in (*made, *wanted) if (source := _source(name))}
    by_input: dict[tuple[str, str], list[Any]] = {}
    for op in backward:
        for name in op.input:
            by_input.setdefault((op.type, name), []).append(op)
    heavy = weights(net)
    taken: set[str] = set()  # blobs whose gradient the operators that take them should give
    live = set(graded)  # blobs, as they are at this point of the net, with a gradient
    for position in reversed(forward):
        op = net.op[position]
        outputs = [f"{name}_grad" if name in live else None for name in op.output]
        live.difference_update(op.output)
        record = registry.get(op.type)
        if record is None or not any(outputs):
            continue
        if record.gradient is NO_GRADIENT:
            if record.traits & {"stops_gradient", "fill"}:
                continue  # that is meant
            lost = sorted(_before(net, forward, position) & heavy.keys() - graded)
            if lost:
                message = f"{op.type} passes no gradient on: before it, {_some(lost, 'get')} none"
                yield Hole(
                    position,
                    op.output[0],
                    message,
                    "use an operator that has a gradient, or StopGradient if it is meant",
                )
            continue
        try:
            needed, given = gradient_defs(op, outputs)
        except OperatorError:
            continue  # it could not have been differentiated like this
        reached = {name for name, gradient in zip(op.input, given) if gradient is not None}
        live.update(
            name
            for name, gradient in zip(op.input, given)
            if gradient is not None and (gradient in outputs or name in graded)
        )
        if needed and not _present(needed[0], op, by_input):
            lost = [name for name in op.input if name in reached & heavy.keys()] or sorted(reached)
            message = f"{op.type} is on the way to a loss, and there is no {needed[0].type} of it: {_some(lost, 'get')} no gradient"
            yield Hole(
                position, lost[0], message, "add the gradient operators anew, after the forward part is complete"
            )
        else:
            taken |= reached
    for name, position in wanted.items():
        source = _source(name)
        if name not in made and source in taken:
            message = f"{net.op[position].type} takes {name!r}, the gradient of {source!r}, which no operator makes"
            yield Hole(position, name, message, "add the gradient operators anew, after the forward part is complete")


def _forward(net: caffe2_pb2.NetDef) -> list[int]:
    """Return the positions of the operators that depend on no gradient, and have gradient operators after them."""
    found = []
    tainted: set[str] = set()
    end = max(position for position, op in enumerate(net.op) if op.is_gradient_op)
    for position, op in enumerate(net.op[:end]):
        if op.is_gradient_op or any(n in tainted for n in op.input) or any(_source(n) for n in (*op.input, *op.output)):
            tainted.update(op.output)
        else:
            found.append(position)
    return found


def _wanted(net: caffe2_pb2.NetDef) -> dict[str, int]:
    """Return {gradient: the first operator that takes it}."""
    found: dict[str, int] = {}
    for position, op in enumerate(net.op):
        for name in op.input:
            if "_grad" in name:
                found.setdefault(name, position)
    return found


def _source(name: str) -> str:
    """Return the blob whose gradient a blob is by its name; "" for what is no gradient."""
    found = _GRADIENT.match(name) if "_grad" in name else None
    return found[1] if found else ""


def _present(
    needed: caffe2_pb2.OperatorDef,
    op: caffe2_pb2.OperatorDef,
    by_input: dict[tuple[str, str], list[caffe2_pb2.OperatorDef]],
) -> bool:
    """Return whether there is a gradient operator that takes from the forward part what this one would."""
    blobs = [name for name in needed.input if name in op.input or name in op.output]
    return not blobs or any(set(blobs) <= set(other.input) for other in by_input.get((needed.type, blobs[0]), ()))


def _before(net: caffe2_pb2.NetDef, forward: list[int], position: int) -> set[str]:
    """Return the blobs that what an operator takes was made from."""
    found = set(net.op[position].input)
    for earlier in reversed(forward):
        if earlier < position and not found.isdisjoint(net.op[earlier].output):
            found.update(net.op[earlier].input)
    return found


def _some(names: list[str], verb: str) -> str:
    """Return the first few names, with a verb."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(map(repr, names[:3]))}{more} {verb}{'s' if len(names) == 1 else ''}"
