"""`caffe2_to_onnx` and `onnx_to_caffe2` as commands (click)."""

from __future__ import annotations

import json

import click
import onnx

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python.onnx import backend, frontend


def _net(file):
    return caffe2_pb2.NetDef.FromString(file.read())


@click.command(help="Convert a Caffe2 net to an ONNX model.", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("caffe2_net", type=click.File("rb"))
@click.option("--caffe2-net-name", help="Name of the net, where the file does not say it.")
@click.option("--caffe2-init-net", type=click.File("rb"), help="The net that makes the weights.")
@click.option("--value-info", help="JSON {input: [ONNX type, [shape]]} of what the init net does not make.")
@click.option("-o", "--output", required=True, type=click.File("wb"), help="Where the model goes.")
def caffe2_to_onnx(caffe2_net, caffe2_net_name, caffe2_init_net, value_info, output):
    net = _net(caffe2_net)
    net.name = net.name or caffe2_net_name or ""
    if not net.name:
        raise click.BadParameter("the net has no name: give --caffe2-net-name")
    init_net = None
    if caffe2_init_net:
        init_net = _net(caffe2_init_net)
        init_net.name = f"{net.name}_init"
    model = frontend.caffe2_net_to_onnx_model(
        predict_net=net, init_net=init_net, value_info=json.loads(value_info) if value_info else None
    )
    output.write(model.SerializeToString())


@click.command(help="Convert an ONNX model to Caffe2 nets.", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("onnx_model", type=click.File("rb"))
@click.option("-o", "--output", required=True, type=click.File("wb"), help="Where the predict net goes.")
@click.option("--init-net-output", required=True, type=click.File("wb"), help="Where the init net goes.")
def onnx_to_caffe2(onnx_model, output, init_net_output):
    model = onnx.load_model_from_string(onnx_model.read())
    init_net, predict_net = backend.Caffe2Backend.onnx_graph_to_caffe2_net(model)
    init_net_output.write(init_net.SerializeToString())
    output.write(predict_net.SerializeToString())
