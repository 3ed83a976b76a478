"""A trained net as two NetDefs, as `workspace.Predictor` takes: `init_net` holds the parameters."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, utils

_FILLS = {
    np.dtype("float32"): "GivenTensorFill",
    np.dtype("int32"): "GivenTensorIntFill",
    np.dtype("int64"): "GivenTensorInt64Fill",
    np.dtype("uint8"): "GivenTensorByteStringToUInt8Fill",
    np.dtype("O"): "GivenTensorStringFill",
}


def add_tensor(net, name, blob):
    """Adds to a NetDef the operator that makes `blob`: float32, int32, int64, uint8 or bytes objects."""
    if blob.dtype not in _FILLS:
        raise KeyError(f"{name} is of type {blob.dtype}; only {', '.join(str(d) for d in _FILLS)} can be exported")
    shape, values = blob.shape, blob
    if blob.dtype == np.uint8:
        values = [blob.tobytes()]
    elif blob.dtype == object:
        for value in blob.flat:
            assert isinstance(value, bytes), f"{name} holds {type(value).__name__}; strings are exported as bytes"
    args = [utils.MakeArgument("shape", shape), utils.MakeArgument("values", values)]
    net.op.extend([core.CreateOperator(_FILLS[blob.dtype], [], [name], arg=args)])


def Export(workspace, net, params):
    """(init_net, predict_net): the parameters are fetched from `workspace`, other inputs get a placeholder."""
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
