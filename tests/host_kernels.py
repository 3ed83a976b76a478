"""Kernels of caffe2lite.ops.kit.cuda_kernels compiled by the host's C++ compiler, so that emulated GPUs can run them.

What it cannot show is what CUDA adds: threads that run at once, and its arithmetic (fused multiply-add, its exp).
"""

import ctypes
import hashlib
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

from caffe2lite.devices.emulated import EmulatedArray

COMPILER = shutil.which("g++") or shutil.which("clang++")
_BEFORE = """
#include <cmath>
#include <algorithm>
#define __global__
#define __device__ static
static const struct { int x; } blockIdx = {0}, threadIdx = {0}, blockDim = {1}, gridDim = {1};
using std::max; using std::min;
template <class T> static T atomicAdd(T* at, T value) { T old = *at; *at += value; return old; }
"""
_made = {}
_folder = tempfile.TemporaryDirectory()
launched = []  # names, for tests


def load(source, name):
    """The compiled function."""
    key = hashlib.sha1(source.encode()).hexdigest()
    if key not in _made:
        path = pathlib.Path(_folder.name) / key
        path.with_suffix(".cpp").write_text(_BEFORE + source)
        subprocess.run(
            [COMPILER, "-w", "-shared", "-fPIC", "-O1", "-ffp-contract=off", "-o", f"{path}.so", f"{path}.cpp"],
            check=True,
        )
        _made[key] = getattr(ctypes.CDLL(f"{path}.so"), name)
    return _made[key]


_NUMBERS = {"f": {4: ctypes.c_float, 8: ctypes.c_double}, "i": {4: ctypes.c_int, 8: ctypes.c_longlong}}


def raw_kernel(device):
    """What stands for cupy.RawKernel on an emulated GPU."""

    class RawKernel:
        def __init__(self, source, name):
            self.name, self._function = name, load(source, name)

        def __call__(self, grid, block, arguments):
            assert 0 < grid[0] < 1 << 31 and 0 < block[0] <= 1024
            device.launch()
            given = []
            for a in arguments:
                if isinstance(a, EmulatedArray):
                    assert a.device is device and a.flags.c_contiguous
                    given.append(ctypes.c_void_p(a._a.ctypes.data))
                elif isinstance(a, np.uint64):
                    given.append(ctypes.c_void_p(int(a)))
                elif isinstance(a, np.bool_):
                    given.append(ctypes.c_bool(bool(a)))
                else:
                    given.append(_NUMBERS[a.dtype.kind][a.dtype.itemsize](a.item()))
            self._function(*given)
            launched.append(self.name)

    return RawKernel


def give(devices):
    """Let emulated GPUs compile kernels."""
    for device in devices:
        device.xp.RawKernel = raw_kernel(device)
