"""Sums over several GPUs, written out as copies and additions that go where the GPUs can reach each other."""

from __future__ import annotations

import numpy as np

from caffe2lite.proto import caffe2_pb2
from caffe2lite.python import workspace


def OnGPU(gpu_id):
    """Return the DeviceOption of a GPU."""
    return caffe2_pb2.DeviceOption(device_type=workspace.GpuDeviceType, device_id=gpu_id)


def OnCPU():
    """Return the DeviceOption of the CPU."""
    return caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)


def Allreduce(net, blobs, reduced_affix="_reduced", gpu_indices=None):
    """Add the sum of `blobs`, blob i on GPU gpu_indices[i] (default i); return the sums BLOB_reduced, one a GPU."""
    gpu_indices = list(range(len(blobs))) if gpu_indices is None else gpu_indices
    if len(gpu_indices) != len(blobs):
        raise RuntimeError(f"gpu_indices length and blobs length mismatch: {len(gpu_indices)} vs {len(blobs)}")
    return _way_of(gpu_indices)(net, blobs, reduced_affix, gpu_indices)


def _way_of(gpus):
    """Return the function for this number of GPUs and for who of them reaches whom."""
    pattern = workspace.GetGpuPeerAccessPattern()

    def connected(group):
        return max(group) < pattern.shape[0] and np.all(pattern[np.ix_(group, group)])

    count = len(gpus)
    if count == 2 and connected(gpus):
        return Allreduce2
    if count == 4 and connected(gpus):
        return Allreduce4
    if count == 4 and connected(gpus[:2]) and connected(gpus[2:]):
        return Allreduce4Group2
    if count == 8 and connected(gpus):
        return Allreduce8
    return AllreduceFallback


class _Reduction:
    """The blobs of one sum, by position."""

    def __init__(self, net, blobs, affix, gpus, count=None):
        for what, given in (("blobs", blobs), ("gpu_indices", gpus)):
            if count and len(given) != count:
                raise ValueError(f"this sum is of {count} {what}, got {len(given)}")
        self.net, self.blobs, self.affix, self.gpus = net, blobs, affix, gpus
        self.sums = [None] * len(blobs)

    def name(self, i):
        return f"{self.blobs[i]}{self.affix}"

    def add(self, i, j, through_copy=False):
        """Sum i becomes the sum of what i and j have; through_copy where GPU i cannot read GPU j."""
        if self.sums[j] is None:
            mine, other = self.blobs[i], self.blobs[j]
        else:
            mine, other = self.sums[i], self.sums[j]
        if through_copy:
            other = self.net.Copy(other, f"{other}_copy", device_option=OnGPU(self.gpus[i]))
        self.sums[i] = self.net.Add([mine, other], self.name(i), device_option=OnGPU(self.gpus[i]))

    def copy(self, i, j):
        """Sum j becomes that of i."""
        self.sums[j] = self.net.Copy(self.sums[i], self.name(j), device_option=OnGPU(self.gpus[j]))


def Allreduce2(net, blobs, reduced_affix, gpu_indices):
    """For two GPUs that reach each other."""
    r = _Reduction(net, blobs, reduced_affix, gpu_indices, 2)
    r.add(0, 1)
    r.copy(0, 1)
    return tuple(r.sums)


def Allreduce4(net, blobs, reduced_affix, gpu_indices):
    """For four GPUs that all reach each other."""
    return _allreduce4(_Reduction(net, blobs, reduced_affix, gpu_indices, 4), through_copy=False)


def Allreduce4Group2(net, blobs, reduced_affix, gpu_indices):
    """For two pairs of GPUs that reach each other within the pair."""
    return _allreduce4(_Reduction(net, blobs, reduced_affix, gpu_indices, 4), through_copy=True)


def _allreduce4(r, through_copy):
    r.add(0, 1)
    r.add(2, 3)
    r.add(0, 2, through_copy)
    for i, j in ((0, 2), (0, 1), (2, 3)):
        r.copy(i, j)
    return tuple(r.sums)


def Allreduce8(net, blobs, reduced_affix, gpu_indices):
    """For eight GPUs; between the first and the last four the sum goes by one copy.  IndexError where there are fewer."""
    r = _Reduction(net, blobs, reduced_affix, gpu_indices)
    for i in (0, 2, 4, 6):
        r.add(i, i + 1)
    for i in (0, 4):
        r.add(i, i + 2)
    r.add(0, 4, through_copy=True)
    for i, j in ((0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)):
        r.copy(i, j)
    return r.sums


def AllreduceFallback(net, blobs, reduced_affix, gpu_indices):
    """For GPUs that need not reach each other: all goes through copies on the first."""
    r = _Reduction(net, blobs, reduced_affix, gpu_indices)
    first = OnGPU(gpu_indices[0])
    total = r.name(0)
    r.sums[0] = net.Copy(blobs[0], total, device_option=first)
    for blob in blobs[1:]:
        here = net.Copy(blob, f"{total}_temp_copy", device_option=first)
        net.Add([here, total], total, device_option=first)
    for j in range(1, len(blobs)):
        r.copy(0, j)
    return r.sums
