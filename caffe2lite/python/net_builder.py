"""Nets with control flow, written as Python code: `with NetBuilder(): x = ops.Const(5); with ops.loop(10): …`."""

from caffe2lite.python._net_builder.builder import NetBuilder
from caffe2lite.python._net_builder.operations import Operations, ops

__all__ = ["NetBuilder", "Operations", "ops"]
