"""Which blob of a data parallel model is whose: names without their device, groups of one blob a device, devices."""

from __future__ import annotations

import collections

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import core, scope


def prefix_of(model, device):
    """Return the name scope of a device, e.g. "gpu_0/"."""
    return f"{model._device_prefix}_{device}{scope.NAMESCOPE_SEPARATOR}"


def stripBlobName(param):
    """Return the name below the device's scope: "gpu_0/a/b" -> "a/b"; of a sparse gradient "INDICES:VALUES"."""
    if isinstance(param, core.GradientSlice):
        return stripBlobName(param.indices) + ":" + stripBlobName(param.values)
    name = str(param)
    _, separator, stripped = name.partition(scope.NAMESCOPE_SEPARATOR)
    if not separator:
        raise ValueError(f"blob {name!r} has no device scope: expected a name like 'gpu_0/{name}'")
    return stripped


def ValidateParams(params):
    """Raise AssertionError when a parameter is listed twice."""
    twice = sorted(str(p) for p, n in collections.Counter(params).items() if n > 1)
    if twice:
        raise AssertionError(f"Duplicate entries in params: {twice}")


def GroupByDevice(model, devices, params, non_data_params):
    """Stripped name -> device -> blob, for the parameters (or gradients) after the first `non_data_params`."""
    grouped = collections.OrderedDict()
    for param in params[len(non_data_params) :]:
        sparse = isinstance(param, core.GradientSlice)
        if not (sparse or isinstance(param, core.BlobReference)):
            raise AssertionError(f"Param {param} is not BlobReference or GradientSlice")
        where = (param.indices if sparse else param).GetNameScope()
        head = where.partition(scope.NAMESCOPE_SEPARATOR)[0]
        prefix, _, number = head.rpartition("_")
        if prefix != model._device_prefix or not number.isdigit():
            raise AssertionError(f"Param {param} expected to have namescope '{model._device_prefix}_DEVICE/'")
        grouped.setdefault(stripBlobName(param), {})[int(number)] = param
    return grouped


def GetReverseOrderedGrads(model):
    """Return the names of the gradients, the last made first, which is the order they become ready in."""
    return list(reversed(model._grad_names))


def InferBlobDevice(model):
    """Set `model._blob_to_device`: the device of the first operator that names each blob."""
    found = {}

    def look(net):
        for op in net.op:
            device = op.device_option
            if op.type == "Iter":  # runs anywhere, but its blob is on the CPU
                device = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)
            for blob in (*op.input, *op.output):
                found.setdefault(blob, device)
            if op.type.startswith("RecurrentNetwork"):
                for arg in op.arg:
                    if arg.name.endswith("step_net"):
                        look(arg.n)

    look(model.param_init_net.Proto())
    look(model.net.Proto())
    model._blob_to_device = found


def _device_type_of(model, blob_name):
    """Return the device type of a blob, given with or without its scope; the model's own if no operator names it."""
    for name in (blob_name, prefix_of(model, model._devices[0]) + str(blob_name)):
        if name in model._blob_to_device:
            return model._blob_to_device[name].device_type
    return model._device_type


def IsGPUBlob(model, blob_name):
    """Return whether a blob lives on GPUs."""
    return core.IsGPUDeviceType(_device_type_of(model, blob_name))


def IsIDEEPBlob(model, blob_name):
    """Return whether a blob lives on an iDeep device."""
    return _device_type_of(model, blob_name) == caffe2_pb2.IDEEP


def AnalyzeOperators(model):
    """Raise when an operator of one GPU uses a blob of another, unless it is there to move data between them."""
    prefix = f"{model._device_prefix}_"
    for op in model.Proto().op:
        if any(word in op.type for word in ("NCCL", "Copy", "Concat")):
            continue
        if (op.type == "Sum" and op.name == "dpm") or ("Allreduce" in op.type and "GLOO" in op.engine):
            continue
        if not core.IsGPUDeviceType(op.device_option.device_type):
            continue
        own = prefix_of(model, op.device_option.device_id)
        for blob in (*op.input, *op.output):
            if blob.startswith(prefix) and not blob.startswith(own):
                raise Exception(f"Blob {blob} of op {op.type}, should have namescope {own}. Op: {op}")


def ForEachDevice(devices, f, device_type, device_prefix, scoped=False, *args, **kwargs):
    """Call f(device, …) in the scope of each device, with `scoped` in its name scope as well."""
    for device in devices:
        with core.DeviceScope(core.DeviceOption(device_type, device)):
            if scoped:
                with core.NameScope(f"{device_prefix}_{device}"):
                    f(device, *args, **kwargs)
            else:
                f(device, *args, **kwargs)


def on_every_device(model, f):
    """Call f(device) for each device of the model, in its device scope and name scope."""
    ForEachDevice(model._devices, f, model._device_type, model._device_prefix, scoped=True)


def ComputeBlobsToSync(model):
    """Return (blobs, stripped names) of all that `param_init_net` makes on devices, which training keeps in step.

    The blobs are sorted by device and name.  Of a model with shared parameters only the computed ones remain.
    """
    if model._shared_model:
        blobs = {str(p) for p in model.GetComputedParams("")}
        names = [stripBlobName(b) for b in blobs]
    else:
        prefix = f"{model._device_prefix}_"
        blobs = {b for op in model.param_init_net.Proto().op for b in op.output if b.startswith(prefix)}
        names = {stripBlobName(b) for b in blobs}
        missing = set(model._param_names) - names
        if missing:
            raise AssertionError(f"Some params not instantiated in param init net: {sorted(missing)}")

    start = len(model._device_prefix) + 1

    def by_device(blob):
        return int(blob[start : blob.index(scope.NAMESCOPE_SEPARATOR)]), blob

    return [core.BlobReference(b) for b in sorted(blobs, key=by_device)], names
