"""Models as ONNX, and back."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from caffe2lite.exchange.formats import CannotHold, beside
from caffe2lite.exchange.moving import tensors_of
from caffe2lite.extras import install
from caffe2lite.inspect.checkpoint import predictor_of, stored
from caffe2lite.inspect.files import File, read
from caffe2lite.ops.kit.infer import Spec
from caffe2lite.proto import caffe2_pb2

_PREDICT = "PREDICT_NET"  # the key of the net that predicts, in an export


def export_model(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    params: str | os.PathLike[str] | None = None,
    inputs: Mapping[str, Spec] | None = None,
) -> list[str]:
    """Write a predict net with its parameters as an ONNX model, checked; return its inputs.

    `params` is an init net or a checkpoint (a predictor export holds its own), `inputs` the shapes of what is fed.  The net
    is run once, on zeros; nets with operators that ONNX has no form for are refused before.
    """
    onnx = _onnx()
    from caffe2lite.python.onnx import frontend  # not above: it needs an extra

    file = read(path)
    predict = _predict_net(file)
    without = frontend.without_form(predict)
    if without:
        raise CannotHold(f"ONNX has no form for {', '.join(f'{t} ({n})' for t, n in without.items())}")
    wanted = {blob for op in predict.op for blob in op.input}
    source = read(params) if params is not None else file if file.message is None else None
    made = {} if source is None else {name: np.array(array) for name, array in tensors_of(source, {}) if name in wanted}
    given = {name: spec for name, spec in (inputs or {}).items() if name in wanted}
    produced: set[str] = set()
    fed = []
    for op in predict.op:
        fed += [b for b in op.input if b not in produced and b not in made and b not in given]
        produced.update(op.output)
    if fed:
        shown = ", ".join(dict.fromkeys(fed))
        raise CannotHold(
            f"of {shown} neither values nor a shape are known: give --params FILE, or --input {fed[0]}:1x3x224x224"
        )
    if not predict.external_output:
        taken = {b for op in predict.op for b in op.input}
        predict.external_output.extend(b for op in predict.op for b in op.output if b not in taken)
    del predict.external_input[:]
    predict.external_input.extend(dict.fromkeys(b for op in predict.op for b in op.input if b in given or b in made))
    info = {name: (frontend.onnx_type(spec.dtype or "float32"), tuple(spec.shape)) for name, spec in given.items()}
    predict.name = predict.name or pathlib.Path(path).stem
    model = frontend.Caffe2Frontend.model_of(predict, {n: a for n, a in made.items() if n not in given}, info)
    fed_by_users = [i for i in model.graph.input if i.name in given]
    del model.graph.input[:]  # the parameters are constants, so that others may fold them
    model.graph.input.extend(fed_by_users)
    _drop_unused(model.graph)
    onnx.checker.check_model(model)
    with beside(os.fspath(out)) as new:
        onnx.save(model, new)
    return list(given)


def import_model(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> tuple[str, str]:
    """Write an ONNX model as init_net.pb and predict_net.pb into a folder; return their paths."""
    onnx = _onnx()
    from caffe2lite.python.onnx import backend  # not above: it needs an extra

    try:
        model = onnx.load(os.fspath(path))
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError) as e:
        raise CannotHold(f"{os.fspath(path)} is no sound ONNX model: {str(e).splitlines()[0]}") from None
    nets = backend.Caffe2Backend.onnx_graph_to_caffe2_net(model)
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, net in zip(("init_net.pb", "predict_net.pb"), nets):
        written.append(str(target / name))
        with beside(written[-1]) as new:
            pathlib.Path(new).write_bytes(net.SerializeToString())
    return written[0], written[1]


def _predict_net(file: File) -> Any:
    """Return a copy of the net that predicts."""
    net = caffe2_pb2.NetDef()
    meta = file.message if file.kind == "predictor net" else None
    if file.kind == "net":
        net.CopyFrom(file.message)
        return net
    if file.kind in ("minidb", "lmdb"):
        meta = predictor_of(file.path, file.kind, stored(file.path, file.kind))
    found = [n.value for n in meta.nets if str(n.key).startswith(_PREDICT)] if meta is not None else []
    if not found:
        raise CannotHold(f"{file.path} ({file.kind}) holds no predict net: give the net, and this as --params")
    net.CopyFrom(found[0])
    return net


def _drop_unused(graph: Any) -> None:
    """Without the constants that nothing uses, as the sizes of a Concat's parts: onnxruntime warns of each."""
    if any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute):
        return  # a graph within may use them
    used = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    for i in reversed(range(len(graph.initializer))):
        if graph.initializer[i].name not in used:
            del graph.initializer[i]


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
    except ImportError:
        raise CannotHold(f"ONNX models need onnx: {install('onnx')}") from None
    return onnx
