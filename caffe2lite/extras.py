"""What to install for an optional part.  The packages are named, so that it is right from a checkout as well."""

from __future__ import annotations

PACKAGES = {
    "mpi": ("mpi4py", "mpich"),
    "cuda12": ("cupy-cuda12x", "nvidia-nccl-cu12"),
    "cuda13": ("cupy-cuda13x", "nvidia-nccl-cu13"),
    "fast": ("numba",),
    "lmdb": ("lmdb",),
    "leveldb": ("plyvel",),
    "redis": ("redis",),
    "onnx": ("onnx",),
    "torch": ("torch",),
    "image": ("pillow",),
    "video": ("av", "pillow"),
    "tools": ("click", "rich", "pydot", "networkx"),
    "port": ("libcst", "fissix"),
}
GRAPHVIZ = "apt-get install graphviz, or brew install graphviz"  # a program, no package of Python


def install(extra: str) -> str:
    """The command that installs what an extra needs: `pip install mpi4py mpich`."""
    return f"pip install {' '.join(PACKAGES[extra])}"
