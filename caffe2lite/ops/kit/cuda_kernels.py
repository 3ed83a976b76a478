"""CUDA kernels of ours: where CuPy's functions would need many launches, or lose digits.

A kernel is C for one element `i` of `n`.  Its parameters are arrays, `const` where they are only read, and numbers:
`Kernel("scale", "T* y, const T* x, float factor", "y[i] = x[i] * factor;")` works for every T.  Kernels are taken where the
array module can compile them, so on real GPUs; emulated ones run the operators' plain formulas.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np

from caffe2lite.devices.base import Array

_C = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "bool": "bool",
}
_NUMBERS = {"float": np.float32, "double": np.float64, "int": np.int32, "int64": np.int64, "bool": np.bool_}
_THREADS, _MOST_BLOCKS = 256, 1 << 16

KERNELS: list[Kernel] = []  # all there are, for tests to compile


def usable(xp: ModuleType, *arrays: Array | None) -> bool:
    """Whether kernels can be compiled here for arrays of these types."""
    return hasattr(xp, "RawKernel") and all(a is None or a.dtype.name in _C for a in arrays)


class Kernel:
    """A kernel, compiled once for the types that it is called with.

    A capital letter stands for the type of an array; letters that no array tells are given in `types`, as names of C's.
    An array that is None is a null pointer.
    """

    def __init__(self, name: str, parameters: str, body: str, before: str = "") -> None:
        self.name, self.body, self.before = name, body, before
        self.parameters = [
            (words[:-1], words[-1]) for words in (p.replace("*", " * ").split() for p in parameters.split(","))
        ]
        self._made: dict[Any, Any] = {}
        KERNELS.append(self)

    def letters(self) -> set[str]:
        """The letters that stand for types."""
        return {w for words, _ in self.parameters for w in words if re.fullmatch("[A-Z]", w)}

    def source(self, types: dict[str, str]) -> str:
        """The kernel in CUDA, with C's types in the place of letters."""

        def typed(code: str) -> str:
            return re.sub(r"\b([A-Z])\b", lambda m: types[m[1]], code)

        parameters = ", ".join(f"{' '.join(words)} {name}" for words, name in self.parameters)
        code = f"""{typed(self.before)}
extern "C" __global__ void {self.name}(int64 n, {typed(parameters)}) {{
  for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < n; i += (int64)gridDim.x * blockDim.x) {{
    {typed(self.body.strip())}
  }}
}}
"""
        return re.sub(r"\bint64\b", "long long", code)

    def __call__(self, xp: ModuleType, n: int, *values: Any, **types: str) -> None:
        """Launch it for `n` elements."""
        if not n:
            return
        arguments: list[Any] = [np.int64(n)]
        for (words, name), value in zip(self.parameters, values, strict=True):
            if "*" not in words:
                arguments.append(_NUMBERS[words[0]](value))
                continue
            letter = words[-2]
            if value is None:
                arguments.append(np.uint64(0))
                continue
            if not value.flags.c_contiguous:
                if words[0] != "const":
                    raise ValueError(f"kernel {self.name} writes {name}, which is not contiguous")
                value = xp.ascontiguousarray(value)
            if len(letter) == 1 and types.setdefault(letter, _C[value.dtype.name]) != _C[value.dtype.name]:
                raise TypeError(f"kernel {self.name}: {name} is {value.dtype}, and another array is {types[letter]}")
            arguments.append(value)
        for letter in self.letters() - types.keys():
            types[letter] = "int"  # of a null pointer
        key = (xp.RawKernel, *sorted(types.items()))
        compiled = self._made.get(key)
        if compiled is None:
            compiled = self._made[key] = xp.RawKernel(self.source(types), self.name)
        compiled((min(-(-n // _THREADS), _MOST_BLOCKS),), (_THREADS,), tuple(arguments))
