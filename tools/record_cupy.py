#!/usr/bin/env python3
"""Record which names CuPy has, for the emulated GPUs to be as strict (caffe2lite/devices/cupy_names.json).

pip install cupy-cuda12x        # imports without a GPU
python tools/record_cupy.py
"""

import inspect
import json
import pathlib

import cupy

TARGET = pathlib.Path(__file__).resolve().parent.parent / "caffe2lite" / "devices" / "cupy_names.json"
MODULES = ("", "linalg", "fft", "lib.stride_tricks")
AT = ["add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]  # ufuncs whose `at` works


def parameters(function):
    """Names of a function's parameters; None where it takes any, or does not tell."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return None
    return [p.name for p in found]


def names(module):
    """{name: "ufunc", a list of parameters, or None} of the functions of a module."""
    table = {}
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value) or not callable(value):
            continue
        table[name] = "ufunc" if isinstance(value, cupy.ufunc) else parameters(value)
    return dict(sorted(table.items()))


def main():
    """Write the table."""
    surface = {"cupy": cupy.__version__, "at": AT, "modules": {}}
    for path in MODULES:
        module = cupy
        for part in filter(None, path.split(".")):
            module = getattr(module, part)
        surface["modules"][path] = names(module)
    surface["ndarray"] = sorted(n for n in dir(cupy.ndarray) if not n.startswith("_"))
    surface["generator"] = sorted(n for n in dir(cupy.random.Generator) if not n.startswith("_"))
    TARGET.write_text(json.dumps(surface, indent=0) + "\n")
    print(f"{TARGET.name}: {sum(map(len, surface['modules'].values()))} functions of CuPy {cupy.__version__}")


if __name__ == "__main__":
    main()
