"""dyndep, put off until operators are first needed."""

from __future__ import annotations

from caffe2lite.python import dyndep, lazy

_LAZY_IMPORTED_DYNDEPS = set()
_error_handler = None


def RegisterOpsLibrary(name):
    """Load this library of operators before the next net is built or created."""
    _LAZY_IMPORTED_DYNDEPS.add(name)


def SetErrorHandler(handler):
    """Call `handler(exception)` when a library cannot be loaded."""
    global _error_handler
    _error_handler = handler


def GetImportedOpsLibraries():
    """Return the names of the libraries loaded by now."""
    _import_lazy()
    return dyndep.GetImportedOpsLibraries()


def _import_lazy():
    while _LAZY_IMPORTED_DYNDEPS:
        name = _LAZY_IMPORTED_DYNDEPS.pop()
        try:
            dyndep.InitOpsLibrary(name, trigger_lazy=False)
        except Exception as e:
            if _error_handler is None:
                raise
            _error_handler(e)


lazy.RegisterLazyImport(_import_lazy)
