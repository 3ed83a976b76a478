"""Runs programs over caffe2.python and notes what came of them: under Caffe2's own interpreter (Python 3.9) or ours.

    python programs_worker.py [DESCRIPTOR] < PROGRAMS > RESULTS

A program is a list of steps, pieces of Python that run one after the other in one namespace; a step that raises is noted
and the next one runs.  Each program runs in a process of its own, in an empty folder.  Random fills differ by nature:
`init` puts numbers that follow from names in their place.
"""

import io
import json
import logging
import os
import pickle
import shutil
import signal
import struct
import sys
import tempfile
import zlib

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, schema, workspace

SHOWN = 6  # elements of an array that are noted, beside sums
SECONDS = 30  # that a program may take
RANDOM = {"XavierFill", "MSRAFill", "UniformFill", "GaussianFill", "UniformIntFill", "UniqueUniformFill"}
_DTYPES = {np.dtype(t).name: t for t in ("f4", "f8", "i4", "i8", "u1", "i1", "i2", "u2", "f2", "?")}


def number(x):
    """A number as JSON can hold it."""
    x = float(x)
    return x if x == x and abs(x) != float("inf") else str(x)


def array(x):
    """[type, shape, first elements, sums] of an array."""
    flat = x.reshape(-1)
    if x.dtype.kind not in "fiub":
        shown = [i.decode("utf-8", "replace") if isinstance(i, bytes) else str(i) for i in flat[:SHOWN].tolist()]
        return ["array", "text", list(x.shape), shown]
    wide = flat.astype("f8")
    sums = [number(wide.sum()), number(np.abs(wide).sum())] if x.size > SHOWN else []
    name = _DTYPES.get(x.dtype.name, x.dtype.name)
    return ["array", name, list(x.shape), [number(v) for v in wide[:SHOWN]] + sums]


def device(option):
    """A DeviceOption as text, without what is as by default."""
    parts = []
    for field, value in option.ListFields():
        if field.name != "extra_info":
            parts.append("%s=%s" % (field.name, value))
        else:
            parts.append("extra=%s" % ",".join(value))
    return " @" + " ".join(parts) if [p for p in parts if p != "device_type=0"] else ""


def argument(a):
    """The value of an Argument."""
    for field, value in a.ListFields():
        if field.name == "name":
            continue
        if field.name in ("n", "nets"):
            nets = [value] if field.name == "n" else value
            return [net_def(n) for n in nets]
        if field.name in ("f", "floats"):
            values = [value] if field.name == "f" else value
            return " ".join("%.5g" % v for v in values) + ("" if field.name == "f" else " list")
        if field.name in ("s", "strings"):
            values = [value] if field.name == "s" else value
            return [v.decode("utf-8", "replace") for v in values]
        return (
            str(value) if field.name == "i" else "%s %s" % (field.name, list(value) if field.name == "ints" else value)
        )
    return ""


def operator(op):
    """An OperatorDef as text, and the nets in its arguments."""
    inner, texts = [], []
    for a in sorted(op.arg, key=lambda a: a.name):
        value = argument(a)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner.append([a.name, value])
        else:
            texts.append("%s=%s" % (a.name, value))
    text = "%s(%s) -> %s {%s}" % (op.type, ", ".join(op.input), ", ".join(op.output), "; ".join(texts))
    text += device(op.device_option)
    for name in ("name", "engine"):
        if getattr(op, name):
            text += " %s:%s" % (name, getattr(op, name))
    if op.control_input:
        text += " after:" + ",".join(op.control_input)
    if op.is_gradient_op:
        text += " gradient"
    return [text, inner] if inner else text


def net_def(net):
    """A NetDef."""
    head = "%s type:%s workers:%s%s" % (net.name, net.type, net.num_workers, device(net.device_option))
    return {
        "net": head,
        "args": ["%s=%s" % (a.name, argument(a)) for a in net.arg],
        "in": list(net.external_input),
        "out": list(net.external_output),
        "op": [operator(op) for op in net.op],
    }


def step_def(step):
    """An ExecutionStep."""
    made = [
        "%s %s" % (f.name, v if isinstance(v, (bool, int, float, str, bytes)) else list(v))
        for f, v in step.ListFields()
        if f.name != "substep"
    ]
    return {"step": made, "sub": [step_def(s) for s in step.substep]}


def canonical(x, depth=0):
    """What of a value is compared, as JSON can hold it."""
    if x is None or isinstance(x, (bool, int, str)) and not isinstance(x, core.BlobReference):
        return x
    if isinstance(x, (float, np.floating)):
        return number(x)
    if isinstance(x, bytes):
        return "bytes:" + x.decode("utf-8", "replace")
    if isinstance(x, np.ndarray):
        return array(x)
    if isinstance(x, np.generic):
        return canonical(x.item())
    if isinstance(x, core.BlobReference):
        return "blob:" + str(x)
    if isinstance(x, caffe2_pb2.NetDef):
        return net_def(x)
    if isinstance(x, caffe2_pb2.PlanDef):
        return {
            "plan": x.name,
            "nets": [net_def(n) for n in x.network],
            "steps": [step_def(s) for s in x.execution_step],
        }
    if isinstance(x, caffe2_pb2.ExecutionStep):
        return step_def(x)
    if isinstance(x, caffe2_pb2.OperatorDef):
        return operator(x)
    if isinstance(x, core.GradientSlice):
        return ["slice", str(x.indices), str(x.values)]
    if isinstance(x, np.dtype):
        return "dtype " + x.name
    if hasattr(x, "ListFields"):
        return str(x)
    if isinstance(x, schema.Field):
        return [
            type(x).__name__,
            x.field_names(),
            [str(t) for t in x.field_types()],
            [None if b is None else str(b) for b in (x.field_blobs() if x.has_blobs() else [])],
            str(x.field_metadata()),
        ]
    if depth > 6:
        return "..."
    if isinstance(x, dict):
        items = [[canonical(k, depth + 1), canonical(v, depth + 1)] for k, v in x.items()]
        return ["dict", sorted(items, key=str)]
    if isinstance(x, (set, frozenset)):
        return ["set", sorted((canonical(v, depth + 1) for v in x), key=str)]
    if isinstance(x, (list, tuple)):
        return [canonical(v, depth + 1) for v in x]
    if hasattr(x, "Proto"):
        return canonical(x.Proto())
    return "an object"


def values(name, shape, dtype="f4", low=-1.0, high=1.0):
    """Numbers that follow from a name."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0xFFFFFFFF)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.uniform(low, high, shape).astype(dtype)
    return rng.randint(max(int(low), 0), max(int(high), 2), shape).astype(dtype)


def feed(name, shape, dtype="f4", low=-1.0, high=1.0):
    """Feed a blob numbers that follow from its name."""
    workspace.FeedBlob(name, values(str(name), shape, dtype, low, high))


def init(*nets):
    """Run nets that initialise parameters; random fills are replaced by what follows from names, and what is made of them."""
    for net in nets:
        try:
            workspace.RunNetOnce(net)
        finally:
            replaced = set()
            for op in net.Proto().op:
                if op.type in RANDOM and workspace.HasBlob(op.output[0]):
                    refill(op.output[0])
                    replaced.add(op.output[0])
                elif replaced.intersection(op.input):
                    workspace.RunOperatorOnce(op)
                    replaced.update(op.output)


def refill(name):
    """Replace random numbers."""
    x = workspace.FetchBlob(name)
    if isinstance(x, np.ndarray):
        scale = 0.5 if x.dtype.kind == "f" else 3
        workspace.FeedBlob(name, values(name, x.shape, x.dtype, -scale, scale))


def minidb(content):
    """{key: what} of a minidb; None where it is none."""
    found, at = {}, 0
    while at < len(content):
        if at + 8 > len(content):
            return None
        key_size, value_size = struct.unpack_from("<ii", content, at)
        at += 8
        if key_size <= 0 or value_size < 0 or at + key_size + value_size > len(content):
            return None
        key, value = content[at : at + key_size], content[at + key_size : at + key_size + value_size]
        at += key_size + value_size
        blob = caffe2_pb2.BlobProto()
        try:
            blob.ParseFromString(value)
            tensor = blob.tensor
            what = "%s %s %s %s" % (blob.name, blob.type, list(tensor.dims), tensor.data_type)
        except Exception:
            what = "%d bytes" % len(value)
        found[key.decode("utf-8", "replace")] = what
    return found or None


def files(folder):
    """{path: content} of a folder, as far as it can be compared."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as f:
                content = f.read()
            records = minidb(content)
            if records is not None:
                what = ["minidb", records]
            else:
                try:
                    what = ["text", content.decode("utf-8")[:2000].replace(folder, "FOLDER")]
                except UnicodeDecodeError:
                    what = ["binary"]
            found[os.path.relpath(path, folder)] = what
    return found


def error(e):
    """The built-in class of an exception."""
    return next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins")


def run(steps, folder):
    """What came of a program."""
    os.chdir(folder)
    workspace.ResetWorkspace(folder)
    shown, errors = [], {}
    names = {"show": lambda *x: shown.append([canonical(v) for v in x]), "feed": feed, "init": init, "values": values}
    names.update({"np": np, "core": core, "workspace": workspace, "schema": schema, "caffe2_pb2": caffe2_pb2})
    stdout, sys.stdout = sys.stdout, io.StringIO()
    for i, step in enumerate(steps):
        try:
            exec(compile(step, "step %d" % i, "exec"), names)
        except Exception as e:
            errors[str(i)] = [error(e), type(e).__name__ + ": " + str(e)[:2000]]
    printed, sys.stdout = sys.stdout.getvalue().replace(folder, "FOLDER"), stdout
    nets = {k: net_def(v.Proto()) for k, v in names.items() if isinstance(v, core.Net)}
    for k, v in names.items():
        if hasattr(v, "param_init_net") and hasattr(v, "net"):
            nets[k + ".net"], nets[k + ".param_init_net"] = net_def(v.net.Proto()), net_def(v.param_init_net.Proto())
    blobs = {}
    for name in workspace.Blobs():
        try:
            x = workspace.FetchBlob(name)
            # Of the gradients of states genuine Caffe2 keeps the first step's alone; the others it leaves halfway.
            blobs[str(name)] = canonical(x[:1] if name.endswith("_states_grad") and isinstance(x, np.ndarray) else x)
        except Exception:
            blobs[str(name)] = "bytes:%s, a C++ native class of type nullptr (uninitialized)." % name
    workspace.ResetWorkspace()  # closes files
    return {
        "errors": errors, "nets": nets, "blobs": blobs, "shown": shown, "printed": printed, "files": files(folder)
    }  # fmt: skip


def run_alone(steps):
    """As `run`, in a process of its own; a string where it ended otherwise."""
    folder = tempfile.mkdtemp()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(reader)
        code = 1
        try:
            with os.fdopen(writer, "wb") as f:
                pickle.dump(run(steps, folder), f)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        content = f.read()
    status = os.waitpid(child, 0)[1]
    shutil.rmtree(folder, ignore_errors=True)
    return pickle.loads(content) if status == 0 and content else "ended with status %d" % status


def main():
    """Run programs, [step, ...], from the lines of stdin; each gives a line on stdout."""
    logging.disable(logging.CRITICAL)
    results = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what C++ prints is nobody's
    preload()
    for line in sys.stdin:
        json.dump(run_alone(json.loads(line)), results)
        results.write("\n")
        results.flush()


def messages_of_caffe(path):
    """A module caffe.proto.caffe_pb2 of a file's FileDescriptorProto, for an interpreter that has none."""
    import types

    from google.protobuf import descriptor_pool, message_factory

    with open(path, "rb") as f:
        file = descriptor_pool.Default().AddSerializedFile(f.read())
    module = types.ModuleType("caffe.proto.caffe_pb2")
    for name, kind in file.message_types_by_name.items():
        setattr(module, name, message_factory.MessageFactory().GetPrototype(kind))
    for kind in file.enum_types_by_name.values():
        for value in kind.values:
            setattr(module, value.name, value.number)
    sys.modules["caffe"], sys.modules["caffe.proto"] = types.ModuleType("caffe"), types.ModuleType("caffe.proto")
    sys.modules["caffe"].proto, sys.modules["caffe.proto"].caffe_pb2 = sys.modules["caffe.proto"], module
    sys.modules["caffe.proto.caffe_pb2"] = module


def preload():
    """Import what programs import, once for all of them; what it prints is nobody's."""
    import importlib

    if len(sys.argv) > 1:
        messages_of_caffe(sys.argv[1])

    for name in [
        "attention",
        "brew",
        "checkpoint",
        "cnn",
        "control",
        "control_ops_util",
        "core",
        "crf",
        "data_parallel_model",
        "dataio",
        "dataset",
        "functional",
        "gru_cell",
        "layer_model_helper",
        "layers.layers",
        "memonger",
        "model_helper",
        "modifier_context",
        "muji",
        "net_builder",
        "net_drawer",
        "net_printer",
        "normalizer",
        "optimizer",
        "parallel_workers",
        "pipeline",
        "queue_util",
        "record_queue",
        "recurrent",
        "regularizer",
        "rnn_cell",
        "session",
        "task",
        "tt_core",
        "utils",
        "visualize",
        "predictor.mobile_exporter",
        "predictor.predictor_exporter",
        "predictor.predictor_py_utils",
        "modeling.initializers",
        "modeling.parameter_sharing",
        "modeling.parameter_info",
        "modeling.compute_norm_for_blobs",
        "modeling.compute_histogram_for_blobs",
        "modeling.compute_statistics_for_blobs",
        "modeling.get_entry_from_blobs",
        "modeling.gradient_clipping",
        "modeling.net_modifier",
        "layer_model_instantiator",
        "models.resnet",
        "models.shufflenet",
        "models.seq2seq.seq2seq_util",
        "onnx.frontend",
        "caffe_translator",
    ]:
        try:
            importlib.import_module("caffe2.python." + name)
        except ImportError:
            pass  # the program that needs it will say so


if __name__ == "__main__":
    main()
