"""Where arrays live and compute: the CPU, CUDA by CuPy, and GPUs emulated on the CPU.

`place(device_type, device_id)` is the Device of a DeviceOption; `of(array)` the device an array is on.
"""

from __future__ import annotations

import numpy as np

from caffe2lite.devices import cuda, emulated
from caffe2lite.devices.base import Array, Device, DeviceError
from caffe2lite.devices.cpu import HOST
from caffe2lite.extras import install
from caffe2lite.proto import caffe2_pb2

__all__ = ["HOST", "Array", "Device", "DeviceError", "cuda_version", "gpu_count", "gpus", "of", "place"]

_CPU_TYPES = (caffe2_pb2.PROTO_CPU, caffe2_pb2.PROTO_MKLDNN, caffe2_pb2.PROTO_IDEEP)


def gpus() -> list[Device]:
    """The GPUs of this process: emulated ones where emulation is on, else CUDA's, else none."""
    return emulated.devices() or cuda.devices()


def gpu_count() -> int:
    """How many GPUs there are."""
    return len(gpus())


def cuda_version() -> int:
    """CUDA's version, 0 without a real GPU."""
    return cuda.version()


def place(device_type: int = 0, device_id: int = 0) -> Device:
    """The device of a DeviceOption's type and id; DeviceError says what to do where there is none."""
    if device_type in _CPU_TYPES:
        return HOST
    if device_type not in (caffe2_pb2.PROTO_CUDA, caffe2_pb2.PROTO_HIP):
        known = {v: n for n, v in caffe2_pb2.DeviceTypeProto.items()}
        raise DeviceError(f"device type {known.get(device_type, device_type)} is not supported: use CPU or CUDA")
    here = gpus()
    if not here:
        raise DeviceError(
            f"this net wants a GPU (device type CUDA) and there is none: {install('cuda12')} (or cuda13x, cu13) on a machine "
            "with an NVIDIA GPU, or emulate GPUs on the CPU with CAFFE2LITE_EMULATED_GPUS=N"
        )
    if not 0 <= device_id < len(here):
        raise DeviceError(f"GPU {device_id} does not exist: this process has {len(here)} (0 to {len(here) - 1})")
    return here[device_id]


def of(array: object) -> Device:
    """The device that an array is on."""
    if isinstance(array, np.ndarray):
        return HOST
    for device in gpus():
        if device.owns(array):
            return device
    raise DeviceError(f"a {type(array).__name__} is on no device of this process")
