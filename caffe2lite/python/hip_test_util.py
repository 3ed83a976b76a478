"""Whether a test runs on AMD's GPUs, which caffe2lite does not have."""

from caffe2lite.proto import caffe2_pb2


def run_in_hip(gc, dc):
    """Return whether one of the devices of a test is HIP's."""
    return any(option.device_type == caffe2_pb2.HIP for option in [gc, *dc])
