"""Devices for tests that run on IDEEP too, whose operators run on the CPU here."""

import caffe2lite.python.hypothesis_test_util as hu
from caffe2lite.proto import caffe2_pb2

cpu_do = hu.cpu_do
ideep_do = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.IDEEP)
device_options = [cpu_do, ideep_do]


def device_checker_device_options():
    """Return all devices, as a list."""
    return gcs["dc"]


def gradient_checker_device_option():
    """Return one of the devices."""
    return gcs["gc"]


gcs = hu.one_and_all(device_options)
gcs_cpu_only = hu.one_and_all([cpu_do])
gcs_ideep_only = hu.one_and_all([ideep_do])
gcs_cpu_ideep = hu.one_and_all([cpu_do, ideep_do])
