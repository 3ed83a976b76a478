"""The same operator or net on several devices."""

from __future__ import annotations

import copy

import numpy as np

from caffe2lite.python import workspace
from caffe2lite.python.core import InferOpBlobDevicesAsDict


class DeviceChecker:
    """Compares results between devices; the first one is the reference."""

    def __init__(self, threshold, device_options):
        self._threshold = threshold
        self._device_options = device_options

    def CheckSimple(self, op, inputs, outputs_to_check, input_device_options=None):
        """Return whether outputs number `outputs_to_check` of an operator agree on all devices."""
        op = copy.deepcopy(op)
        results = []
        with workspace.WorkspaceGuard("_device_check_"):
            for device_option in self._device_options:
                op.device_option.CopyFrom(device_option)
                places = input_device_options or InferOpBlobDevicesAsDict(op)[0]
                for name, value in zip(op.input, inputs):
                    workspace.FeedBlob(name, np.asarray(value), places.get(name, device_option))
                workspace.RunOperatorOnce(op)
                results.append([workspace.FetchBlob(op.output[i]) for i in outputs_to_check])
                workspace.ResetWorkspace()
        return self._agree(results, [op.output[i] for i in outputs_to_check])

    def CheckNet(self, net, inputs=None, blobs_to_check=None, ignore=None):
        """Return whether the blobs that a NetDef computes (or only `blobs_to_check`) agree on all devices."""
        if blobs_to_check is None:
            blobs_to_check = list(dict.fromkeys(name for op in net.op for name in op.output))
        blobs_to_check = [name for name in blobs_to_check if name not in (ignore or ())]
        net = copy.deepcopy(net)
        results = []
        with workspace.WorkspaceGuard("_device_check_"):
            for device_option in self._device_options:
                for name, value in (inputs or {}).items():
                    workspace.FeedBlob(name, value, device_option)
                net.device_option.CopyFrom(device_option)
                workspace.RunNetOnce(net)
                results.append([workspace.FetchBlob(name) for name in blobs_to_check])
                workspace.ResetWorkspace()
        return self._agree(results, blobs_to_check)

    def _agree(self, results, names):
        success = True
        for device_option, values in zip(self._device_options[1:], results[1:]):
            for name, value, reference in zip(names, values, results[0]):
                if not np.allclose(value, reference, atol=self._threshold, rtol=self._threshold):
                    print(f"Failure in checking device option {device_option}, blob {name}:")
                    print(" expected", reference.ravel(), "\n found   ", value.ravel())
                    success = False
        return success
