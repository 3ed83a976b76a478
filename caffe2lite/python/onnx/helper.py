"""Run, save and time pairs of nets: one that makes the weights, one that predicts."""

from __future__ import annotations

import logging
import time

from google.protobuf import text_format

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.functional import namedtupledict
from caffe2lite.python.onnx.workspace import Workspace

log = logging.getLogger(__name__)


def _feed(ws, inputs, names):
    """Feed a dict, or a list in the order of `names`."""
    if not isinstance(inputs, dict):
        inputs = dict(zip(names, inputs))
    for name, value in inputs.items():
        ws.FeedBlob(name, value)


def _fetch(ws, names):
    return namedtupledict("Outputs", list(names))(*(ws.FetchBlob(name) for name in names))


def c2_native_run_op(op_def, inputs):
    """Return (workspace, outputs) of an operator; `inputs` is a dict, or a list in the operator's order."""
    ws = Workspace()
    if not isinstance(inputs, dict) and len(inputs) != len(op_def.input):
        raise AssertionError(f"operator {op_def.type} has {len(op_def.input)} inputs, got {len(inputs)}")
    _feed(ws, inputs, op_def.input)
    ws.RunOperatorOnce(op_def)
    return ws, _fetch(ws, op_def.output)


def c2_native_run_net(init_net, predict_net, inputs, debug_arg=None):
    """Return (workspace, outputs) of a pair of nets.

    `inputs` is a dict, or a list in the order of those external inputs that `init_net` does not make; of all of them
    if there are as many.
    """
    ws = Workspace()
    made = set()
    if init_net:
        ws.RunNetOnce(init_net)
        made = {output for op in init_net.op for output in op.output}
    names = list(predict_net.external_input)
    if not isinstance(inputs, dict) and len(inputs) != len(names):
        names = [name for name in names if name not in made]
        if len(inputs) != len(names):
            raise AssertionError(f"net {predict_net.name} waits for {len(names)} inputs, {names}; got {len(inputs)}")
    _feed(ws, inputs, names)
    ws.RunNetOnce(predict_net)
    return ws, _fetch(ws, predict_net.external_output)


def load_caffe2_net(file):
    """Return the NetDef in a file."""
    net = caffe2_pb2.NetDef()
    with open(file, "rb") as f:
        net.ParseFromString(f.read())
    return net


def save_caffe2_net(net, file, output_txt=False):
    """Write a NetDef to a file; with `output_txt` also as text beside it (.pbtxt)."""
    with open(file, "wb") as f:
        f.write(net.SerializeToString())
    if output_txt:
        with open(str(file) + "txt", "w") as f:
            f.write(text_format.MessageToString(net))


def benchmark_caffe2_model(init_net, predict_net, warmup_iters=3, main_iters=10, layer_details=True):
    """Return the milliseconds of one run of `predict_net`."""
    ws = Workspace()
    if init_net:
        ws.RunNetOnce(init_net)
    ws.CreateNet(predict_net)
    milliseconds = ws.BenchmarkNet(predict_net.name, warmup_iters, main_iters, layer_details)[0]
    log.info("%s: %.3f ms a run", predict_net.name, milliseconds)
    return milliseconds


def benchmark_pytorch_model(model, inputs, training=False, warmup_iters=3, main_iters=10, verbose=False):
    """Return the milliseconds of one call of `model` with `inputs`."""
    for _ in range(warmup_iters):
        model(*inputs)
    start = time.perf_counter()
    for _ in range(main_iters):
        model(*inputs)
    return (time.perf_counter() - start) * 1000 / main_iters
