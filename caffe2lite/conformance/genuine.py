"""Caffe2's own Python files, untouched, as the front end over our engine."""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf import descriptor

import caffe2lite.proto
from caffe2lite.engine import python_op
from caffe2lite.python import _import_c_extension
from caffe2lite.python import utils as ours


def install(folder: str) -> None:
    """From now on `caffe2` is what is in `folder` (the caffe2 of a wheel), but for the engine and its messages.

    Its `caffe2.proto` and `_import_c_extension` are ours.  Enter `port.legacy.names()` first: the files are old.
    """
    for name in [n for n in sys.modules if n.partition(".")[0] == "caffe2"]:
        del sys.modules[name]
    top = _package("caffe2", folder)
    top.proto = sys.modules["caffe2.proto"] = caffe2lite.proto  # type: ignore[attr-defined]
    for name in [n for n in sys.modules if n.startswith("caffe2lite.proto.")]:
        sys.modules[name.replace("caffe2lite", "caffe2", 1)] = sys.modules[name]
    top.python = _package("caffe2.python", f"{folder}/python")  # type: ignore[attr-defined]
    engine = "caffe2.python._import_c_extension"
    top.python._import_c_extension = sys.modules[engine] = _import_c_extension
    utils = importlib.import_module("caffe2.python.utils")
    utils.MakeArgument = _with_numbers(utils.MakeArgument)  # type: ignore[attr-defined]
    if not hasattr(descriptor.FieldDescriptor, "label"):  # protobuf 7 dropped it, and ArgsToDict asks for it
        utils.ArgsToDict = ours.ArgsToDict  # type: ignore[attr-defined]
    core = importlib.import_module("caffe2.python.core")
    core.pickle = types.SimpleNamespace(**{**vars(pickle), "dumps": _dumps})  # type: ignore[attr-defined]


def _dumps(builder: Any, *args: Any, **kwargs: Any) -> bytes:
    """Return the pickle of a Python operator's builder, which Caffe2 writes into the net and our engine does not unpickle."""
    content = pickle.dumps(builder, *args, **kwargs)
    python_op.register_pickled(content, builder)
    return content


def _with_numbers(make: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Wrap Caffe2's MakeArgument, for a protobuf that no longer takes True for 1."""

    def make_argument(key: str, value: Any) -> Any:
        if isinstance(value, (bool, np.bool_)):
            value = int(value)
        elif isinstance(value, np.ndarray) and value.dtype == bool:
            value = value.astype(np.int64)
        elif isinstance(value, (list, tuple)):
            value = [int(v) if isinstance(v, (bool, np.bool_)) else v for v in value]
        return make(key, value)

    return make_argument


def _package(name: str, path: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = [path]
    sys.modules[name] = module
    return module
