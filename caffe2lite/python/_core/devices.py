"""DeviceOptions: making, comparing, and where an operator's blobs live."""

from __future__ import annotations

import caffe2lite.python._import_c_extension as C
from caffe2lite.proto import caffe2_pb2

GpuDeviceType = caffe2_pb2.HIP if C.has_hip_support else caffe2_pb2.CUDA


def IsGPUDeviceType(device_type):
    """Return whether this device type is a GPU's (CUDA, HIP)."""
    return device_type in (caffe2_pb2.CUDA, caffe2_pb2.HIP)


def DeviceOption(
    device_type,
    device_id=0,
    random_seed=None,
    node_name=None,
    numa_node_id=None,
    extra_info=None,
    cuda_gpu_id=None,
):
    """Return a caffe2_pb2.DeviceOption; `cuda_gpu_id` is the old name of `device_id`."""
    option = caffe2_pb2.DeviceOption()
    option.device_type = device_type
    option.device_id = int(device_id if cuda_gpu_id is None else cuda_gpu_id)
    if node_name is not None:
        option.node_name = node_name
    if random_seed is not None:
        option.random_seed = int(random_seed)
    if numa_node_id is not None:
        if device_type != caffe2_pb2.CPU:
            raise AssertionError(f"numa_node_id {numa_node_id} is for CPU devices, got a device of type {device_type}")
        option.numa_node_id = int(numa_node_id)
    if extra_info is not None:
        option.extra_info.extend(extra_info)
    return option


def device_option_equal(opt1, opt2, ignore_node_name=True, ignore_random_seed=True):
    """Return whether two options mean one device; a CPU has no id."""
    if not (opt1 and opt2):
        return opt1 == opt2
    counting = [
        name for name, ignored in (("node_name", ignore_node_name), ("random_seed", ignore_random_seed)) if not ignored
    ]
    if any(getattr(opt1, name) != getattr(opt2, name) for name in counting):
        return False
    if caffe2_pb2.CPU in (opt1.device_type, opt2.device_type):
        return opt1.device_type == opt2.device_type
    return opt1.device_id == opt2.device_id


def InferBlobDevices(net):
    """Return {blob: DeviceOption} of what the operators of a net write; the last writer counts."""
    places = {}
    for op in net.Proto().op:
        places.update(zip(op.output, InferOpBlobDevices(op)[1]))
    return places


def InferOpBlobDevicesAsDict(op):
    """Return ({input: DeviceOption}, {output: DeviceOption}) of an operator."""
    input_devices, output_devices = InferOpBlobDevices(op)
    return dict(zip(op.input, input_devices)), dict(zip(op.output, output_devices))


def InferOpBlobDevices(op):
    """Return the devices of an operator's inputs and of its outputs, by its schema: two lists of DeviceOptions."""
    return tuple([_parse_device(raw) for raw in raws] for raws in C.infer_op_input_output_device(op))


def _parse_device(raw):
    option = caffe2_pb2.DeviceOption()
    option.ParseFromString(raw)
    return option


def InferOpDeviceAsBlobDevices(op):
    """Return the operator's own device for every input and output: two lists of DeviceOptions."""
    device = op.device_option if op.HasField("device_option") else caffe2_pb2.DeviceOption()
    return [device] * len(op.input), [device] * len(op.output)


def device_equal(src, dst):
    """Return whether two options name one device (the type of a device that is not given is CPU)."""
    return src.device_type == dst.device_type and src.device_id == dst.device_id
