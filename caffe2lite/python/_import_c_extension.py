"""The engine under the names of Caffe2's C extension."""

import importlib as _importlib
import sys as _sys

from caffe2lite.engine import c_api as _c_api

# What lies above the engine, and needs packages that a plain install lacks, comes when it is asked for.
_ONNX = (
    "Caffe2Backend",
    "Caffe2BackenRep",
    "DummyName",
    "export_to_onnx",
    "onnxifi_get_option",
    "onnxifi_set_option",
    "support_onnx_export",
)
_ABOVE = dict.fromkeys(_ONNX, "caffe2lite.python.onnx._c")


def _from_above(name):
    module = _ABOVE.get(name)
    if module is None:
        raise AttributeError(f"module {_c_api.__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(module), name)
    setattr(_c_api, name, value)
    return value


_c_api.__getattr__ = _from_above
_sys.modules[__name__] = _c_api
