"""Nets as graphs that TensorBoard draws: a node for each operator and for each version of a blob."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

from tensorboard.compat.proto.graph_pb2 import GraphDef

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, workspace

_GRADIENTS = "GRADIENTS/"


class _Names:
    """Names that do not collide: a second `x` is x_1."""

    def __init__(self, used=()):
        self._used = set(used)

    def take(self, name):
        new, i = name, 0
        while new in self._used:
            i += 1
            new = f"{name}_{i}"
        self._used.add(new)
        return new


def _blobs(ops) -> Iterator[str]:
    for op in ops:
        yield from op.input
        yield from op.output


def _get_blob_names(ops):
    """Return {name in the graph: name in the net}, before anything is renamed."""
    return {name: name for name in _blobs(ops)}


def _rename_all(shapes, blob_name_tracker, ops, rename):
    """Rename blobs, and operators' names, everywhere."""
    names, renamed = _Names(), {}
    for name in _blobs(ops):
        if name not in renamed:
            renamed[name] = names.take(rename(name))
    for op in ops:
        op.input[:] = [renamed[name] for name in op.input]
        op.output[:] = [renamed[name] for name in op.output]
        if op.name:
            op.name = rename(op.name)
    for table in (shapes, blob_name_tracker):
        moved = {renamed.get(name, name): value for name, value in table.items()}
        table.clear()
        table.update(moved)


def _replace_colons(shapes, blob_name_tracker, ops, repl):
    """`x:0` means an output of a node to TensorBoard."""
    _rename_all(shapes, blob_name_tracker, ops, lambda name: name.replace(":", repl))


def _add_gradient_scope(shapes, blob_name_tracker, ops):
    """Put what has to do with gradients under one name."""
    _rename_all(shapes, blob_name_tracker, ops, lambda name: _GRADIENTS + name if "_grad" in name else name)


def _convert_to_ssa(shapes, blob_name_tracker, ops):
    """Give each version of a blob that is written again a name of its own."""
    names, current, known = _Names(), {}, dict(shapes)
    origin = dict(blob_name_tracker)
    shapes.clear()
    blob_name_tracker.clear()

    def version(name):
        current[name] = new = names.take(name)
        if name in known:
            shapes[new] = known[name]
        blob_name_tracker[new] = origin.get(name, name)
        return new

    for op in ops:
        op.input[:] = [current[name] if name in current else version(name) for name in op.input]
        op.output[:] = [version(name) for name in op.output]


def _fill_missing_operator_names(ops):
    """Name operators after their type, under what the scopes of their outputs have in common."""
    names = _Names(_blobs(ops))
    for op in ops:
        scope = os.path.commonprefix([os.path.dirname(name) for name in op.output])  # noqa: RUF071 - as in Caffe2
        op.name = names.take(op.name or (f"{scope}/{op.type}" if scope else op.type))


def _device(option):
    if option.device_type == caffe2_pb2.CPU:
        return "/cpu:*"
    if option.device_type == caffe2_pb2.CUDA:
        return f"/gpu:{option.device_id}"
    raise ValueError(f"Unhandled device type {option.device_type}")


def _attributes(node, op, shapes):
    if op.output and all(name in shapes for name in op.output):
        for name in op.output:
            shape = node.attr["_output_shapes"].list.shape.add()
            for size in shapes[name]:
                shape.dim.add(size=size)
    for argument in op.arg:
        if argument.name == "shape" and "_output_shapes" in node.attr:
            continue
        value = node.attr[argument.name]
        if argument.HasField("f"):
            value.f = argument.f
        elif argument.HasField("i"):
            value.i = argument.i
        elif argument.HasField("s"):
            value.s = argument.s
        elif argument.floats:
            value.list.f.extend(argument.floats)
        elif argument.ints:
            value.list.i.extend(argument.ints)
        elif argument.strings:
            value.list.s.extend(argument.strings)


def _shapes_from_fills(ops):
    """Fill operators say the shape of what they make; it becomes the node's."""
    shapes = {}
    for op in ops:
        for argument in op.arg:
            if argument.name == "shape" and len(op.output) == 1 and not op.input:
                shapes[op.output[0]] = list(argument.ints)
    return shapes


def ops_to_graph_def(
    ops,
    shapes=None,
    replace_colons="$",
    with_ssa=True,
    with_gradient_scope=True,
    track_blob_names=None,
    show_simplified=False,
    custom_rename=None,
):
    """Return a GraphDef of operators; the operators are not changed.

    shapes    {blob: shape} to show
    track_blob_names    a dict that gets {name in the graph: name in the net}
    custom_rename    a function of the names of blobs
    show_simplified    leave the nodes of blobs out
    """
    ops = [copy.deepcopy(op) for op in ops]
    shapes = {**_shapes_from_fills(ops), **(shapes or {})}
    names = _get_blob_names(ops)
    _replace_colons(shapes, names, ops, replace_colons)
    if custom_rename:
        _rename_all(shapes, names, ops, custom_rename)
    if with_ssa:
        _convert_to_ssa(shapes, names, ops)
    if with_gradient_scope:
        _add_gradient_scope(shapes, names, ops)
    _fill_missing_operator_names(ops)
    if track_blob_names is not None:
        track_blob_names.clear()
        track_blob_names.update(names)

    graph, producers = GraphDef(), {}
    for op in ops:
        node = graph.node.add(name=op.name, op=op.type, device=_device(op.device_option))
        node.input.extend(op.input)
        _attributes(node, op, shapes)
        for i, name in enumerate(op.output):
            producers.setdefault(name, []).append((f"{op.name}:{i}", node.device))
    if show_simplified:
        first = {name: made[0][0].rpartition(":")[0] for name, made in producers.items()}
        for node in graph.node:
            node.input[:] = [first.get(name, name) for name in node.input]
        return graph
    for name in dict.fromkeys(_blobs(ops)):
        if name in producers:
            node = graph.node.add(name=name, op="Blob", device=producers[name][0][1])
            node.input.extend(where for where, _ in producers[name])
        else:
            graph.node.add(name=name, op="Placeholder")
    return graph


def _try_get_shapes(nets):
    try:
        shapes, _ = workspace.InferShapesAndTypes(nets)
    except RuntimeError:
        return {}
    return shapes


def nets_to_graph_def(nets, shapes=None, **kwargs):
    """Return a GraphDef of the operators of nets (core.Net), one net after the other."""
    nets = [core.Net(net.Proto()) for net in nets]
    shapes = _try_get_shapes(nets) if shapes is None else shapes
    return ops_to_graph_def([op for net in nets for op in _placed(net.Proto())], shapes, **kwargs)


def _placed(net):
    """Yield the operators of a net, on the net's device where they name none."""
    for op in net.op:
        if net.HasField("device_option") and not op.HasField("device_option"):
            op = copy.deepcopy(op)
            op.device_option.CopyFrom(net.device_option)
        yield op


def cnn_to_graph_def(cnn, **kwargs):
    """Return a GraphDef of a model's nets."""
    return nets_to_graph_def([cnn.param_init_net, cnn.net], **kwargs)
