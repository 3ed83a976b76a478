#!/usr/bin/env python3
"""Record which names CuPy has, for the emulated GPUs to be as strict (caffe2lite/devices/cupy_names.json).

pip install cupy-cuda12x        # imports without a GPU
python tools/record_cupy.py
"""

import inspect
import json
import pathlib
import re

import cupy

TARGET = pathlib.Path(__file__).resolve().parent.parent / "caffe2lite" / "devices" / "cupy_names.json"
MODULES = ("", "linalg", "fft", "lib.stride_tricks")
METHODS = {  # the methods of ufuncs, and for which they work
    "at": ["add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"],
    "reduce": ["add", "multiply"],
    "accumulate": ["add", "multiply"],
    "reduceat": ["add"],
}


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


def methods(kind):
    """{name: a list of parameters, or None for what is no method} of a class, whose methods tell them in their docs."""
    table = {}
    for name in sorted(n for n in dir(kind) if not n.startswith("_")):
        method = getattr(kind, name)
        told = re.match(r"\w+\." + name + r"\((.*)\)", method.__doc__ or "") if callable(method) else None
        names = [p.split("=")[0].split()[-1] for p in re.split(r",\s*", told[1])][1:] if told else None
        table[name] = None if names is None or any("*" in n for n in names) else names
    return table


def main():
    """Write the table."""
    surface = {"cupy": cupy.__version__, "methods": METHODS, "modules": {}}
    for path in MODULES:
        module = cupy
        for part in filter(None, path.split(".")):
            module = getattr(module, part)
        surface["modules"][path] = names(module)
    surface["ndarray"] = methods(cupy.ndarray)
    surface["generator"] = methods(cupy.random.Generator)
    TARGET.write_text(json.dumps(surface, indent=0) + "\n")
    print(f"{TARGET.name}: {sum(map(len, surface['modules'].values()))} functions of CuPy {cupy.__version__}")


if __name__ == "__main__":
    main()
