"""Devices for tests that run on MKLDNN too, whose operators run on the CPU here."""

import caffe2lite.python.hypothesis_test_util as hu
from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import workspace

cpu_do = hu.cpu_do
gpu_do = hu.gpu_do
mkl_do = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.MKLDNN)
device_options = [cpu_do, *([gpu_do] if workspace.has_gpu_support else [])]


def device_checker_device_options():
    """Return all devices, as a list."""
    return gcs["dc"]


def gradient_checker_device_option():
    """Return one of the devices."""
    return gcs["gc"]


gcs = hu.one_and_all(device_options)
gcs_cpu_only = hu.one_and_all([cpu_do])
gcs_gpu_only = hu.one_and_all([gpu_do])
gcs_mkl_only = hu.one_and_all([mkl_do])
gcs_cpu_mkl = hu.one_and_all([cpu_do, mkl_do])
