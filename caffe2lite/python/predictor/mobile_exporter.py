"""A trained net as two NetDefs, as `workspace.Predictor` takes: `init_net` holds the parameters."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, utils

# NumPy's name of a dtype -> the operator whose output has it (float64 as far as an argument's float32 goes).
FILLS = {
    "float32": "GivenTensorFill",
    "float64": "GivenTensorDoubleFill",
    "int64": "GivenTensorInt64Fill",
    "int32": "GivenTensorIntFill",
    "int16": "GivenTensorInt16Fill",
    "bool": "GivenTensorBoolFill",
    "object": "GivenTensorStringFill",
    "uint8": "GivenTensorByteStringToUInt8Fill",
}


def fill_arguments(kind, array):
    """Return the arguments by which the fill operator of type `kind` makes `array`; strings are bytes."""
    values = [array.tobytes()] if kind == "GivenTensorByteStringToUInt8Fill" else array
    return [utils.MakeArgument("shape", array.shape), utils.MakeArgument("values", values)]


def add_tensor(net, name, blob):
    """Add to a NetDef the operator that makes `blob`, an array of numbers, bools or bytes objects."""
    kind = FILLS.get(blob.dtype.name)
    if kind is None:
        raise KeyError(f"{name} is of type {blob.dtype}; only {', '.join(FILLS)} can be exported")
    if blob.dtype == object:
        for value in blob.flat:
            if not isinstance(value, bytes):
                raise AssertionError(f"{name} holds {type(value).__name__}; strings are exported as bytes")
    net.op.extend([core.CreateOperator(kind, [], [name], arg=fill_arguments(kind, blob))])


def Export(workspace, net, params):
    """Return (init_net, predict_net): the parameters are fetched from `workspace`, other inputs get a placeholder."""
    proto = net if isinstance(net, caffe2_pb2.NetDef) else net.Proto()
    predict_net, init_net = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
    predict_net.CopyFrom(proto)
    params = [str(p) for p in params]

    ssa, versions = core.get_ssa(net)
    read = {name for inputs, _ in ssa for name, _ in inputs}
    inputs = [name for name, version in versions.items() if version == 0 and name not in params]
    outputs = [name for name, version in versions.items() if version != 0 and name not in read]

    for name in params:
        add_tensor(init_net, name, workspace.FetchBlob(name))
    for name in inputs:
        args = [utils.MakeArgument("shape", [1, 1]), utils.MakeArgument("values", [0.0])]
        init_net.op.extend([core.CreateOperator("GivenTensorFill", [], [name], arg=args)])

    del predict_net.external_input[:]
    predict_net.external_input.extend(dict.fromkeys([*inputs, *proto.external_input]))
    del predict_net.external_output[:]
    predict_net.external_output.extend(outputs)
    return init_net, predict_net
