"""Caffe2's messages (compiled from proto/ by tools/compile_protos.py), with the short device names of scripts."""

from caffe2lite.proto import caffe2_pb2, metanet_pb2, torch_pb2

# Scripts write caffe2_pb2.CUDA; the enum's own values carry a prefix.
for _name, _value in caffe2_pb2.DeviceTypeProto.items():
    setattr(caffe2_pb2, _name.removeprefix("PROTO_"), _value)

__all__ = ["caffe2_pb2", "metanet_pb2", "torch_pb2"]
