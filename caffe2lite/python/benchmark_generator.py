"""Writes nets that measure one operator, for benchmark programs that take an init net and a predict net.

python -m caffe2.python.benchmark_generator -b data=1,3,8,8 relu --iters 100
"""

from __future__ import annotations

import argparse
import ast

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import brew, core
from caffe2lite.python.model_helper import ModelHelper
from caffe2lite.python.predictor import mobile_exporter


def parse_kwarg(kwarg_str):
    """Return (key, value) of "key=value"; the value is a Python number, list or word."""
    key, _, value = (part.strip() for part in kwarg_str.partition("="))
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def main(args):
    """Write args.init_net and args.predict_net."""
    device = core.DeviceOption({"CPU": caffe2_pb2.CPU, "CUDA": caffe2_pb2.CUDA}[args.context.upper()])
    model = ModelHelper(name=args.benchmark_name)
    kwargs = dict(args.kwargs)
    add = getattr(brew, args.operator, None)
    blobs = dict(parse_blob(text) for text in args.blob or [])
    with core.DeviceScope(device):
        source, made = args.input_name, args.input_name
        for i in range(int(args.iters)):
            name = f"{args.output_name if i % 2 == 0 else args.input_name}{i + 1}"
            if add is not None:
                made = add(model, source, name, **kwargs)
            else:  # an operator that brew does not know reads the given blobs in order
                inputs = [source, *(n for n in blobs if n != args.input_name)]
                made = getattr(model.net, args.operator)(inputs, name, **kwargs)
            source = made if args.chain else source
    model.net.AddExternalOutput(made)
    init_net = caffe2_pb2.NetDef()
    for name, shape in ({} if args.input_name in blobs else {args.input_name: (1,)}).items():
        mobile_exporter.add_tensor(init_net, name, np.zeros(shape, np.float32))
    for name, shape in blobs.items():
        mobile_exporter.add_tensor(init_net, name, np.random.rand(*shape).astype(np.float32))
    init_net.op.extend(model.param_init_net.Proto().op)
    if args.debug:
        for title, net in (("init_net", init_net), ("predict_net", model.net.Proto())):
            print(f"{title}:")
            for op in net.op:
                print("  ", op.type, list(op.input), "-->", list(op.output))
    for path, net in ((args.predict_net, model.net.Proto()), (args.init_net, init_net)):
        with open(path, "wb") as f:
            f.write(net.SerializeToString())


def parse_blob(text):
    """Return (name, shape) of "name=dim1,dim2,dim3"."""
    name, _, dims = text.partition("=")
    return name, tuple(int(d) for d in dims.split(","))


def parser():
    """Return the command line."""
    p = argparse.ArgumentParser(description="Writes the nets that time one operator.")
    p.add_argument("operator", help="a helper of brew or an operator's type")
    p.add_argument(
        "-b", "--blob", help="an operand and its shape, as in --blob X=64,128; may be repeated", action="append"
    )
    p.add_argument("--context", help="CPU or CUDA", default="CPU")
    p.add_argument("--kwargs", help="the operator's arguments, as in kernel=3", nargs="*", type=parse_kwarg, default=[])
    p.add_argument("--init_net", help="where the net that fills the operands goes", default="init_net.pb")
    p.add_argument("--predict_net", help="where the net that runs the operator goes", default="predict_net.pb")
    p.add_argument("--benchmark_name", help="name of the nets", default="benchmark")
    p.add_argument("--input_name", help="name of the first operand", default="data")
    p.add_argument("--output_name", help="name of the result", default="output")
    p.add_argument("--iters", help="how often the net holds the operator", default="1")
    p.add_argument("-d", "--debug", help="print the nets", action="store_true")
    p.add_argument("-c", "--chain", help="each operator reads the result of the one before", action="store_true")
    return p


if __name__ == "__main__":
    main(parser().parse_args())
