"""What scripts import as caffe2.python: Caffe2's module names, functions and classes."""

from caffe2lite.proto import caffe2_pb2  # noqa: F401 - scripts say `from caffe2.python import caffe2_pb2`
