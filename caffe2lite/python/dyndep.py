"""Libraries of operators that scripts load: those of Caffe2 are built in here, Python files can add others."""

from __future__ import annotations

import importlib.util
import os

from caffe2lite.python import core

_IMPORTED_DYNDEPS = set()


def InitOpsLibrary(name, trigger_lazy=True):
    """Load a library of operators.

    Names of Caffe2's own libraries (`@/caffe2/caffe2/distributed:…`) need no file: what they hold is
    built in. A Python file is run: it registers operators by itself. Other libraries cannot be loaded.
    """
    if name.startswith("@") or not os.path.exists(name):
        # Caffe2 also ignores a file that is not there: the operators may have been linked in.
        _IMPORTED_DYNDEPS.add(name)
        return
    _init_impl(name, trigger_lazy)


def GetImportedOpsLibraries():
    """Return the names of the libraries loaded so far."""
    return _IMPORTED_DYNDEPS


def _init_impl(path, trigger_lazy=True):
    stem, extension = os.path.splitext(os.path.basename(path))
    if extension == ".py":
        spec = importlib.util.spec_from_file_location(stem, path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    elif not stem.startswith("libcaffe2"):
        raise OSError(
            f"{path} is a compiled library of operators for Caffe2's C++ engine, which caffe2lite cannot load: "
            "write its operators in Python and load that file"
        )
    _IMPORTED_DYNDEPS.add(path)
    core.RefreshRegisteredOperators(trigger_lazy)
