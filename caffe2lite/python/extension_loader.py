"""How Caffe2 opens extensions that share symbols."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_set_global_flags = hasattr(sys, "getdlopenflags")


@contextlib.contextmanager
def DlopenGuard(extra_flags=ctypes.RTLD_GLOBAL):
    """Inside the block, imported extensions are opened with `extra_flags` too."""
    if not _set_global_flags:
        yield
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | extra_flags)
    try:
        yield
    finally:
        sys.setdlopenflags(flags)
