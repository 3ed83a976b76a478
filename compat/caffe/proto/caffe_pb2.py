"""The very module `caffe2lite.proto.caffe_pb2`, under the name that scripts with models of Caffe 1 import."""

import sys

from caffe2lite.proto import caffe_pb2

sys.modules[__name__] = caffe_pb2
