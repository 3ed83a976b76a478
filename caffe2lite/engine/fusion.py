"""Rewrites of nets: engines named, and operators fused into convolutions (engine.transforms has their names)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from caffe2lite.engine.dependencies import blobs_of
from caffe2lite.engine.errors import EngineError
from caffe2lite.engine.workspace import Workspace
from caffe2lite.proto import caffe2_pb2


def _argument(op: caffe2_pb2.OperatorDef, name: str) -> Any:
    return next((arg for arg in op.arg if arg.name == name), None)


def _text(op: caffe2_pb2.OperatorDef, name: str, value: str) -> None:
    arg = _argument(op, name) or op.arg.add(name=name)
    arg.s = value.encode()


def name_nnpack(net: caffe2_pb2.NetDef) -> None:
    """Name the engine NNPACK on every convolution on the CPU."""
    for op in net.op:
        if op.type == "Conv" and op.device_option.device_type == caffe2_pb2.PROTO_CPU:
            op.engine = "NNPACK"


def add_nnpack(net: caffe2_pb2.NetDef) -> None:
    """Name the engine NNPACK on what it can do: convolutions of stride 1, NCHW and with a bias."""
    for op in net.op:
        order = _argument(op, "order")
        strides = [n for arg in op.arg if arg.name.startswith("stride") for n in (arg.ints or [arg.i])]
        fits = len(op.input) == 3 and order is not None and order.s == b"NCHW" and set(strides) <= {1}
        if op.type == "Conv" and fits:
            op.engine = "NNPACK"
            _text(op, "convolution_transform_strategy", "PRECOMPUTE")


def _readers(net: caffe2_pb2.NetDef, position: int, blob: str) -> list[int]:
    """The operators that read what operator `position` writes into `blob`."""
    found = []
    for i in range(position + 1, len(net.op)):
        if blob in net.op[i].input:
            found.append(i)
        if blob in net.op[i].output:
            return found
    return found


def _followed_by(net: caffe2_pb2.NetDef, kind: str) -> Iterator[tuple[int, int]]:
    """Positions of convolutions, and of the operator of this type that is all that reads them; the last first."""
    for i in range(len(net.op) - 1, -1, -1):
        op = net.op[i]
        if op.type != "Conv" or op.output[0] in net.external_output:
            continue
        readers = _readers(net, i, op.output[0])
        if len(readers) == 1 and net.op[readers[0]].type == kind and net.op[readers[0]].input[0] == op.output[0]:
            yield i, readers[0]


def _rename_reads(net: caffe2_pb2.NetDef, position: int, old: str, new: str) -> None:
    """Let those that read what operator `position` writes into `old` read `new`."""
    for i in _readers(net, position, old):
        inputs = [new if blob == old else blob for blob in net.op[i].input]
        del net.op[i].input[:]
        net.op[i].input.extend(inputs)


def fuse_nnpack_conv_relu(net: caffe2_pb2.NetDef) -> None:
    """Let convolutions by NNPACK apply the Relu that follows them."""
    for i, j in list(_followed_by(net, "Relu")):
        conv, relu = net.op[i], net.op[j]
        if conv.engine != "NNPACK":
            continue
        output = relu.output[0]
        if output in conv.input:  # NNPACK cannot work in place
            others = [op for k, op in enumerate(net.op) if k not in (i, j)]
            taken = any(conv.output[0] in (*op.input, *op.output) for op in others)
            new = conv.output[0] + "_fusion_fix" if taken else conv.output[0]
            _rename_reads(net, j, output, new)
            output = new
        conv.output[0] = output
        _text(conv, "activation", "Relu")
        del net.op[j]


def fuse_conv_bn(net: caffe2_pb2.NetDef, workspace: Workspace) -> None:
    """Put the batch normalization that follows a convolution, with running statistics, into its weights."""
    for i, j in list(_followed_by(net, "SpatialBN")):
        conv, norm = net.op[i], net.op[j]
        test = _argument(norm, "is_test")
        if test is None or not test.i or len(norm.output) != 1:
            continue
        scale, bias, mean, variance = (_value(workspace, blob) for blob in norm.input[1:5])
        epsilon = _argument(norm, "epsilon")
        factor = scale / np.sqrt(variance + (1e-5 if epsilon is None else epsilon.f))
        weights = _value(workspace, conv.input[1])
        has_bias = len(conv.input) > 2
        before = _value(workspace, conv.input[2]) if has_bias else np.zeros_like(mean)
        if not has_bias:
            conv.input.append(_unused(net))
            net.external_input.append(conv.input[2])
        shape = (-1,) + (1,) * (weights.ndim - 1)
        _put(workspace, conv.input[1], weights * factor.reshape(shape))
        _put(workspace, conv.input[2], (before - mean) * factor + bias)
        conv.output[0] = norm.output[0]
        del net.op[j]


def _unused(net: caffe2_pb2.NetDef) -> str:
    names = blobs_of([net])
    return next(name for n in range(len(names) + 1) if (name := f"_bias{n}") not in names)


def _value(workspace: Workspace, name: str) -> np.ndarray:
    blob = workspace.get_blob(name)
    if blob is None or not isinstance(blob.value, np.ndarray):
        raise EngineError(f"to fuse a convolution with batch normalization, blob {name!r} must be a tensor on the CPU")
    return blob.value


def _put(workspace: Workspace, name: str, array: np.ndarray) -> None:
    blob = workspace.create_blob(name)
    blob.resize(array.shape, array.dtype, blob.device)[...] = array


def optimize_for_mkldnn(net: caffe2_pb2.NetDef) -> None:
    """Nothing: there is no MKL-DNN here."""
