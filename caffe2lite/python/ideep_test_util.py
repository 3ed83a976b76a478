"""Devices for tests that run on IDEEP too, whose operators run on the CPU here."""

import hypothesis.strategies as st

import caffe2lite.python.hypothesis_test_util as hu
from caffe2lite.proto import caffe2_pb2

cpu_do = hu.cpu_do
ideep_do = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.IDEEP)
device_options = [cpu_do, ideep_do]


def device_checker_device_options():
    """All devices, as a list."""
    return st.just(device_options)


def gradient_checker_device_option():
    """One of the devices."""
    return st.sampled_from(device_options)


def _one_and_all(options):
    return {"gc": st.sampled_from(options), "dc": st.just(options)}


gcs = {"gc": gradient_checker_device_option(), "dc": device_checker_device_options()}
gcs_cpu_only = _one_and_all([cpu_do])
gcs_ideep_only = _one_and_all([ideep_do])
gcs_cpu_ideep = _one_and_all([cpu_do, ideep_do])
