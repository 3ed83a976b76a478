"""Batch normalization over all devices: the statistics of every device's share are summed before they are used."""

from __future__ import annotations

import itertools

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, utils, workspace
from caffe2lite.python._data_parallel.blobs import stripBlobName


def InterleaveOps(model):
    """Reorder the net from device by device to operator by operator; every device must have the same operators."""
    proto = model.net.Proto()
    by_device = {d: [] for d in model._devices}
    for op in proto.op:
        if op.device_option.device_id not in by_device:
            raise AssertionError(f"operator on none of the devices {model._devices}: {op}")
        by_device[op.device_option.device_id].append(op)
    lengths = {d: len(ops) for d, ops in by_device.items()}
    if len(set(lengths.values())) != 1:
        raise AssertionError(f"Number of ops per device in original net is not uniform: {lengths}")
    interleaved = []
    for same in zip(*by_device.values()):
        types = {op.type for op in same}
        if len(types) != 1:
            raise AssertionError(f"the devices' operators differ: {sorted(types)} in one place")
        interleaved.extend(same)
    _replace_ops(proto, interleaved)


def _replace_ops(proto, ops):
    copies = []
    for op in ops:
        copy = caffe2_pb2.OperatorDef()
        copy.CopyFrom(op)
        copies.append(copy)
    del proto.op[:]
    proto.op.extend(copies)


def _combine(model, reduce):
    """Rewrite every layer of SpatialBN and of its gradient, given what sums blobs over the devices.

    `reduce(blobs, results)` returns operators that put the sum of `blobs` into all blobs `results` (None: blobs of
    its own choice), and the names of the results, one a device.
    """
    proto = model.net.Proto()
    num_devices = len(model._devices)
    ops = []
    for op_type, run in itertools.groupby(proto.op, key=lambda op: op.type):
        run = list(run)
        if op_type not in ("SpatialBN", "SpatialBNGradient"):
            ops.extend(run)
            continue
        for i in range(0, len(run), num_devices):
            layer = run[i : i + num_devices]
            if len(layer) != num_devices:
                raise AssertionError(f"{op_type} is not on every device: {layer[0]}")
            ops.extend((_forward if op_type == "SpatialBN" else _backward)(layer, reduce))
            for op in layer:
                op.arg.extend([utils.MakeArgument("num_batches", num_devices)])
            ops.extend(layer)
    _replace_ops(proto, ops)


def _on_device_of(op, *args):
    device = op.device_option if core.IsGPUDeviceType(op.device_option.device_type) else None
    return core.CreateOperator(*args, device_option=device)


def _forward(layer, reduce):
    """Add sums and sums of squares of each device, their totals, and the inputs that SpatialBN takes them by."""
    added = [
        _on_device_of(op, "ChannelStats", op.input[0], [op.input[0] + "_sums", op.input[0] + "_sumsq"]) for op in layer
    ]
    for suffix in ("_sums", "_sumsq"):
        reducing, results = reduce([op.input[0] + suffix for op in layer], None)
        added.extend(reducing)
        for op, result in zip(layer, results):
            op.input.append(result)
    return added


def _backward(layer, reduce):
    """Return the gradients of scale and bias of each device, then their totals in the same blobs."""
    added = [
        _on_device_of(op, "ChannelBackpropStats", [op.input[0], op.input[3], op.input[4], op.input[2]], op.output[1:3])
        for op in layer
    ]
    for which in (1, 2):
        grads = [op.output[which] for op in layer]
        added.extend(reduce(grads, grads)[0])
    for op in layer:
        op.input.extend(op.output[1:3])
    return added


def CPUInterDeviceBatchNormalization(model):
    """Normalize over the batches of all CPU devices; the net's operators must be interleaved."""

    def reduce(blobs, results):
        if results is None:
            total = blobs[0] + "_combined"
            return [core.CreateOperator("Sum", blobs, total)], [total] * len(blobs)
        total = f"cpu_0/{stripBlobName(blobs[0])}_combined"
        copies = [core.CreateOperator("Copy", total, result) for result in results]
        return [core.CreateOperator("Sum", blobs, total), *copies], results

    _combine(model, reduce)


def GPUInterDeviceBatchNormalization(model):
    """Normalize over the batches of all GPUs, adding the statistics up on the CPU."""
    devices = [(d, core.DeviceOption(workspace.GpuDeviceType, d)) for d in model._devices]
    cpu = core.DeviceOption(caffe2_pb2.CPU)

    def reduce(blobs, results):
        name = stripBlobName(blobs[0])
        on_cpu = [f"cpu_0/{name}_gpu_{d}_copy" for d, _ in devices]
        total = f"cpu_0/{name}_combined"
        if results is None:
            results = [f"gpu_{d}/{name}_combined" for d, _ in devices]
        create = core.CreateOperator
        return [
            *(create("CopyGPUToCPU", b, c, device_option=o) for (_, o), b, c in zip(devices, blobs, on_cpu)),
            create("Sum", on_cpu, total, device_option=cpu),
            *(create("CopyCPUToGPU", total, r, device_option=o) for (_, o), r in zip(devices, results)),
        ], results

    _combine(model, reduce)
