"""Fusion of the simulated operators of Caffe2's half-precision accelerators, which only files mention any more."""

from __future__ import annotations

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python._extension import fake_fp16


def fakeFp16FuseOps(net):
    """Return a copy of a NetDef in which chains that end in Int8QuantizeNNPI are one operator each."""
    return caffe2_pb2.NetDef.FromString(fake_fp16.fakeFp16FuseOps(net.SerializeToString()))
