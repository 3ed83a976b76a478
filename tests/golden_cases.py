"""Recorded cases of the genuine engine: operators with their inputs and outputs, and gradient makers.

tests/golden/*/TYPE.zip holds case_NNN/ with op.pb, in_K.blob, out_K.blob (BlobProto) and meta.json; gradient cases have
g_output.json, grads/K.pb and g_input.json.  A case with an `engine_error` is one that genuine refuses.
"""

import functools
import json
import pathlib
import zipfile

import numpy as np

from caffe2lite.engine import python_op, runner, serialize  # noqa: F401 - registers Python operators
from caffe2lite.engine.blob import Blob
from caffe2lite.engine.gradients import gradient_defs
from caffe2lite.engine.workspace import Workspace
from caffe2lite.ops.kit import registry
from caffe2lite.ops.sparse.indices import Map
from caffe2lite.proto import caffe2_pb2

GOLDEN = pathlib.Path(__file__).parent / "golden"
# Caffe2 has these for the CPU only: decoders, Int8 tensors; nets within If and While that say CPU themselves.
HOST_ONLY = {"AtomicAppend", "CTCBeamSearchDecoder", "CTCGreedyDecoder", "Int8FCPackWeight", "Int8Quantize", "Int8RoIAlign",
             "If", "While"}  # fmt: skip


@functools.cache
def exceptions():
    """{"TYPE/case_NNN": why this case differs here}."""
    table = {}
    for line in (GOLDEN / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split(None, 1)
            table[name] = reason
    return table


def types(part):
    """Operator types that have cases in a part of the recordings."""
    return sorted(p.stem for p in (GOLDEN / part).glob("*.zip"))


def cases(part, kind):
    """(name, {file: bytes}) of every case of a type."""
    for name, files in cases_of(GOLDEN / part / f"{kind}.zip"):
        if f"{kind}/{name}" not in exceptions():
            yield name, files


def cases_of(path):
    """(name, {file: bytes}) of every case in a zip."""
    with zipfile.ZipFile(path) as z:
        files = {}
        for entry in z.namelist():
            name, _, file = entry.partition("/")
            files.setdefault(name, {})[file] = z.read(entry)
    yield from sorted(files.items())


def load(files, gpu=False, device_id=0):
    """(workspace with the inputs, OperatorDef) of a case, on an (emulated) GPU where asked."""
    op = caffe2_pb2.OperatorDef.FromString(files["op.pb"])
    record = registry.get(op.type)
    workspace = Workspace()
    if gpu:
        op.device_option.device_type, op.device_option.device_id = caffe2_pb2.CUDA, device_id
    for k, name in enumerate(op.input):
        content = files.get(f"in_{k}.blob")
        if content is None or workspace.get_blob(name) is not None:
            continue
        if gpu:
            operand = record.inputs[min(k, len(record.inputs) - 1)] if record.inputs else ""
            proto = caffe2_pb2.BlobProto.FromString(content)
            strings = proto.tensor.data_type == caffe2_pb2.TensorProto.STRING
            if proto.type == "Tensor" and not strings and operand not in record.host:
                proto.tensor.device_detail.device_type = caffe2_pb2.CUDA
                proto.tensor.device_detail.device_id = device_id
            content = proto.SerializeToString()
        serialize.read(workspace.create_blob(name), content)
    return workspace, op


def for_gpu(files):
    """Whether a case says something of GPUs: genuine did it on the CPU (there other types are refused), without strings."""
    if json.loads(files["meta.json"]).get("engine_error"):
        return False
    blobs = (caffe2_pb2.BlobProto.FromString(c) for n, c in files.items() if n.endswith(".blob"))
    return all(b.tensor.data_type != caffe2_pb2.TensorProto.STRING for b in blobs)


def difference(workspace, name, content, values=True):
    """What is wrong with the blob `name`, expected as in the BlobProto `content`; None where nothing is."""
    expected = Blob(name)
    serialize.read(expected, content)
    blob = workspace.get_blob(name)
    have = workspace.fetch(name)
    if isinstance(expected.value, Map):  # it has no order: genuine lists the pairs by its hash buckets
        same = isinstance(blob.value, Map) and blob.value.items == expected.value.items
        return None if same or not values else f"{blob.value!r}, expected {expected.value.items}"
    if not expected.is_tensor:
        if isinstance(expected.value, bytes):
            return None if have == expected.value or not values else f"{have!r}, expected {expected.value!r}"
        mine, theirs = (caffe2_pb2.BlobProto.FromString(serialize.blob_bytes(name, b)) for b in (blob, expected))
        return None if mine == theirs or not values else f"{str(mine)[:200]}, expected {str(theirs)[:200]}"
    want = expected.value
    if not isinstance(have, np.ndarray):
        return f"a {type(have).__name__} instead of a tensor"
    if have.shape != want.shape or have.dtype != want.dtype:
        return f"{have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}"
    if not values or not want.size:
        return None
    if want.dtype.kind == "f":
        tolerance = 1e-2 if want.dtype == np.float16 else 1e-4
        a, b = have.astype("d"), want.astype("d")
        with np.errstate(all="ignore"):
            same = np.isclose(a, b, rtol=tolerance, atol=tolerance / 10 if tolerance < 1e-2 else 1e-2, equal_nan=True)
    else:
        same = have == want
    if same.all():
        return None
    at = tuple(np.argwhere(~same)[0].tolist())
    return f"{int((~same).sum())} of {same.size} values differ; at {at}: {have[at]!r}, expected {want[at]!r}"


def replay(files, gpu=False, device_id=0):
    """What is wrong with a case of an operator; None where nothing is."""
    meta = json.loads(files["meta.json"])
    workspace, op = load(files, gpu, device_id)
    refused = meta.get("engine_error")
    if (
        refused
        and "Not Implemented" in refused
        and registry.get(op.type).module.endswith((".detectron", ".focal_losses"))
    ):
        refused = None  # genuine has Detectron's operators for GPUs only
    try:
        runner.run_operator(workspace, op, meta.get("runs", 1))
    except Exception as e:
        return None if refused else f"{type(e).__name__}: {e}"
    if refused:
        return f"no exception; genuine raises {refused[:120]}"
    for k, name in enumerate(op.output):
        content = files.get(f"out_{k}.blob")
        if content is not None:
            found = difference(workspace, name, content, values=not meta.get("random"))
            if found:
                return f"output {k} ({name}): {found}"
    return None


def replay_gradient(files):
    """What is wrong with a case of a gradient maker; None where nothing is."""
    op = caffe2_pb2.OperatorDef.FromString(files["op.pb"])
    g_output = [tuple(g) if isinstance(g, list) else g for g in json.loads(files["g_output.json"])]
    refused = json.loads(files.get("meta.json", b"{}")).get("engine_error")
    try:
        made, g_input = gradient_defs(op, g_output)
    except Exception as e:
        return None if refused else f"{type(e).__name__}: {e}"
    if refused:
        return f"no exception; genuine raises {refused[:120]}"
    want = [
        caffe2_pb2.OperatorDef.FromString(files[f"grads/{i}.pb"])
        for i in range(sum(n.startswith("grads/") for n in files))
    ]
    if [_plain(o) for o in made] != [_plain(o) for o in want]:
        return f"{[_plain(o) for o in made]}, expected {[_plain(o) for o in want]}"
    have = [list(g) if isinstance(g, tuple) else g for g in g_input]
    expected = json.loads(files["g_input.json"])
    return None if have == expected else f"gradients {have}, expected {expected}"


def _plain(op):
    args = {a.name: a.SerializeToString(deterministic=True) for a in op.arg}
    return op.type, list(op.input), list(op.output), args
