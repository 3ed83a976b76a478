"""Blobs that operators name in their arguments, renamed; clones of nets bound to a record."""

from __future__ import annotations

from caffe2lite.python._core.fields import Field
from caffe2lite.python._core.net import Net
from caffe2lite.python._core.renaming import DEFAULT_REMAP_FUNCS
from caffe2lite.python._core.ssa import get_ssa, get_undefined_blobs


def recurrent_network_op_remap(op, prefix, blob_remap):
    """Rename the blobs that a RecurrentNetwork operator mentions in its arguments."""

    def renamed(raw):
        name = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        return str(blob_remap.get(name, name)).encode("utf-8")

    for argument in op.arg:
        if argument.strings:
            argument.strings[:] = [renamed(name) for name in argument.strings]
        elif argument.name == "timestep":
            argument.s = renamed(argument.s)
        elif argument.name.endswith("step_net"):
            remap_proto(argument, blob_remap)


def control_op_remap(op, prefix, blob_remap):
    """Rename the blobs in the subnets of If, AsyncIf and While."""
    subnets = ("then_net", "else_net") if op.type in ("If", "AsyncIf") else ("loop_net", "cond_net")
    for argument in op.arg:
        if argument.name in subnets:
            _remap_subnet(argument, argument.n.name + "_remapped", blob_remap)


def remap_proto(argument, blob_remap):
    """Rename the blobs in the net that an argument carries."""
    _remap_subnet(argument, argument.n.name, blob_remap)


def _remap_subnet(argument, name, blob_remap):
    argument.n.CopyFrom(Net(argument.n).Clone(name=name, blob_remap=blob_remap).Proto())


DEFAULT_REMAP_FUNCS.update(
    {
        "RecurrentNetwork": recurrent_network_op_remap,
        "RecurrentNetworkGradient": recurrent_network_op_remap,
        "If": control_op_remap,
        "While": control_op_remap,
        "AsyncIf": control_op_remap,
    }
)


def clone_and_bind_net(net, name, prefix, blob_remap=None, inputs=None, keep_schema=True):
    """Return a clone with `prefix` before the blobs it computes, its input record bound to the blobs of `inputs`.

    Return (net, {blob: new name}).
    """
    if not isinstance(net, Net):
        raise AssertionError(f"Must be a core.Net, got {net!r}")
    blob_remap = blob_remap or {}
    if inputs is not None:
        original = net.input_record()
        if not isinstance(inputs, Field) or original is None:
            raise AssertionError(
                f"inputs is a schema record, for a net that has an input record; got {inputs!r} for {original!r}"
            )
        if set(original.field_names()) != set(inputs.field_names()):
            raise AssertionError(
                f"The fields of inputs {inputs.field_names()} are not those of the net: {original.field_names()}"
            )
        originals = dict(zip(original.field_names(), original.field_blobs()))
        for field, blob in zip(inputs.field_names(), inputs.field_blobs()):
            blob_remap[str(originals[field])] = str(blob)
    ssa, versions = get_ssa(net._net)
    undefined = get_undefined_blobs(ssa)
    for blob in versions:
        if blob not in blob_remap:
            blob_remap[blob] = blob if blob in undefined else prefix + blob
    clone = net.Clone(name, blob_remap, keep_schema=keep_schema)
    if not keep_schema and inputs is not None:
        clone.set_input_record(inputs)
    return clone, blob_remap
