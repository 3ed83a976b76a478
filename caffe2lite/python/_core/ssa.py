"""Versions of blobs in a net (SSA: static single assignment)."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2


def get_ssa(net, blob_versions=None):
    """Return ([(inputs, outputs) per operator], {blob: last version}); inputs and outputs are (blob, version) pairs."""
    proto = net.Proto() if hasattr(net, "Proto") else net
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
    """Return the blobs that are read before anything wrote them."""
    return {blob for inputs, _ in ssa for blob, version in inputs if version == 0}


def get_output_producers(ssa):
    """Return {(blob, version): index of the operator that writes it}."""
    return {versioned: i for i, (_, outputs) in enumerate(ssa) for versioned in outputs}


def get_op_ids_in_path(ssa, blob_versions, inputs, outputs):
    """Return indices, ascending, of the operators needed for the last version of `outputs`, given `inputs`."""
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
