"""Versions of blobs in a net (SSA), and copies of nets with blobs renamed."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._core.net import Net
from caffe2lite.python._core.operators import BlobReference


def get_ssa(net, blob_versions=None):
    """([(inputs, outputs) per operator], {blob: last version}); inputs and outputs are (blob, version) pairs."""
    proto = net.Proto() if isinstance(net, Net) else net
    if not isinstance(proto, caffe2_pb2.NetDef):
        raise AssertionError(f"expected a Net or a NetDef, got {net!r}")
    versions = {} if blob_versions is None else blob_versions
    for blob in proto.external_input:
        versions.setdefault(str(blob), 0)
    ssa = []
    for op in proto.op:
        if not proto.external_input:
            for blob in op.input:
                versions.setdefault(blob, 0)
        inputs = [(blob, versions.get(blob, 0)) for blob in op.input]
        for blob in op.output:
            versions[blob] = versions.get(blob, 0) + 1
        ssa.append((inputs, [(blob, versions[blob]) for blob in op.output]))
    return ssa, versions


def get_undefined_blobs(ssa):
    """The blobs that are read before anything wrote them."""
    return {blob for inputs, _ in ssa for blob, version in inputs if version == 0}


def get_output_producers(ssa):
    """{(blob, version): index of the operator that writes it}."""
    return {versioned: i for i, (_, outputs) in enumerate(ssa) for versioned in outputs}


def get_op_ids_in_path(ssa, blob_versions, inputs, outputs):
    """Indices, ascending, of the operators needed for the last version of `outputs`, given `inputs`."""
    given = {(str(blob), blob_versions[str(blob)]) for blob in inputs}
    producers = get_output_producers(ssa)
    pending = [(str(blob), blob_versions[str(blob)]) for blob in outputs]
    used = set()
    while pending:
        versioned = pending.pop()
        producer = producers.get(versioned)
        if versioned in given or producer is None or producer in used:
            continue
        used.add(producer)
        pending.extend(ssa[producer][0])
    return sorted(used)


# --- names in arguments ----------------------------------------------------------------------------------------------


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


DEFAULT_REMAP_FUNCS = {
    "RecurrentNetwork": recurrent_network_op_remap,
    "RecurrentNetworkGradient": recurrent_network_op_remap,
    "If": control_op_remap,
    "While": control_op_remap,
    "AsyncIf": control_op_remap,
}


# --- clones ----------------------------------------------------------------------------------------------------------


def clone_net(net, name, blob_remap, op_id_mask, remap_funcs, keep_schema, update_external_list):
    """Net.Clone."""
    source = net._net
    names = {str(old): str(new) for old, new in (blob_remap or {}).items()}
    functions = {**DEFAULT_REMAP_FUNCS, **(remap_funcs or {})}

    def rename_all(blobs):
        if names:
            renamed = [names.get(blob, blob) for blob in blobs]
            del blobs[:]
            blobs.extend(renamed)

    proto = caffe2_pb2.NetDef()
    proto.CopyFrom(source)
    proto.name = name
    if op_id_mask is not None:
        del proto.op[:]
        proto.op.extend([source.op[i] for i in op_id_mask])
    for op in proto.op:
        rename_all(op.input)
        rename_all(op.output)
        if op.type in functions:
            functions[op.type](op, name + "/" if name else "", blob_remap or {})
    rename_all(proto.external_input)
    rename_all(proto.external_output)
    clone = Net(proto, inplace=True)

    if keep_schema:
        clone._input_record = _renamed_record(net._input_record, names, clone)
        clone._output_record = _renamed_record(net._output_record, names, clone)
    clone._attr_dict.update({key: list(values) for key, values in net._attr_dict.items()})
    if update_external_list:
        _recompute_externals(clone)
    return clone


def _renamed_record(record, names, net):
    if not record:
        return None
    from caffe2lite.python import schema

    blobs = [BlobReference(names.get(str(blob), str(blob)), net=net) for blob in record.field_blobs()]
    return schema.from_blob_list(record, blobs)


def _recompute_externals(net):
    proto = net.Proto()
    written, read_inside, needed = {}, set(), []
    for op in proto.op:
        for blob in op.input:
            if blob in written:
                read_inside.add(blob)
            else:
                needed.append(blob)
        written.update(dict.fromkeys(op.output))
    del proto.external_input[:]
    proto.external_input.extend(needed)
    del proto.external_output[:]
    proto.external_output.extend([blob for blob in written if blob not in read_inside])


def clone_partial(net, name, inputs, outputs, remap_funcs):
    """Net.ClonePartial."""
    pairs = isinstance(inputs, list) and all(isinstance(i, tuple) and len(i) == 2 for i in inputs)
    given = dict(inputs) if pairs or isinstance(inputs, dict) else dict(zip(inputs, inputs))
    input_names = {str(old): str(new) for old, new in given.items()}
    for blob in outputs:
        if not net.BlobIsDefined(blob):
            raise AssertionError(f"{blob} is not defined")

    ssa, versions = get_ssa(net._net, dict.fromkeys(input_names, 0))
    used = get_op_ids_in_path(ssa, versions, input_names, outputs)
    producing = get_op_ids_in_path(ssa, versions, [], input_names)
    if set(used) & set(producing):
        raise AssertionError("Cannot partially clone net: some of the ops required would generate the given input.")
    sub_ssa = [ssa[i] for i in used]
    undefined = get_undefined_blobs(sub_ssa) - input_names.keys()
    prefix = name + "/" if name else ""
    mapping = {blob: input_names.get(blob, blob if blob in undefined else prefix + blob) for blob in versions}
    clone = net.Clone(name, mapping, used, remap_funcs)
    read = dict.fromkeys(blob for blobs, _ in sub_ssa for blob, _ in blobs)
    new_outputs = [mapping[str(blob)] for blob in outputs]
    proto = clone.Proto()
    del proto.external_input[:]
    proto.external_input.extend([mapping[blob] for blob in input_names] + [blob for blob in read if blob in undefined])
    del proto.external_output[:]
    proto.external_output.extend(new_outputs)
    return clone, [clone.GetBlobRef(blob) for blob in new_outputs]


def clone_and_bind_net(net, name, prefix, blob_remap=None, inputs=None, keep_schema=True):
    """A clone with `prefix` before the blobs it computes, its input record bound to the blobs of `inputs`.

    Returns (net, {blob: new name}).
    """
    if not isinstance(net, Net):
        raise AssertionError(f"Must be a core.Net, got {net!r}")
    blob_remap = blob_remap or {}
    if inputs is not None:
        from caffe2lite.python.schema import Field

        original = net.input_record()
        if not isinstance(inputs, Field) or original is None:
            raise AssertionError("inputs is a schema record, for a net that has an input record")
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
