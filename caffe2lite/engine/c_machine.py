"""What Caffe2's C extension tells of the machine and takes from the command line."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from caffe2lite import __version__, devices
from caffe2lite.engine.net import raise_floating_errors
from caffe2lite.proto import caffe2_pb2

T = TypeVar("T")

_log = logging.getLogger("caffe2lite")


# Flags of glog, with which some builds of Caffe2 were made.
_GLOG = {"alsologtostderr", "log_dir", "logtostderr", "minloglevel", "stderrthreshold", "v", "vmodule"}
_BOOLS = {"": True, "1": True, "true": True, "0": False, "false": False}


def global_init(args: Sequence[str]) -> None:
    """Read `--caffe2_…` flags; those that mean nothing here are passed over. RuntimeError of a flag that is not Caffe2's."""
    words = [str(arg) for arg in args[1:]]
    for arg, after in itertools.zip_longest(words, words[1:], fillvalue="-"):
        if not arg.startswith("-"):
            continue
        name, equals, value = arg.lstrip("-").partition("=")
        if not equals and not after.startswith("-"):
            value = after
        if name == "caffe2_log_level":
            _log.setLevel(10 * max(0, min(4, 2 + _valued(arg, int, value))))
        elif name == "caffe2_operator_throw_if_fp_exceptions":
            raise_floating_errors(_valued(arg, _BOOLS.__getitem__, value.lower()))
        elif not name.startswith("caffe2_") and name not in _GLOG:
            raise RuntimeError(f"GlobalInit: {arg} is not a flag of Caffe2 (they begin with --caffe2_); leave it out")


def _valued(arg: str, read: Callable[[str], T], value: str) -> T:
    try:
        return read(value)
    except (KeyError, ValueError):
        raise RuntimeError(f"GlobalInit: {arg} has a value that it cannot have") from None


def num_cuda_devices() -> int:
    """Number of GPUs, emulated ones included."""
    return devices.gpu_count()


def get_cuda_peer_access_pattern() -> list[list[bool]]:
    """Which GPU may read which."""
    here = devices.gpus()
    return [[a is b or a.reaches(b) for b in here] for a in here]


def get_cuda_version() -> int:
    """CUDA's version as its runtime tells it; 0 without."""
    return devices.cuda_version()


def get_cudnn_version() -> int:
    """0: convolutions here do not need cuDNN."""
    return 0


def get_device_properties(device_id: int) -> dict[str, Any]:
    """Name, memory and version of a GPU."""
    return devices.place(caffe2_pb2.PROTO_CUDA, device_id).properties()


def get_gpu_memory_info(device_id: int) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    return devices.place(caffe2_pb2.PROTO_CUDA, device_id).memory()


def is_numa_enabled() -> bool:
    """Whether memory is bound to NUMA nodes: it is not."""
    return False


def get_num_numa_nodes() -> int:
    """One, as far as nets are concerned."""
    return 1


def get_build_options() -> dict[str, str]:
    """How this engine was made."""
    return {"ENGINE": f"caffe2lite {__version__}", "CXX_FLAGS": "", "BUILD_TYPE": "Release"}


def builtin_cpu_supports_avx2() -> bool:
    """Whether the CPU has AVX2, as NumPy sees it."""
    from numpy._core._multiarray_umath import __cpu_features__

    return bool(__cpu_features__.get("AVX2"))
