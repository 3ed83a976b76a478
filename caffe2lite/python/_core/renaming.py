"""Copies of NetDefs with blobs renamed."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2

# operator type -> function (op, prefix, blob_remap) that renames the blobs which its arguments mention; see cloning
DEFAULT_REMAP_FUNCS = {}


def renamed_copy(source, name, blob_remap=None, op_id_mask=None, remap_funcs=None):
    """Return a copy of a NetDef called `name`, with only the operators of `op_id_mask`; see Net.Clone."""
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
    return proto


def recompute_externals(proto):
    """Set external inputs and outputs to what the operators read from outside, and write without reading it."""
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
