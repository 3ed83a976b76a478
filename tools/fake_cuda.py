"""Let CuPy's real wheel be imported and used where there is no GPU: its calls of CUDA come to functions here.

`install()` before `import cupy`.  Memory is host memory and kernels do nothing, so no value means anything; functions,
keywords, types, shapes, copies and launches are CuPy's own.  CuPy's modules of Cython call each other through tables of C
functions (`__pyx_capi__`); those of the CUDA runtime and driver are replaced there, and CUDA's libraries by empty ones that
a C compiler makes.  Linux on x86-64, CuPy 14 for CUDA 12.
"""

from __future__ import annotations

import collections
import ctypes
import importlib
import itertools
import pathlib
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from typing import Any

GPUS = 4
counts: collections.Counter[str] = collections.Counter()  # launches, uploads, downloads, copies, synchronisations

_RUNTIME, _DRIVER = "cupy_backends.cuda.api.runtime", "cupy_backends.cuda.api.driver"
_kept: list[Any] = []  # what C code points to
_current = 0
_libc = ctypes.CDLL(None)
_libc.calloc.restype, _libc.calloc.argtypes = ctypes.c_size_t, [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_size_t]
_handles = itertools.count(1 << 12, 16)
_LARGEST = 1 << 28


# ---- the driver ------------------------------------------------------------------------------------------------------


def _set_device(device: int, *_: Any) -> None:
    global _current
    _current = device


def _malloc(size: int, *_: Any) -> int:
    return _libc.calloc(1, min(size, _LARGEST) or 1)


def _free(address: int, *_: Any) -> None:
    if address > 1 << 20:
        _libc.free(address)


def _copy(target: int, source: int, size: int, kind: int = 3, *_: Any) -> None:
    counts[{1: "uploads", 2: "downloads"}.get(kind, "copies")] += 1
    if min(target, source) > 1 << 20:
        ctypes.memmove(target, source, size)


def _peer_copy(target: int, _to: int, source: int, _from: int, size: int, *_: Any) -> None:
    _copy(target, source, size)


def _counted(what: str) -> Callable[..., None]:
    def call(*_: Any) -> None:
        counts[what] += 1

    return call


def _attribute(number: int, *_: Any) -> int:
    known = {1: 1024, 5: (1 << 31) - 1, 8: 49152, 10: 32, 16: 132, 75: 9, 76: 0}  # sizes of blocks, SMs, capability 9.0
    return known.get(number, 1)


_PROPERTIES = {
    "name": b"no GPU", "major": 9, "minor": 0, "totalGlobalMem": 16 << 30, "multiProcessorCount": 132, "warpSize": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 49152, "regsPerBlock": 65536,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getDevice": lambda *_: _current,
    "setDevice": _set_device,
    "getDeviceCount": lambda *_: GPUS,
    "getDeviceProperties": lambda *_: _PROPERTIES,
    "deviceGetAttribute": _attribute,
    "deviceCanAccessPeer": lambda *_: 1,
    "runtimeGetVersion": lambda *_: 12090,
    "driverGetVersion": lambda *_: 12090,
    "get_build_version": lambda *_: 12090,
    "_getCUDAMajorVersion": lambda *_: 12,
    "memGetInfo": lambda *_: (16 << 30, 16 << 30),
    "malloc": _malloc,
    "mallocAsync": _malloc,
    "hostAlloc": _malloc,
    "free": _free,
    "freeAsync": _free,
    "freeHost": _free,
    "memcpy": _copy,
    "memcpyAsync": _copy,
    "memcpyPeer": _peer_copy,
    "memcpyPeerAsync": _peer_copy,
    "pointerGetMemoryType": lambda *_: 2,
    "deviceSynchronize": _counted("synchronisations"),
    "streamSynchronize": _counted("synchronisations"),
    "eventSynchronize": _counted("synchronisations"),
    "launchKernel": _counted("launches"),
    "launchCooperativeKernel": _counted("launches"),
    "funcGetAttribute": lambda *_: 1024,
    "occupancyMaxPotentialBlockSize": lambda *_: (132, 256),
    "occupancyMaxActiveBlocksPerMultiprocessor": lambda *_: 1,
}


def _replace(name: str) -> Any:
    """A module of CuPy's whose functions, as C and as Python see them, are those above."""
    module = importlib.import_module(name)
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    for entry, present in list(module.__pyx_capi__.items()):
        signature = name_of(present)
        told = re.fullmatch(r"(PyObject \*|int |intptr_t |size_t |unsigned int )\((.*)\)", signature.decode())
        if told is None or entry == "check_status":
            continue
        kinds = [_kind(a) for a in told[2].split(", ") if a != "void"]
        result = ctypes.py_object if told[1] == "PyObject *" else ctypes.c_ssize_t
        function = _FUNCTIONS.get(entry) or _default(told[1])
        pointer = ctypes.PYFUNCTYPE(result, *kinds)(function)
        text = ctypes.create_string_buffer(signature)
        _kept.extend([pointer, text])
        address = ctypes.cast(pointer, ctypes.c_void_p)
        module.__pyx_capi__[entry] = capsule(address, ctypes.cast(text, ctypes.c_char_p), None)
        setattr(module, entry, function)
    return module


def _kind(argument: str) -> Any:
    if argument == "PyObject *":
        return ctypes.py_object
    return ctypes.c_int if argument.startswith(("int", "CUdevice")) and "intptr" not in argument else ctypes.c_ssize_t


def _default(result: str) -> Callable[..., Any]:
    if result == "PyObject *":
        return lambda *_: None
    if result == "intptr_t ":
        return lambda *_: next(_handles)
    return lambda *_: 0


# ---- the libraries ---------------------------------------------------------------------------------------------------


def _empty_libraries(folder: pathlib.Path) -> None:
    """Load libraries that have all names that CuPy's modules want, in the place of cuBLAS and its kin."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    wanted: dict[str, set[str]] = collections.defaultdict(set)
    for module in itertools.chain.from_iterable(
        (packages / p).rglob("*.so") for p in ("cupy", "cupy_backends", "cupyx")
    ):
        listed = subprocess.run(
            ["nm", "-D", "--undefined-only", module], capture_output=True, text=True, check=True
        ).stdout
        for name, library in re.findall(r" U (\w+)@(lib(?:cu|nv)\w+\.so\.\d+)", listed):
            wanted[library].add(name)
        wanted["libnccl.so.2"].update(re.findall(r" U (nccl\w+)", listed))
    for library, names in wanted.items():
        (folder / "stub.c").write_text("".join(f"long {n}(void) {{ return 0; }}\n" for n in sorted(names)))
        (folder / "stub.map").write_text(f"{library} {{ global: *; }};\n")
        version = [] if "nccl" in library else [f"-Wl,--version-script={folder}/stub.map"]
        target = folder / library
        line = ["cc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{library}", *version, "-o", target]
        subprocess.run([*line, folder / "stub.c"], check=True)
        ctypes.CDLL(str(target), ctypes.RTLD_GLOBAL)


def install() -> Any:
    """Import CuPy without a GPU, and return it."""
    with tempfile.TemporaryDirectory() as folder:
        _empty_libraries(pathlib.Path(folder))
    _replace(_RUNTIME)
    _replace(_DRIVER)
    blas = importlib.import_module("cupy_backends.cuda.libs.cublas")
    blas.create, blas.getVersion, blas.getPointerMode = (lambda *_: next(_handles)), (lambda *_: 120900), lambda *_: 0
    import cupy
    from cupy.cuda import compiler, function, thrust

    def compiled(*_: Any, **__: Any) -> Any:
        module = function.Module()
        module.load(b"nothing")
        return module

    compiler._compile_module_with_cache = compiled
    for name in ("sort", "argsort", "lexsort"):
        setattr(thrust, name, lambda *_, **__: None)
    return cupy
